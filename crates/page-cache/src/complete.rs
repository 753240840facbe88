//! Requests what a stored range lacks of the bytes that a client wants (RFC 9111 section 3.4, RFC 9110
//! section 14.2), so that the origin sends no byte twice.
//!
//! Called by: `search`, before a request for a missing page goes to the origin.
//! Caveat: the range is requested with `If-Range` and a strong entity tag, by a request of the cache's
//! own whose response ends in the store filter and is combined there (`partial`). Whatever else comes
//! back, the stored range is given up, and the client's own request goes to the origin.
//! Out of scope: more than one gap, and gaps that are larger than a range may be.

use crate::{
    cache::PageCache,
    page::wanted_range,
    partial::{self, FoundRange, JOINED_BYTES_MAX, PIECE_BYTES_MAX, WrittenNotice},
    record::StoredRange,
    refresh,
    request::CacheRequest,
};
use saker_http::{
    KnownField, Method, Status,
    entity_tag::EntityTag,
    range::{self, ByteRange, RangeOutcome},
};
use saker_pipeline::{Body, Exchange, respond};
use std::{future::poll_fn, rc::Rc};
use tokio::sync::oneshot;

/// Marks the cache's own request for a range.
struct RangeFetch;

/// Fetches the missing bytes, and returns true if the stored range has them now.
pub async fn fetch(cache: &Rc<PageCache>, exchange: &mut Exchange, request: &CacheRequest) -> bool {
    if !may_be_completed(exchange, request) {
        return false;
    }
    let Some(found) = partial::find(cache, exchange, request).await else {
        return false;
    };
    let Some((missing, tag)) = missing_of(exchange, &found) else {
        return false;
    };
    let Some(services) = cache.services.upgrade() else {
        return false;
    };
    let mut again = another(exchange, missing, &tag);
    let (notice, written) = oneshot::channel();
    again.extensions.insert(WrittenNotice(notice));
    again.extensions.insert(RangeFetch);
    exchange.trace("cache", None, || {
        format!("requesting bytes {} to {}", missing.first, missing.last)
    });
    let response = Box::pin(respond::answer(&mut again, &services)).await;
    let is_part = response.status == Status::PARTIAL_CONTENT;
    if is_part && let Body::Stream(mut stream) = response.body {
        let mut read = 0;
        while read <= missing.len()
            && let Some(Ok(chunk)) = poll_fn(|cx| stream.poll_chunk(cx)).await
        {
            read += chunk.len() as u64;
        }
    }
    drop(again);
    // Ends with an error: the sender is dropped.
    let _ = written.await;
    let is_held = is_part
        && match partial::find(cache, exchange, request).await {
            Some(now) => missing_of(exchange, &now).is_none() && now.piece != found.piece,
            // It has become the page.
            None => true,
        };
    if !is_held {
        cache.store.remove(&found.key);
    }
    is_held
}

/// True for requests whose response is for all clients, and that can be repeated with a range.
fn may_be_completed(exchange: &Exchange, request: &CacheRequest) -> bool {
    let view = exchange.head.view();
    view.method() == Method::Get
        && !request.is_query
        && !request.is_own()
        && !request.is_authenticated
        && request.old.is_none()
        && request.include.is_none()
        && !request.settings.is_personal(view)
        && exchange.extensions.get::<RangeFetch>().is_none()
}

/// The one range that is missing, and the strong tag of the stored one.
fn missing_of(exchange: &Exchange, found: &FoundRange) -> Option<(ByteRange, Vec<u8>)> {
    let view = exchange.head.view();
    let total = found.piece.total;
    let wanted = match wanted_range(view) {
        Some(wanted) if found.range_applies(view, exchange.now) => {
            match range::resolve(wanted, total, 1) {
                RangeOutcome::One(range) => range,
                _ => return None,
            }
        }
        Some(_) => return None,
        None => ByteRange {
            first: 0,
            last: total.checked_sub(1)?,
        },
    };
    let tag = found.fields.first("ETag")?;
    let is_strong = EntityTag::parse(tag).is_some_and(|tag| tag.strong_eq(tag));
    let missing = gap(wanted, found.piece)?;
    (is_strong && missing.len() <= PIECE_BYTES_MAX).then(|| (missing, tag.to_vec()))
}

/// The bytes of `wanted` before or behind the held ones, of which it has some. `None`: there are none,
/// some on both sides, or too many together.
fn gap(wanted: ByteRange, StoredRange { range: held, .. }: StoredRange) -> Option<ByteRange> {
    // A range that only touches is requested as it is, and joined all the same.
    let overlaps = wanted.first <= held.last && held.first <= wanted.last;
    let (is_before, is_behind) = (wanted.first < held.first, wanted.last > held.last);
    let missing = match (is_before, is_behind) {
        (true, false) => ByteRange {
            first: wanted.first,
            last: held.first - 1,
        },
        (false, true) => ByteRange {
            first: held.last + 1,
            last: wanted.last,
        },
        _ => return None,
    };
    let is_short = missing.len().saturating_add(held.len()) <= JOINED_BYTES_MAX;
    (overlaps && is_short).then_some(missing)
}

/// The same request for the missing range alone, in no coding.
fn another(exchange: &Exchange, missing: ByteRange, tag: &[u8]) -> Exchange {
    let mut again = refresh::another(exchange);
    let range = format!("bytes={}-{}", missing.first, missing.last);
    let more = [(&b"Range"[..], range.as_bytes()), (b"If-Range", tag)];
    let is_left = |name: &[u8]| KnownField::classify(name) != Some(KnownField::AcceptEncoding);
    again.head = again.head.edited(is_left, more);
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps() {
        let range = |(first, last): (u64, u64)| ByteRange { first, last };
        for (wanted, held, expected) in [
            ((0, 9), (0, 4), Some((5, 9))),
            ((0, 9), (5, 9), Some((0, 4))),
            ((0, 9), (2, 4), None),
            ((2, 3), (0, 4), None),
            ((3, 7), (0, 4), Some((5, 7))),
            ((5, 7), (0, 4), None),
            ((6, 7), (0, 4), None),
            ((0, 1), (2, 4), None),
            ((0, 2), (2, 4), Some((0, 1))),
            ((0, 0), (2, 4), None),
            (
                (0, JOINED_BYTES_MAX - 1),
                (0, 4),
                Some((5, JOINED_BYTES_MAX - 1)),
            ),
            ((0, JOINED_BYTES_MAX), (0, 4), None),
        ] {
            let held = StoredRange {
                range: range(held),
                total: 1 << 40,
            };
            assert_eq!(
                gap(range(wanted), held),
                expected.map(range),
                "{wanted:?} {held:?}"
            );
        }
    }
}

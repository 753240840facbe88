//! `slice`: large responses of upstreams, asked for and kept in parts of one size.
//!
//! Called by: `builtin` (`$slice_range`), and `body_filters`, for the response of the first part.
//! Caveat: an upstream that does not answer with the part, or that has another version of the
//! response by the next part, breaks the response off: parts of two versions are never mixed.
//! Out of scope: keeping parts (the page cache), whose key has to name them.

use crate::{
    force_ranges::{Part, validators},
    pages,
    request::Request,
    state::{Slice, State},
    store::Stored,
    subrequest::{self, Filters},
};
use saker_content_filters::{
    as_stream,
    made::{Made, Out},
};
use saker_http::{
    Fields, KnownField, Method, Status,
    conditional::range_applies,
    range::{RangeOutcome, RangeRules, resolve_by},
};
use saker_pipeline::{Body, BodyError, Exchange, Response, phases};

impl Request<'_> {
    /// Returns the part to ask the upstream for; `None`: the location has no slices.
    pub fn slice_range(&mut self) -> Option<Vec<u8>> {
        let bytes = self.state.location.conf.filters.slice_bytes.unwrap_or(0);
        if bytes == 0 {
            return None;
        }
        let slice = match self.state.slice {
            Some(slice) => slice,
            None => {
                let first = first_byte(self.exchange);
                Slice {
                    start: first - first % bytes,
                    bytes,
                    is_next: false,
                }
            }
        };
        self.state.slice = Some(slice);
        let last = slice.start.saturating_add(slice.bytes - 1);
        Some(format!("bytes={}-{last}", slice.start).into_bytes())
    }
}

/// The first byte that the client asks for, if it asks for one part.
fn first_byte(exchange: &Exchange) -> u64 {
    let view = exchange.head.view();
    let value = view.known(KnownField::Range).unwrap_or_default();
    let parse = || {
        let text = std::str::from_utf8(value).ok()?;
        let (start, end) = text.strip_prefix("bytes=")?.split_once('-')?;
        let is_one = end.bytes().all(|byte| byte.is_ascii_digit());
        start.parse().ok().filter(|_| is_one)
    };
    parse().unwrap_or(0)
}

/// `Content-Range` of a response: the first byte, the one behind the last, and the whole length.
fn content_range(fields: &Fields) -> Option<(u64, u64, u64)> {
    let text = std::str::from_utf8(fields.first("Content-Range")?).ok()?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    let total = total.parse().ok()?;
    let end = last.checked_add(1)?;
    (first < end && end <= total).then_some((first, end, total))
}

/// True if a response is the part that was asked for.
fn is_part(slice: Slice, (first, end, total): (u64, u64, u64)) -> bool {
    first == slice.start && end == slice.start.saturating_add(slice.bytes).min(total)
}

/// Makes the whole response, or the part that the client asks for, of that of the first slice.
pub fn apply(filters: &Filters, exchange: &mut Exchange, response: &mut Response) {
    let state = exchange.extensions.get::<State>();
    let Some(slice) = state.and_then(|state| state.slice) else {
        return;
    };
    if slice.is_next || response.status != Status::PARTIAL_CONTENT {
        return;
    }
    let Some(found) = content_range(response.fields()).filter(|found| is_part(slice, *found))
    else {
        *response = Response::new(Status::BAD_GATEWAY);
        return;
    };
    let (_, _, total) = found;
    // A date of this second counts.
    let (view, now) = (exchange.head.view(), exchange.now.saturating_add(1));
    let wanted = view
        .known(KnownField::Range)
        .filter(|_| range_applies(view, &validators(response.fields(), now)));
    let outcome = wanted.map_or(RangeOutcome::Whole, |value| {
        resolve_by(RangeRules::AsAsked, value, total, 1)
    });
    let fields = response.fields_mut();
    for name in ["Content-Range", "Content-Length", "Accept-Ranges"] {
        fields.remove(name);
    }
    let (from, end) = match outcome {
        RangeOutcome::Unsatisfiable => {
            let location = exchange.extensions.get::<State>();
            let location = location.map(|state| &*state.location);
            let status = Status::RANGE_NOT_SATISFIABLE;
            *response = pages::page(Response::new(status), location, "Saker");
            let words = pages::reason(status).unwrap_or_default();
            response.reason = Some(Box::new((status, words.as_bytes().into())));
            let value = format!("bytes */{total}").into_bytes();
            response.fields_mut().set("Content-Range", value);
            return;
        }
        RangeOutcome::One(range) => {
            let value = format!("bytes {}-{}/{total}", range.first, range.last);
            fields.set("Content-Range", value.into_bytes());
            (range.first, range.first.saturating_add(range.len()))
        }
        RangeOutcome::Whole | RangeOutcome::Many(_) => {
            fields.set("Accept-Ranges", &b"bytes"[..]);
            response.status = Status::OK;
            (0, total)
        }
    };
    response.reason = None;
    let tag = response.fields().first("ETag").map(<[u8]>::to_vec);
    let slices = Slices {
        filters: filters.clone(),
        origin: subrequest::of_content(exchange),
        slice,
        total,
        tag,
    };
    let first = std::mem::take(&mut response.body);
    let is_head = exchange.head.view().method() == Method::Head;
    let made = Made::by(|out| async move {
        match is_head {
            true => Ok(()),
            false => slices.send(first, from, end, &out).await,
        }
    });
    let length = Some(end - from);
    response.body = Body::Stream(Box::new(Stored { made, length }));
}

/// The slices of a response.
struct Slices {
    filters: Filters,
    origin: Exchange,
    slice: Slice,
    total: u64,
    tag: Option<Vec<u8>>,
}

impl Slices {
    /// Sends the bytes from `from` to before `end`. `first`: content of the first slice.
    async fn send(mut self, first: Body, from: u64, end: u64, out: &Out) -> Result<(), BodyError> {
        let mut first = Some(first);
        loop {
            let start = self.slice.start;
            let slice_end = start.saturating_add(self.slice.bytes).min(self.total);
            let (begin, until) = (from.max(start), end.min(slice_end));
            let content = match first.take() {
                Some(content) => content,
                None => self.next().await.ok_or(BodyError::Source)?,
            };
            if begin < until {
                let mut part = Part::new(as_stream(content), begin - start, until - begin);
                out.pass_on(&mut part).await?;
            }
            if slice_end >= end {
                return Ok(());
            }
            // What the client asked for by its distance from the end may lie far behind.
            let behind = from.max(slice_end);
            self.slice.start = behind - behind % self.slice.bytes;
        }
    }

    /// Asks for the slice. `None`: it did not come.
    async fn next(&mut self) -> Option<Body> {
        let services = self.filters.inside.upgrade()?;
        // Searched again, a path that was rewritten would lead elsewhere.
        let mut inner = subrequest::same_location(&self.origin)?;
        let state = inner.extensions.get_mut::<State>()?;
        state.slice = Some(Slice {
            is_next: true,
            ..self.slice
        });
        let response = Box::pin(phases::subrequest_in_place(&mut inner, &services)).await;
        let found = content_range(response.fields())?;
        let is_same = response.fields().first("ETag") == self.tag.as_deref()
            && found.2 == self.total
            && response.status == Status::PARTIAL_CONTENT
            && is_part(self.slice, found);
        is_same.then_some(response.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        let range = |text: &str| {
            let mut fields = Fields::new();
            fields.set("Content-Range", text.as_bytes().to_vec());
            content_range(&fields)
        };
        assert_eq!(range("bytes 0-3/10"), Some((0, 4, 10)));
        for text in [
            "bytes 3-0/10",
            "bytes 0-10/10",
            "bytes 0-3/*",
            "bytes */10",
            "0-3/10",
        ] {
            assert_eq!(range(text), None, "{text}");
        }
        let most = u64::MAX;
        assert_eq!(range(&format!("bytes 0-{most}/{most}")), None);
    }

    #[test]
    fn parts_are_whole_slices_but_for_the_last() {
        let slice = Slice {
            start: 4,
            bytes: 4,
            is_next: false,
        };
        assert!(is_part(slice, (4, 8, 10)) && is_part(slice, (4, 6, 6)));
        assert!(!is_part(slice, (4, 7, 10)) && !is_part(slice, (0, 4, 10)));
    }
}

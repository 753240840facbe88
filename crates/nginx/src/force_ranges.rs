//! `proxy_force_ranges` and its kin: parts of responses whose upstream sends them whole.
//!
//! Called by: `response`, for responses of upstreams.
//! Caveat: several ranges of a response that is not from a cache get the whole response (RFC 9110
//! section 14.2 allows it), as by nginx, and so does a response without a length.
//! Out of scope: cached responses, of which the page cache sends parts.

use crate::{pages, request::Request};
use saker_content::{
    Content,
    byteranges::{self, Boundaries},
};
use saker_content_filters::as_stream;
use saker_http::{
    Fields, KnownField, Method, Status,
    conditional::{Validators, range_applies},
    date::parse_date,
    entity_tag::EntityTag,
    range::{RangeOutcome, RangeRules, resolve_by},
};
use saker_nginx_model::modules::upstream_conf::Gateway;
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Response};
use std::task::{Context, Poll};

/// Sends the part that the client asks for, if the location says so.
pub fn apply(request: &mut Request<'_>, response: &mut Response) {
    let location = &request.state.location;
    let Some(pass) = &location.conf.upstreams.pass else {
        return;
    };
    // Values of memcached are never sent in parts by itself.
    let is_on = location.conf.upstreams.of(pass.gateway).forces_ranges == Some(true)
        || pass.gateway == Gateway::Memcached;
    let is_whole = response.status == Status::OK && response.tunnel.is_none();
    if !is_on || !is_whole || !request.exchange.upstream.is_answered_by_program {
        return;
    }
    let ranges_max = location.settings.files.ranges_max as usize;
    let product = location.conf.core.product();
    let is_cached = request.is_from_cache();
    response.fields_mut().set("Accept-Ranges", &b"bytes"[..]);
    let view = request.exchange.head.view();
    // A date of this second counts.
    let now = request.exchange.now.saturating_add(1);
    let validators = validators(response.fields(), now);
    let wanted = view
        .known(KnownField::Range)
        .filter(|_| view.method() == Method::Get)
        .filter(|_| range_applies(view, &validators));
    let Some((value, length)) = wanted.zip(response.body.length()) else {
        return;
    };
    let content = whole(&response.body).filter(|_| is_cached);
    let ranges_max = match content {
        Some(_) => ranges_max,
        None => ranges_max.min(1),
    };
    match resolve_by(RangeRules::AsAsked, value, length, ranges_max) {
        RangeOutcome::Whole => {}
        RangeOutcome::Many(ranges) => {
            let Some(content) = content else { return };
            let mut fields = std::mem::take(response.fields_mut());
            fields.remove("Accept-Ranges");
            fields.remove("Content-Length");
            let kind = fields.first("Content-Type").map(<[u8]>::to_vec);
            *response = BOUNDARIES.with(|boundaries| {
                byteranges::response(boundaries, kind.as_deref(), fields, &content, &ranges)
            });
        }
        RangeOutcome::Unsatisfiable => refuse(response, length, product),
        RangeOutcome::One(range) => {
            let source = as_stream(std::mem::take(&mut response.body));
            response.status = Status::PARTIAL_CONTENT;
            let part = Part::new(source, range.first, range.len());
            response.body = Body::Stream(Box::new(part));
            let value = format!("bytes {}-{}/{length}", range.first, range.last);
            let fields = response.fields_mut();
            fields.set("Content-Range", value.into_bytes());
            fields.remove("Content-Length");
            fields.remove("Accept-Ranges");
        }
    }
}

/// Makes the page of a range that is not there.
fn refuse(response: &mut Response, length: u64, product: &str) {
    let mut page = std::mem::replace(response, Response::new(Status::OK));
    page.status = Status::RANGE_NOT_SATISFIABLE;
    page.body = Body::Empty;
    let value = format!("bytes */{length}");
    let fields = page.fields_mut();
    fields.set("Content-Range", value.into_bytes());
    for name in [
        "Content-Type",
        "Content-Length",
        "Content-Encoding",
        "Last-Modified",
        "ETag",
        "Accept-Ranges",
    ] {
        fields.remove(name);
    }
    *response = pages::page(page, None, product);
}

thread_local! {
    static BOUNDARIES: Boundaries = Boundaries::default();
}

/// Content that is here as a whole. Several ranges are taken of cached content alone.
fn whole(body: &Body) -> Option<Content> {
    match body {
        Body::Memory(chunk) => Some(Content::Memory(chunk.clone())),
        Body::File(part) => Some(Content::File {
            file: part.file.clone(),
            offset: part.offset,
            length: part.length,
            check: part.check.clone(),
        }),
        Body::Empty | Body::Parts(_) | Body::Stream(_) => None,
    }
}

/// The validators in the fields of a response.
pub fn validators(fields: &Fields, now: i64) -> Validators<'_> {
    Validators {
        entity_tag: fields.first("ETag").and_then(EntityTag::parse),
        last_modified: fields
            .first("Last-Modified")
            .and_then(|text| parse_date(text, now)),
        now,
    }
}

/// A part of content.
pub struct Part {
    source: Box<dyn BodyStream>,
    /// Bytes before it that are yet to come.
    skipped: u64,
    length: u64,
    left: u64,
}

impl Part {
    /// The bytes of a source behind the first `skipped`.
    pub fn new(source: Box<dyn BodyStream>, skipped: u64, length: u64) -> Part {
        Part {
            source,
            skipped,
            length,
            left: length,
        }
    }
}

impl BodyStream for Part {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        while self.left > 0 {
            let chunk = match std::task::ready!(self.source.poll_chunk(cx)) {
                Some(Ok(chunk)) => chunk,
                other => return Poll::Ready(other),
            };
            let bytes = chunk.len() as u64;
            let from = self.skipped.min(bytes);
            self.skipped -= from;
            let taken = (bytes - from).min(self.left);
            self.left -= taken;
            if taken > 0 {
                // Both are at most the length of the chunk.
                let (from, to) = (from as usize, (from + taken) as usize);
                return Poll::Ready(Some(Ok(chunk.slice(from..to))));
            }
        }
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        Some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn parts_are_cut_across_chunks() {
        let whole = b"0123456789";
        for piece in [1, 3, 10] {
            for (start, end) in [(0, 10), (2, 5), (9, 10), (0, 1), (3, 9)] {
                let chunks = whole
                    .chunks(piece)
                    .map(|chunk| Body::Memory(Chunk::from(chunk.to_vec())));
                let mut part = Part {
                    source: as_stream(Body::Parts(chunks.collect())),
                    skipped: start,
                    length: end - start,
                    left: end - start,
                };
                let mut read = Vec::new();
                let mut cx = Context::from_waker(Waker::noop());
                while let Poll::Ready(Some(Ok(chunk))) = part.poll_chunk(&mut cx) {
                    read.extend_from_slice(chunk.bytes());
                }
                assert_eq!(
                    read,
                    &whole[start as usize..end as usize],
                    "{piece} {start}"
                );
            }
        }
    }
}

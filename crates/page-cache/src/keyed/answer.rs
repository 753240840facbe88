//! The client's response: that of the upstream or of a page, under the client's conditions.
//!
//! Called by: `forwarder`.
//! Caveat: the upstream was asked without conditions and ranges, so both are applied here; ranges
//! only where the response says `Accept-Ranges`, and of a content that is being stored only one, as
//! in nginx.

use super::{part::PartOfContent, store::REASON, update};
use crate::{cache::PageCache, conditions::is_conditional, page::Page};
use saker_config::model::Files;
use saker_content::{
    Content,
    byteranges::{self, Boundaries},
};
use saker_http::{
    Fields, HeadView, KnownField, Method, Status,
    conditional::{self, DateRule, Precondition, Validators},
    date::parse_date,
    entity_tag::EntityTag,
    range::{self, ByteRange, RangeOutcome},
};
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Response};
use std::{
    rc::Rc,
    task::{Context, Poll},
};

/// Returns a page as the upstream sent it.
pub fn whole(page: &Page) -> Response {
    let mut response = Response::new(page.status);
    *response.fields_mut() = page.fields.clone();
    if let Some(reason) = response.fields().first(REASON).map(Box::from) {
        response.fields_mut().remove(REASON);
        response.reason = Some(Box::new((page.status, reason)));
    }
    if let Some(length) = response.fields().first("Content-Length") {
        // That of a response to HEAD, whose content never came.
        let length = std::str::from_utf8(length)
            .ok()
            .and_then(|text| text.parse().ok());
        response.body = unsent(length);
        response.fields_mut().remove("Content-Length");
        return response;
    }
    if !page.status.forbids_content() && page.identity.content.length() > 0 {
        response.body = page.identity.content.whole();
    }
    response
}

/// Content of a length that no client gets.
pub fn unsent(length: Option<u64>) -> Body {
    Body::Stream(Box::new(Unsent(length)))
}

/// The length of what a GET would have brought (RFC 9110 section 9.3.2). Never sent.
struct Unsent(Option<u64>);

impl BodyStream for Unsent {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        self.0
    }
}

/// Returns true if the client does not get the content of the response.
pub fn is_unwanted(head: HeadView<'_>, response: &Response, now: i64, rule: DateRule) -> bool {
    head.method() == Method::Head || judge(head, response, now, rule) != Precondition::Proceed
}

fn judge(head: HeadView<'_>, response: &Response, now: i64, rule: DateRule) -> Precondition {
    if response.status != Status::OK || !is_conditional(head) {
        return Precondition::Proceed;
    }
    conditional::evaluate_by(head, Some(&validators(response.fields(), now)), rule)
}

fn validators(fields: &Fields, now: i64) -> Validators<'_> {
    Validators {
        entity_tag: fields.first("ETag").and_then(EntityTag::parse),
        last_modified: fields
            .first("Last-Modified")
            .and_then(|text| parse_date(text, now)),
        now,
    }
}

/// Applies the client's conditions and ranges to a complete response. `storing`: the cache, while
/// its content is being stored.
pub fn apply(
    head: HeadView<'_>,
    response: &mut Response,
    has_ranges: bool,
    (boundaries, storing): (&Boundaries, Option<&Rc<PageCache>>),
    (now, files): (i64, &Files),
) {
    match judge(head, response, now, files.modified_since) {
        Precondition::Proceed => {}
        Precondition::NotModified => {
            response.status = Status::NOT_MODIFIED;
            response.body = Body::Empty;
            for name in ["Content-Type", "Content-Encoding", "Accept-Ranges"] {
                response.fields_mut().remove(name);
            }
            return;
        }
        Precondition::Failed => {
            *response = Response::new(Status::PRECONDITION_FAILED);
            return;
        }
    }
    if !has_ranges || response.status != Status::OK {
        return;
    }
    let fields = response.fields();
    let is_offered = fields
        .first("Accept-Ranges")
        .is_some_and(|unit| unit.eq_ignore_ascii_case(b"bytes"));
    // A date of this second counts, as in nginx.
    let judged_at = now.saturating_add(1);
    let applies = || conditional::range_applies(head, &validators(fields, judged_at));
    let wanted = head
        .known(KnownField::Range)
        .filter(|_| head.method() == Method::Get);
    let Some(wanted) = wanted.filter(|_| is_offered && applies()) else {
        return;
    };
    if let (Body::Stream(_), Some(cache)) = (&response.body, storing) {
        return take_part(response, cache, wanted, files);
    }
    let content = match &response.body {
        Body::Memory(chunk) => Content::Memory(chunk.clone()),
        Body::File(part) => Content::File {
            file: part.file.clone(),
            offset: part.offset,
            length: part.length,
            check: part.check.clone(),
        },
        Body::Empty | Body::Parts(_) | Body::Stream(_) => return,
    };
    let length = content.length();
    let ranges_max = files.ranges_max as usize;
    let outcome = range::resolve_by(files.range_rules, wanted, length, ranges_max);
    take_range(response, &content, outcome, boundaries);
}

/// Takes one range of a content that is being stored.
fn take_part(response: &mut Response, cache: &Rc<PageCache>, wanted: &[u8], files: &Files) {
    let Some(length) = response.body.length() else {
        return;
    };
    let ranges_max = files.ranges_max.min(1) as usize;
    let outcome = range::resolve_by(files.range_rules, wanted, length, ranges_max);
    if matches!(outcome, RangeOutcome::Whole | RangeOutcome::Many(_)) {
        return;
    }
    let Body::Stream(content) = std::mem::take(&mut response.body) else {
        return;
    };
    if let RangeOutcome::One(part) = outcome {
        set_part(response, part, length);
        let part = PartOfContent::new(Rc::clone(cache), content, part);
        response.body = Body::Stream(Box::new(part));
        return;
    }
    update::leave_to_cache(cache, content);
    set_unsatisfiable(response, length);
}

/// Makes a response that of a range, except for its content.
fn set_part(response: &mut Response, part: ByteRange, length: u64) {
    response.status = Status::PARTIAL_CONTENT;
    response
        .fields_mut()
        .set("Content-Range", byteranges::content_range(part, length));
    response.fields_mut().remove("Accept-Ranges");
}

fn set_unsatisfiable(response: &mut Response, length: u64) {
    *response = Response::new(Status::RANGE_NOT_SATISFIABLE);
    let value = format!("bytes */{length}").into_bytes();
    response.fields_mut().set("Content-Range", value);
}

fn take_range(
    response: &mut Response,
    content: &Content,
    outcome: RangeOutcome,
    boundaries: &Boundaries,
) {
    let length = content.length();
    match outcome {
        RangeOutcome::Whole => {}
        RangeOutcome::One(part) => {
            set_part(response, part, length);
            response.body = content.part(part.first..part.last + 1);
        }
        RangeOutcome::Many(parts) => {
            let mut fields = std::mem::take(response.fields_mut());
            fields.remove("Accept-Ranges");
            let kind = fields.first("Content-Type").map(<[u8]>::to_vec);
            *response = byteranges::response(boundaries, kind.as_deref(), fields, content, &parts);
            // A head that is ready gets no more fields, and those of the rules are not there yet.
            response.fields_mut().remove("Content-Length");
        }
        RangeOutcome::Unsatisfiable => set_unsatisfiable(response, length),
    }
}

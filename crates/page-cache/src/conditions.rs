//! Conditions of clients on responses that the cache fetched without them (RFC 9110 section 13).
//!
//! Called by: `store_response`, for a page that was just stored or validated; `page`, for the
//! fields of a 304.
//! Caveat: content that is still arriving has to reach the store, so it is sent whole.
//! Out of scope: hits (`page`), ranges.

use saker_cache_rules::rules::validation;
use saker_http::{
    Fields, HeadView, KnownField, Status,
    conditional::{self, Precondition, Validators},
    date::parse_date,
    entity_tag::EntityTag,
    fields::known_name,
};
use saker_pipeline::{Body, Response};

/// Fields that report what the cache did.
const REPORTS: [&str; 5] = [
    "Age",
    "Cache-Status",
    "X-LiteSpeed-Cache",
    "X-Cache",
    "X-Cache-Detail",
];

/// The fields of a 304 for a response with these fields (RFC 9110 section 15.4.5). `own`: the
/// site's field for the cache's result.
pub fn not_modified(whole: &Fields, own: Option<&str>) -> Fields {
    let mut fields = validation::not_modified_fields(whole);
    // The site's own field may be one of the others.
    for name in REPORTS.into_iter().chain(own) {
        if let Some(value) = whole.first(name).map(<[u8]>::to_vec) {
            fields.set(known_name(name), value);
        }
    }
    fields
}

/// Replaces a complete 200 by what the client's conditions make of it.
pub fn apply(head: HeadView<'_>, response: &mut Response, own: Option<&str>, now: i64) {
    if response.status != Status::OK
        || matches!(response.body, Body::Stream(_))
        || !is_conditional(head)
    {
        return;
    }
    let fields = response.fields();
    let date = fields.first("Last-Modified").or(fields.first("Date"));
    let validators = Validators {
        entity_tag: fields.first("ETag").and_then(EntityTag::parse),
        last_modified: date.and_then(|text| parse_date(text, now)),
        now,
    };
    *response = match conditional::evaluate(head, Some(&validators)) {
        Precondition::Proceed => return,
        Precondition::NotModified => {
            let mut answer = Response::new(Status::NOT_MODIFIED);
            *answer.fields_mut() = not_modified(fields, own);
            answer
        }
        Precondition::Failed => Response::new(Status::PRECONDITION_FAILED),
    };
}

/// True if the request has a condition.
pub fn is_conditional(head: HeadView<'_>) -> bool {
    use KnownField::*;
    [
        IfNoneMatch,
        IfModifiedSince,
        IfMatch,
        IfUnmodifiedSince,
        IfRange,
    ]
    .iter()
    .any(|field| head.has(*field))
}

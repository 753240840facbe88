//! Validation (RFC 9111 section 4.3): conditional requests to the origin, their responses, and
//! conditional requests of clients.
//!
//! Called by: the page cache, before a request to the origin, for its response, and for hits.
//! Caveat: a 304 may be about another representation, and then refreshes nothing; its fields
//! replace the stored ones, but not those that describe the stored bytes if it lacks them.
//! Out of scope: If-Match and If-Unmodified-Since, which don't concern caches (section 4.3.2);
//! If-Range (`saker_http::conditional`).

use super::{
    fields::{is_cookie, is_never_stored},
    freshness::Times,
    judge::judge_response,
    life::Life,
    pass::Pass,
    reuse::is_error,
    settings::RuleSettings,
    targeted::lines,
};
use saker_http::{
    Fields, HeadView, KnownField, Method, Status,
    chars::trim_ows,
    date::{format_date, parse_date},
    entity_tag::{EntityTag, any_of_list},
    fields::known_name,
};

/// The conditions for an entry with these fields (section 4.3.1); none without a validator.
pub fn conditions(stored: &Fields) -> Vec<(&'static str, Vec<u8>)> {
    let tag = stored
        .first("etag")
        .filter(|tag| EntityTag::parse(tag).is_some());
    let date = stored
        .first("last-modified")
        .filter(|date| parse_date(date, 0).is_some());
    let both = [
        tag.map(|tag| ("If-None-Match", tag.to_vec())),
        date.map(|date| ("If-Modified-Since", date.to_vec())),
    ];
    both.into_iter().flatten().collect()
}

/// The meaning of a validation response for the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The entry is valid: update its fields and lifetime.
    Freshens,
    /// The entry is replaced; the response is judged like any other, and goes to the client.
    Replaces,
    /// The origin failed: the entry may be served if its times allow, else the response goes to the
    /// client. The entry stays.
    Failed,
    /// A 304 about something else: repeat without conditions.
    Unrelated,
}

/// Section 4.3.3.
pub fn judge_answer(stored: &Fields, status: Status, answer: &Fields) -> Answer {
    match status {
        Status::NOT_MODIFIED if is_about(stored, answer) => Answer::Freshens,
        Status::NOT_MODIFIED => Answer::Unrelated,
        status if is_error(status) => Answer::Failed,
        _ => Answer::Replaces,
    }
}

/// Section 4.3.4: true if a 304 is about the stored response. One without validators is.
fn is_about(stored: &Fields, answer: &Fields) -> bool {
    let tag = |fields: &Fields| fields.first("etag").map(<[u8]>::to_vec);
    if let Some(theirs) = tag(answer) {
        let ours = tag(stored);
        return match (
            EntityTag::parse(&theirs),
            ours.as_deref().and_then(EntityTag::parse),
        ) {
            // Weak comparison: the condition was weak as well (RFC 9110 section 13.1.2), and
            // origins weaken tags of compressed bodies.
            (Some(theirs), Some(ours)) => theirs.weak_eq(ours),
            (Some(_), None) => false,
            (None, _) => true,
        };
    }
    match (answer.first("last-modified"), stored.first("last-modified")) {
        (Some(theirs), Some(ours)) => parse_date(theirs, 0) == parse_date(ours, 0),
        _ => true,
    }
}

/// The stored fields, updated by those of a 304 (or of a HEAD) (section 3.2).
pub fn freshened(stored: &Fields, answer: &Fields) -> Fields {
    let mut fresh = stored.clone();
    // Entries have cookies only where the settings store them for all clients.
    let is_kept = |name: &str| !is_never_stored(name) || (is_cookie(name) && stored.has(name));
    let completes_type = completes_type(stored, answer);
    let replaces = |name: &str| match name.eq_ignore_ascii_case("content-type") {
        true => completes_type,
        false => is_kept(name) && !describes_content(name),
    };
    answer
        .iter()
        .filter(|line| replaces(line.0))
        .for_each(|line| {
            fresh.remove(line.0);
        });
    answer
        .iter()
        .filter(|line| replaces(line.0))
        .for_each(|line| fresh.append(known_name(line.0), line.1.to_vec()));
    fresh
}

/// Returns true if the response's `Content-Type` adds parameters to a stored type without any. It
/// never becomes another type, nor gets another charset: many applications send their default one
/// (`text/html`) with each 304, and an upload that becomes HTML runs scripts.
fn completes_type(stored: &Fields, answer: &Fields) -> bool {
    let mut theirs = lines(answer, "content-type");
    let (Some(theirs), None) = (theirs.next(), theirs.next()) else {
        return false;
    };
    let mut parts = theirs.splitn(2, |byte| *byte == b';');
    let (kind, parameters) = (parts.next().unwrap_or_default(), parts.next());
    parameters.is_some()
        && stored
            .first("content-type")
            .is_some_and(|ours| trim_ows(ours).eq_ignore_ascii_case(trim_ows(kind)))
}

/// An entry after a 304: its fields, and its new lifetime, or why it may not be kept.
#[derive(Clone, Debug)]
pub struct Refreshed {
    pub fields: Fields,
    pub life: Result<Life, Pass>,
}

/// Section 4.3.4: updates the entry's fields by those of a 304, and judges the result. `status`:
/// the entry's own.
pub fn refreshed(
    request: HeadView<'_>,
    status: Status,
    stored: &Fields,
    answer: &Fields,
    settings: &RuleSettings,
    request_ms: i64,
    response_ms: i64,
) -> Refreshed {
    let mut fields = freshened(stored, answer);
    // The first response's Date would make the second as old; RFC 9110 section 6.6.1 defines the
    // substitute.
    let date_s = Times::of(answer, request_ms, response_ms).date_s;
    fields.set("Date", format_date(date_s).to_vec());
    let mut judged = fields.clone();
    lines(answer, "age").for_each(|age| judged.append("Age", age.to_vec()));
    let life = judge_response(request, status, &judged, settings, request_ms, response_ms);
    Refreshed { fields, life }
}

/// Section 3.2: fields that describe the stored bytes don't change if the response lacks them.
fn describes_content(name: &str) -> bool {
    ["content-length", "content-encoding", "content-range"]
        .iter()
        .any(|held| held.eq_ignore_ascii_case(name))
}

/// The meaning of a HEAD response for a stored response to GET (section 4.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadAnswer {
    /// About the same bytes: its fields replace the stored ones.
    Freshens,
    /// The stored response is invalid.
    Invalidates,
    /// It says nothing about the stored response.
    Nothing,
}

/// `content_bytes`: the length of the stored content as the origin sent it.
pub fn judge_head_answer(
    stored: &Fields,
    content_bytes: u64,
    status: Status,
    answer: &Fields,
) -> HeadAnswer {
    if status != Status::OK {
        return HeadAnswer::Nothing;
    }
    let same = |name: &'static str| {
        answer
            .first(name)
            .is_none_or(|theirs| stored.first(name) == Some(theirs))
    };
    let length = answer.first("content-length").map(|text| {
        std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    });
    let same_length = length.is_none_or(|length| length == Some(content_bytes));
    match same("etag") && same("last-modified") && same_length {
        true => HeadAnswer::Freshens,
        false => HeadAnswer::Invalidates,
    }
}

/// True if a client's conditions make a hit with this status a 304 (section 4.3.2).
pub fn is_not_modified(request: HeadView<'_>, status: Status, stored: &Fields, now_s: i64) -> bool {
    if status != Status::OK || !matches!(request.method(), Method::Get | Method::Head) {
        return false;
    }
    if request.has(KnownField::IfNoneMatch) {
        return names_ours(request, stored);
    }
    let asked = (request.known_count(KnownField::IfModifiedSince) == 1)
        .then(|| request.known(KnownField::IfModifiedSince))
        .flatten();
    let asked = asked.and_then(|text| parse_date(text, now_s));
    // A response without Last-Modified is compared by its Date.
    let ours = stored
        .first("last-modified")
        .or(stored.first("date"))
        .and_then(|text| parse_date(text, now_s));
    asked.zip(ours).is_some_and(|(asked, ours)| ours <= asked)
}

fn names_ours(request: HeadView<'_>, stored: &Fields) -> bool {
    if request.known_count(KnownField::IfNoneMatch) == 1
        && request.known(KnownField::IfNoneMatch) == Some(b"*")
    {
        return true;
    }
    let Some(ours) = stored.first("etag").and_then(EntityTag::parse) else {
        return false;
    };
    let mut found = false;
    for line in request.lines(KnownField::IfNoneMatch) {
        match any_of_list(line, |asked| asked.weak_eq(ours)) {
            Some(here) => found |= here,
            None => return false,
        }
    }
    found
}

/// The fields of a 304 made from an entry (RFC 9110 section 15.4.5); callers filter `Set-Cookie`
/// and others.
pub fn not_modified_fields(stored: &Fields) -> Fields {
    const SENT: [&str; 8] = [
        "cache-control",
        "content-location",
        "date",
        "etag",
        "expires",
        "vary",
        "last-modified",
        "cdn-cache-control",
    ];
    let mut fields = stored.clone();
    fields.retain(|name| SENT.iter().any(|sent| sent.eq_ignore_ascii_case(name)));
    fields
}

/// True if two responses contain parts of the same bytes: they have the same strong validator (RFC
/// 9111 section 3.4, RFC 9110 section 8.8.1).
pub fn same_bytes(one: &Fields, other: &Fields) -> bool {
    let single = |fields: &Fields| lines(fields, "etag").count() <= 1;
    if !single(one) || !single(other) {
        return false;
    }
    match (one.first("etag"), other.first("etag")) {
        (Some(one), Some(other)) => EntityTag::parse(one)
            .zip(EntityTag::parse(other))
            .is_some_and(|(one, other)| one.strong_eq(other)),
        (None, None) => same_strong_date(one, other),
        _ => false,
    }
}

/// RFC 9110 section 8.8.2.2: a modification date is strong if the response is at least a second
/// younger.
fn same_strong_date(one: &Fields, other: &Fields) -> bool {
    let of = |fields: &Fields| {
        let modified = fields
            .first("last-modified")
            .and_then(|text| parse_date(text, 0))?;
        let date = fields.first("date").and_then(|text| parse_date(text, 0))?;
        (date > modified).then_some(modified)
    };
    of(one)
        .zip(of(other))
        .is_some_and(|(one, other)| one == other)
}

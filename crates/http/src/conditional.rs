//! Preconditions in the order of RFC 9110 section 13.2.2, and If-Range (section 13.1.5).
//!
//! Called by: handlers, once they know the representation they would send. On the hot path:
//! allocates nothing, and a request without conditional fields costs four lookups in the head's
//! index.
//! Out of scope: writing responses; 304 and 412 are the caller's.

use crate::{
    HeadView, KnownField, Method,
    date::parse_date,
    entity_tag::{EntityTag, any_of_list},
};

/// Validators of the selected representation.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    pub entity_tag: Option<EntityTag<'a>>,
    /// Seconds since the epoch.
    pub last_modified: Option<i64>,
    /// Now, seconds since the epoch; a Last-Modified less than a second old is no strong validator.
    pub now: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    Proceed,
    /// Answer 304.
    NotModified,
    /// Answer 412.
    Failed,
}

/// Treatment of If-Modified-Since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateRule {
    /// RFC 9110 section 13.1.3: not modified unless later.
    #[default]
    Before,
    /// nginx's default: not modified at this very time only.
    Exact,
    /// The field means nothing.
    Ignored,
}

/// Evaluates the fields of [`evaluate`] with a rule for dates.
pub fn evaluate_by(
    head: HeadView<'_>,
    current: Option<&Validators<'_>>,
    rule: DateRule,
) -> Precondition {
    let is_dated = rule != DateRule::Before
        && head.has(KnownField::IfModifiedSince)
        && !head.has(KnownField::IfNoneMatch);
    match evaluate(head, current) {
        Precondition::NotModified if is_dated => match rule {
            DateRule::Exact if is_same_date(head, current) => Precondition::NotModified,
            _ => Precondition::Proceed,
        },
        other => other,
    }
}

fn is_same_date(head: HeadView<'_>, current: Option<&Validators<'_>>) -> bool {
    let asked = head.known(KnownField::IfModifiedSince);
    let parsed = asked
        .zip(current)
        .and_then(|(asked, current)| parse_date(asked, current.now));
    parsed.is_some_and(|asked| current.and_then(|current| current.last_modified) == Some(asked))
}

/// Evaluates If-Match, If-Unmodified-Since, If-None-Match, If-Modified-Since. Only call for a
/// request that would otherwise be 2xx. `None` stands for "no current representation" (If-Match: *
/// fails, If-None-Match: * holds).
pub fn evaluate(head: HeadView<'_>, current: Option<&Validators<'_>>) -> Precondition {
    // Steps 1 and 2: the client's guard against overwriting. A date counts only in the absence of
    // If-Match.
    let guarded = if head.has(KnownField::IfMatch) {
        any_tag(head, KnownField::IfMatch, current, |asked, ours| {
            asked.strong_eq(ours)
        })
    } else {
        !modified_since(head, KnownField::IfUnmodifiedSince, current).unwrap_or(false)
    };
    if !guarded {
        return Precondition::Failed;
    }
    // Steps 3 and 4: the client's copy. A date counts only in the absence of If-None-Match, and for
    // GET and HEAD; QUERY selects a representation, too.
    let reads =
        matches!(head.method(), Method::Get | Method::Head) || head.method_token() == b"QUERY";
    if head.has(KnownField::IfNoneMatch) {
        return match any_tag(head, KnownField::IfNoneMatch, current, |asked, ours| {
            asked.weak_eq(ours)
        }) {
            false => Precondition::Proceed,
            true if reads => Precondition::NotModified,
            true => Precondition::Failed,
        };
    }
    match reads && modified_since(head, KnownField::IfModifiedSince, current) == Some(false) {
        true => Precondition::NotModified,
        false => Precondition::Proceed,
    }
}

/// True if a Range field is to be obeyed as far as If-Range goes (true when there is no If-Range).
pub fn range_applies(head: HeadView<'_>, current: &Validators<'_>) -> bool {
    let Some(value) = head.known(KnownField::IfRange) else {
        return true;
    };
    if head.known_count(KnownField::IfRange) > 1 {
        return false;
    }
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        // Section 13.1.5: strong comparison, so a weak tag on either side is false.
        return EntityTag::parse(value)
            .zip(current.entity_tag)
            .is_some_and(|(asked, ours)| asked.strong_eq(ours));
    }
    // Section 13.1.5: an exact match, not "not later"; and only of a date that is strong by section
    // 8.8.2.2.
    current
        .last_modified
        .is_some_and(|ours| ours < current.now && parse_date(value, current.now) == Some(ours))
}

/// If-Match and If-None-Match: `*` stands for any current representation; a malformed list matches
/// nothing.
fn any_tag(
    head: HeadView<'_>,
    field: KnownField,
    current: Option<&Validators<'_>>,
    equal: fn(EntityTag<'_>, EntityTag<'_>) -> bool,
) -> bool {
    if head.known_count(field) == 1 && head.known(field) == Some(b"*") {
        return current.is_some();
    }
    let ours = current.and_then(|current| current.entity_tag);
    let mut found = false;
    for line in head.lines(field) {
        match any_of_list(line, |tag| ours.is_some_and(|ours| equal(tag, ours))) {
            Some(here) => found |= here,
            None => return false,
        }
    }
    found
}

/// True if the current representation is later than the field's date. `None` where the field does
/// not count: absent, repeated, no date, or nothing to compare it with (sections 13.1.3 and
/// 13.1.4).
fn modified_since(
    head: HeadView<'_>,
    field: KnownField,
    current: Option<&Validators<'_>>,
) -> Option<bool> {
    let value = head.known(field)?;
    let (current, ours) = current.and_then(|current| Some((current, current.last_modified?)))?;
    if head.known_count(field) > 1 {
        return None;
    }
    Some(ours > parse_date(value, current.now)?)
}

#[cfg(test)]
mod tests;

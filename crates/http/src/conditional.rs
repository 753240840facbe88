//! Preconditions in the order of RFC 9110 section 13.2.2, and If-Range (section 13.1.5).

use crate::{HeadView, entity_tag::EntityTag};

/// What the selected representation is compared by.
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

/// Evaluates If-Match, If-Unmodified-Since, If-None-Match, If-Modified-Since. Only call for a request that would otherwise be 2xx.
/// `None` stands for "no current representation" (If-Match: * fails, If-None-Match: * holds).
pub fn evaluate(_head: HeadView<'_>, _current: Option<&Validators<'_>>) -> Precondition {
    unimplemented!()
}

/// Whether a Range field is to be obeyed as far as If-Range goes (true when there is no If-Range).
pub fn range_applies(_head: HeadView<'_>, _current: &Validators<'_>) -> bool {
    unimplemented!()
}

//! Edits of response heads by the rules of a front end that the native settings cannot express
//! (Apache's `Header`, `Expires…`).
//!
//! Called by: handlers that build a cached head, which apply
//! [`CacheState::head_edits`](crate::CacheState::head_edits); a filter applies the edits to all
//! other heads.
//! Caveat: cached heads answer requests that the rules never see. The edits may therefore depend
//! only on the resource; edits that depend on the time are applied again every second.
//! Out of scope: the native `[[header]]` rows (`field_edits`).

use saker_http::{Fields, Status};
use std::any::Any;

/// Facts about the response that edits depend on.
#[derive(Clone, Copy, Debug)]
pub struct HeadFacts {
    pub status: Status,
    /// Current time, in seconds since the epoch.
    pub now: i64,
    /// Modification time of the file, in seconds since the epoch.
    pub modified_s: Option<i64>,
}

pub trait HeadEdits {
    fn apply(&self, head: &HeadFacts, fields: &mut Fields);

    /// Returns true if the edited head depends on the current second.
    fn changes_with_time(&self) -> bool;

    /// Returns true if a 304 includes the fields that describe the content (all but type, coding,
    /// and length), as Apache's does.
    fn describes_unmodified(&self) -> bool {
        false
    }

    /// Returns true if both edits have the same effect on every head.
    fn is_same(&self, other: &dyn HeadEdits) -> bool;

    fn as_any(&self) -> &dyn Any;
}

/// Compares optional edits.
pub fn are_same(one: Option<&dyn HeadEdits>, other: Option<&dyn HeadEdits>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same(other),
        _ => false,
    }
}

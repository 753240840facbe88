//! Edits of response heads that a front-end's rules ask for and that our own settings can't say
//! (Apache's `Header`, `Expires…`).
//!
//! The rules leave one in [`Exchange::head_edits`](crate::Exchange::head_edits), and whoever makes
//! a head that is kept lays it over. Heads that are not kept get their edits on the way up, from a
//! filter. Difficulty: what is kept answers requests that the rules never see, so only what follows
//! from the resource itself may be in there, and what follows from the time has to be made anew
//! when the second changes.

use saker_http::{Fields, Status};
use std::any::Any;

/// What an edit may want to know of the response that it changes.
#[derive(Clone, Copy, Debug)]
pub struct HeadFacts {
    pub status: Status,
    /// Seconds since the epoch.
    pub now: i64,
    /// Of the file behind it, seconds since the epoch.
    pub modified_s: Option<i64>,
}

pub trait HeadEdits {
    fn apply(&self, head: &HeadFacts, fields: &mut Fields);

    /// Another second makes another head.
    fn changes_with_time(&self) -> bool;

    /// Whether a 304 carries what describes the content (all but its type, coding and length), as
    /// Apache's does.
    fn describes_unmodified(&self) -> bool {
        false
    }

    /// Whether the other one makes the same of every head.
    fn is_same(&self, other: &dyn HeadEdits) -> bool;

    fn as_any(&self) -> &dyn Any;
}

/// Two that may be missing.
pub fn are_same(one: Option<&dyn HeadEdits>, other: Option<&dyn HeadEdits>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same(other),
        _ => false,
    }
}

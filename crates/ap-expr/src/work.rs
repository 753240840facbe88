//! The budget of expressions, rewrite rules, and text edits for one request, in steps and in bytes.
//!
//! Called by: everything that runs patterns or generates text on behalf of rules that an
//! `.htaccess` author writes. A limit, once reached, stays reached until the request ends; a pattern
//! that is given up is such a limit, because rules that deny may depend on it.
//! Caveat: a step stands for about five microseconds; slow patterns are charged by the clock, up to
//! the cost of an aborted pattern, so that a stalling machine fails no request.
//! Out of scope: the consequence; the pipeline answers 500 and logs the limit.

use crate::{LimitReached, Pattern, Spans};
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// Steps per request: matches of a pattern, edits of a field, commands of a script.
pub const STEPS_MAX: u64 = 400_000;
/// Bytes of text that edits may make per request.
pub const TEXT_BYTES_MAX: u64 = 16 << 20;
/// Bytes that one step may look at.
pub const STEP_BYTES: usize = 512;
/// Cost of a pattern that hit its limit, and the maximum cost of a slow one.
const PATTERN_STEPS_MAX: u64 = 20_000;
const STEP_TIME_US: u64 = 5;

/// A limit on work that has been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkLimit {
    /// [`STEPS_MAX`].
    Steps,
    /// [`TEXT_BYTES_MAX`].
    TextBytes,
    /// A pattern was given up.
    Pattern,
}

impl WorkLimit {
    /// The limit with its value and unit, for the error log.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkLimit::Steps => "rules and edits took more than 400000 steps (STEPS_MAX)",
            WorkLimit::TextBytes => {
                "rules and edits made more than 16 MiB of text (TEXT_BYTES_MAX)"
            }
            WorkLimit::Pattern => {
                "a pattern took more than 2500000 steps, or too much memory, for its subject (MATCH_LIMIT)"
            }
        }
    }
}

/// Work done so far for one request.
#[derive(Debug, Default)]
pub struct Work {
    steps: Cell<u64>,
    bytes: Cell<u64>,
    granted_steps: Cell<u64>,
    granted_bytes: Cell<u64>,
    limit: Cell<Option<WorkLimit>>,
}

impl Work {
    /// The limit that was reached first, if one was.
    pub fn limit(&self) -> Option<WorkLimit> {
        self.limit.get()
    }

    pub fn is_exhausted(&self) -> bool {
        self.limit.get().is_some()
    }

    /// Steps that are left.
    pub fn steps_left(&self) -> u64 {
        STEPS_MAX
            .saturating_add(self.granted_steps.get())
            .saturating_sub(self.steps.get())
    }

    pub fn steps(&self, count: u64) {
        self.steps.set(self.steps.get().saturating_add(count));
        if self.steps.get() > STEPS_MAX.saturating_add(self.granted_steps.get()) {
            self.reached(WorkLimit::Steps);
        }
    }

    /// Charges one step, and more for a long text.
    pub fn look_at(&self, bytes: usize) {
        self.steps(1 + (bytes / STEP_BYTES) as u64);
    }

    /// Text that has been made.
    pub fn make(&self, bytes: usize) {
        self.bytes
            .set(self.bytes.get().saturating_add(bytes as u64));
        if self.bytes.get() > TEXT_BYTES_MAX.saturating_add(self.granted_bytes.get()) {
            self.reached(WorkLimit::TextBytes);
        }
    }

    /// Content that came in and is to be edited allows for more: a long body takes more work than a
    /// short one.
    pub fn grant_for(&self, content_bytes: usize) {
        const STEPS_PER_BYTE: u64 = 8;
        const BYTES_PER_BYTE: u64 = 8;
        let bytes = content_bytes as u64;
        self.granted_steps.set(
            self.granted_steps
                .get()
                .saturating_add(bytes.saturating_mul(STEPS_PER_BYTE)),
        );
        self.granted_bytes.set(
            self.granted_bytes
                .get()
                .saturating_add(bytes.saturating_mul(BYTES_PER_BYTE)),
        );
    }

    /// A pattern was given up outside of here.
    pub fn give_up(&self) {
        self.reached(WorkLimit::Pattern);
    }

    /// The first match at `start` or after. Nothing matches once a limit is reached.
    pub fn captures_at(
        &self,
        pattern: &Pattern,
        subject: &[u8],
        start: usize,
    ) -> Result<Option<Spans>, LimitReached> {
        self.captures_in_content(pattern, subject, start)
            .inspect_err(|_| self.give_up())
    }

    /// Like [`Work::captures_at`], for edits of content, which decide about nothing: a pattern that is
    /// given up costs its steps and edits nothing more.
    pub fn captures_in_content(
        &self,
        pattern: &Pattern,
        subject: &[u8],
        start: usize,
    ) -> Result<Option<Spans>, LimitReached> {
        if self.is_exhausted() {
            return Err(LimitReached);
        }
        let begun = Instant::now();
        let found = match start {
            0 => pattern.captures(subject),
            start => pattern.captures_at(subject, start),
        };
        self.steps(pattern_steps(begun.elapsed(), found.is_err()));
        found
    }

    pub fn is_match(&self, pattern: &Pattern, subject: &[u8]) -> Result<bool, LimitReached> {
        if self.is_exhausted() {
            return Err(LimitReached);
        }
        let begun = Instant::now();
        let found = pattern.is_match(subject);
        self.steps(pattern_steps(begun.elapsed(), found.is_err()));
        found.inspect_err(|_| self.give_up())
    }

    fn reached(&self, limit: WorkLimit) {
        self.limit.set(self.limit.get().or(Some(limit)));
    }
}

/// The cost of a match in steps.
pub fn pattern_steps(took: Duration, was_given_up: bool) -> u64 {
    if was_given_up {
        return PATTERN_STEPS_MAX;
    }
    let by_time = u64::try_from(took.as_micros()).unwrap_or(u64::MAX) / STEP_TIME_US;
    (1 + by_time).min(PATTERN_STEPS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PatternOptions;

    #[test]
    fn limits_hold_on_both_sides_of_their_edges() {
        let work = Work::default();
        work.steps(STEPS_MAX);
        work.make(TEXT_BYTES_MAX as usize);
        assert_eq!((work.limit(), work.steps_left()), (None, 0));
        work.make(1);
        assert_eq!(work.limit(), Some(WorkLimit::TextBytes));
        work.steps(1);
        assert_eq!(work.limit(), Some(WorkLimit::TextBytes), "the first stays");
        let work = Work::default();
        work.steps(STEPS_MAX + 1);
        assert_eq!(work.limit(), Some(WorkLimit::Steps));
    }

    #[test]
    fn content_grants_more() {
        let work = Work::default();
        work.grant_for(1000);
        work.steps(STEPS_MAX + 8000);
        work.make(TEXT_BYTES_MAX as usize + 8000);
        assert_eq!(work.limit(), None);
        work.steps(1);
        assert!(work.is_exhausted());
    }

    #[test]
    fn patterns_that_are_given_up_use_it_up() {
        let work = Work::default();
        let pattern = Pattern::compile("(a+)+$", PatternOptions::HTTPD).unwrap();
        let subject = [b"a".repeat(4000), b"!".to_vec()].concat();
        let mut tried = 0;
        while !work.is_exhausted() {
            assert!(work.captures_in_content(&pattern, &subject, 0).is_err());
            tried += 1;
        }
        assert_eq!(tried, STEPS_MAX / PATTERN_STEPS_MAX + 1);
        assert!(
            work.is_match(&pattern, b"a").is_err(),
            "nothing matches any more"
        );
    }

    #[test]
    fn a_decision_by_a_pattern_that_is_given_up_is_none() {
        let pattern = Pattern::compile("(a+)+$", PatternOptions::HTTPD).unwrap();
        let subject = [b"a".repeat(4000), b"!".to_vec()].concat();
        let work = Work::default();
        assert!(work.captures_at(&pattern, &subject, 0).is_err());
        assert_eq!(work.limit(), Some(WorkLimit::Pattern));
        let work = Work::default();
        assert!(work.is_match(&pattern, &subject).is_err());
        assert_eq!(work.limit(), Some(WorkLimit::Pattern));
    }

    #[test]
    fn messages_name_the_limits() {
        assert!(WorkLimit::Steps.as_str().contains(&STEPS_MAX.to_string()));
        assert!(
            WorkLimit::TextBytes
                .as_str()
                .contains(&format!("{} MiB", TEXT_BYTES_MAX >> 20))
        );
    }
}

//! Results of renewals, for requests of the same session that come soon after.
//!
//! Called by: `renewal`.
//! Caveat: bounded; a result that is lost costs a refresh token that is used twice.
//! Out of scope: other workers.

use saker_identity::session::Session;
use saker_net::clock::monotonic_ms;
use std::{cell::RefCell, collections::HashMap, rc::Rc};
use tokio::sync::OnceCell;

/// Time that the result of a renewal is there for requests that were sent before it.
const RESULT_MS: u64 = 60_000;
/// Results that a worker keeps.
const RESULTS_MAX: usize = 4096;
/// Outcome of a renewal.
#[derive(Clone)]
pub enum Renewed {
    Session(Session),
    /// The provider knows the session no longer.
    Ended,
}

/// By the refresh token that was used.
#[derive(Default)]
pub struct RenewalResults(RefCell<HashMap<String, Entry>>);

/// A result, and the time until which it is kept.
type Entry = (Rc<OnceCell<Renewed>>, u64);

impl RenewalResults {
    /// The result of a renewal with this token, or the place for it.
    pub fn of(&self, token: &str, now_s: i64) -> Rc<OnceCell<Renewed>> {
        let (mut all, now_ms) = (self.0.borrow_mut(), monotonic_ms());
        // A provider may leave the token the same, so that a result is due again.
        let is_current = |known: &OnceCell<Renewed>| match known.get() {
            Some(Renewed::Session(session)) => now_s < session.renews_s,
            Some(Renewed::Ended) | None => true,
        };
        if let Some((known, until_ms)) = all.get(token)
            && now_ms < *until_ms
            && is_current(known)
        {
            return Rc::clone(known);
        }
        all.retain(|_, (_, until_ms)| now_ms < *until_ms);
        if all.len() >= RESULTS_MAX {
            all.clear();
        }
        let made = Rc::<OnceCell<Renewed>>::default();
        all.insert(token.to_owned(), (Rc::clone(&made), now_ms + RESULT_MS));
        made
    }
}

//! Nonces that are good for one request (`AuthDigestNonceLifetime 0`).
//!
//! Called by: `digest`.
//! Caveat: only nonces that came with the right password are remembered, so clients can't fill the
//! memory; one that has not been used for [`LIFETIME_S`] is no longer good, so that used ones can be
//! forgotten.
//! Out of scope: the hash by which a nonce is known to be this process's.

use saker_telemetry::error_log::LogId;
use std::{
    cell::RefCell,
    collections::HashSet,
    rc::{Rc, Weak},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Time to answer a challenge, or to send the next request.
pub const LIFETIME_S: i64 = 300;

/// Used nonces of a span of time; with more, further ones are not good.
const USED_MAX: usize = 1 << 20;

/// Bits of the time in a nonce; the number of the nonce is above them.
const TIME_BITS: u32 = 40;
const NUMBERS: u64 = 1 << 23;

/// The nonces that were used in this span of time and in the one before it.
#[derive(Default)]
struct Used {
    since_s: i64,
    now: HashSet<i64>,
    before: HashSet<i64>,
}

static USED: Mutex<Option<Used>> = Mutex::new(None);

thread_local! {
    /// Nonces of requests that go on: subrequests and pages of errors are asked about theirs again.
    static CURRENT: RefCell<Vec<(i64, Weak<LogId>)>> = const { RefCell::new(Vec::new()) };
}

/// The time of a new nonce, with a number that other nonces of that time don't have.
pub fn made(now_s: i64) -> i64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed) % (NUMBERS - 1) + 1;
    time(now_s) | ((number as i64) << TIME_BITS)
}

/// The time of a nonce without its number.
pub fn time(made: i64) -> i64 {
    made & ((1 << TIME_BITS) - 1)
}

/// Uses a nonce up for a request. False: it was used before by another one, is too old, or is not
/// good for one request alone.
pub fn take(made: i64, now_s: i64, request: &Rc<LogId>) -> bool {
    let age_s = now_s.saturating_sub(time(made));
    if made >> TIME_BITS == 0 || !(0..=LIFETIME_S).contains(&age_s) {
        return false;
    }
    CURRENT.with_borrow_mut(|current| {
        current.retain(|(_, request)| request.strong_count() > 0);
        let is_own = |(known, owner): &(i64, Weak<LogId>)| {
            *known == made && std::ptr::eq(owner.as_ptr(), Rc::as_ptr(request))
        };
        if current.iter().any(is_own) {
            return true;
        }
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = used.get_or_insert_default().add(made, now_s);
        if is_good {
            current.push((made, Rc::downgrade(request)));
        }
        is_good
    })
}

impl Used {
    /// False: it is there, or there are too many.
    fn add(&mut self, made: i64, now_s: i64) -> bool {
        let passed_s = now_s.saturating_sub(self.since_s);
        if passed_s > LIFETIME_S {
            self.before = std::mem::take(&mut self.now);
            if passed_s > 2 * LIFETIME_S {
                self.before.clear();
            }
            self.since_s = now_s;
        }
        !self.before.contains(&made) && self.now.len() < USED_MAX && self.now.insert(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_good_for_one_request() {
        let (one, other) = (Rc::<LogId>::default(), Rc::<LogId>::default());
        let nonce = made(1000);
        assert_eq!(time(nonce), 1000);
        assert!(take(nonce, 1001, &one), "the request");
        assert!(take(nonce, 1001, &one), "its subrequest");
        assert!(!take(nonce, 1001, &other), "another request");
        drop(one);
        let third = Rc::<LogId>::default();
        assert!(!take(nonce, 1001, &third), "after the request");
        let next = made(1000);
        assert_ne!(nonce, next);
        assert!(take(next, 1001, &other));
    }

    #[test]
    fn old_ones_and_those_of_other_lifetimes() {
        let request = Rc::<LogId>::default();
        for (nonce, now_s) in [
            (made(1000), 1001 + LIFETIME_S),
            (made(1000), 999),
            (1000, 1000),
        ] {
            assert!(!take(nonce, now_s, &request), "{nonce} {now_s}");
        }
        assert!(take(made(1000), 1000 + LIFETIME_S, &request));
    }

    #[test]
    fn used_ones_are_remembered_as_long_as_they_are_good() {
        let mut used = Used::default();
        let nonce = made(10_000);
        assert!(used.add(nonce, 10_000));
        assert!(used.add(made(10_000), 10_000 + LIFETIME_S));
        assert!(!used.add(nonce, 10_000 + LIFETIME_S));
        assert!(!used.add(nonce, 10_001 + LIFETIME_S));
        assert!(used.add(nonce, 10_002 + 3 * LIFETIME_S));
    }
}

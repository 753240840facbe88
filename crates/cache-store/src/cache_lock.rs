//! Cache locks: of many requests for a missing entry, one fetches it and the others wait.
//!
//! Called by: the page cache's look-up.
//! Caveat: if a response turns out not to be storable, waiting requests must not fetch it one after
//! the other. So the key is bypassed for a while (Varnish: hit-for-miss). Nor may they wait for a
//! client that is slow to take what was fetched: another request may fetch it then.
//! Out of scope: how long requests wait.

use crate::key_hash::KeyHash;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::timeout};

/// Maximum number of bypassed keys; beyond that, none is remembered.
const BYPASSED_MAX: usize = 100_000;
/// The time for which a leader's client may hold an entry up, in total.
const HELD_MS_MAX: u64 = 1000;
/// Followers look at the time no more often.
const LOOK_MS_MIN: u64 = 50;
/// The client holds nothing.
const NEVER: u64 = u64::MAX;

#[derive(Default)]
pub struct CacheLock {
    known: Mutex<HashMap<KeyHash, LockState, RandomState>>,
}

enum LockState {
    Fetching(Follower),
    /// Requests don't wait until this time, in monotonic milliseconds.
    BypassUntil(u64),
}

/// The way to proceed with a missing entry.
pub enum LockOutcome {
    /// Fetch it. Followers continue when the permit is dropped.
    Leader(FetchPermit),
    /// Another request fetches it. Look again when this ends.
    Follower(Follower),
    /// It can't be stored: fetch it without waiting.
    Bypass,
}

pub struct FetchPermit {
    cache_lock: Arc<CacheLock>,
    hash: KeyHash,
    bypass_until_ms: Option<u64>,
    /// True when content has begun to go to the leader's client.
    sender: watch::Sender<bool>,
    held: Arc<HeldTime>,
}

/// Another request's fetch.
#[derive(Clone)]
pub struct Follower {
    /// Ends when the sender is dropped.
    receiver: watch::Receiver<bool>,
    held: Arc<HeldTime>,
}

/// The time for which the fetched content has waited for the leader's client.
struct HeldTime {
    before_ms: AtomicU64,
    /// The time since which it waits, or `NEVER`.
    since_ms: AtomicU64,
}

impl HeldTime {
    fn left_ms(&self, now_ms: u64) -> u64 {
        let since = self.since_ms.load(Ordering::Relaxed);
        let before = self.before_ms.load(Ordering::Relaxed);
        HELD_MS_MAX.saturating_sub(before.saturating_add(now_ms.saturating_sub(since)))
    }
}

impl Follower {
    /// Waits for the end of the fetch. Returns `false` if the leader's client holds it up for too
    /// long.
    pub async fn ended(&mut self, now_ms: impl Fn() -> u64) -> bool {
        loop {
            let is_handed_out = *self.receiver.borrow_and_update();
            let changed = self.receiver.changed();
            let is_over = if is_handed_out {
                let left_ms = self.held.left_ms(now_ms());
                if left_ms == 0 {
                    return false;
                }
                let left = Duration::from_millis(left_ms.max(LOOK_MS_MIN));
                timeout(left, changed).await.is_ok_and(|told| told.is_err())
            } else {
                changed.await.is_err()
            };
            if is_over {
                return true;
            }
        }
    }
}

impl CacheLock {
    pub fn acquire(self: &Arc<Self>, hash: KeyHash, now_ms: u64) -> LockOutcome {
        let mut known = self.lock();
        match known.get(&hash) {
            Some(LockState::Fetching(fetch)) if fetch.held.left_ms(now_ms) > 0 => {
                return LockOutcome::Follower(fetch.clone());
            }
            Some(LockState::BypassUntil(until)) if *until > now_ms => return LockOutcome::Bypass,
            _ => {}
        }
        let (sender, receiver) = watch::channel(false);
        let held = Arc::new(HeldTime {
            before_ms: AtomicU64::new(0),
            since_ms: AtomicU64::new(NEVER),
        });
        let fetch = Follower {
            receiver,
            held: Arc::clone(&held),
        };
        known.insert(hash, LockState::Fetching(fetch));
        LockOutcome::Leader(FetchPermit {
            cache_lock: Arc::clone(self),
            hash,
            bypass_until_ms: None,
            sender,
            held,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KeyHash, LockState, RandomState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes expired bypasses.
    pub fn tick(&self, now_ms: u64) {
        self.lock().retain(
            |_, flight| !matches!(flight, LockState::BypassUntil(until) if *until <= now_ms),
        );
    }
}

impl FetchPermit {
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// True if other requests wait for the entry.
    pub fn is_awaited(&self) -> bool {
        // One receiver is in the table.
        self.sender.receiver_count() > 1
    }

    /// Content goes to the leader's client: from now on it is the client that is waited for.
    pub fn hand_out(&self, now_ms: u64) {
        self.held.since_ms.store(now_ms, Ordering::Relaxed);
        if !*self.sender.borrow() {
            let _ = self.sender.send(true);
        }
    }

    /// The client has taken it.
    pub fn taken(&self, now_ms: u64) {
        let since = self.held.since_ms.swap(NEVER, Ordering::Relaxed);
        let held_ms = now_ms.saturating_sub(since);
        self.held.before_ms.fetch_add(held_ms, Ordering::Relaxed);
    }

    /// The response is not stored: no request waits for this key until then.
    pub fn bypass_until(&mut self, until_ms: u64) {
        self.bypass_until_ms = Some(until_ms);
    }
}

impl Drop for FetchPermit {
    fn drop(&mut self) {
        let mut known = self.cache_lock.lock();
        let is_own = matches!(known.get(&self.hash), Some(LockState::Fetching(fetch))
            if Arc::ptr_eq(&fetch.held, &self.held));
        if !is_own {
            // Another request has taken its place.
            return;
        }
        match self.bypass_until_ms {
            Some(until) if known.len() < BYPASSED_MAX => {
                drop(known.insert(self.hash, LockState::BypassUntil(until)))
            }
            _ => drop(known.remove(&self.hash)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyHash = KeyHash(7);

    #[test]
    fn one_leads_and_the_others_follow() {
        let cache_lock = Arc::<CacheLock>::default();
        let LockOutcome::Leader(permit) = cache_lock.acquire(KEY, 0) else {
            panic!("the first request is the leader")
        };
        let LockOutcome::Follower(mut follower) = cache_lock.acquire(KEY, 0) else {
            panic!("the second request is a follower")
        };
        assert!(matches!(
            cache_lock.acquire(KeyHash(8), 0),
            LockOutcome::Leader(_)
        ));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let brief = std::time::Duration::from_millis(10);
            assert!(
                tokio::time::timeout(brief, follower.ended(|| 0))
                    .await
                    .is_err()
            );
            drop(permit);
            assert!(
                tokio::time::timeout(brief, follower.ended(|| 0))
                    .await
                    .is_ok_and(|has_ended| has_ended)
            );
        });
        assert!(matches!(cache_lock.acquire(KEY, 0), LockOutcome::Leader(_)));
    }

    #[test]
    fn a_client_that_takes_nothing_holds_others_up_for_a_second_at_most() {
        let cache_lock = Arc::<CacheLock>::default();
        let lead = |now_ms| match cache_lock.acquire(KEY, now_ms) {
            LockOutcome::Leader(permit) => permit,
            _ => panic!("not the leader at {now_ms}"),
        };
        let follow = |now_ms| match cache_lock.acquire(KEY, now_ms) {
            LockOutcome::Follower(follower) => follower,
            _ => panic!("not a follower at {now_ms}"),
        };
        let slow = lead(0);
        // The origin may take its time.
        let mut follower = follow(20_000);
        slow.hand_out(20_000);
        slow.taken(20_400);
        follow(60_000);
        slow.hand_out(60_000);
        let edge = 60_000 + HELD_MS_MAX - 400;
        follow(edge - 1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        assert!(!runtime.block_on(follower.ended(|| edge)));
        let next = lead(edge);
        slow.taken(edge + 5);
        drop(slow);
        let mut follower = follow(edge + 10);
        drop(next);
        assert!(runtime.block_on(follower.ended(|| edge)));
        lead(edge + 10);
    }

    #[test]
    fn unstorable_keys_are_bypassed() {
        let cache_lock = Arc::<CacheLock>::default();
        let LockOutcome::Leader(mut permit) = cache_lock.acquire(KEY, 0) else {
            panic!("the first request is the leader")
        };
        permit.bypass_until(100);
        drop(permit);
        assert!(matches!(cache_lock.acquire(KEY, 99), LockOutcome::Bypass));
        assert!(matches!(
            cache_lock.acquire(KEY, 100),
            LockOutcome::Leader(_)
        ));
        cache_lock.tick(200);
        assert_eq!(cache_lock.lock().len(), 0);
    }
}

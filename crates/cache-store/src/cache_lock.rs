//! Cache locks: of many requests for a missing entry, one fetches it and the others wait.
//!
//! Called by: the page cache's look-up.
//! Caveat: if a response turns out not to be storable, waiting requests must not fetch it one after
//! the other. So the key is bypassed for a while (Varnish: hit-for-miss).
//! Out of scope: how long requests wait.

use crate::key_hash::KeyHash;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Maximum number of bypassed keys; beyond that, none is remembered.
const BYPASSED_MAX: usize = 100_000;

#[derive(Default)]
pub struct CacheLock {
    known: Mutex<HashMap<KeyHash, LockState, RandomState>>,
}

enum LockState {
    /// Ends when the sender is dropped.
    Fetching(watch::Receiver<()>),
    /// Requests don't wait until this time, in monotonic milliseconds.
    BypassUntil(u64),
}

/// The way to proceed with a missing entry.
pub enum LockOutcome {
    /// Fetch it. Followers continue when the permit is dropped.
    Leader(FetchPermit),
    /// Another request fetches it. Look again when this ends.
    Follower(watch::Receiver<()>),
    /// It can't be stored: fetch it without waiting.
    Bypass,
}

pub struct FetchPermit {
    cache_lock: Arc<CacheLock>,
    hash: KeyHash,
    bypass_until_ms: Option<u64>,
    sender: watch::Sender<()>,
}

impl CacheLock {
    pub fn acquire(self: &Arc<Self>, hash: KeyHash, now_ms: u64) -> LockOutcome {
        let mut known = self.lock();
        match known.get(&hash) {
            Some(LockState::Fetching(receiver)) => return LockOutcome::Follower(receiver.clone()),
            Some(LockState::BypassUntil(until)) if *until > now_ms => return LockOutcome::Bypass,
            _ => {}
        }
        let (sender, receiver) = watch::channel(());
        known.insert(hash, LockState::Fetching(receiver));
        LockOutcome::Leader(FetchPermit {
            cache_lock: Arc::clone(self),
            hash,
            bypass_until_ms: None,
            sender,
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

    /// The response is not stored: no request waits for this key until then.
    pub fn bypass_until(&mut self, until_ms: u64) {
        self.bypass_until_ms = Some(until_ms);
    }
}

impl Drop for FetchPermit {
    fn drop(&mut self) {
        let mut known = self.cache_lock.lock();
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
        let LockOutcome::Follower(mut receiver) = cache_lock.acquire(KEY, 0) else {
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
                tokio::time::timeout(brief, receiver.changed())
                    .await
                    .is_err()
            );
            drop(permit);
            assert!(
                tokio::time::timeout(brief, receiver.changed())
                    .await
                    .is_ok()
            );
        });
        assert!(matches!(cache_lock.acquire(KEY, 0), LockOutcome::Leader(_)));
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

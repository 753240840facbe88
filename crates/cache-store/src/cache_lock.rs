//! Who is making which entry: of many that want the same one, the first makes it and the others
//! wait.
//!
//! Difficulty: what turns out not to be kept. Were the next of those who waited to make it, and the
//! others to wait again, an uncacheable page would be served to one client at a time; so it is
//! remembered for a while that nobody waits for it (Varnish calls it hit-for-miss).

use crate::key_hash::KeyHash;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Keys that nobody waits for; beyond that, some are forgotten.
const BYPASSED_MAX: usize = 100_000;

#[derive(Default)]
pub struct CacheLock {
    known: Mutex<HashMap<KeyHash, LockState, RandomState>>,
}

enum LockState {
    /// Ends when the sender goes.
    Fetching(watch::Receiver<()>),
    /// Nobody waits until then, in monotonic milliseconds.
    BypassUntil(u64),
}

/// What to do about a key that is not there.
pub enum LockOutcome {
    /// Make it. Whoever waits is let go when this is dropped.
    Leader(FetchPermit),
    /// Somebody does. Look again when this has ended.
    Follower(watch::Receiver<()>),
    /// It is not to be kept: everybody for himself.
    Bypass,
}

pub struct FetchPermit {
    cache_lock: Arc<CacheLock>,
    hash: KeyHash,
    bypass_until_ms: Option<u64>,
    _sender: watch::Sender<()>,
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
            _sender: sender,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KeyHash, LockState, RandomState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what has run out.
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

    /// It is not kept: nobody has to wait for it until then.
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
    fn one_makes_it_and_the_others_wait() {
        let cache_lock = Arc::<CacheLock>::default();
        let LockOutcome::Leader(permit) = cache_lock.acquire(KEY, 0) else {
            panic!("somebody makes it")
        };
        let LockOutcome::Follower(mut receiver) = cache_lock.acquire(KEY, 0) else {
            panic!("nobody makes it")
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
    fn nobody_waits_for_what_is_not_kept() {
        let cache_lock = Arc::<CacheLock>::default();
        let LockOutcome::Leader(mut permit) = cache_lock.acquire(KEY, 0) else {
            panic!("somebody makes it")
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

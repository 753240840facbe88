//! A bounded map shared by all cores, which drops the least recently used entries.
//!
//! Called by: everything that remembers clients for a while (login attempts, clearances, bots).
//! Caveat: an attacker may be any number of clients, so there is a limit, and eviction must not
//! cost a search. Each shard has two maps: new entries go into the young one; when that is full it
//! becomes the old one, and the old one is dropped. A used entry moves back into the young one.
//! Out of scope: expiry by time, which the values handle themselves; background work.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::{
    hash::{BuildHasher, Hash},
    sync::{Mutex, MutexGuard, PoisonError},
};

const SHARDS: usize = 16;

#[derive(Debug)]
struct Shard<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
}

/// Values by key; at most so many.
#[derive(Debug)]
pub struct Remembered<K, V> {
    shards: [Mutex<Shard<K, V>>; SHARDS],
    hasher: RandomState,
    young_max: usize,
}

impl<K: Hash + Eq, V: Clone> Remembered<K, V> {
    pub fn new(entries_max: usize) -> Remembered<K, V> {
        let empty = || {
            Mutex::new(Shard {
                young: HashMap::default(),
                old: HashMap::default(),
            })
        };
        Remembered {
            shards: std::array::from_fn(|_| empty()),
            hasher: RandomState::default(),
            young_max: (entries_max / SHARDS / 2).max(1),
        }
    }

    pub fn find(&self, key: &K) -> Option<V> {
        let shard = self.shard(key);
        shard.young.get(key).or_else(|| shard.old.get(key)).cloned()
    }

    /// Changes the value in place, after creating it if necessary.
    pub fn change<T>(
        &self,
        key: K,
        make: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> T,
    ) -> T {
        let mut shard = self.shard(&key);
        let before = shard.old.remove(&key);
        if !shard.young.contains_key(&key) && shard.young.len() >= self.young_max {
            shard.old = std::mem::take(&mut shard.young);
        }
        change(
            shard
                .young
                .entry(key)
                .or_insert_with(|| before.unwrap_or_else(make)),
        )
    }

    pub fn insert(&self, key: K, value: V) {
        self.change(key, || value.clone(), |known| *known = value.clone());
    }

    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| lock(shard))
            .map(|shard| shard.young.len() + shard.old.len())
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K, V>> {
        // The map itself uses the lowest and the highest bits of its own hash.
        lock(&self.shards[(self.hasher.hash_one(key) >> 32) as usize % SHARDS])
    }
}

/// Nothing that holds the lock can leave a map half changed.
fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_clients_stay_within_the_bound() {
        let all: Remembered<u32, u32> = Remembered::new(1024);
        for key in 0..1_000_000 {
            all.insert(key, key);
            assert!(key % 10_000 != 0 || all.len() <= 1024);
        }
        assert_eq!(all.find(&999_999), Some(999_999));
        assert_eq!(all.find(&1), None);
    }

    #[test]
    fn what_is_used_stays() {
        let all: Remembered<u32, u32> = Remembered::new(320);
        for key in 1..100_000 {
            all.change(0, || 0, |count| *count += 1);
            all.insert(key, 0);
        }
        assert_eq!(all.find(&0), Some(99_999));
    }
}

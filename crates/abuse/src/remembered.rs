//! What is remembered of clients for a while: bounded, shared by all cores, with no work in the
//! background.
//!
//! Difficulty: an attacker may be any number of clients, so there is a bound, and what goes when it
//! is met must not cost a search. Each shard has two maps: new entries go into the young one; when
//! that is full it becomes the old one, and the old one goes. What is used moves back into the
//! young one, so that what goes has not been used for as long as it took to fill half of the shard.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::{
    hash::{BuildHasher, Hash},
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

const SHARDS: usize = 16;

/// The part of an address that stands for one client: all of an IPv4 address, an IPv6 /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who(u64, bool);

impl Who {
    pub fn of(address: IpAddr) -> Who {
        match address.to_canonical() {
            IpAddr::V4(address) => Who(u64::from(address.to_bits()), false),
            IpAddr::V6(address) => Who((address.to_bits() >> 64) as u64, true),
        }
    }

    /// The neighbourhood that a visitor may wander in without being somebody else (mobile networks,
    /// privacy addresses): /24, /56.
    pub fn range(address: IpAddr) -> Who {
        match Who::of(address) {
            Who(bits, false) => Who(bits & !0xff, false),
            Who(bits, true) => Who(bits & !0xff, true),
        }
    }

    pub fn bytes(self) -> [u8; 9] {
        let mut bytes = [u8::from(self.1); 9];
        bytes[1..].copy_from_slice(&self.0.to_be_bytes());
        bytes
    }
}

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

    /// Changes the value in place, making one first where there is none.
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
        // The map itself goes by the lowest and the highest bits of its own hash.
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

    #[test]
    fn clients_and_their_neighbourhoods() {
        let who = |text: &str| Who::of(text.parse().unwrap());
        let range = |text: &str| Who::range(text.parse().unwrap());
        assert_eq!(who("::ffff:192.0.2.1"), who("192.0.2.1"));
        assert_eq!(who("2001:db8::1"), who("2001:db8::2"));
        assert_ne!(who("192.0.2.1"), who("192.0.2.2"));
        assert_ne!(who("0.0.0.1"), who("0:0:0:1::"));
        assert_eq!(range("192.0.2.1"), range("192.0.2.254"));
        assert_ne!(range("192.0.2.1"), range("192.0.3.1"));
        assert_eq!(range("2001:db8:0:ff::1"), range("2001:db8:0:0::1"));
        assert_ne!(range("2001:db8:0:100::1"), range("2001:db8:0:0::1"));
    }
}

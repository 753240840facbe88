//! The memory cache of a worker: bounded by bytes, and not flushed by a crawler that requests
//! everything once.
//!
//! Called by: `cache`.
//! Caveat: the policy is S3-FIFO (Yang et al., SOSP 2023): new items pass through a short queue and
//! move to the long one only if they are requested again; an evicted item that returns soon goes to
//! the long queue at once. A hit increments a counter and moves nothing.
//! Out of scope: validity of the values.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::{
    cell::Cell,
    collections::{HashSet, VecDeque},
    hash::BuildHasher,
};

/// Share of all bytes for new items, in percent.
const NEW_SHARE: usize = 10;

const COUNT_MAX: u8 = 3;

/// Approximate overhead of an item: key, table slot and queue slot.
const ITEM_BYTES: usize = 128;

struct Item<V> {
    key: Box<[u8]>,
    hash: u64,
    value: V,
    bytes: usize,
    count: Cell<u8>,
    is_new: bool,
    /// Distinguishes it from earlier items of its slot.
    age: u32,
}

pub struct MemoryCache<V> {
    hasher: RandomState,
    table: HashTable<u32>,
    items: Vec<Option<Item<V>>>,
    free: Vec<u32>,
    /// Slots with the age of the item meant, oldest first; some are gone.
    newcomers: VecDeque<(u32, u32)>,
    settled: VecDeque<(u32, u32)>,
    /// Hashes of items evicted from the short queue.
    ghosts: HashSet<u64, RandomState>,
    ghost_order: VecDeque<u64>,
    new_bytes: usize,
    bytes: usize,
    bytes_max: usize,
    ages: u32,
}

impl<V> MemoryCache<V> {
    pub fn new(bytes_max: usize) -> MemoryCache<V> {
        MemoryCache {
            hasher: RandomState::default(),
            table: HashTable::new(),
            items: Vec::new(),
            free: Vec::new(),
            newcomers: VecDeque::new(),
            settled: VecDeque::new(),
            ghosts: HashSet::default(),
            ghost_order: VecDeque::new(),
            new_bytes: 0,
            bytes: 0,
            bytes_max,
            ages: 0,
        }
    }

    pub fn find(&self, key: &[u8]) -> Option<&V> {
        let item = self.items[self.place(self.hasher.hash_one(key), key)? as usize].as_ref()?;
        item.count.set((item.count.get() + 1).min(COUNT_MAX));
        Some(&item.value)
    }

    /// Inserts a value, replacing the previous one. Values too large for the cache are not
    /// inserted.
    pub fn insert(&mut self, key: &[u8], value: V, bytes: usize) {
        let bytes = bytes + key.len() + ITEM_BYTES;
        let hash = self.hasher.hash_one(key);
        let had = self.place(hash, key).and_then(|at| self.remove_at(at));
        if bytes > self.bytes_max / 4 {
            return;
        }
        while self.bytes + bytes > self.bytes_max && self.make_room() {}
        let is_known = had.is_some_and(|item| !item.is_new) || self.ghosts.remove(&hash);
        self.add(Item {
            key: key.into(),
            hash,
            value,
            bytes,
            count: Cell::new(0),
            is_new: !is_known,
            age: self.ages,
        });
    }

    /// All values, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.items.iter().flatten().map(|item| &item.value)
    }

    pub fn remove(&mut self, key: &[u8]) {
        if let Some(at) = self.place(self.hasher.hash_one(key), key) {
            self.remove_at(at);
        }
    }

    /// Updates the size of an item.
    pub fn recount(&mut self, key: &[u8], bytes: usize) {
        let Some(at) = self.place(self.hasher.hash_one(key), key) else {
            return;
        };
        if let Some(item) = &mut self.items[at as usize] {
            let now = bytes + key.len() + ITEM_BYTES;
            self.bytes = self.bytes + now - item.bytes;
            if item.is_new {
                self.new_bytes = self.new_bytes + now - item.bytes;
            }
            item.bytes = now;
        }
        while self.bytes > self.bytes_max && self.make_room() {}
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn place(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.table
            .find(hash, |at| {
                self.items[*at as usize]
                    .as_ref()
                    .is_some_and(|item| *item.key == *key)
            })
            .copied()
    }

    fn add(&mut self, item: Item<V>) {
        let (hash, age) = (item.hash, item.age);
        self.ages = self.ages.wrapping_add(1);
        self.bytes += item.bytes;
        let at = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            (self.items.len() - 1) as u32
        });
        if item.is_new {
            self.new_bytes += item.bytes;
            self.newcomers.push_back((at, age));
        } else {
            self.settled.push_back((at, age));
        }
        self.items[at as usize] = Some(item);
        let items = &self.items;
        self.table.insert_unique(hash, at, |at| {
            items[*at as usize].as_ref().map_or(0, |item| item.hash)
        });
    }

    fn remove_at(&mut self, at: u32) -> Option<Item<V>> {
        let item = self.items[at as usize].take()?;
        if let Ok(found) = self.table.find_entry(item.hash, |other| *other == at) {
            found.remove();
        }
        self.bytes -= item.bytes;
        self.new_bytes -= if item.is_new { item.bytes } else { 0 };
        self.free.push(at);
        Some(item)
    }

    /// Takes one step towards free space; `false` if nothing is left to evict.
    fn make_room(&mut self) -> bool {
        let from_new = self.new_bytes * 100 > self.bytes_max * NEW_SHARE || self.settled.is_empty();
        let queue = if from_new {
            &mut self.newcomers
        } else {
            &mut self.settled
        };
        let Some((at, age)) = queue.pop_front() else {
            return !self.newcomers.is_empty();
        };
        let Some(item) = self.items[at as usize]
            .as_mut()
            .filter(|item| item.age == age)
        else {
            return true;
        };
        let count = item.count.get();
        if count == 0 {
            if let Some(gone) = self.remove_at(at).filter(|gone| gone.is_new) {
                self.remember(gone.hash);
            }
            return true;
        }
        item.count.set(if from_new { 0 } else { count - 1 });
        if std::mem::take(&mut item.is_new) {
            self.new_bytes -= item.bytes;
        }
        self.settled.push_back((at, age));
        true
    }

    fn remember(&mut self, hash: u64) {
        if self.ghosts.insert(hash) {
            self.ghost_order.push_back(hash);
        }
        while self.ghost_order.len() > self.table.len().max(64) {
            if let Some(old) = self.ghost_order.pop_front() {
                self.ghosts.remove(&old);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Vec<u8> {
        format!("http://host/{number:010}").into_bytes()
    }

    fn fill(memory: &mut MemoryCache<u32>, numbers: impl IntoIterator<Item = u32>) {
        numbers
            .into_iter()
            .for_each(|number| memory.insert(&key(number), number, 1000));
    }

    #[test]
    fn values_come_back_and_bounds_hold() {
        let mut memory = MemoryCache::new(100_000);
        fill(&mut memory, 0..50);
        assert_eq!(memory.find(&key(7)), Some(&7));
        assert_eq!(memory.find(&key(50)), None);
        fill(&mut memory, 50..5_000);
        assert!(
            memory.bytes() <= 100_000 && memory.len() > 70,
            "{} in {}",
            memory.len(),
            memory.bytes()
        );
        memory.insert(b"large", 1, 50_000);
        assert_eq!(
            memory.find(b"large"),
            None,
            "a quarter is the most that one may take"
        );
        memory.insert(&key(4_999), 9, 2000);
        assert_eq!(memory.find(&key(4_999)), Some(&9));
        memory.recount(&key(4_999), 20_000);
        assert!(memory.bytes() <= 100_000);
        (0..5_000).for_each(|number| memory.remove(&key(number)));
        assert_eq!((memory.len(), memory.bytes(), memory.new_bytes), (0, 0, 0));
    }

    /// Popular pages are requested all the time while a crawler visits ten times as many as fit.
    #[test]
    fn a_crawl_does_not_flush_it() {
        let mut memory = MemoryCache::new(1_000_000);
        let mut hits = 0;
        for step in 0..10_000u32 {
            let hot = key(step * 7919 % 200);
            match memory.find(&hot) {
                Some(_) => hits += 1,
                None => memory.insert(&hot, step, 1000),
            }
            let crawled = key(1_000_000 + step);
            if memory.find(&crawled).is_none() {
                memory.insert(&crawled, step, 1000);
            }
        }
        assert!(hits > 9_700, "{hits} of 10000");
    }
}

//! Resolved resources: outcomes of walks, kept by listener, host and path as received, as long as
//! every stamp holds.
//!
//! Place in the walk: before everything else. A hit answers without a phase, a file system call or
//! an allocation. Keys are the bytes as received, which spares decoding them; two spellings of a
//! path are two entries. One per worker, so no locks. The one difficulty is its bound: variants of
//! an entry are made after it was stored, so memory is re-counted on each insertion that a sweep of
//! the clock hand touches. Absent: keeping failures (a 404 walks each time).

use crate::{LogFacts, Response, Reusable};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use saker_config::model::{Address, Settings};
use saker_files::Stamp;
use saker_http::HeadView;
use std::{
    hash::{BuildHasher, Hash, Hasher},
    rc::Rc,
    sync::Arc,
};

/// What a request is looked up by.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    pub listener: &'a Arc<Address>,
    /// The Host field as received (or the authority of an absolute-form target).
    pub host: &'a [u8],
    /// The request-target as received, without its query.
    pub path: &'a [u8],
}

/// A kept outcome.
pub struct Entry {
    hash: u64,
    listener: Arc<Address>,
    host_bytes: usize,
    /// Host, then path.
    name: Box<[u8]>,
    stamps: Box<[Stamp]>,
    memory: usize,
    descriptors: usize,
    used: bool,
    /// Its site has limits that a request must be held against.
    pub throttled: bool,
    pub site_index: usize,
    pub settings: Arc<Settings>,
    pub reusable: Rc<dyn Reusable>,
    /// The path as mapped, for logs.
    pub path: Box<[u8]>,
    /// Where a log wants to know more.
    pub log_facts: Option<Rc<LogFacts>>,
}

/// What is known about an outcome besides its key.
pub struct Outcome {
    pub site_index: usize,
    pub settings: Arc<Settings>,
    pub reusable: Rc<dyn Reusable>,
    pub stamps: Vec<Stamp>,
    pub path: Vec<u8>,
    pub log_facts: Option<Rc<LogFacts>>,
}

/// Counts since the last [`Resources::take_counts`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub hits: u64,
    pub misses: u64,
    pub invalidated: u64,
    pub evicted: u64,
}

/// What all entries together may hold.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub memory_bytes_max: usize,
    pub entries_max: usize,
    pub descriptors_max: usize,
}

pub struct Resources {
    hasher: RandomState,
    /// Hash to slot.
    table: HashTable<u32>,
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    hand: usize,
    memory: usize,
    descriptors: usize,
    bounds: Bounds,
    counts: Counts,
}

/// Table slot, stamps and boxes of an entry, about.
const ENTRY_BYTES: usize = 320;

impl Resources {
    pub fn new(bounds: Bounds) -> Resources {
        Resources {
            hasher: RandomState::default(),
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            memory: 0,
            descriptors: 0,
            bounds: Bounds {
                entries_max: bounds.entries_max.max(1),
                ..bounds
            },
            counts: Counts::default(),
        }
    }

    /// Answers from a kept outcome whose stamps all hold. An outdated one is dropped on the way.
    pub fn answer(
        &mut self,
        key: &Key<'_>,
        head: HeadView<'_>,
        now: i64,
        now_ms: u64,
    ) -> Option<(Response, &Entry)> {
        let hash = self.hash(key);
        let Some(slot) = self
            .table
            .find(hash, |slot| is(&self.slots, *slot, key))
            .copied()
        else {
            self.counts.misses += 1;
            return None;
        };
        let current = self.slots[slot as usize]
            .as_ref()
            .is_some_and(|entry| entry.stamps.iter().all(|stamp| stamp.is_current(now_ms)));
        if !current {
            self.remove(slot);
            self.counts.invalidated += 1;
            return None;
        }
        let entry = self.slots[slot as usize].as_mut()?;
        entry.used = true;
        let response = entry.reusable.answer(head, now)?;
        self.counts.hits += 1;
        Some((response, entry))
    }

    /// Keeps an outcome, in place of an older one for the same key.
    pub fn insert(&mut self, key: &Key<'_>, outcome: Outcome) {
        let hash = self.hash(key);
        if let Some(slot) = self
            .table
            .find(hash, |slot| is(&self.slots, *slot, key))
            .copied()
        {
            self.remove(slot);
        }
        let memory =
            outcome.reusable.memory_bytes() + key.host.len() + key.path.len() + ENTRY_BYTES;
        let descriptors = outcome.reusable.descriptors();
        if memory > self.bounds.memory_bytes_max / 2 || descriptors > self.bounds.descriptors_max {
            return;
        }
        self.make_room(memory, descriptors);
        self.store(hash, key, memory, outcome);
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub fn memory_bytes(&self) -> usize {
        self.memory
    }

    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Drops what is outdated, so that unused entries hold neither memory nor watches. Called once
    /// in a while.
    pub fn sweep(&mut self, now_ms: u64) {
        for slot in 0..self.slots.len() {
            let outdated = self.slots[slot]
                .as_ref()
                .is_some_and(|entry| !entry.stamps.iter().all(|stamp| stamp.is_current(now_ms)));
            if outdated {
                self.remove(slot as u32);
                self.counts.invalidated += 1;
            } else {
                self.recount(slot);
            }
        }
        self.make_room(0, 0);
    }

    fn hash(&self, key: &Key<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key.path);
        hasher.write(key.host);
        Arc::as_ptr(key.listener).hash(&mut hasher);
        hasher.finish()
    }

    fn store(&mut self, hash: u64, key: &Key<'_>, memory: usize, outcome: Outcome) {
        let entry = Entry {
            hash,
            listener: Arc::clone(key.listener),
            host_bytes: key.host.len(),
            name: [key.host, key.path].concat().into(),
            stamps: distinct(outcome.stamps),
            memory,
            descriptors: outcome.reusable.descriptors(),
            // Earned by the first hit: what is asked for once, by a crawler say, goes before what
            // is asked for again.
            used: false,
            throttled: !outcome.settings.throttle.is_idle() || outcome.settings.guard.is_some(),
            site_index: outcome.site_index,
            settings: outcome.settings,
            reusable: outcome.reusable,
            path: outcome.path.into(),
            log_facts: outcome.log_facts,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(entry);
        self.memory += memory;
        self.descriptors += self.slots[slot as usize]
            .as_ref()
            .map_or(0, |entry| entry.descriptors);
        let slots = &self.slots;
        self.table.insert_unique(hash, slot, |slot| {
            slots[*slot as usize].as_ref().map_or(0, |entry| entry.hash)
        });
    }

    fn remove(&mut self, slot: u32) {
        let Some(entry) = self.slots[slot as usize].take() else {
            return;
        };
        if let Ok(found) = self.table.find_entry(entry.hash, |other| *other == slot) {
            found.remove();
        }
        self.memory -= entry.memory;
        self.descriptors -= entry.descriptors;
        self.free.push(slot);
    }

    fn recount(&mut self, slot: usize) {
        if let Some(entry) = &mut self.slots[slot] {
            let memory = entry.reusable.memory_bytes() + entry.name.len() + ENTRY_BYTES;
            self.memory = self.memory + memory - entry.memory;
            entry.memory = memory;
            let descriptors = entry.reusable.descriptors();
            self.descriptors = self.descriptors + descriptors - entry.descriptors;
            entry.descriptors = descriptors;
        }
    }

    /// The clock: an entry used since the hand last passed gets another round. Ends because each
    /// pass takes the mark away.
    fn make_room(&mut self, memory: usize, descriptors: usize) {
        while !self.table.is_empty() && self.is_over(memory, descriptors) {
            self.hand = if self.hand + 1 >= self.slots.len() {
                0
            } else {
                self.hand + 1
            };
            self.recount(self.hand);
            match &mut self.slots[self.hand] {
                Some(entry) if entry.used => entry.used = false,
                Some(_) => {
                    self.remove(self.hand as u32);
                    self.counts.evicted += 1;
                }
                None => {}
            }
        }
    }
}

impl Resources {
    fn is_over(&self, memory: usize, descriptors: usize) -> bool {
        self.memory + memory > self.bounds.memory_bytes_max
            || self.descriptors + descriptors > self.bounds.descriptors_max
            || self.table.len() >= self.bounds.entries_max
    }
}

/// The folders above a file are looked at again for each of its siblings and codings; once is
/// enough to check per request.
fn distinct(stamps: Vec<Stamp>) -> Box<[Stamp]> {
    let mut kept: Vec<Stamp> = Vec::with_capacity(stamps.len());
    for stamp in stamps {
        if !kept.iter().any(|other| other.is_same(&stamp)) {
            kept.push(stamp);
        }
    }
    kept.into()
}

fn is(slots: &[Option<Entry>], slot: u32, key: &Key<'_>) -> bool {
    slots[slot as usize].as_ref().is_some_and(|entry| {
        let (host, path) = entry.name.split_at(entry.host_bytes);
        path == key.path && host == key.host && Arc::ptr_eq(&entry.listener, key.listener)
    })
}

#[cfg(test)]
#[path = "resources_tests.rs"]
mod tests;

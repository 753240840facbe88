//! The index: which entries exist, their sizes, and which one is evicted next.
//!
//! Called by: the store, its writers and its housekeeping.
//! Caveat: one lock per shard; an entry takes a slot of 48 bytes. Eviction is a clock: the hand
//! passes over the slots of a shard, and entries used since its last visit stay.
//! Out of scope: keys; entries are known by the hash, and the files contain the whole key.

use crate::{
    bounds::{Bounds, SiteUse},
    entry,
    key_hash::KeyHash,
    versions::{Version, Versions},
};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

const SHARDS: usize = 64;

/// Slots searched for one of a certain site before another site's entry is evicted.
const SITE_STEPS_MAX: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub hash: KeyHash,
    pub bytes: u64,
    /// Hash of the site.
    pub site: u64,
    /// Id of the entry; greater than those of entries whose making began earlier.
    pub id: u64,
    /// Unix seconds.
    pub keep_until_s: u32,
    /// Codings stored beside it, as bits.
    pub codings: u8,
    pub is_used: bool,
    /// The content is known to match its checksum: this process has written or verified it.
    pub is_sound: bool,
}

/// There may be millions of them.
const _: () = assert!(size_of::<Option<Slot>>() == 48);

#[derive(Default)]
struct Shard {
    table: HashTable<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    hand: usize,
}

pub struct Index {
    shards: Box<[Mutex<Shard>]>,
    sites: Mutex<HashMap<u64, SiteUse, RandomState>>,
    entries: AtomicU64,
    bytes: AtomicU64,
    /// The shard that evicts next.
    turn: AtomicUsize,
    bounds: Bounds,
    versions: Versions,
}

/// The entry was not inserted, because the key has one whose making began later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superseded;

impl Index {
    pub fn new(bounds: Bounds) -> Index {
        Index {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            sites: Mutex::default(),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            bounds,
            versions: Versions::default(),
        }
    }

    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn site(&self, site: u64) -> SiteUse {
        lock(&self.sites).get(&site).copied().unwrap_or_default()
    }

    /// The slot of a key; marks it as used.
    pub fn find(&self, hash: KeyHash) -> Option<Slot> {
        self.shard(hash).find_mut(hash).map(|slot| {
            slot.is_used = true;
            *slot
        })
    }

    /// Inserts a slot, replacing an older one, if `place` (which moves its files) succeeds. A newer
    /// one stays.
    pub fn insert<E>(
        &self,
        slot: Slot,
        place: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<Version, Superseded>, E> {
        let mut shard = self.shard(slot.hash);
        if shard
            .find_mut(slot.hash)
            .is_some_and(|there| there.id > slot.id)
        {
            return Ok(Err(Superseded));
        }
        place()?;
        let old = shard.remove(slot.hash);
        shard.add(slot);
        let version = self.versions.count_up(slot.hash);
        drop(shard);
        old.into_iter().for_each(|old| self.count(&old, false));
        self.count(&slot, true);
        Ok(Ok(version))
    }

    /// As `insert`, for an entry that was read when the key had that version and may be known
    /// already.
    pub fn insert_found(&self, slot: Slot, version: Version) {
        let mut shard = self.shard(slot.hash);
        // Another one may have been written and removed meanwhile.
        if shard.find_mut(slot.hash).is_none() && self.versions.of(slot.hash) == version {
            shard.add(slot);
            drop(shard);
            self.count(&slot, true);
        }
    }

    /// Changes a slot; `false` if there is none.
    pub fn update(&self, hash: KeyHash, change: impl FnOnce(&mut Slot)) -> bool {
        let mut shard = self.shard(hash);
        let Some(slot) = shard.find_mut(hash) else {
            return false;
        };
        let before = slot.bytes;
        change(slot);
        let (site, after) = (slot.site, slot.bytes);
        drop(shard);
        self.bytes
            .fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        if let Some(used) = lock(&self.sites).get_mut(&site) {
            used.bytes = used.bytes.wrapping_add(after.wrapping_sub(before));
        }
        true
    }

    /// Removes a slot if `is_it`, and calls `unlink` for its files while no other thread can place
    /// new ones.
    pub fn remove(
        &self,
        hash: KeyHash,
        is_it: impl FnOnce(&Slot) -> bool,
        unlink: impl FnOnce(&Slot),
    ) -> bool {
        let mut shard = self.shard(hash);
        if !shard.find_mut(hash).is_some_and(|slot| is_it(slot)) {
            return false;
        }
        let Some(slot) = shard.remove(hash) else {
            return false;
        };
        unlink(&slot);
        self.versions.count_up(hash);
        drop(shard);
        self.count(&slot, false);
        true
    }

    /// The next entry to evict so that `bytes` more of a site fit; `None` if they do.
    pub fn victim(&self, site: u64, bytes: u64) -> Option<KeyHash> {
        let Bounds {
            bytes_max,
            entries_max,
            site_bytes_max,
            site_entries_max,
            ..
        } = self.bounds;
        let over = |used: u64, more: u64, max: u64| max > 0 && used + more > max;
        let of_site = self.site(site);
        if of_site.entries > 0
            && (over(of_site.bytes, bytes, site_bytes_max)
                || over(of_site.entries, 1, site_entries_max))
        {
            return self.choose(Some(site));
        }
        let is_full = over(self.bytes(), bytes, bytes_max) || over(self.entries(), 1, entries_max);
        (is_full && self.entries() > 0)
            .then(|| self.choose(None))
            .flatten()
    }

    fn choose(&self, site: Option<u64>) -> Option<KeyHash> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut steps = SITE_STEPS_MAX;
        let in_shard = |at: usize| {
            let mut shard = lock(&self.shards[(first + at) % SHARDS]);
            shard.choose(site, &mut steps, &self.versions)
        };
        // Twice: the first round may only clear marks.
        (0..SHARDS * 2).find_map(in_shard)
    }

    /// Expired entries of a shard.
    pub fn expired(&self, shard: usize, now_s: u32) -> Vec<KeyHash> {
        let Some(shard) = self.shards.get(shard) else {
            return Vec::new();
        };
        lock(shard)
            .slots
            .iter()
            .flatten()
            .filter(|slot| slot.keep_until_s < now_s)
            .map(|slot| slot.hash)
            .collect()
    }

    pub fn shards(&self) -> usize {
        SHARDS
    }

    /// All entries of a shard.
    pub fn hashes(&self, shard: usize) -> Vec<KeyHash> {
        self.shards
            .get(shard)
            .map(|shard| {
                lock(shard)
                    .slots
                    .iter()
                    .flatten()
                    .map(|slot| slot.hash)
                    .collect()
            })
            .unwrap_or_default()
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Shard> {
        lock(&self.shards[(hash.0 >> 64) as usize % SHARDS])
    }

    fn count(&self, slot: &Slot, is_in: bool) {
        let mut sites = lock(&self.sites);
        let used = sites.entry(slot.site).or_default();
        if is_in {
            (used.entries, used.bytes) = (used.entries + 1, used.bytes.wrapping_add(slot.bytes));
            self.entries.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(slot.bytes, Ordering::Relaxed);
        } else {
            (used.entries, used.bytes) = (
                used.entries.saturating_sub(1),
                used.bytes.wrapping_sub(slot.bytes),
            );
            if used.entries == 0 {
                sites.remove(&slot.site);
            }
            self.entries.fetch_sub(1, Ordering::Relaxed);
            self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
        }
    }
}

impl Shard {
    fn find_mut(&mut self, hash: KeyHash) -> Option<&mut Slot> {
        let slots = &self.slots;
        let at = *self.table.find(hash.0 as u64, |at| {
            slots[*at as usize].is_some_and(|slot| slot.hash == hash)
        })?;
        self.slots[at as usize].as_mut()
    }

    fn add(&mut self, slot: Slot) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[at as usize] = Some(slot);
        let slots = &self.slots;
        self.table.insert_unique(slot.hash.0 as u64, at, |at| {
            slots[*at as usize].map_or(0, |slot| slot.hash.0 as u64)
        });
    }

    fn remove(&mut self, hash: KeyHash) -> Option<Slot> {
        let slots = &self.slots;
        let found = self
            .table
            .find_entry(hash.0 as u64, |at| {
                slots[*at as usize].is_some_and(|slot| slot.hash == hash)
            })
            .ok()?;
        let (at, _) = found.remove();
        self.free.push(at);
        self.slots[at as usize].take()
    }

    /// The next entry not used since the hand last passed; one round at most.
    fn choose(
        &mut self,
        site: Option<u64>,
        steps: &mut usize,
        versions: &Versions,
    ) -> Option<KeyHash> {
        for _ in 0..self.slots.len() {
            self.hand = if self.hand + 1 >= self.slots.len() {
                0
            } else {
                self.hand + 1
            };
            let may_be_another = site.is_none() || *steps == 0;
            let is_of_site = |slot: &Slot| may_be_another || site == Some(slot.site);
            *steps = steps.saturating_sub(usize::from(site.is_some()));
            match &mut self.slots[self.hand] {
                Some(slot) if !is_of_site(slot) => {}
                Some(slot) => {
                    let from_memory = versions.take_used(slot.hash);
                    if !std::mem::take(&mut slot.is_used) && !from_memory {
                        return Some(slot.hash);
                    }
                }
                None => {}
            }
        }
        None
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn slot_of(hash: KeyHash, prologue: &entry::Prologue) -> Slot {
    Slot {
        hash,
        bytes: prologue.file_bytes(),
        site: prologue.site,
        id: prologue.id,
        keep_until_s: u32::try_from(prologue.keep_until_ms / 1000).unwrap_or(u32::MAX),
        codings: 0,
        is_used: false,
        is_sound: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u128, site: u64, bytes: u64) -> Slot {
        let hash = KeyHash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        Slot {
            hash,
            bytes,
            site,
            id: 1,
            keep_until_s: 100,
            codings: 0,
            is_used: false,
            is_sound: true,
        }
    }

    fn fill(index: &Index, slots: impl IntoIterator<Item = Slot>) {
        for slot in slots {
            while let Some(victim) = index.victim(slot.site, slot.bytes) {
                assert!(index.remove(victim, |_| true, |_| {}));
            }
            index.insert(slot, || Ok::<_, ()>(())).unwrap().unwrap();
        }
    }

    #[test]
    fn counts_follow_what_is_there() {
        let index = Index::new(Bounds::default());
        fill(
            &index,
            [
                slot(1, 1, 10),
                slot(2, 1, 20),
                slot(3, 2, 5),
                slot(1, 1, 30),
            ],
        );
        assert_eq!((index.entries(), index.bytes()), (3, 55));
        assert_eq!(
            index.site(1),
            SiteUse {
                entries: 2,
                bytes: 50
            }
        );
        assert!(index.update(slot(2, 1, 0).hash, |slot| slot.bytes = 7));
        assert_eq!((index.bytes(), index.site(1).bytes), (42, 37));
        let known = slot(1, 1, 1000);
        index.insert_found(known, index.versions().of(known.hash));
        assert!(index.insert(slot(9, 1, 9), || Err(())).is_err());
        for number in [1, 2, 3] {
            assert!(index.remove(slot(number, 0, 0).hash, |_| true, |_| {}));
        }
        assert_eq!(
            (index.entries(), index.bytes(), index.site(1)),
            (0, 0, SiteUse::default())
        );
    }

    #[test]
    fn what_is_asked_for_stays() {
        let index = Index::new(Bounds {
            entries_max: 1_000,
            ..Bounds::default()
        });
        fill(&index, (0..1_000).map(|number| slot(number, 1, 1)));
        for _ in 0..5 {
            (0..100).for_each(|number| {
                assert!(index.find(slot(number, 0, 0).hash).is_some() || number < 5)
            });
            let from = index.entries() as u128 * 7;
            fill(
                &index,
                (from..from + 300).map(|number| slot(number + 1_000_000, 1, 1)),
            );
        }
        let stayed = (0..100)
            .filter(|number| index.find(slot(*number, 0, 0).hash).is_some())
            .count();
        assert!(
            stayed > 95 && index.entries() <= 1_000,
            "{stayed} of 100 stayed among {}",
            index.entries()
        );
    }

    #[test]
    fn a_site_that_is_full_gives_up_its_own() {
        let index = Index::new(Bounds {
            site_entries_max: 50,
            site_bytes_max: 1_000,
            ..Bounds::default()
        });
        fill(&index, (0..500).map(|number| slot(number, 1, 10)));
        fill(&index, (500..540).map(|number| slot(number, 2, 100)));
        assert_eq!((index.site(1).entries, index.site(2).bytes), (50, 1_000));
    }

    #[test]
    fn what_began_later_stays() {
        let index = Index::new(Bounds::default());
        let of = |id: u64| Slot {
            id,
            ..slot(1, 1, 1)
        };
        let put = |id: u64| index.insert(of(id), || Ok::<_, ()>(())).unwrap();
        let hash = of(0).hash;
        let before = index.versions().of(hash);
        let version = put(5).unwrap();
        assert!(!index.versions().is_current(before) && index.versions().is_current(version));
        assert_eq!(
            index.insert(of(4), || -> Result<(), ()> {
                panic!("its files stay where they are")
            }),
            Ok(Err(Superseded))
        );
        assert!(index.versions().is_current(version), "nothing has changed");
        let newer = put(6).unwrap();
        assert_eq!(
            (index.find(hash).map(|slot| slot.id), index.entries()),
            (Some(6), 1)
        );
        assert!(!index.versions().is_current(version) && index.versions().is_current(newer));
        assert!(index.remove(hash, |_| true, |_| {}));
        assert!(
            !index.versions().is_current(newer),
            "what is not there is nobody's"
        );
        index.insert_found(of(6), newer);
        assert_eq!(
            index.find(hash),
            None,
            "it was read before it was taken away"
        );
        index.insert_found(of(6), index.versions().of(hash));
        assert_eq!(index.find(hash).map(|slot| slot.id), Some(6));
    }

    /// Hits from workers' memory don't touch the index.
    #[test]
    fn what_workers_use_stays() {
        let index = Index::new(Bounds {
            entries_max: 1_000,
            ..Bounds::default()
        });
        let hot = slot(0, 1, 1);
        let version = index.insert(hot, || Ok::<_, ()>(())).unwrap().unwrap();
        for round in 1..50u128 {
            index.versions().is_current(version);
            fill(
                &index,
                (0..100).map(|number| slot(round * 1_000 + number, 1, 1)),
            );
        }
        assert!(
            index.hashes(0).len() < 1_000
                && (0..SHARDS).any(|shard| index.hashes(shard).contains(&hot.hash))
        );
    }

    #[test]
    fn expired_ones_are_named() {
        let index = Index::new(Bounds::default());
        fill(
            &index,
            (0..10).map(|number| Slot {
                keep_until_s: number as u32,
                ..slot(number, 1, 1)
            }),
        );
        let expired: usize = (0..index.shards())
            .map(|shard| index.expired(shard, 4).len())
            .sum();
        assert_eq!(expired, 4);
    }
}

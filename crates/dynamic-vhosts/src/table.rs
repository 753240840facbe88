//! Table of answers, with the requests that wait for them. Pure except for its locks: time is an
//! argument.
//!
//! An answer has four ages. Fresh: it is used. Ripe (its last quarter): it is used, and the first
//! request that does so triggers a refresh. Old: requests wait for the database, unless it is
//! unavailable. Too old (`keep_stale`): it is treated as missing.

use crate::{
    HostRow,
    answer::{Answer, LookupResult},
};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, hash_map::Entry as Slot};
use saker_config::model::Hosts as Settings;
use saker_files::Lease;
use std::{
    hash::BuildHasher,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use tokio::sync::oneshot;

const SHARDS: usize = 16;
/// Maximum number of concurrent queries; beyond it, names without a cached answer get none.
const ASKING_MAX: usize = 1024;
/// The same for first queries: names that nothing is known of do not keep the answers of others
/// from being refreshed.
const FIRST_MAX: usize = 768;
/// Minimum time between queries for a name whose query failed.
const AWAY_MS: u64 = 1000;
/// Sample size for eviction: the least recently used entry of the sample goes.
const SAMPLE: usize = 8;

/// Result of a look-up in the table.
#[derive(Debug)]
pub enum Found {
    Now(Answer),
    Later(oneshot::Receiver<Answer>),
}

/// Numbers of cached entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub known: usize,
    pub missing: usize,
    /// Approximate memory use of all entries.
    pub bytes: usize,
}

#[derive(Debug)]
enum Kept {
    /// The first query is in progress.
    Nothing,
    Known(Arc<HostRow>),
    Missing,
    Refused,
    Away,
}

#[derive(Debug)]
struct Entry {
    kept: Kept,
    /// Valid until the entry is ripe.
    lease: Lease,
    until_ms: u64,
    stale_until_ms: u64,
    used_ms: u64,
    is_asked: bool,
    /// The answer to the query in progress may be outdated.
    is_purged: bool,
    waiting: Vec<oneshot::Sender<Answer>>,
}

type Shard = HashMap<Box<str>, Entry, RandomState>;

#[derive(Debug)]
pub struct Table {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    asking: AtomicUsize,
    answer_ms: u64,
    missing_ms: u64,
    stale_ms: u64,
    known_max: usize,
    missing_max: usize,
}

impl Table {
    pub fn new(settings: &Settings) -> Table {
        Table {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
            asking: AtomicUsize::new(0),
            answer_ms: settings.answer_ms,
            missing_ms: settings.missing_ms,
            stale_ms: settings.stale_ms,
            known_max: settings.entries_max.div_ceil(SHARDS),
            missing_max: settings.missing_max.div_ceil(SHARDS),
        }
    }

    /// Returns the cached answer, and whether to query the database now. `is_away`: the database
    /// did not answer a moment ago.
    pub fn find(&self, name: &str, now_ms: u64, is_away: bool) -> (Found, bool) {
        let mut shard = self.shard(name);
        let Some(entry) = shard.get_mut(name) else {
            return self.first(&mut shard, name, now_ms);
        };
        entry.used_ms = now_ms;
        let is_useful = entry.answer().filter(|_| now_ms < entry.stale_until_ms);
        let asks = match is_useful {
            Some(answer) if now_ms < entry.until_ms => {
                let is_ripe = now_ms >= entry.lease.until_ms() && !is_away;
                let asks = is_ripe && self.begin(entry, ASKING_MAX);
                if !asks && now_ms >= entry.lease.until_ms() {
                    // An answer that is being refreshed, or can't be, stays valid for a while.
                    entry.lease.extend(entry.until_ms.min(now_ms + AWAY_MS));
                }
                return (Found::Now(answer), asks);
            }
            Some(answer) if is_away => {
                entry.lease.extend(now_ms + AWAY_MS);
                return (Found::Now(answer), false);
            }
            Some(answer) if !entry.is_asked => {
                if !self.begin(entry, ASKING_MAX) {
                    // No query can begin: what is stale is better than nothing.
                    entry.lease.extend(now_ms + AWAY_MS);
                    return (Found::Now(answer), false);
                }
                true
            }
            _ => !entry.is_asked && self.begin(entry, FIRST_MAX),
        };
        if !entry.is_asked {
            return (Found::Now(Answer::Away), false);
        }
        let (sender, receiver) = oneshot::channel();
        entry.waiting.push(sender);
        (Found::Later(receiver), asks)
    }

    fn first(&self, shard: &mut Shard, name: &str, now_ms: u64) -> (Found, bool) {
        let mut entry = Entry::new(now_ms);
        if !self.begin(&mut entry, FIRST_MAX) {
            return (Found::Now(Answer::Away), false);
        }
        let (sender, receiver) = oneshot::channel();
        entry.waiting.push(sender);
        shard.insert(name.into(), entry);
        (Found::Later(receiver), true)
    }

    /// Returns true if a query may begin. `most`: queries that are under way at most.
    fn begin(&self, entry: &mut Entry, most: usize) -> bool {
        if entry.is_asked || self.asking.fetch_add(1, Relaxed) >= most {
            if !entry.is_asked {
                self.asking.fetch_sub(1, Relaxed);
            }
            return false;
        }
        entry.is_asked = true;
        true
    }

    /// The database is slow: waiting requests get the previous answer, if there is one.
    pub fn let_go(&self, name: &str, now_ms: u64) {
        let mut shard = self.shard(name);
        let Some(entry) = shard.get_mut(name) else {
            return;
        };
        let Some(answer) = entry.answer().filter(|_| now_ms < entry.stale_until_ms) else {
            return;
        };
        entry.lease.extend(now_ms + AWAY_MS);
        mem::take(&mut entry.waiting)
            .into_iter()
            .for_each(|waiting| drop(waiting.send(answer.clone())));
    }

    /// Stores the result of a query; the error means that there is none.
    pub fn settle(&self, name: &str, said: Result<LookupResult, ()>, now_ms: u64) {
        let mut shard = self.shard(name);
        self.asking.fetch_sub(1, Relaxed);
        let Some(entry) = shard.get_mut(name) else {
            return;
        };
        entry.is_asked = false;
        match said {
            Ok(said) => self.put(entry, said, now_ms),
            Err(()) => entry.outlives(now_ms),
        }
        let answer = entry.answer().unwrap_or(Answer::Away);
        mem::take(&mut entry.waiting)
            .into_iter()
            .for_each(|waiting| drop(waiting.send(answer.clone())));
        if mem::take(&mut entry.is_purged) {
            entry.lease.end();
            (entry.until_ms, entry.stale_until_ms) = (0, 0);
        }
        let (is_known, most) = match entry.kept {
            Kept::Known(_) => (true, self.known_max),
            _ => (false, self.missing_max),
        };
        make_room(&mut shard, name, is_known, most);
    }

    fn put(&self, entry: &mut Entry, said: LookupResult, now_ms: u64) {
        let is_same = match (&entry.kept, &said) {
            (Kept::Known(old), LookupResult::Known(new)) => **old == *new,
            (Kept::Missing, LookupResult::Missing) => true,
            _ => false,
        };
        let holds_ms = if matches!(said, LookupResult::Known(_)) {
            self.answer_ms
        } else {
            self.missing_ms
        };
        entry.until_ms = now_ms + holds_ms;
        entry.stale_until_ms = if matches!(said, LookupResult::Known(_)) {
            entry.until_ms + self.stale_ms
        } else {
            entry.until_ms
        };
        // The last quarter of an answer's lifetime is for refreshing it.
        let ripe_ms = now_ms + holds_ms - holds_ms / 4;
        if is_same {
            return entry.lease.extend(ripe_ms);
        }
        entry.lease.end();
        entry.lease = Lease::until(ripe_ms);
        entry.kept = match said {
            LookupResult::Known(host) => Kept::Known(Arc::new(host)),
            LookupResult::Missing => Kept::Missing,
            LookupResult::Refused => Kept::Refused,
        };
    }

    pub fn purge(&self, name: &str) -> bool {
        let mut shard = self.shard(name);
        match shard.get_mut(name) {
            Some(entry) if entry.is_asked => {
                entry.purge();
                true
            }
            Some(entry) => {
                entry.lease.end();
                shard.remove(name);
                true
            }
            None => false,
        }
    }

    pub fn purge_all(&self) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            let mut shard = lock(shard);
            count += shard.len();
            shard.values_mut().for_each(Entry::purge);
            shard.retain(|_, entry| entry.is_asked);
        }
        count
    }

    pub fn knows(&self, name: &str) -> bool {
        self.shard(name)
            .get(name)
            .is_some_and(|entry| matches!(entry.kept, Kept::Known(_)))
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for shard in &self.shards {
            let shard = lock(shard);
            for (name, entry) in shard.iter() {
                let bytes = match &entry.kept {
                    Kept::Known(host) => mem::size_of::<HostRow>() + host.bytes(),
                    _ => 0,
                };
                counts.known += usize::from(matches!(entry.kept, Kept::Known(_)));
                counts.missing += usize::from(!matches!(entry.kept, Kept::Known(_)));
                counts.bytes +=
                    name.len() + mem::size_of::<Entry>() + mem::size_of::<Box<str>>() + bytes;
            }
        }
        counts
    }

    fn shard(&self, name: &str) -> MutexGuard<'_, Shard> {
        // The map itself uses the lowest and the highest bits of its own hash.
        let at = (self.hasher.hash_one(name) >> 32) as usize % SHARDS;
        lock(self.shards.get(at).unwrap_or(&self.shards[0]))
    }
}

impl Entry {
    fn new(now_ms: u64) -> Entry {
        Entry {
            kept: Kept::Nothing,
            lease: Lease::default(),
            until_ms: 0,
            stale_until_ms: 0,
            used_ms: now_ms,
            is_asked: false,
            is_purged: false,
            waiting: Vec::new(),
        }
    }

    fn answer(&self) -> Option<Answer> {
        match &self.kept {
            Kept::Nothing => None,
            Kept::Known(host) => Some(Answer::Known(Arc::clone(host), self.lease.clone())),
            Kept::Missing => Some(Answer::Missing(self.lease.clone())),
            Kept::Refused => Some(Answer::Refused),
            Kept::Away => Some(Answer::Away),
        }
    }

    /// The database did not answer: cached answers stay in use for a while.
    fn outlives(&mut self, now_ms: u64) {
        match self.kept {
            Kept::Known(_) if now_ms < self.stale_until_ms => self.lease.extend(now_ms + AWAY_MS),
            _ => {
                self.lease.end();
                self.kept = Kept::Away;
                (self.until_ms, self.stale_until_ms) = (now_ms + AWAY_MS, now_ms + AWAY_MS);
                self.lease = Lease::until(self.until_ms);
            }
        }
    }

    fn purge(&mut self) {
        self.lease.end();
        (self.until_ms, self.stale_until_ms, self.is_purged) = (0, 0, true);
    }
}

/// Evicts entries of the same kind as the newest until their number is within the limit; a sample
/// decides which.
fn make_room(shard: &mut Shard, newest: &str, is_known: bool, most: usize) {
    let is_of_kind =
        |entry: &Entry| matches!(entry.kept, Kept::Known(_)) == is_known && !entry.is_asked;
    if shard.len() <= most || shard.values().filter(|entry| is_of_kind(entry)).count() <= most {
        return;
    }
    let of_kind = shard
        .iter()
        .filter(|(name, entry)| is_of_kind(entry) && &***name != newest);
    let oldest = of_kind
        .take(SAMPLE)
        .min_by_key(|(_, entry)| entry.used_ms)
        .map(|(name, _)| name.clone());
    if let Some(name) = oldest
        && let Slot::Occupied(slot) = shard.entry(name)
    {
        slot.get().lease.end();
        slot.remove();
    }
}

/// No holder of the lock can leave a map half changed, so a panic elsewhere does not spoil it.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

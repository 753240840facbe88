//! The route cache: outcomes of dispatch by listener, host, and path as received, valid as long as
//! all their change tokens are.
//!
//! Called by: workers, before dispatch. A hit answers without running a phase, a file system call,
//! or an allocation. Each worker has its own, so there are no locks.
//! Caveat: keys are the bytes as received, which avoids decoding; two spellings of a path are two
//! entries. Variants are added to an entry after it was stored, so its size is recounted when the
//! clock hand of an eviction passes it.
//! Out of scope: failures (a 404 is dispatched each time).

use crate::{
    CachedRoute, Decision, LogFacts, OutcomeLines, Response,
    request_conditions::{ConditionTable, Received, RequestConditions},
    route_kind::RouteKind,
};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use saker_ap_expr::RequestTest;
use saker_config::model::{Address, Settings};
use saker_files::ChangeToken;
use std::{
    hash::{BuildHasher, Hash, Hasher},
    rc::Rc,
    sync::Arc,
};

/// Lookup key of a request.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    pub listener: &'a Arc<Address>,
    /// The Host field as received (or the authority of an absolute-form target).
    pub host: &'a [u8],
    /// The request-target as received, without its query.
    pub path: &'a [u8],
    pub kind: RouteKind,
}

/// A cached route with its dependencies.
pub struct Entry {
    hash: u64,
    listener: Arc<Address>,
    host_bytes: usize,
    /// Host, then path.
    name: Box<[u8]>,
    kind: RouteKind,
    change_tokens: Box<[ChangeToken]>,
    /// Conditions on requests; those that do not meet them have another outcome.
    conditions: RequestConditions,
    memory: usize,
    descriptors: usize,
    used: bool,
    /// Rate limits apply to requests for the route.
    pub throttled: bool,
    pub site_index: usize,
    pub settings: Arc<Settings>,
    pub cached_route: Rc<dyn CachedRoute>,
    /// Set if requests go to an upstream in place of being answered.
    pub decision: Option<Rc<Decision>>,
    /// The path as mapped, for logs.
    pub path: Box<[u8]>,
    /// Facts for logs, if a log needs them.
    pub log_facts: Option<Rc<LogFacts>>,
    /// Lines of the error log that each request gets.
    pub log_lines: Option<Box<OutcomeLines>>,
}

impl Entry {
    /// The tokens of the files that the outcome depended on.
    pub fn change_tokens(&self) -> &[ChangeToken] {
        &self.change_tokens
    }
}

/// An outcome of dispatch, to be cached.
pub struct Outcome {
    pub site_index: usize,
    pub settings: Arc<Settings>,
    pub cached_route: Rc<dyn CachedRoute>,
    /// The cached route is a decision.
    pub decision: Option<Rc<Decision>>,
    pub change_tokens: Vec<ChangeToken>,
    /// Tests of the request that determined the outcome.
    pub tests: Vec<RequestTest>,
    pub path: Vec<u8>,
    pub log_facts: Option<Rc<LogFacts>>,
    pub log_lines: Option<Box<OutcomeLines>>,
    /// Rules answer before rates are counted.
    pub is_before_limits: bool,
}

/// Counters since the last [`RouteCache::take_counts`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub hits: u64,
    pub misses: u64,
    pub invalidated: u64,
    pub evicted: u64,
}

/// Limits of the cache as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub memory_bytes_max: usize,
    pub entries_max: usize,
    pub descriptors_max: usize,
}

pub struct RouteCache {
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
    conditions: ConditionTable,
}

/// Maximum number of outcomes per key, for requests with different conditions. If a key has more,
/// requests that match none are dispatched each time.
const VARIANTS_MAX: usize = 8;

/// Approximate overhead of an entry: table slot, change tokens, and boxes.
const ENTRY_BYTES: usize = 320;

impl RouteCache {
    pub fn new(bounds: Bounds) -> RouteCache {
        RouteCache {
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
            conditions: ConditionTable::default(),
        }
    }

    /// Answers from a cached route whose change tokens are all current; no response: its decision
    /// says how the request goes on. Drops an outdated one.
    pub fn answer(
        &mut self,
        key: &Key<'_>,
        request: &Received<'_>,
        now: i64,
        now_ms: u64,
    ) -> Option<(Option<Response>, &Entry)> {
        let hash = self.hash(key);
        if let Some(slot) = self.current(hash, key, request, now_ms) {
            let entry = self.slots[slot as usize].as_mut()?;
            entry.used = true;
            let answer = match entry.decision {
                Some(_) => Some(None),
                None => entry.cached_route.answer_to(request, now).map(Some),
            };
            if let Some(response) = answer {
                self.counts.hits += 1;
                return Some((response, self.slots[slot as usize].as_ref()?));
            }
        }
        let slot = self.past_pages(hash, key, request, now_ms)?;
        self.counts.hits += 1;
        Some((None, self.slots[slot as usize].as_ref()?))
    }

    /// The decision that a request follows which no page answers.
    #[cold]
    fn past_pages(
        &mut self,
        hash: u64,
        key: &Key<'_>,
        request: &Received<'_>,
        now_ms: u64,
    ) -> Option<u32> {
        let slot = match key.kind {
            RouteKind::Read => {
                let kind = RouteKind::PastPages;
                self.current(hash, &Key { kind, ..*key }, request, now_ms)
            }
            RouteKind::PastPages | RouteKind::Post => None,
        };
        match slot {
            Some(slot) => self.slots[slot as usize].as_mut()?.used = true,
            None => self.counts.misses += 1,
        }
        slot
    }

    /// The outcome that a request meets the conditions of, unless it is outdated.
    #[inline(always)]
    fn current(
        &mut self,
        hash: u64,
        key: &Key<'_>,
        request: &Received<'_>,
        now_ms: u64,
    ) -> Option<u32> {
        let is_for = |slot: &u32| {
            is(&self.slots, *slot, key)
                && self.slots[*slot as usize].as_ref().is_some_and(|entry| {
                    entry.conditions.is_empty() || entry.conditions.hold(request)
                })
        };
        let slot = self.table.find(hash, is_for).copied()?;
        let current = self.slots[slot as usize].as_ref().is_some_and(|entry| {
            entry
                .change_tokens
                .iter()
                .all(|token| token.is_current(now_ms))
        });
        if !current {
            self.remove(slot);
            self.counts.invalidated += 1;
            return None;
        }
        if self.conditions.is_too_large() {
            self.conditions.bound_memory();
        }
        Some(slot)
    }

    /// Removes the outcomes for a key, whatever their conditions.
    pub fn forget(&mut self, key: &Key<'_>) {
        let hash = self.hash(key);
        let slots = self.table.iter_hash(hash).copied();
        let own: Vec<u32> = slots.filter(|slot| is(&self.slots, *slot, key)).collect();
        own.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Caches an outcome, replacing an older one for the same key and conditions.
    pub fn insert(&mut self, key: &Key<'_>, mut outcome: Outcome) {
        let hash = self.hash(key);
        let conditions = self
            .conditions
            .conditions(std::mem::take(&mut outcome.tests));
        if !self.make_way(hash, key, &conditions) {
            return;
        }
        let memory = outcome.cached_route.memory_bytes()
            + lines_bytes(outcome.log_lines.as_deref())
            + key.host.len()
            + key.path.len()
            + ENTRY_BYTES;
        let descriptors = outcome.cached_route.descriptors();
        if memory > self.bounds.memory_bytes_max / 2 || descriptors > self.bounds.descriptors_max {
            return;
        }
        self.make_room(memory, descriptors);
        self.store(hash, key, (memory, conditions), outcome);
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub fn memory_bytes(&self) -> usize {
        self.memory + self.conditions.memory_bytes()
    }

    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Drops outdated entries, so that unused ones hold neither memory nor watches. Called
    /// periodically.
    pub fn sweep(&mut self, now_ms: u64) {
        for slot in 0..self.slots.len() {
            let outdated = self.slots[slot].as_ref().is_some_and(|entry| {
                !entry
                    .change_tokens
                    .iter()
                    .all(|token| token.is_current(now_ms))
            });
            if outdated {
                self.remove(slot as u32);
                self.counts.invalidated += 1;
            } else {
                self.recount(slot);
            }
        }
        self.conditions.bound_memory();
        self.make_room(0, 0);
    }

    fn hash(&self, key: &Key<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key.path);
        hasher.write(key.host);
        Arc::as_ptr(key.listener).hash(&mut hasher);
        hasher.finish()
    }

    /// Removes the outcomes that one under these conditions replaces. Returns false if there are
    /// too many others.
    fn make_way(&mut self, hash: u64, key: &Key<'_>, conditions: &RequestConditions) -> bool {
        let (slots, mut replaced) = (&self.slots, Vec::new());
        let (mut others, mut unused) = (0, None);
        for slot in self.table.iter_hash(hash) {
            if !is(slots, *slot, key) {
                continue;
            }
            // If either is unconditional, the rules have changed.
            let is_replaced = slots[*slot as usize].as_ref().is_some_and(|entry| {
                conditions.is_empty()
                    || entry.conditions.is_empty()
                    || entry.conditions.is_same(conditions)
            });
            if is_replaced {
                replaced.push(*slot);
                continue;
            }
            others += 1;
            if slots[*slot as usize]
                .as_ref()
                .is_some_and(|entry| !entry.used)
            {
                unused = Some(*slot);
            }
        }
        if others >= VARIANTS_MAX {
            let Some(unused) = unused else {
                return false;
            };
            replaced.push(unused);
        }
        replaced.into_iter().for_each(|slot| self.remove(slot));
        true
    }

    fn store(
        &mut self,
        hash: u64,
        key: &Key<'_>,
        (memory, conditions): (usize, RequestConditions),
        outcome: Outcome,
    ) {
        let entry = Entry {
            hash,
            listener: Arc::clone(key.listener),
            host_bytes: key.host.len(),
            name: [key.host, key.path].concat().into(),
            kind: key.kind,
            change_tokens: distinct(outcome.change_tokens),
            conditions,
            memory,
            descriptors: outcome.cached_route.descriptors(),
            // Set by the first hit, so that routes requested once, for example by a crawler, are
            // evicted before those requested again.
            used: false,
            throttled: outcome.settings.guard.is_some()
                || !outcome.settings.throttle.is_idle() && !outcome.is_before_limits,
            site_index: outcome.site_index,
            settings: outcome.settings,
            cached_route: outcome.cached_route,
            decision: outcome.decision,
            path: outcome.path.into(),
            log_facts: outcome.log_facts,
            log_lines: outcome.log_lines,
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
            let memory = entry.cached_route.memory_bytes()
                + lines_bytes(entry.log_lines.as_deref())
                + entry.name.len()
                + ENTRY_BYTES;
            self.memory = self.memory + memory - entry.memory;
            entry.memory = memory;
            let descriptors = entry.cached_route.descriptors();
            self.descriptors = self.descriptors + descriptors - entry.descriptors;
            entry.descriptors = descriptors;
        }
    }

    /// Evicts by the clock algorithm: an entry used since the hand last passed gets another round.
    /// Terminates because each pass clears the mark.
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

impl RouteCache {
    fn is_over(&self, memory: usize, descriptors: usize) -> bool {
        self.memory + memory > self.bounds.memory_bytes_max
            || self.descriptors + descriptors > self.bounds.descriptors_max
            || self.table.len() >= self.bounds.entries_max
    }
}

fn lines_bytes(lines: Option<&OutcomeLines>) -> usize {
    lines.map_or(0, OutcomeLines::memory_bytes)
}

/// Removes duplicate change tokens. Parent directories are checked for each sibling and coding of a
/// file; once per request is enough.
fn distinct(tokens: Vec<ChangeToken>) -> Box<[ChangeToken]> {
    let mut kept: Vec<ChangeToken> = Vec::with_capacity(tokens.len());
    for token in tokens {
        if !kept.iter().any(|other| other.is_same(&token)) {
            kept.push(token);
        }
    }
    kept.into()
}

fn is(slots: &[Option<Entry>], slot: u32, key: &Key<'_>) -> bool {
    slots[slot as usize].as_ref().is_some_and(|entry| {
        let (host, path) = entry.name.split_at(entry.host_bytes);
        path == key.path
            && host == key.host
            && entry.kind == key.kind
            && Arc::ptr_eq(&entry.listener, key.listener)
    })
}

#[cfg(test)]
#[path = "route_cache_tests.rs"]
mod tests;

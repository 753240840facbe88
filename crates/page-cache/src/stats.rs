//! Counters per site: hits, misses, bypasses with their reasons, and bytes by origin.
//!
//! Called by: the look-up and the store filter; the main thread sums them up.
//! Caveat: each worker writes its own, without locks on a hit; they belong to the process, so a
//! reload resets nothing. A hot path keeps a reference to its site's counters.
//! Out of scope: metrics of the whole server (`saker_telemetry`).

use crate::path_stats::PathStats;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

macro_rules! counts {
    ($($count:ident $name:literal $help:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Stat { $(#[doc = $help] $count,)* }

        impl Stat {
            pub const ALL: &[Stat] = &[$(Stat::$count,)*];

            /// The name in reports.
            pub fn name(self) -> &'static str {
                match self { $(Stat::$count => $name,)* }
            }
        }
    };
}

counts! {
    Hits "hits" "Answered with a page that is fresh.";
    Stale "stale" "Answered with one that is past its time, while it is made anew or can't be.";
    Misses "misses" "Answered by the application, and kept.";
    Passes "passes" "Answered by the application, and not kept.";
    Waits "coalesced" "Waited for what another request was making.";
    Refreshes "refreshes" "Requests of the cache's own.";
    MemoryBytes "bytes_from_memory" "Content of hits that was in memory.";
    FileBytes "bytes_from_files" "Content of hits that went out from its file.";
}

const COUNTS: usize = Stat::ALL.len();
/// Sites with counters of their own; host names that clients choose share those of the rest.
const SITES_MAX: usize = 10_000;

/// Counters of one site in one worker.
#[derive(Debug, Default)]
pub struct SiteStats {
    counts: [AtomicU64; COUNTS],
    reasons: Mutex<BTreeMap<&'static str, u64>>,
}

/// Counters of one worker.
#[derive(Debug, Default)]
pub struct WorkerStats {
    /// By scope of the site.
    sites: Mutex<HashMap<Box<[u8]>, Arc<SiteStats>>>,
    /// All hosts that came when there were many already.
    others: Arc<SiteStats>,
    pub paths: PathStats,
}

/// Counters of one site, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTotals {
    counts: [u64; COUNTS],
    /// Reasons why requests were not stored.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl SiteStats {
    pub fn add(&self, count: Stat, amount: u64) {
        // Single writer, like all counters of a worker.
        if let Some(cell) = self.counts.get(count as usize) {
            cell.store(
                cell.load(Ordering::Relaxed).wrapping_add(amount),
                Ordering::Relaxed,
            );
        }
    }

    /// Counts a request that was not stored. Reasons are a fixed set of words.
    pub fn pass(&self, why: &'static str) {
        self.add(Stat::Passes, 1);
        *lock(&self.reasons).entry(why).or_default() += 1;
    }
}

impl WorkerStats {
    pub fn of(&self, site: &[u8]) -> Arc<SiteStats> {
        let mut known = lock(&self.sites);
        match known.get(site) {
            Some(stats) => Arc::clone(stats),
            None if known.len() >= SITES_MAX => Arc::clone(&self.others),
            None => Arc::clone(known.entry(site.into()).or_default()),
        }
    }

    /// Makes the counters of a configured site, however many hosts there are.
    pub fn enter(&self, site: &[u8]) {
        let mut known = lock(&self.sites);
        if !known.contains_key(site) {
            known.insert(site.into(), Arc::default());
        }
    }

    /// The sum over all workers for a site.
    pub fn sum(workers: &[Arc<WorkerStats>], site: &[u8]) -> SiteTotals {
        let mut sum = SiteTotals::default();
        for stats in workers
            .iter()
            .filter_map(|stats| lock(&stats.sites).get(site).cloned())
        {
            sum.counts
                .iter_mut()
                .zip(&stats.counts)
                .for_each(|(sum, count)| *sum = sum.wrapping_add(count.load(Ordering::Relaxed)));
            lock(&stats.reasons)
                .iter()
                .for_each(|(why, count)| *sum.reasons.entry(why).or_default() += count);
        }
        sum
    }
}

impl SiteTotals {
    pub fn of(&self, count: Stat) -> u64 {
        self.counts.get(count as usize).copied().unwrap_or(0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_summed_up() {
        let workers = [Arc::<WorkerStats>::default(), Arc::default()];
        workers[0].of(b"a").add(Stat::Hits, 2);
        workers[1].of(b"a").add(Stat::Hits, 3);
        workers[1].of(b"a").pass("private");
        workers[0].of(b"a").pass("private");
        workers[0].of(b"a").pass("method");
        workers[1].of(b"b").add(Stat::MemoryBytes, 7);
        let sum = WorkerStats::sum(&workers, b"a");
        assert_eq!(
            (
                sum.of(Stat::Hits),
                sum.of(Stat::Passes),
                sum.of(Stat::MemoryBytes)
            ),
            (5, 3, 0)
        );
        assert_eq!(sum.reasons, BTreeMap::from([("method", 1), ("private", 2)]));
        assert_eq!(WorkerStats::sum(&workers, b"b").of(Stat::MemoryBytes), 7);
        assert_eq!(WorkerStats::sum(&workers, b"c"), SiteTotals::default());
    }

    #[test]
    fn a_flood_of_hosts_takes_no_more_room() {
        let stats = Arc::<WorkerStats>::default();
        for number in 0..SITES_MAX + 500 {
            let host = format!("h{number}.example");
            stats.of(host.as_bytes()).add(Stat::Hits, 1);
        }
        assert_eq!(lock(&stats.sites).len(), SITES_MAX);
        stats.enter(b"a");
        stats.of(b"a").add(Stat::Hits, 2);
        stats.enter(b"a");
        let of = |site| WorkerStats::sum(std::slice::from_ref(&stats), site).of(Stat::Hits);
        assert_eq!((of(b"a"), of(b"h3.example")), (2, 1), "configured, early");
    }
}

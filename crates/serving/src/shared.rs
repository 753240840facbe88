//! Everything that cores share, declared in one place. All else belongs to one worker and is
//! `!Send`.
//!
//! Called by: the start, which makes it; workers and the supervisor.

use crate::{
    log_files::LogFiles,
    quic_secrets::QuicShared,
    services::{MakeServices, MakeStreamRules},
};
use saker_abuse::{ClientLimits, SharedAbuseState};
use saker_acme::Challenges;
use saker_broker_client::BrokerClient;
use saker_cache_store::Store;
use saker_config::Model;
use saker_content::dictionary::DictionaryStore;
use saker_dynamic_vhosts::Hosts;
use saker_files::{BufferFiles, Watcher};
use saker_live::tail::Tail;
use saker_page_cache::stats::WorkerStats;
use saker_telemetry::{Counters, latency::Latencies, trace::TraceQueue};
use std::{
    fs::File,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub struct Shared {
    /// The registry: makes the services of each worker.
    pub make_services: MakeServices,
    /// The same for the rules of streams.
    pub make_stream_rules: MakeStreamRules,
    /// The inotify instance whose change tokens every worker reads.
    pub watcher: Watcher,
    /// Counters, one set per worker, written by that worker alone.
    pub counters: Vec<Arc<Counters>>,
    /// Outcomes of page cache requests, per worker likewise.
    pub site_stats: Vec<Arc<WorkerStats>>,
    /// Spans that wait for the exporter.
    pub traces: Arc<TraceQueue>,
    /// Histograms of latency, by site and route.
    pub latencies: Arc<Latencies>,
    /// Requests that operators watch.
    pub tail: Arc<Tail>,
    /// Written by the main thread alone.
    pub main_counters: Arc<Counters>,
    /// Secrets of QUIC, created on first use.
    pub quic: OnceLock<Option<QuicShared>>,
    /// Open connections of all workers, for `limits.connections`.
    pub connections: ConnectionCount,
    /// Number of the next session of a stream.
    pub sessions: AtomicU64,
    /// Connections among them that came after the server was asked to stop.
    pub late_connections: AtomicU64,
    /// Requests that are worked on, for `limits.requests_at_a_time`.
    pub busy: BusyRequests,
    /// Accounts of client addresses, and bans.
    pub abuse: Arc<ClientLimits>,
    /// State of bot verification and clearance cookies.
    pub guard: Arc<SharedAbuseState>,
    /// HTTP-01 challenges, for certificate authorities.
    pub challenges: Arc<Challenges>,
    /// Open access logs by target.
    pub logs: LogFiles,
    /// Requests that are being answered, where a status page wants to show them.
    pub open_requests: OpenRequests,
    /// The page cache's store, while it is used and this process' own.
    pub page_cache: RwLock<Option<PageCache>>,
    /// Hosts that a database knows; changes with a configuration that wants another.
    pub known_hosts: Mutex<Option<Arc<Hosts>>>,
    /// Compression dictionaries, and content compressed with them.
    pub dictionaries: Arc<DictionaryStore>,
    /// Response buffers on disk, for clients slower than their upstream.
    pub buffer_files: Arc<BufferFiles>,
    /// The process that stays root, where there is one.
    pub broker: Option<Arc<BrokerClient>>,
    pub started: Instant,
    /// Limit of open files of the process.
    pub descriptors_max: u64,
}

/// The store, and what keeps another server out of its folder.
pub struct PageCache {
    pub store: Arc<Store>,
    pub folder: Box<Path>,
    /// `None`: another server has the folder, and pages are read for a moment more.
    pub lock: Option<File>,
    /// The cluster that shares its purges.
    pub cluster: Option<Arc<saker_cluster::Node>>,
    /// Pages that its servers hand each other.
    pub peers: Option<Arc<saker_page_cache::PeerPages>>,
}

/// Descriptors that are neither connections nor files that are kept open: listeners, logs, the
/// event loops, and files opened for a moment.
const DESCRIPTORS_RESERVED: u64 = 32;

impl Shared {
    /// Returns the dynamic virtual hosts of the configuration: the existing ones if their settings
    /// have not changed. The error describes invalid settings.
    pub fn known_hosts(&self, model: &Model) -> Result<Option<Arc<Hosts>>, String> {
        let mut current = self
            .known_hosts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_wanted = model.sites.iter().any(|site| {
            site.by_host
                .as_ref()
                .is_some_and(|by_host| by_host.is_looked_up)
        });
        if !current
            .as_ref()
            .is_some_and(|hosts| is_wanted && hosts.is_of(&model.hosts))
        {
            *current = is_wanted
                .then(|| Hosts::start(&model.hosts))
                .transpose()?
                .map(Arc::new);
        }
        Ok(current.clone())
    }

    /// The page cache's store; `None`: there is no page cache.
    pub fn store(&self) -> Option<Arc<Store>> {
        let cache = self
            .page_cache
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        cache.as_ref().map(|cache| Arc::clone(&cache.store))
    }

    /// This server in its cluster.
    pub fn cluster(&self) -> Option<Arc<saker_cluster::Node>> {
        let cache = self
            .page_cache
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        cache.as_ref().and_then(|cache| cache.cluster.clone())
    }

    /// Pages that the servers of the cluster hand each other.
    pub fn peers(&self) -> Option<Arc<saker_page_cache::PeerPages>> {
        let cache = self
            .page_cache
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        cache.as_ref().and_then(|cache| cache.peers.clone())
    }

    /// Puts another store in use, or none; workers see it with their next generation. Returns the
    /// one before.
    pub fn replace_page_cache(&self, cache: Option<PageCache>) -> Option<PageCache> {
        let mut current = self
            .page_cache
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, cache)
    }

    /// Lets another server have the folder of the page cache, whose pages are used as before. Returns
    /// its store.
    pub fn release_page_cache(&self) -> Option<Arc<Store>> {
        let mut current = self
            .page_cache
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let cache = current.as_mut()?;
        cache.lock = None;
        Some(Arc::clone(&cache.store))
    }

    /// Returns the number of connections that were open when the server was asked to stop.
    pub fn earlier_connections(&self) -> u64 {
        // Those that come meanwhile are counted here first, and as late afterwards.
        self.connections
            .now()
            .saturating_sub(self.late_connections.load(Ordering::Relaxed))
    }

    /// `None`: the system gives no random bytes, and there can be no QUIC.
    pub fn quic(&self) -> Option<&QuicShared> {
        self.quic.get_or_init(QuicShared::new).as_ref()
    }

    /// Maximum number of connections: as many as allowed, if they leave enough descriptors for
    /// files. A client that waits is better off than one that gets 503.
    pub fn connections_max(&self, allowed: u64) -> u64 {
        let for_files = self.descriptors_max / 4;
        allowed.min(
            self.descriptors_max
                .saturating_sub(for_files + DESCRIPTORS_RESERVED)
                .max(1),
        )
    }
}

/// Permits for concurrent requests. Requests without a permit wait in line, whatever their worker.
pub struct BusyRequests(Mutex<(u64, Arc<Semaphore>)>);

impl Default for BusyRequests {
    fn default() -> Self {
        BusyRequests(Mutex::new((0, Arc::new(Semaphore::new(0)))))
    }
}

impl BusyRequests {
    /// A permit, held by the returned value; `max` 0: no limit. After a reload with another limit,
    /// earlier permits do not count.
    pub async fn enter(&self, max: u64) -> Option<OwnedSemaphorePermit> {
        if max == 0 {
            return None;
        }
        let places = {
            let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if current.0 != max {
                let count = usize::try_from(max)
                    .unwrap_or(usize::MAX)
                    .min(Semaphore::MAX_PERMITS);
                *current = (max, Arc::new(Semaphore::new(count)));
            }
            Arc::clone(&current.1)
        };
        places.acquire_owned().await.ok()
    }
}

/// A request that is being answered, as a status page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    pub client: Box<str>,
    pub host: Box<[u8]>,
    pub request: Box<[u8]>,
    pub protocol: &'static str,
    pub began_ns: u64,
}

/// Open requests by worker. The locks are contended only while the page is generated.
#[derive(Default)]
pub struct OpenRequests(Vec<Mutex<Vec<Option<OpenRequest>>>>);

impl OpenRequests {
    pub fn new(workers: usize) -> OpenRequests {
        OpenRequests((0..workers).map(|_| Mutex::default()).collect())
    }

    /// The slot that it is in.
    pub fn enter(&self, worker: usize, open: OpenRequest) -> usize {
        let Some(slots) = self.0.get(worker) else {
            return 0;
        };
        let mut slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
        let free = slots
            .iter()
            .position(Option::is_none)
            .unwrap_or(slots.len());
        match slots.get_mut(free) {
            Some(slot) => *slot = Some(open),
            None => slots.push(Some(open)),
        }
        free
    }

    pub fn leave(&self, worker: usize, slot: usize) {
        let Some(slots) = self.0.get(worker) else {
            return;
        };
        let mut slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots
            .get_mut(slot)
            .into_iter()
            .for_each(|slot| *slot = None);
        while slots.last().is_some_and(Option::is_none) {
            slots.pop();
        }
    }

    /// Running requests with their workers.
    pub fn all(&self) -> Vec<(usize, OpenRequest)> {
        let mut all = Vec::new();
        for (worker, slots) in self.0.iter().enumerate() {
            let slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(slots.iter().flatten().map(|open| (worker, open.clone())));
        }
        all
    }
}

/// A number with a ceiling.
#[derive(Default)]
pub struct ConnectionCount(AtomicU64);

impl ConnectionCount {
    /// Counts one more unless that were more than `max`.
    pub fn enter(&self, max: u64) -> bool {
        let admitted = self.0.fetch_add(1, Ordering::Relaxed) < max;
        if !admitted {
            self.leave();
        }
        admitted
    }

    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

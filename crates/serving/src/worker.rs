//! A worker: what its connections share without locks.
//!
//! Called by: `worker_thread`, which makes one per thread; every session, by reference.
//! Caveat: it knows neither listeners nor drivers; those know it.
//! Out of scope: the thread, its event loop and the commands that it obeys.

use crate::{
    buffers::Buffers,
    common_headers::CommonHeaderSets,
    figures::LiveFigures,
    freshness::Freshness,
    services::{CacheAccess, CommonParts, ServiceParts},
    shared::Shared,
    stream::Streams,
    tls_state::TlsState,
};
use saker_config::model::Address;
use saker_gateway::Gateway;
use saker_net::{IdleStreams, RawStream, deadlines::Deadlines, program::Spawner};
use saker_page_cache::{Share, key};
use saker_pipeline::{Bounds, Generation, Loggers, RouteCache, Services};
use saker_telemetry::{Counters, Metric};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// Connections that end as soon as they are idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draining {
    #[default]
    Nothing,
    /// Connections that were open when the server was asked to stop.
    Earlier,
    All,
}

/// A connection that waits for its client without a task.
pub trait IdleConnection {
    /// The client has sent something, or has left.
    fn resume(self: Box<Self>, stream: RawStream);

    /// The metric by which it is counted if it has to end now; may bring its deadline forward.
    fn end(&mut self, until_ms: &mut u64, now_ms: u64) -> Option<Metric>;
}

pub struct Worker {
    pub index: usize,
    pub shared: Arc<Shared>,
    pub counters: Arc<Counters>,
    pub freshness: Freshness,
    pub services: RefCell<Rc<Services>>,
    /// Certificates and acceptors of the newest generation.
    pub tls: RefCell<Arc<TlsState>>,
    pub route_cache: RefCell<RouteCache>,
    pub buffers: RefCell<Buffers>,
    pub deadlines: Rc<Deadlines>,
    /// Must be emptied before the worker ends: what is in it refers to the worker.
    pub idle: IdleStreams<Box<dyn IdleConnection>>,
    pub common_headers: RefCell<CommonHeaderSets>,
    pub draining: Cell<Draining>,
    /// Another process serves from the same sockets.
    pub is_succeeded: Cell<bool>,
    /// Indexes of the common headers that advertise HTTP/3, by listener address. The last entry of
    /// an address counts.
    pub alt_svc: RefCell<Vec<(Arc<Address>, usize)>>,
    /// Streams of the newest generation; sessions hold on to those they began with.
    streams: RefCell<Option<Rc<Streams>>>,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        freshness: Freshness,
        shared: Arc<Shared>,
        generation: Arc<Generation>,
        tls: Arc<TlsState>,
    ) -> Worker {
        let counters = Arc::clone(&shared.counters[index]);
        let deadlines = Rc::<Deadlines>::default();
        let gateway = gateway(&deadlines, &generation, &shared);
        Worker {
            index,
            freshness,
            tls: RefCell::new(tls),
            route_cache: RefCell::new(route_cache(&generation, &shared)),
            services: RefCell::new(services(&generation, &shared, gateway, index)),
            streams: RefCell::new(Streams::new(&generation, &shared, &deadlines, index)),
            counters,
            buffers: RefCell::default(),
            deadlines,
            idle: IdleStreams::default(),
            common_headers: RefCell::new(CommonHeaderSets::new(
                &generation.model.server.server_field,
            )),
            draining: Cell::default(),
            is_succeeded: Cell::default(),
            alt_svc: RefCell::default(),
            shared,
        }
    }

    /// Loggers of the newest generation; responses in progress hold on to those they began with.
    pub fn loggers(&self) -> Rc<Loggers> {
        Rc::clone(&self.services.borrow().loggers)
    }

    /// Wakes every connection, so that each looks at what has changed around it: draining, bans.
    pub(crate) fn wake_all(&self) {
        self.deadlines.wake_all();
        self.end_idle(|_| true);
    }

    /// Ends those idle connections of a kind that have to end.
    pub(crate) fn end_idle(&self, is_looked_at: impl Fn(u64) -> bool) {
        let now_ms = saker_net::clock::turn_ms();
        let ended = self.idle.take_if(|idle| {
            let metric = is_looked_at(idle.until_ms)
                .then(|| idle.value.end(&mut idle.until_ms, now_ms))
                .flatten();
            metric
                .inspect(|metric| self.counters.increment(*metric))
                .is_some()
        });
        ended.for_each(drop);
    }

    pub(crate) fn flush_logs(&self) {
        self.loggers().flush();
        if let Some(streams) = &*self.streams.borrow() {
            streams.flush();
        }
    }

    /// `None`: the newest generation has no streams.
    pub fn streams(&self) -> Option<Rc<Streams>> {
        self.streams.borrow().clone()
    }

    pub fn services(&self) -> Rc<Services> {
        Rc::clone(&self.services.borrow())
    }

    /// Replaces everything that depends on the configuration at once. Requests in progress keep
    /// their generation.
    pub(crate) fn replace_generation(&self, generation: Arc<Generation>) {
        *self.route_cache.borrow_mut() = route_cache(&generation, &self.shared);
        self.flush_logs();
        self.common_headers
            .borrow_mut()
            .change_server(&generation.model.server.server_field);
        *self.streams.borrow_mut() =
            Streams::new(&generation, &self.shared, &self.deadlines, self.index);
        let gateway = gateway(&self.deadlines, &generation, &self.shared);
        let services = services(&generation, &self.shared, gateway, self.index);
        *self.services.borrow_mut() = services;
        self.watch(self.shared.tail.is_watched());
    }

    /// Empties the route cache.
    pub(crate) fn forget_routes(&self) {
        let generation = Arc::clone(&self.services.borrow().generation);
        *self.route_cache.borrow_mut() = route_cache(&generation, &self.shared);
    }

    /// Switches the loggers of operators that watch on or off.
    pub(crate) fn watch(&self, is_on: bool) {
        let services = self.services.borrow();
        let sites = &services.generation.model.sites;
        services.loggers.watch(sites, is_on);
    }

    /// The number of the common headers of responses over this listener.
    pub fn common_headers_number(&self, address: &Address) -> usize {
        let alt_svc = self.alt_svc.borrow();
        alt_svc
            .iter()
            .rev()
            .find(|(listener, _)| **listener == *address)
            .map_or(CommonHeaderSets::PLAIN, |(_, number)| *number)
    }

    pub(crate) fn publish_resource_counts(&self) {
        let mut routes = self.route_cache.borrow_mut();
        let counts = routes.take_counts();
        self.counters.add(Metric::ResourceCacheHits, counts.hits);
        self.counters
            .add(Metric::ResourceCacheMisses, counts.misses);
        self.counters
            .add(Metric::ResourceCacheEvictions, counts.evicted);
        self.counters
            .add(Metric::ResourceCacheInvalidations, counts.invalidated);
        self.counters
            .set(Metric::ResourceCacheEntries, routes.len() as u64);
        self.counters
            .set(Metric::ResourceCacheBytes, routes.memory_bytes() as u64);
        self.counters
            .set(Metric::ConnectionsIdle, self.idle.len() as u64);
        // Process-wide gauges, published by one worker.
        if self.index == 0 {
            self.counters
                .set(Metric::BufferFileBytes, self.shared.buffer_files.bytes());
            self.counters
                .set(Metric::BufferFileWaits, self.shared.buffer_files.waits());
        }
    }

    pub(crate) fn sweep(&self) {
        self.route_cache
            .borrow_mut()
            .sweep(self.shared.watcher.now_ms());
        saker_files::cached_stat::forget_unused(&self.shared.watcher);
        if let Some(streams) = self.streams() {
            let now_ms = saker_net::clock::monotonic_ms();
            streams.context.members.sweep(now_ms);
        }
        if self.index == 0 {
            self.shared.watcher.sweep();
            self.shared
                .abuse
                .addresses
                .sweep(saker_net::clock::monotonic_ns());
            self.shared.logs.forget_unused();
        }
    }
}

/// A worker's share of what the route cache may hold. Open files take a quarter of the
/// descriptors at most; the rest is for connections.
fn route_cache(generation: &Generation, shared: &Shared) -> RouteCache {
    let server = &generation.model.server;
    let share = |all: u64| (all / shared.counters.len().max(1) as u64) as usize;
    RouteCache::new(Bounds {
        memory_bytes_max: share(server.resource_memory_bytes_max),
        entries_max: share(server.resource_entries_max),
        descriptors_max: share(shared.descriptors_max / 4),
    })
}

/// Connections to programs are a worker's own, and a generation's.
fn gateway(deadlines: &Rc<Deadlines>, generation: &Generation, shared: &Shared) -> Gateway {
    let limits = &generation.model.limits;
    shared.buffer_files.set_bounds(
        limits.buffer_file_bytes_max,
        limits.buffer_file_bytes_per_address_max,
    );
    let spawner = shared
        .broker
        .clone()
        .map(|broker| broker as Arc<dyn Spawner>);
    Gateway::new(
        Rc::clone(deadlines),
        shared.counters.len(),
        Arc::clone(&shared.buffer_files),
        spawner,
    )
}

fn services(
    generation: &Arc<Generation>,
    shared: &Arc<Shared>,
    gateway: Gateway,
    index: usize,
) -> Rc<Services> {
    let figures = LiveFigures {
        shared: Arc::clone(shared),
        generation: generation.number,
    };
    let memory_bytes_max =
        generation.model.cache.memory_bytes_max / shared.counters.len().max(1) as u64;
    let share = |store| Share {
        store,
        memory_bytes_max: memory_bytes_max as usize,
        counters: Arc::clone(&shared.counters[index]),
        worker_stats: Arc::clone(&shared.site_stats[index]),
        workers: shared.counters.len(),
        peers: shared.peers(),
    };
    let cache = shared.store().map_or(CacheAccess::None, |store| {
        let sites = generation.model.sites.iter().enumerate();
        sites.for_each(|(at, site)| shared.site_stats[index].enter(&key::scope(site, at)));
        CacheAccess::Share(share(store))
    });
    let common = CommonParts {
        watcher: &shared.watcher,
        challenges: &shared.challenges,
        guard: &shared.guard,
        neighbours: &shared.abuse,
        dictionaries: &shared.dictionaries,
    };
    (shared.make_services)(ServiceParts {
        generation: Arc::clone(generation),
        common,
        gateway,
        figures: Rc::new(figures),
        counters: Arc::clone(&shared.counters[index]),
        cache,
        traces: &shared.traces,
        latencies: &shared.latencies,
        tail: &shared.tail,
        log_files: Some(&shared.logs),
    })
}

//! One worker: a thread, a single-threaded runtime, and all that its connections share without
//! locks.

use crate::{
    buffers::Buffers,
    driver_h3,
    figures::Live,
    freshness::Freshness,
    listener::{self, WorkerListener},
    quic::{self, QuicListener},
    registry,
    secured::Secured,
    shared::Shared,
    site_logs::SiteLogs,
    tail::Tails,
};
use saker_config::model::Address;
use saker_gateway::Gateway;
use saker_handlers::page_cache::{
    Share,
    warm::{
        Job,
        run::{self, Means},
    },
};
use saker_net::{
    BoundSocket, BoundUdp, Ticker,
    deadlines::{Deadlines, TICK_MS},
    jobs,
    program::Spawner,
};
use saker_pipeline::{Bounds, Generation, Resources, Services};
use saker_telemetry::{Counters, Metric, error_log, message};
use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};
use tokio::runtime::LocalRuntime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Time for jobs to notice at the worker's end that they are cancelled. What has not ended by then
/// ends with the process.
const JOBS_END_MAX: Duration = Duration::from_secs(1);

/// Tasks run before the event loop is asked again.
const TASKS_PER_ROUND: u32 = 512;

/// What the main thread tells a worker.
pub enum Command {
    /// A new configuration: requests from now on are answered by it.
    Generation(Arc<Generation>, Arc<Secured>),
    Listen(Arc<Address>, BoundSocket),
    /// HTTP/3 on the same port.
    ListenQuic(Arc<Address>, BoundUdp),
    /// No new connections; those that are open go on.
    UnlistenQuic(Address),
    /// Takes what is in the accept queue, then closes the listener.
    Unlisten(Address),
    /// Makes pages before visitors ask for them, so many at a time.
    Warm(Arc<Job>, usize),
    /// Bans have changed: open connections look whether they are meant.
    LookAtBans,
    /// Close idle connections, let requests finish. New connections are still taken.
    WindDown,
    /// Accept nothing more, and let requests finish.
    Drain,
    /// End now, whatever is open.
    Stop,
}

/// Which connections end as soon as nothing is under way on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draining {
    #[default]
    Nothing,
    /// Those that were open when the server was asked to stop.
    Earlier,
    All,
}

/// The main thread's grip on a worker.
pub struct WorkerHandle {
    pub commands: UnboundedSender<Command>,
    pub thread: Option<thread::JoinHandle<()>>,
}

pub struct Worker {
    pub index: usize,
    pub shared: Arc<Shared>,
    pub counters: Arc<Counters>,
    pub freshness: Freshness,
    pub services: RefCell<Rc<Services>>,
    /// Certificates and acceptors of the newest generation.
    pub secured: RefCell<Arc<Secured>>,
    pub resources: RefCell<Resources>,
    /// Of the newest generation; responses under way hold on to those they began with.
    pub logs: RefCell<Rc<RefCell<SiteLogs>>>,
    pub buffers: RefCell<Buffers>,
    pub deadlines: Rc<Deadlines>,
    pub tails: RefCell<Tails>,
    pub draining: Cell<Draining>,
    pub listeners: RefCell<Vec<Rc<WorkerListener>>>,
    pub quic_listeners: RefCell<Vec<Rc<QuicListener>>>,
}

/// Starts a worker's thread; returns once its runtime stands.
pub fn start(
    index: usize,
    shared: Arc<Shared>,
    generation: Arc<Generation>,
    secured: Arc<Secured>,
    core: Option<usize>,
) -> io::Result<WorkerHandle> {
    let (commands, receiver) = unbounded_channel();
    let (ready, is_ready) = mpsc::channel();
    let thread = thread::Builder::new()
        .name(format!("worker-{index}"))
        .spawn(move || {
            if let Some(core) = core.filter(|core| saker_net::process::pin_to_core(*core).is_err())
            {
                error_log::log(
                    &message::AFFINITY_FAILED,
                    format_args!("worker {index}, core {core}"),
                );
            }
            match runtime() {
                Ok((runtime, ticker)) => {
                    let freshness = {
                        let _inside = runtime.enter();
                        Freshness::new(&shared.watcher)
                    };
                    let _ = ready.send(Ok(()));
                    runtime.block_on(live(
                        Worker::new(index, freshness, shared, generation, secured),
                        ticker,
                        receiver,
                    ));
                    jobs::end();
                    runtime.shutdown_timeout(JOBS_END_MAX);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
    is_ready
        .recv()
        .map_err(|_| io::Error::other("the worker ended while it started"))??;
    Ok(WorkerHandle {
        commands,
        thread: Some(thread),
    })
}

/// The clock of a turn is read when the event loop wakes up. Tasks are run in long rounds, because
/// each look at the event loop between them is a system call; fairness comes from the tasks, which
/// end their turns by themselves.
fn runtime() -> io::Result<(LocalRuntime, Ticker)> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .max_blocking_threads(jobs::THREADS_MAX)
        .event_interval(TASKS_PER_ROUND);
    builder.on_thread_unpark(saker_net::clock::begin_turn);
    let runtime = builder.build_local(Default::default())?;
    let context = runtime.enter();
    let ticker = Ticker::new(Duration::from_millis(TICK_MS))?;
    drop(context);
    Ok((runtime, ticker))
}

async fn live(worker: Worker, ticker: Ticker, mut commands: UnboundedReceiver<Command>) {
    let worker = Rc::new(worker);
    let ticking = tokio::task::spawn_local(tick(Rc::clone(&worker), ticker));
    while let Some(command) = commands.recv().await {
        let is_last = matches!(command, Command::Stop);
        worker.obey(command);
        if is_last {
            break;
        }
    }
    ticking.abort();
    worker.flush_logs();
}

/// Time limits, batched log lines and the sweep of outdated resources.
async fn tick(worker: Rc<Worker>, mut ticker: Ticker) {
    let mut ticks = 0u64;
    while ticker.tick().await.is_ok() {
        saker_net::clock::begin_turn();
        ticks += 1;
        worker
            .deadlines
            .fire(saker_net::clock::monotonic_ns() / 1_000_000);
        if ticks.is_multiple_of(1000 / TICK_MS) {
            worker.flush_logs();
            worker.publish_resource_counts();
            let now_ms = saker_net::clock::monotonic_ms();
            worker.services().handlers.tick(now_ms);
            if worker.index == 0 {
                error_log::tick();
            }
        }
        if ticks.is_multiple_of(30_000 / TICK_MS) {
            worker.sweep();
        }
    }
}

impl Worker {
    fn new(
        index: usize,
        freshness: Freshness,
        shared: Arc<Shared>,
        generation: Arc<Generation>,
        secured: Arc<Secured>,
    ) -> Worker {
        let counters = Arc::clone(&shared.counters[index]);
        let deadlines = Rc::<Deadlines>::default();
        let gateway = gateway(&deadlines, &generation, &shared);
        Worker {
            index,
            freshness,
            secured: RefCell::new(secured),
            resources: RefCell::new(resources(&generation, &shared)),
            logs: RefCell::new(open_logs(&generation, &shared)),
            services: RefCell::new(services(&generation, &shared, gateway, index)),
            counters,
            buffers: RefCell::default(),
            deadlines,
            tails: RefCell::new(Tails::new(&generation.model.server.server_field)),
            draining: Cell::default(),
            listeners: RefCell::default(),
            quic_listeners: RefCell::default(),
            shared,
        }
    }

    pub fn logs(&self) -> Rc<RefCell<SiteLogs>> {
        Rc::clone(&self.logs.borrow())
    }

    fn flush_logs(&self) {
        self.logs().borrow_mut().flush(&self.counters);
    }

    pub fn services(&self) -> Rc<Services> {
        Rc::clone(&self.services.borrow())
    }

    fn obey(self: &Rc<Self>, command: Command) {
        match command {
            Command::Generation(generation, secured) => {
                *self.secured.borrow_mut() = secured;
                self.replace_generation(generation);
            }
            Command::Listen(address, socket) => listener::start(self, address, socket),
            Command::Unlisten(address) => self.unlisten(Some(&address)),
            Command::ListenQuic(address, socket) => {
                quic::start::<driver_h3::Connection>(self, address, socket)
            }
            Command::UnlistenQuic(address) => self.unlisten_quic(Some(&address)),
            Command::LookAtBans => self.deadlines.wake_all(),
            Command::WindDown => {
                self.draining.set(Draining::Earlier);
                self.quic_listeners
                    .borrow()
                    .iter()
                    .for_each(|listener| listener.look());
                self.deadlines.wake_all();
            }
            Command::Drain => {
                self.draining.set(Draining::All);
                self.unlisten(None);
                self.unlisten_quic(None);
                self.deadlines.wake_all();
            }
            Command::Warm(job, at_a_time) => self.warm(&job, at_a_time),
            Command::Stop => self
                .quic_listeners
                .borrow()
                .iter()
                .for_each(|listener| listener.cut()),
        }
    }

    fn warm(self: &Rc<Self>, job: &Arc<Job>, at_a_time: usize) {
        let worker = Rc::clone(self);
        let means = Means {
            services: Box::new(move || worker.services()),
            counters: Arc::clone(&self.counters),
        };
        run::begin(means, job, at_a_time);
    }

    /// Swaps everything that hangs on the configuration at once. Requests that are under way keep
    /// what they began with.
    fn replace_generation(&self, generation: Arc<Generation>) {
        *self.resources.borrow_mut() = resources(&generation, &self.shared);
        self.flush_logs();
        *self.logs.borrow_mut() = open_logs(&generation, &self.shared);
        self.tails
            .borrow_mut()
            .change_server(&generation.model.server.server_field);
        let gateway = gateway(&self.deadlines, &generation, &self.shared);
        *self.services.borrow_mut() = services(&generation, &self.shared, gateway, self.index);
        self.advertise();
    }

    /// What responses over TCP say about HTTP/3: where it is really listened for, and told of.
    pub fn advertise(&self) {
        let services = self.services();
        let model = &services.generation.model;
        for listener in self.quic_listeners.borrow().iter() {
            let http3 = model
                .listeners
                .iter()
                .find(|one| one.address == *listener.address)
                .and_then(|one| one.http3.as_ref());
            let alt_svc = http3
                .and_then(|http3| listener.alt_svc(http3))
                .unwrap_or_default();
            listener.tail.set(
                self.tails
                    .borrow_mut()
                    .number(&alt_svc, &model.server.server_field),
            );
        }
    }

    /// The number of the tail for responses over this listener.
    pub fn tail_number(&self, address: &Address) -> usize {
        let listeners = self.quic_listeners.borrow();
        listeners
            .iter()
            .rev()
            .find(|listener| *listener.address == *address)
            .map_or(Tails::PLAIN, |listener| listener.tail.get())
    }

    fn unlisten(&self, address: Option<&Address>) {
        self.listeners.borrow_mut().retain(|listener| {
            let goes = address.is_none_or(|address| *listener.address == *address);
            if goes {
                listener.close();
            }
            !goes
        });
    }

    /// The loops stay in the list as long as the worker lives: at its end their connections are
    /// cut.
    fn unlisten_quic(&self, address: Option<&Address>) {
        let listeners = self.quic_listeners.borrow();
        listeners
            .iter()
            .filter(|listener| address.is_none_or(|address| *listener.address == *address))
            .for_each(|one| one.close());
    }

    fn publish_resource_counts(&self) {
        let mut resources = self.resources.borrow_mut();
        let counts = resources.take_counts();
        self.counters.add(Metric::ResourceCacheHits, counts.hits);
        self.counters
            .add(Metric::ResourceCacheMisses, counts.misses);
        self.counters
            .add(Metric::ResourceCacheEvictions, counts.evicted);
        self.counters
            .add(Metric::ResourceCacheInvalidations, counts.invalidated);
        self.counters
            .set(Metric::ResourceCacheEntries, resources.len() as u64);
        self.counters
            .set(Metric::ResourceCacheBytes, resources.memory_bytes() as u64);
        // Those of all workers, told by one.
        if self.index == 0 {
            self.counters
                .set(Metric::BufferFileBytes, self.shared.buffer_files.bytes());
            self.counters
                .set(Metric::BufferFileWaits, self.shared.buffer_files.waits());
        }
    }

    fn sweep(&self) {
        self.resources
            .borrow_mut()
            .sweep(self.shared.watcher.now_ms());
        saker_files::look::forget_unused(&self.shared.watcher);
        if self.index == 0 {
            self.shared.watcher.sweep();
            self.shared
                .neighbours
                .addresses
                .sweep(saker_net::clock::monotonic_ns());
            self.shared.logs.forget_unused();
        }
    }
}

/// A worker's share of what resolved resources may hold. Open files take a quarter of the
/// descriptors at most; the rest is for connections.
fn resources(generation: &Generation, shared: &Shared) -> Resources {
    let server = &generation.model.server;
    let share = |all: u64| (all / shared.counters.len().max(1) as u64) as usize;
    Resources::new(Bounds {
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
    let figures = Live {
        shared: Arc::clone(shared),
        generation: generation.number,
    };
    let memory_bytes_max =
        generation.model.cache.memory_bytes_max / shared.counters.len().max(1) as u64;
    let share = |store| Share {
        store,
        memory_bytes_max: memory_bytes_max as usize,
        counters: Arc::clone(&shared.counters[index]),
        tallies: Arc::clone(&shared.tallies[index]),
        workers: shared.counters.len(),
    };
    let cache = shared.store().map_or(registry::Cache::Nothing, |store| {
        registry::Cache::Share(share(store))
    });
    let common = registry::Common {
        watcher: &shared.watcher,
        challenges: &shared.challenges,
        guard: &shared.guard,
        neighbours: &shared.neighbours,
    };
    registry::services(
        Arc::clone(generation),
        &common,
        gateway,
        Rc::new(figures),
        cache,
    )
}

/// A log that can't be opened is said and left out: serving goes on.
fn open_logs(generation: &Generation, shared: &Shared) -> Rc<RefCell<SiteLogs>> {
    let logs = SiteLogs::open(generation, &shared.logs).unwrap_or_else(|error| {
        error_log::log(&message::LOG_WRITE_FAILED, format_args!("{error}"));
        SiteLogs::default()
    });
    Rc::new(RefCell::new(logs))
}

//! A worker's thread: its event loop, its clock ticks, and the commands of the main thread.
//!
//! Called by: the process supervisor, which starts one per core and sends it [`Command`]s.
//! Caveat: the worker itself (`worker`) is made here, inside the thread, because it is `!Send`.
//! Out of scope: connections; listeners start them as tasks of this event loop.

use crate::{
    freshness::Freshness,
    h3,
    listener::{self, WorkerListener},
    quic::{self, QuicListener},
    shared::Shared,
    stream,
    tls_state::TlsState,
    worker::{Draining, IdleConnection, Worker},
};
use saker_config::model::Address;
use saker_net::{BoundSocket, BoundUdp, IdleStream, Ticker, deadlines::TICK_MS, jobs};
use saker_page_cache::warm::{
    WarmJob,
    run::{self, WarmContext},
};
use saker_pipeline::Generation;
use saker_stream_proxy::datagrams::DatagramServer;
use saker_telemetry::{error_log, message};
use std::{
    io,
    rc::Rc,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};
use tokio::{
    runtime::LocalRuntime,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// Time for jobs to notice their cancellation at the worker's end. Remaining ones end with the
/// process.
const JOBS_END_MAX: Duration = Duration::from_secs(1);

/// Tasks that run before the event loop polls again.
const TASKS_PER_ROUND: u32 = 512;

/// Commands of the main thread to a worker.
pub enum Command {
    /// A new configuration: requests from now on are answered by it.
    Generation(Arc<Generation>, Arc<TlsState>),
    Listen(Arc<Address>, BoundSocket),
    /// HTTP/3 on the same port.
    ListenQuic(Arc<Address>, BoundUdp),
    /// Stops accepting connections; open ones continue.
    UnlistenQuic(Address),
    /// Datagrams of streams.
    ListenDatagrams(Arc<Address>, BoundUdp),
    /// Begins no more sessions; open ones continue.
    UnlistenDatagrams(Address),
    /// Receives no more datagrams: a successor does, from the same sockets.
    LeaveDatagrams,
    /// Accepts the connections in the queue, then closes the listener.
    Unlisten(Address),
    /// Accepts nothing more on these addresses, leaves what is in the queues to a successor that has
    /// the same sockets, and winds down. The sender is dropped once idle connections are closed.
    LeaveListeners(Arc<[String]>, UnboundedSender<()>),
    /// Warms the page cache, with so many concurrent requests.
    Warm(Arc<WarmJob>, usize),
    /// An operator watches requests, or no longer does.
    Watch(bool),
    /// An operator has changed redirects: nothing is answered from the route cache that was
    /// decided before.
    ForgetRoutes,
    /// Bans have changed: open connections check whether they are affected.
    LookAtBans,
    /// Close idle connections, let requests finish. New connections are still taken.
    WindDown,
    /// Accept nothing more, and let requests finish.
    Drain,
    /// End now, whatever is open.
    Stop,
}

/// The main thread's handle of a worker.
pub struct WorkerHandle {
    pub commands: UnboundedSender<Command>,
    pub thread: Option<thread::JoinHandle<()>>,
}

/// Starts a worker's thread; returns once its runtime stands.
pub fn start(
    index: usize,
    shared: Arc<Shared>,
    generation: Arc<Generation>,
    tls: Arc<TlsState>,
    cores: Vec<usize>,
) -> io::Result<WorkerHandle> {
    let (commands, receiver) = unbounded_channel();
    let (ready, is_ready) = mpsc::channel();
    let thread = thread::Builder::new()
        .name(format!("worker-{index}"))
        .spawn(move || {
            if let Err(error) = saker_sandbox::restrict_worker() {
                error_log::log(&message::SANDBOX, format_args!("worker {index}: {error}"));
            }
            if !cores.is_empty() && saker_net::process::pin_to_cores(&cores).is_err() {
                error_log::log(
                    &message::AFFINITY_FAILED,
                    format_args!("worker {index}, cores {cores:?}"),
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
                        Worker::new(index, freshness, shared, generation, tls),
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

/// The clock of a turn is read when the event loop wakes up. Tasks run in long rounds, because each
/// poll of the event loop between them is a system call; for fairness, tasks end their turns
/// themselves.
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
    let waking = tokio::task::spawn_local(wake(Rc::clone(&worker)));
    let mut state = ThreadState {
        worker: Rc::clone(&worker),
        listeners: Vec::new(),
        quic_listeners: Vec::new(),
        datagram_servers: Vec::new(),
    };
    while let Some(command) = commands.recv().await {
        let is_last = matches!(command, Command::Stop);
        state.obey(command);
        if is_last {
            break;
        }
    }
    ticking.abort();
    waking.abort();
    worker.idle.take_if(|_| true).for_each(drop);
    worker.flush_logs();
}

/// Idle connections go on when their clients do.
async fn wake(worker: Rc<Worker>) {
    let resume = |idle: IdleStream<Box<dyn IdleConnection>>| idle.value.resume(idle.stream);
    worker.idle.run(resume).await;
}

/// Time limits, batched log lines and the sweep of outdated cached routes.
async fn tick(worker: Rc<Worker>, mut ticker: Ticker) {
    let mut ticks = 0u64;
    while ticker.tick().await.is_ok() {
        saker_net::clock::begin_turn();
        ticks += 1;
        let now_ms = saker_net::clock::monotonic_ns() / 1_000_000;
        worker.deadlines.fire(now_ms);
        worker.end_idle(|until_ms| until_ms <= now_ms);
        worker.flush_logs();
        if ticks.is_multiple_of(1000 / TICK_MS) {
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

/// A worker with its listeners.
struct ThreadState {
    worker: Rc<Worker>,
    listeners: Vec<Rc<WorkerListener>>,
    /// Kept for the life of this thread: dropping them would cut connections of closed listeners.
    quic_listeners: Vec<Rc<QuicListener>>,
    datagram_servers: Vec<Rc<DatagramServer>>,
}

impl ThreadState {
    fn obey(&mut self, command: Command) {
        let worker = &self.worker;
        match command {
            Command::Generation(generation, tls) => {
                *worker.tls.borrow_mut() = tls;
                worker.replace_generation(generation);
                self.advertise();
            }
            Command::Listen(address, socket) => {
                self.listeners
                    .extend(listener::start(worker, address, socket));
            }
            Command::Unlisten(address) => self.unlisten(Some(&address)),
            Command::LeaveListeners(addresses, left) => {
                self.leave(&addresses);
                self.wind_down();
                // Its turn comes behind those of the connections that have just been woken.
                tokio::task::spawn_local(async move { drop(left) });
            }
            Command::ListenQuic(address, socket) => {
                if let Some(started) = quic::start::<h3::Connection>(worker, address, socket) {
                    self.quic_listeners.push(started);
                    self.advertise();
                }
            }
            Command::UnlistenQuic(address) => self.unlisten_quic(Some(&address)),
            Command::ListenDatagrams(address, socket) => {
                self.datagram_servers
                    .extend(stream::listen(worker, address, socket));
            }
            Command::UnlistenDatagrams(address) => self.unlisten_datagrams(Some(&address)),
            Command::LeaveDatagrams => {
                worker.is_succeeded.set(true);
                self.datagram_servers
                    .drain(..)
                    .for_each(|server| server.leave());
            }
            Command::Watch(is_on) => worker.watch(is_on),
            Command::ForgetRoutes => worker.forget_routes(),
            Command::LookAtBans => worker.wake_all(),
            Command::WindDown => self.wind_down(),
            Command::Drain => {
                worker.draining.set(Draining::All);
                self.unlisten(None);
                self.unlisten_quic(None);
                self.unlisten_datagrams(None);
                self.worker.wake_all();
            }
            Command::Warm(job, at_a_time) => self.warm(&job, at_a_time),
            Command::Stop => self
                .quic_listeners
                .iter()
                .for_each(|listener| listener.cut()),
        }
    }

    fn wind_down(&self) {
        self.worker.draining.set(Draining::Earlier);
        self.quic_listeners
            .iter()
            .for_each(|listener| listener.look());
        self.worker.wake_all();
    }

    fn warm(&self, job: &Arc<WarmJob>, at_a_time: usize) {
        let worker = Rc::clone(&self.worker);
        let means = WarmContext {
            services: Box::new(move || worker.services()),
            counters: Arc::clone(&self.worker.counters),
        };
        run::begin(means, job, at_a_time);
    }

    /// Sets `Alt-Svc` of responses over TCP: HTTP/3 is advertised where it is configured and really
    /// listened for.
    fn advertise(&self) {
        let services = self.worker.services();
        let model = &services.generation.model;
        let advertised = self.quic_listeners.iter().map(|listener| {
            let http3 = model
                .listeners
                .iter()
                .find(|one| one.address == *listener.address)
                .and_then(|one| one.http3.as_ref());
            let alt_svc = http3
                .and_then(|http3| listener.alt_svc(http3))
                .unwrap_or_default();
            let number = self
                .worker
                .common_headers
                .borrow_mut()
                .number(&alt_svc, &model.server.server_field);
            (Arc::clone(&listener.address), number)
        });
        *self.worker.alt_svc.borrow_mut() = advertised.collect();
    }

    fn unlisten(&mut self, address: Option<&Address>) {
        self.listeners.retain(|listener| {
            let goes = address.is_none_or(|address| *listener.address == *address);
            if goes {
                listener.close();
            }
            !goes
        });
    }

    fn leave(&mut self, addresses: &[String]) {
        self.listeners.retain(|listener| {
            let goes = addresses.contains(&listener.address.to_string());
            if goes {
                listener.leave();
            }
            !goes
        });
    }

    fn unlisten_datagrams(&mut self, address: Option<&Address>) {
        self.datagram_servers.retain(|server| {
            let goes = address.is_none_or(|address| *server.address == *address);
            if goes {
                server.close();
            }
            !goes
        });
    }

    fn unlisten_quic(&self, address: Option<&Address>) {
        self.quic_listeners
            .iter()
            .filter(|listener| address.is_none_or(|address| *listener.address == *address))
            .for_each(|one| one.close());
    }
}

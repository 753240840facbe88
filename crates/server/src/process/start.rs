//! The start of a server: what needs the starting user's rights first, then workers, then serving.
//!
//! Called by: the command line ([`run`]).
//! Caveat: the order is the point. Signals come before anything that may take time, the broker
//! before keys are in memory, sockets and keys before privileges are dropped, logs after that.
//! Out of scope: everything that happens once the server runs (`supervisor`).

use super::{
    access_logs,
    acme::{Acme, Prepared},
    broker, console, document_roots, error_log_settings,
    inheritance::{self, Inherited, Refusal, Task},
    launcher::Launcher,
    listeners::Listeners,
    log_programs, metrics_endpoint, page_cache,
    pid_file::PidFile,
    privileges, sandbox, signals,
    succession::Predecessor,
    supervisor::{ExclusiveResources, Supervisor},
    systemd, upgrade,
    workers::{self, Workers},
};
use crate::registry;
use saker_abuse::ClientLimits;
use saker_broker_client::BrokerClient;
use saker_cli::source::{self, Read, Source, on_one_line};
use saker_config::{HostTable, Model, model, model::Origin};
use saker_control::{EndpointSocket, Lock, StateDir, StateDirError};
use saker_files::{BufferFiles, WatchError, Watcher};
use saker_pipeline::Generation;
use saker_rate_limits::AddressTable;
use saker_serving::{
    log_files::LogFiles,
    shared::{OpenRequests, Shared},
    tls_state::TlsState,
};
use saker_telemetry::{Counters, Metric, error_log, message};
use std::{
    cell::RefCell,
    net::SocketAddr,
    os::unix::net::UnixListener,
    process::ExitCode,
    rc::Rc,
    sync::{Arc, Mutex, OnceLock, RwLock},
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// Counters for the panic hook; a panic may come from any thread.
static PANIC_COUNTERS: OnceLock<Arc<Counters>> = OnceLock::new();

/// Client addresses with an account at a time, some 250 bytes each; more of them share one.
const ADDRESSES_MAX: usize = 1 << 19;

/// Reason why the server did not start, with its exit status.
enum Failure {
    Configuration(String),
    Start(String),
    /// Started by `saker upgrade`, while the running server hands over to another process.
    UpgradeUnderWay(String),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal.is_under_way {
            true => Failure::UpgradeUnderWay(refusal.text),
            false => Failure::Start(refusal.text),
        }
    }
}

/// Runs a server until it is stopped.
pub fn run(source: Source) -> ExitCode {
    upgrade::note_program();
    // Lines before the error log is open have its form.
    error_log::set_nginx(matches!(source, Source::Nginx { .. }));
    if let Some(status) = broker::take_part(&source) {
        return status;
    }
    if inheritance::task() == Some(Task::Check) {
        return check(&source);
    }
    match try_run(source.clone()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Configuration(text) | Failure::Start(text))
            if saker_cli::nginx::report_failure(&source, &text) =>
        {
            ExitCode::FAILURE
        }
        Err(Failure::Configuration(text)) => {
            eprint!("{text}");
            ExitCode::from(1)
        }
        Err(Failure::Start(text)) => fail(&text, 2),
        Err(Failure::UpgradeUnderWay(text)) => fail(&text, saker_control::upgrade::UNDER_WAY),
    }
}

fn fail(text: &str, status: u8) -> ExitCode {
    // A line for each cause.
    for line in text.trim_end().lines() {
        error_log::log(&message::START_FAILED, format_args!("{line}"));
    }
    error_log::flush(Duration::from_secs(1));
    ExitCode::from(status)
}

/// Reads the configuration for `saker upgrade`, which shows what is wrong with it.
fn check(source: &Source) -> ExitCode {
    match source.read() {
        Ok(_) => ExitCode::SUCCESS,
        Err(text) => {
            eprint!("{text}");
            ExitCode::from(1)
        }
    }
}

fn try_run(source: Source) -> Result<(), Failure> {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Start(error.to_string()))?;
    // First of all: without handlers HUP and USR1 would end the process. Signals that arrive now
    // are handled after the start.
    let signals = {
        let _inside = runtime.enter();
        signals::Signals::new().map_err(|error| Failure::Start(error.to_string()))?
    };
    saker_config::modsecurity::write_logs();
    if rustix::process::geteuid().is_root() {
        saker_net::privileged::record();
    }
    let read = source.read().map_err(Failure::Configuration)?;
    report_panics();
    let is_told = saker_cli::nginx::has_warned();
    let warnings = read.warnings.iter().filter(|_| !is_told);
    warnings.for_each(|warning| {
        error_log::log(
            &message::CONFIG_WARNING,
            format_args!("{}", on_one_line(warning)),
        )
    });
    let mut acquired = acquire(&read)?;
    let control_socket = acquired.control_socket.take();
    let (supervisor, prepared) = supervise(source, read, acquired, started)?;
    {
        let _inside = runtime.enter();
        supervisor.begin_acme(prepared);
        supervisor.begin_cluster();
    }
    saker_net::process::give_back_freed_memory();
    let outcome = serve(&runtime, signals, supervisor, control_socket).map_err(Failure::Start);
    // What its threads still wait for (a name server, a file system) is not waited for.
    runtime.shutdown_background();
    outcome
}

/// Resources that only the user that starts the server may be able to obtain.
struct Acquired {
    broker: Option<Arc<BrokerClient>>,
    hosts: Arc<HostTable>,
    tls: Arc<TlsState>,
    workers: usize,
    descriptors_max: u64,
    held: ExclusiveResources,
    control_socket: Option<ControlSocket>,
}

type ControlSocket = (UnixListener, Rc<RefCell<saker_control::Peers>>);

/// Acquires it, and drops privileges.
fn acquire(read: &Read) -> Result<Acquired, Failure> {
    let server = &read.model.server;
    // Before there are keys in memory, and while we are root.
    let (broker, process) = broker::start(read).map_err(Failure::Start)?.unzip();
    start_programs_by(broker.as_ref());
    let (lock, predecessor, mut inherited) = lock_state(server)?;
    keep_state_private(server, &lock)?;
    let console_sessions = inherited.as_mut().map(|inherited| inherited.console.take());
    let inherited_control = inherited.as_mut().and_then(Inherited::take_control);
    let inherited_pid_file = inherited.as_mut().and_then(|inherited| {
        let path = server.pid_file.as_deref()?;
        Some(PidFile::inherit(path, inherited.take_pid_file(path)?))
    });
    let descriptors_max = check_descriptors(&read.model);
    let workers = source::count(&server.workers);
    let addresses = (&*read.model.listeners, &*read.model.datagrams);
    let listeners =
        Listeners::open(addresses, workers, predecessor, inherited).map_err(Failure::Start)?;
    // Keys are often root's alone.
    let hosts = Arc::new(HostTable::new(&read.model));
    let (tls, warnings) =
        TlsState::build(&read.model, &hosts, None).map_err(Failure::Configuration)?;
    warnings
        .iter()
        .for_each(|warning| error_log::log(&message::CONFIG_WARNING, format_args!("{warning}")));
    // Its port may be a low one.
    let (metrics, console_socket) = endpoints(&read.model)?;
    let pid_file = match inherited_pid_file {
        Some(file) => Some(file),
        None => PidFile::make(server).map_err(Failure::Start)?,
    };
    // The control socket belongs to the user that starts the server, and so does the right to use
    // it: processes of the user that the server becomes gain nothing by it.
    let peers = saker_control::Peers::new(&server.control_users).map_err(Failure::Start)?;
    let control_socket = inherited_control.or_else(|| bind_control(&lock));
    let launcher = sandbox::is_expected(read, broker.as_deref())
        .then(|| Launcher::start(listeners.inherited().map(Inherited::streams)))
        .transpose()
        .map_err(|error| Failure::Start(format!("cannot start the launcher: {error}")))?;
    if rustix::process::geteuid().is_root() {
        upgrade::record_start(&lock);
    }
    privileges::drop(&read.model, &lock, &peers).map_err(Failure::Start)?;
    // Before there are other threads, which inherit it.
    sandbox::enforce(read, broker.as_deref()).map_err(Failure::Start)?;
    process
        .map_or(Ok(()), broker::watch)
        .map_err(Failure::Start)?;
    let peers = Rc::new(RefCell::new(peers));
    Ok(Acquired {
        broker,
        hosts,
        tls: Arc::new(tls),
        workers,
        descriptors_max,
        control_socket: control_socket.map(|socket| (socket, Rc::clone(&peers))),
        held: ExclusiveResources {
            listeners,
            lock,
            pid_file,
            peers,
            metrics,
            console: console_socket,
            console_sessions: console_sessions.unwrap_or_default(),
            launcher,
        },
    })
}

/// `None`: the server can't be asked, which is logged.
fn bind_control(lock: &Lock) -> Option<UnixListener> {
    let bound = lock.bind_control();
    bound
        .map_err(|error| error_log::log(&message::CONTROL_SOCKET_FAILED, format_args!("{error}")))
        .ok()
}

/// Binds the sockets of metrics and of the console.
fn endpoints(model: &Model) -> Result<(EndpointSocket, EndpointSocket), Failure> {
    let (metrics, console) = (&model.metrics, &model.console);
    Ok((
        endpoint(metrics.address, "[metrics]", &metrics.origin)?,
        endpoint(console.address, "[console]", &console.origin)?,
    ))
}

/// Binds the socket of an endpoint for operators.
fn endpoint(
    address: Option<SocketAddr>,
    table: &str,
    origin: &Origin,
) -> Result<EndpointSocket, Failure> {
    let socket = EndpointSocket::default();
    let prepared = socket
        .prepare(address, table, origin)
        .map_err(Failure::Start)?;
    socket.put_in_force(prepared);
    Ok(socket)
}

/// Starts the workers, as the user that the server has become.
fn supervise(
    source: Source,
    read: Read,
    acquired: Acquired,
    started: Instant,
) -> Result<(Supervisor, Prepared), Failure> {
    let Acquired {
        broker,
        hosts,
        tls,
        workers,
        descriptors_max,
        held,
        ..
    } = acquired;
    let shared = shared(workers, started, descriptors_max, broker).map_err(Failure::Start)?;
    PANIC_COUNTERS.get_or_init(|| Arc::clone(&shared.main_counters));
    let cores_of = workers::placement(&read.model.server.affinity);
    let known_hosts = shared.known_hosts(&read.model).map_err(Failure::Start)?;
    let generation = Generation::with_hosts(1, read.model, hosts)
        .with_front_end(read.front_end)
        .with_known_hosts(known_hosts)
        .with_identities(&tls.identities);
    let generation = Arc::new(generation);
    access_logs::open_logs(&generation, &shared).map_err(Failure::Start)?;
    document_roots::report_unusable(&generation.model);
    if !held.listeners.has_predecessor() && !held.listeners.has_inherited() {
        page_cache::open(&generation.model, &shared);
    }
    // By the user whose state it is from now on, and before the first handshake.
    let acme = Acme::new(&shared, tls.identities.run_time());
    let prepared = acme.prepare(&generation).map_err(Failure::Start)?;
    // Last, so that whatever keeps the server from starting is said where it was started, and so
    // that the file is opened by the user who will have to open it again.
    error_log_settings::start(&generation.model).map_err(Failure::Start)?;
    let workers = Workers::start(&shared, &generation, &tls, workers, cores_of)
        .map_err(|error| Failure::Start(error.to_string()))?;
    let supervisor = Supervisor::new(source, shared, generation, tls, workers, held, acme);
    Ok((supervisor, prepared))
}

/// The main thread's loop. Ends when the server has ended.
fn serve(
    runtime: &Runtime,
    mut signals: signals::Signals,
    supervisor: Supervisor,
    control_socket: Option<ControlSocket>,
) -> Result<(), String> {
    let supervisor = Rc::new(supervisor);
    runtime.block_on(async {
        let shared = supervisor.shared_sockets();
        // Before what an earlier server knew of the members.
        supervisor.begin_discovery().await;
        supervisor.take_from_running().await?;
        // After what an earlier server knew of upstreams.
        supervisor.begin_health();
        if let Err(error) = supervisor.succeed_running() {
            // Never dropped: the page cache on disk and the files are the running server's.
            std::mem::forget(Rc::clone(&supervisor));
            return Err(error);
        }
        // Not before: its sockets take the place of the running server's.
        supervisor.begin_php();
        supervisor.listen_all();
        saker_cli::apache::detach::let_go();
        supervisor.fill_pid_file();
        supervisor.announce();
        let control = control_socket.and_then(|(socket, peers)| {
            Some((tokio::net::UnixListener::from_std(socket).ok()?, peers))
        });
        let conversations = async {
            match control {
                Some((listener, peers)) => {
                    saker_control::serve(
                        listener,
                        peers,
                        Rc::clone(&supervisor) as Rc<dyn saker_control::Control>,
                    )
                    .await
                }
                None => std::future::pending().await,
            }
        };
        let metrics = Rc::clone(&supervisor) as Rc<dyn metrics_endpoint::MetricsSource>;
        let end = async {
            supervisor.stopping().await;
            supervisor.stop_workers().await;
            supervisor.stop_php().await;
        };
        let certificates = supervisor.watch_certificates();
        // Signals and the control socket are served to the very end, so that an operator can still
        // cut the wait short.
        tokio::select! {
            () = end => {}
            () = conversations => {}
            () = certificates => {}
            () = supervisor.staple_ocsp_responses() => {}
            () = supervisor.warm_up() => {}
            () = supervisor.look_after_abuse() => {}
            () = supervisor.watch_configuration() => {}
            () = supervisor.follow_discovery() => {}
            () = systemd::keep_alive() => {}
            () = sandbox::report_refused_calls() => {}
            () = metrics_endpoint::serve(metrics) => {}
            () = saker_console::serve(console::backend(&supervisor)) => {}
            () = supervisor.sample() => {}
            () = supervisor.follow_predecessor(shared) => {}
            () = signals.obey(&supervisor) => {}
        }
        Ok(())
    })
}

/// A panic in a connection's task ends that connection. It is logged, and counted once the
/// counters exist.
fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        if let Some(counters) = PANIC_COUNTERS.get() {
            counters.increment_from_any_thread(Metric::Panics);
        }
        error_log::log(&message::WORKER_PANIC, format_args!("{info}"))
    }));
}

fn report_watch_error(error: WatchError) {
    match error {
        WatchError::LimitReached => error_log::log(&message::WATCH_LIMIT, format_args!("")),
        WatchError::QueueOverflow => error_log::log(&message::WATCH_OVERFLOW, format_args!("")),
        WatchError::Failed(error) => {
            error_log::log(&message::WATCH_FAILED, format_args!("{error}"))
        }
    }
}

/// The broker starts programs, where there is one: they have the rights of their users alone.
fn start_programs_by(broker: Option<&Arc<BrokerClient>>) {
    let Some(broker) = broker else { return };
    log_programs::start_by(broker);
    saker_net::program::start_commands_by(Arc::<BrokerClient>::clone(broker));
}

/// No link in a document root leads to keys and accounts, and no rule to sockets.
fn keep_state_private(server: &model::Server, lock: &Lock) -> Result<(), Refusal> {
    saker_gateway::close_folder(&server.state_dir);
    let groups = saker_net::process::GUARD_GROUPS;
    saker_files::keep_private(lock.directory(), groups)
        .map_err(|error| format!("{}: {error}", lock.path().display()).into())
}

/// The lock of the state directory, and the server that had it.
type Locked = (Lock, Option<Predecessor>, Option<Inherited>);

/// A server that is stopping lets go of the directory; one that `saker upgrade` replaces shares it.
fn lock_state(server: &model::Server) -> Result<Locked, Refusal> {
    let uid = server.user.as_deref().and_then(privileges::uid_of);
    let lock = || StateDir::open_for(&server.state_dir, uid).and_then(StateDir::lock);
    if inheritance::task() == Some(Task::TakeOver) {
        let directory =
            StateDir::open_for(&server.state_dir, uid).map_err(|error| error.to_string())?;
        let mut inherited = Inherited::ask(&server.state_dir)?;
        let lock = inherited.take_lock(directory);
        let lock = lock.ok_or("the running server has no lock")?;
        return Ok((lock, None, Some(inherited)));
    }
    match lock() {
        Ok(lock) => Ok((lock, None, None)),
        Err(error @ StateDirError::Running { .. }) => {
            let predecessor =
                Predecessor::ask(&server.state_dir).ok_or_else(|| error.to_string())?;
            lock()
                .map(|lock| (lock, Some(predecessor), None))
                .map_err(|error| error.to_string().into())
        }
        Err(error) => Err(error.to_string().into()),
    }
}

/// Each connection needs a descriptor, and so do open files; a low limit is raised as far as it
/// goes.
fn check_descriptors(model: &Model) -> u64 {
    let limit = saker_net::process::raise_descriptor_limit().unwrap_or(1024);
    if limit < model.limits.connections_max {
        error_log::log(
            &message::DESCRIPTOR_LIMIT_LOW,
            format_args!(
                "{limit} descriptors, {} connections",
                model.limits.connections_max
            ),
        );
    }
    limit
}

fn shared(
    workers: usize,
    started: Instant,
    descriptors_max: u64,
    broker: Option<Arc<BrokerClient>>,
) -> Result<Arc<Shared>, String> {
    let watcher =
        Watcher::start(report_watch_error).map_err(|error| format!("inotify: {error}"))?;
    if !watcher.is_watching() {
        error_log::log(
            &message::CONFIG_WARNING,
            format_args!(
                "cannot watch files for changes: no inotify instance is left for this user; each request looks at its files \
                 (raise the sysctl fs.inotify.max_user_instances)"
            ),
        );
    }
    Ok(Arc::new(Shared {
        make_services: registry::services,
        make_stream_rules: registry::stream_rules,
        watcher,
        counters: (0..workers).map(|_| Counters::new()).collect(),
        site_stats: (0..workers).map(|_| Arc::default()).collect(),
        traces: Arc::default(),
        latencies: Arc::default(),
        tail: Arc::default(),
        main_counters: Counters::new(),
        connections: Default::default(),
        sessions: Default::default(),
        late_connections: Default::default(),
        dictionaries: Arc::default(),
        busy: Default::default(),
        quic: OnceLock::new(),
        abuse: Arc::new(ClientLimits {
            addresses: Arc::new(AddressTable::new(ADDRESSES_MAX)),
            bans: Arc::default(),
            repeats: Default::default(),
        }),
        guard: Arc::default(),
        challenges: Arc::default(),
        logs: LogFiles::default(),
        open_requests: OpenRequests::new(workers),
        page_cache: RwLock::default(),
        known_hosts: Mutex::new(None),
        buffer_files: BufferFiles::new(std::env::temp_dir().into()),
        broker,
        started,
        descriptors_max,
    }))
}

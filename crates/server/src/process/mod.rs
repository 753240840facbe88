//! The process: configuration, listeners, workers, signals, reload, end. Runs on the main thread,
//! which serves no request.

mod broker;
mod cache_control;
mod greeting;
mod guard_keys;
mod hand_on;
mod known_hosts;
mod listeners;
mod log_programs;
mod neighbours;
mod operator;
mod page_cache;
mod pid_file;
mod privileges;
mod signals;
mod source;
mod succession;
mod warming;
mod workers;

use crate::{
    automatic::Automatic,
    control::{self, Lock, StateDir, StateDirError},
    log_files::LogFiles,
    secured::Secured,
    shared::{OpenRequests, Shared},
};
use listeners::Listeners;
use operator::{Held, Operator};
use saker_abuse::ClientLimits;
use saker_broker_client::BrokerClient;
use saker_config::{HostTable, Model, model};
use saker_files::{BufferFiles, Watcher};
use saker_pipeline::Generation;
use saker_rate_limits::AddressTable;
use saker_telemetry::{
    Counters,
    error_log::{self, ErrorLogTarget},
    message,
};
pub use source::{
    ApacheInput, Source, load_apache, load_apache_keeping_places, load_native, settle_php,
};
use std::{
    cell::RefCell,
    os::unix::net::UnixListener,
    process::ExitCode,
    rc::Rc,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};
use succession::Predecessor;
use tokio::runtime::Runtime;
use workers::Workers;

/// Client addresses with an account at a time, some 250 bytes each; more of them share one.
const ADDRESSES_MAX: usize = 1 << 19;

/// Why the server did not start, and the exit status that says so.
enum Failure {
    Configuration(String),
    Start(String),
}

/// Runs a server until it is told to stop.
pub fn run(source: Source) -> ExitCode {
    if let Some(status) = broker::take_part(&source) {
        return status;
    }
    match try_run(source) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Configuration(text)) => {
            eprint!("{text}");
            ExitCode::from(1)
        }
        Err(Failure::Start(text)) => {
            // A line for each cause.
            for line in text.trim_end().lines() {
                error_log::log(&message::START_FAILED, format_args!("{line}"));
            }
            error_log::flush(Duration::from_secs(1));
            ExitCode::from(2)
        }
    }
}

fn try_run(source: Source) -> Result<(), Failure> {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Start(error.to_string()))?;
    // First of all: until somebody listens to them, HUP and USR1 would end the process. What comes
    // now is obeyed after the start.
    let signals = {
        let _inside = runtime.enter();
        signals::Signals::new().map_err(|error| Failure::Start(error.to_string()))?
    };
    saker_config::modsecurity::write_logs();
    if rustix::process::geteuid().is_root() {
        saker_net::privileged::record();
    }
    let read = source.read().map_err(Failure::Configuration)?;
    let server = read.model.server.clone();
    let server = &server;
    report_panics();
    read.warnings.iter().for_each(|warning| {
        error_log::log(
            &message::CONFIG_WARNING,
            format_args!("{}", source::on_one_line(warning)),
        )
    });
    // Before there are keys in memory, and while we are root.
    let broker = broker::start(&read).map_err(Failure::Start)?;
    broker.iter().for_each(log_programs::start_by);
    let (lock, predecessor) = lock_state(server).map_err(Failure::Start)?;
    let descriptors_max = check_descriptors(&read.model);
    let workers = workers::count(&server.workers);
    let listeners =
        Listeners::open(&read.model.listeners, workers, predecessor).map_err(Failure::Start)?;
    // Keys are often root's alone.
    let hosts = Arc::new(HostTable::new(&read.model));
    let (secured, warnings) =
        Secured::build(&read.model, &hosts, None).map_err(Failure::Configuration)?;
    warnings
        .iter()
        .for_each(|warning| error_log::log(&message::CONFIG_WARNING, format_args!("{warning}")));
    let secured = Arc::new(secured);
    let pid_file = pid_file::PidFile::make(&read.model.server).map_err(Failure::Start)?;
    // It belongs to who starts the server, and so does the right to use it: what runs as the user
    // that the server becomes is not asked for more.
    let peers = control::Peers::new(&server.control_users).map_err(Failure::Start)?;
    let control_socket = lock
        .bind_control()
        .map_err(|error| error_log::log(&message::CONTROL_SOCKET_FAILED, format_args!("{error}")))
        .ok();
    privileges::drop(&read.model, &lock, &peers).map_err(Failure::Start)?;
    let shared = shared(workers, started, descriptors_max, broker).map_err(Failure::Start)?;
    let core_of = workers::placement(&server.affinity);
    let known_hosts = shared.known_hosts(&read.model).map_err(Failure::Start)?;
    let generation = Generation::with_hosts(1, read.model, hosts)
        .with_front_end(read.front_end)
        .with_known_hosts(known_hosts);
    let generation = generation.with_identities(&secured.identities);
    let generation = Arc::new(generation);
    operator::open_logs(&generation, &shared).map_err(Failure::Start)?;
    if !listeners.has_predecessor() {
        page_cache::open(&generation.model, &shared);
    }
    // By the user whose state it is from now on, and before the first handshake.
    let automatic = Automatic::new(&shared, secured.identities.run_time());
    let prepared = automatic.prepare(&generation).map_err(Failure::Start)?;
    // Last, so that whatever keeps the server from starting is said where it was started, and so
    // that the file is opened by the user who will have to open it again.
    start_error_log(&generation.model).map_err(Failure::Start)?;
    let workers = Workers::start(&shared, &generation, &secured, workers, core_of)
        .map_err(|error| Failure::Start(error.to_string()))?;
    let peers = Rc::new(RefCell::new(peers));
    let held = Held {
        listeners,
        lock,
        pid_file,
        peers: Rc::clone(&peers),
    };
    let operator = Operator::new(
        source, shared, generation, secured, workers, held, automatic,
    );
    {
        let _inside = runtime.enter();
        operator.begin_automatic(prepared);
        operator.begin_php();
        operator.begin_health();
    }
    crate::cli::apache::detach::let_go();
    operator.fill_pid_file();
    saker_net::process::give_back_freed_memory();
    serve(
        &runtime,
        signals,
        operator,
        control_socket.map(|socket| (socket, peers)),
    );
    // What its threads still wait for (a name server, a file system) is not waited for.
    runtime.shutdown_background();
    Ok(())
}

/// The main thread's loop. Ends when the server has ended.
fn serve(
    runtime: &Runtime,
    mut signals: signals::Signals,
    operator: Operator,
    control_socket: Option<(UnixListener, Rc<RefCell<control::Peers>>)>,
) {
    let operator = Rc::new(operator);
    runtime.block_on(async {
        let shared = operator.shared_sockets();
        operator.listen_all();
        operator.announce();
        let control = control_socket.and_then(|(socket, peers)| {
            Some((tokio::net::UnixListener::from_std(socket).ok()?, peers))
        });
        let conversations = async {
            match control {
                Some((listener, peers)) => {
                    control::serve(
                        listener,
                        peers,
                        Rc::clone(&operator) as Rc<dyn control::Control>,
                    )
                    .await
                }
                None => std::future::pending().await,
            }
        };
        let end = async {
            operator.stopping().await;
            operator.stop_workers().await;
            operator.stop_php().await;
        };
        let certificates = operator.watch_certificates();
        // Signals and conversations go on to the very end: whoever is tired of waiting can still
        // cut it short.
        tokio::select! {
            () = end => {}
            () = conversations => {}
            () = certificates => {}
            () = operator.fetch_staples() => {}
            () = operator.warm_up() => {}
            () = operator.look_after_neighbours() => {}
            () = operator.follow_predecessor(shared) => {}
            () = signals.obey(&operator) => {}
        }
    });
}

fn start_error_log(model: &Model) -> Result<(), String> {
    let server = &model.server;
    let log = &server.error_log;
    let name = match &log.target {
        ErrorLogTarget::Stderr => "standard error".into(),
        ErrorLogTarget::File(path) => path.display().to_string(),
        ErrorLogTarget::Program(command) => format!("|{command}"),
        ErrorLogTarget::Syslog(_) => "syslog".into(),
    };
    tune_error_log(model);
    error_log::init(&log.target, log.level.into())
        .map_err(|error| crate::log_files::cannot_open("error log", &name, &error))
}

/// What a reload may change of it.
fn tune_error_log(model: &Model) {
    let log = &model.server.error_log;
    error_log::set_sites(
        model
            .sites
            .iter()
            .filter_map(|site| site.error_log.as_ref()),
    );
    error_log::set_areas(
        &log.areas
            .iter()
            .map(|(area, own)| (*area, (*own).into()))
            .collect::<Vec<_>>(),
    );
    error_log::set_formats(&log.formats);
    error_log::set_httpd(log.speaks_httpd);
    error_log::set_level(log.level.into());
}

/// A panic in a connection's task ends that connection; the operator hears of it.
fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        error_log::log(&message::WORKER_PANIC, format_args!("{info}"))
    }));
}

/// A server that is stopping lets go of the directory.
fn lock_state(server: &model::Server) -> Result<(Lock, Option<Predecessor>), String> {
    let uid = server.user.as_deref().and_then(privileges::uid_of);
    let lock = || StateDir::open_for(&server.state_dir, uid).and_then(StateDir::lock);
    match lock() {
        Ok(lock) => Ok((lock, None)),
        Err(error @ StateDirError::Running { .. }) => {
            let predecessor =
                Predecessor::ask(&server.state_dir).ok_or_else(|| error.to_string())?;
            lock()
                .map(|lock| (lock, Some(predecessor)))
                .map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
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
    let watcher = Watcher::start().map_err(|error| format!("inotify: {error}"))?;
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
        watcher,
        counters: (0..workers).map(|_| Counters::new()).collect(),
        tallies: (0..workers).map(|_| Arc::default()).collect(),
        main_counters: Counters::new(),
        connections: Default::default(),
        late_connections: Default::default(),
        busy: Default::default(),
        quic: OnceLock::new(),
        neighbours: Arc::new(ClientLimits {
            addresses: Arc::new(AddressTable::new(ADDRESSES_MAX)),
            bans: Arc::default(),
            repeats: Default::default(),
        }),
        guard: Arc::default(),
        challenges: Arc::default(),
        logs: LogFiles::default(),
        open_requests: OpenRequests::new(workers),
        page_cache: OnceLock::new(),
        known_hosts: Mutex::new(None),
        buffer_files: BufferFiles::new(std::env::temp_dir().into()),
        broker,
        started,
        descriptors_max,
    }))
}

//! The process supervisor: owns the workers, the listeners, and all exclusive resources.
//!
//! Called by: `start`, which creates it; signals and the control socket, which command it.
//! Caveat: it lives on the main thread, so its parts are cells, and none is borrowed across an
//! `await` except by the one task that stops it.
//! Out of scope: reloading (`reload`) and answers on the control socket (`control_answers`).

use super::{
    abuse_keys::KeyFile,
    acme::{Acme, Prepared},
    bans::{self, BanFile},
    cluster_clients::ClusterClients,
    console_parts::ConsoleParts,
    launcher::Launcher,
    listeners::Listeners,
    nginx_lines, ocsp_stapling, page_cache,
    pid_file::PidFile,
    startup_summary::{self, Shown},
    succession::{self, Successor},
    systemd::notify,
    warming,
    workers::Workers,
};
use saker_cli::source::Source;
use saker_config::model::{Address, Listener};
use saker_control::{EndpointSocket, LastReload, Lock, Peers};
use saker_discovery::Discoveries;
use saker_gateway::{HealthChecks, TraceExport};
use saker_net::BoundSocket;
use saker_page_cache::warm::WarmJobs;
use saker_pipeline::Generation;
use saker_serving::{
    shared::Shared,
    tls_state::{TlsState, Watch},
    worker_thread::Command,
};
use saker_telemetry::{error_log, message};
use std::{
    cell::{Cell, RefCell},
    io::Write as _,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Interval of checks for changed certificates; a check costs next to nothing.
const CERTIFICATES_LOOK: Duration = Duration::from_millis(250);
/// Interval at which bans are saved and lists are checked.
const ABUSE_LOOK: Duration = Duration::from_secs(1);
/// Interval of checks whether a warm-up is due.
const WARM_LOOK: Duration = Duration::from_secs(1);

/// Interval of checks whether the server may stop.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Time for the end of workers and PHP, in addition to that for requests.
const END_TIME_MS: u64 = 30_000;
/// Time for sending the last spans.
const TRACES_TIME: Duration = Duration::from_secs(2);
/// Time for telling a successor what the last requests did to the page cache.
const TELL_TIME: Duration = Duration::from_secs(2);
/// Part of the shutdown timeout reserved for the last requests.
const FINISH_TIME: Duration = Duration::from_secs(10);

/// Resources that only one server at a time can have.
pub struct ExclusiveResources {
    pub listeners: Listeners,
    pub lock: Lock,
    pub pid_file: Option<PidFile>,
    pub peers: Rc<RefCell<Peers>>,
    pub metrics: EndpointSocket,
    pub console: EndpointSocket,
    /// Sessions of the console before an upgrade.
    pub console_sessions: serde_json::Value,
    pub launcher: Option<Launcher>,
}

pub struct Supervisor {
    pub(super) source: Source,
    pub(super) shared: Arc<Shared>,
    pub(super) generation: RefCell<Arc<Generation>>,
    pub(super) tls: RefCell<Arc<TlsState>>,
    pub(super) workers: Workers,
    pub(super) listeners: RefCell<Listeners>,
    pub(super) last_reload: RefCell<Option<LastReload>>,
    /// The last configuration needs more than the sandbox allows.
    pub(super) outgrown: Cell<bool>,
    /// A new server is to take over when the server before this one has ended.
    pub(super) succession_waits: Cell<bool>,
    /// Starts successors where this process is confined.
    pub(super) launcher: Option<Launcher>,
    pub(super) acme: Acme,
    /// Users of the control socket, if there is one.
    pub(super) peers: Rc<RefCell<Peers>>,
    pub(super) ban_file: RefCell<BanFile>,
    pub(super) key_file: RefCell<KeyFile>,
    pub(super) cluster_clients: RefCell<ClusterClients>,
    pub(super) warm_ups: WarmJobs,
    pub(super) health: RefCell<HealthChecks>,
    pub(super) discoveries: RefCell<Discoveries>,
    pub(super) trace_export: RefCell<TraceExport>,
    /// PHP process managers. Lives on this thread; only the task that stops it holds it across an
    /// `await`.
    pub(super) php: RefCell<saker_php::Manager>,
    /// Asked to stop.
    pub(super) stopping: Cell<bool>,
    /// Asked not to wait for open requests.
    pub(super) at_once: Cell<bool>,
    /// Asked to take no new connections while it waits.
    pub(super) refuses: Cell<bool>,
    pub(super) stop: Notify,
    /// Held until a successor requests it.
    pub(super) lock: RefCell<Option<Lock>>,
    pub(super) pid_file: RefCell<Option<PidFile>>,
    pub(super) successor: Successor,
    /// A predecessor still has the page cache and UDP ports.
    pub(super) follows: Cell<bool>,
    pub(super) metrics: EndpointSocket,
    pub(super) console: ConsoleParts,
}

impl Supervisor {
    pub fn new(
        source: Source,
        shared: Arc<Shared>,
        generation: Arc<Generation>,
        tls: Arc<TlsState>,
        workers: Workers,
        held: ExclusiveResources,
        acme: Acme,
    ) -> Supervisor {
        let ExclusiveResources {
            listeners,
            lock,
            pid_file,
            peers,
            metrics,
            console,
            console_sessions,
            launcher,
        } = held;
        let ban_file = BanFile::open(
            &generation.model.server.state_dir,
            &shared.abuse.bans,
            saker_net::clock::realtime_s(),
        );
        let addresses = &shared.abuse.addresses;
        addresses.set_ipv6_prefix(generation.model.guard.ipv6_prefix);
        let trace_export = TraceExport::new(&shared.traces, &shared.main_counters);
        let follows = listeners.has_predecessor();
        let mut key_file = KeyFile::new(&generation.model.server.state_dir);
        key_file.keep(
            &generation.model,
            &shared.guard.keys,
            saker_net::clock::realtime_s(),
        );
        let state_dir = generation.model.server.state_dir.clone();
        let supervisor = Supervisor {
            source,
            shared,
            generation: RefCell::new(generation),
            tls: RefCell::new(tls),
            workers,
            listeners: RefCell::new(listeners),
            last_reload: RefCell::new(None),
            outgrown: Cell::new(false),
            succession_waits: Cell::new(false),
            launcher,
            acme,
            peers,
            ban_file: RefCell::new(ban_file),
            key_file: RefCell::new(key_file),
            cluster_clients: RefCell::default(),
            warm_ups: WarmJobs::default(),
            health: RefCell::default(),
            discoveries: RefCell::default(),
            trace_export: RefCell::new(trace_export),
            php: RefCell::default(),
            stopping: Cell::new(false),
            at_once: Cell::new(false),
            refuses: Cell::new(false),
            stop: Notify::new(),
            lock: RefCell::new(Some(lock)),
            pid_file: RefCell::new(pid_file),
            successor: Successor::default(),
            follows: Cell::new(follows),
            metrics,
            console: ConsoleParts::new(console, &console_sessions, &state_dir),
        };
        supervisor.apply_live(&supervisor.generation.borrow());
        supervisor
    }

    /// Certificates are ordered from here on. To be called within the runtime.
    pub fn begin_acme(&self, prepared: Prepared) {
        self.acme.share(&self.generation.borrow().model.cluster);
        self.acme.apply(prepared);
    }

    /// Bans and limits are shared with other servers from here on.
    pub fn begin_cluster(&self) {
        *self.cluster_clients.borrow_mut() =
            ClusterClients::begin(&self.shared, &self.generation.borrow());
    }

    /// Puts the changes of operators in force for a configuration.
    pub(super) fn apply_live(&self, generation: &Generation) {
        for why in self.console.live.borrow().apply(&generation.model) {
            let facts = format_args!("a change of the running server does not fit: {why}");
            error_log::log(&message::CONFIG_WARNING, facts);
        }
    }

    /// Servers are looked after from here on.
    pub fn begin_health(&self) {
        self.look_after(&self.generation.borrow());
        self.export_traces(&self.generation.borrow());
    }

    pub(super) fn look_after(&self, generation: &Generation) {
        let upstreams = generation.model.upstreams.iter();
        let upstreams: Vec<_> = upstreams.map(|one| one.current()).collect();
        if let Err(error) = self.health.borrow_mut().apply(&upstreams) {
            error_log::log(
                &message::CONFIG_WARNING,
                format_args!("health checks can't be made: {error}"),
            );
        }
    }

    /// Spans are sent from here on.
    pub(super) fn export_traces(&self, generation: &Generation) {
        let tracing = &generation.model.tracing;
        if let Err(error) = self.trace_export.borrow_mut().apply(tracing) {
            error_log::log(
                &message::CONFIG_WARNING,
                format_args!("traces can't be sent: {error}"),
            );
        }
    }

    /// Starts the PHP manager. Must be called within the runtime.
    pub fn begin_php(&self) {
        self.php
            .borrow_mut()
            .apply(&self.generation.borrow().model, self.shared.broker.as_ref());
    }

    /// Stops PHP after the last request has ended.
    pub async fn stop_php(&self) {
        let mut php = self.php.take();
        php.stop(!self.successor.has_asked()).await;
        let traces = self.trace_export.replace(TraceExport::new(
            &self.shared.traces,
            &self.shared.main_counters,
        ));
        traces.finish(TRACES_TIME).await;
        if self.is_nginx() {
            nginx_lines::note(format_args!("exit"));
        }
        error_log::log(&message::STOPPED, format_args!(""));
        error_log::flush(Duration::from_secs(1));
    }

    /// Hands every bound listener to the workers.
    pub fn listen_all(&self) {
        let addresses = self.listeners.borrow().addresses();
        addresses.iter().for_each(|address| self.listen(address));
        let with_quic = self.listeners.borrow().quic_addresses();
        with_quic
            .iter()
            .for_each(|address| self.listen_quic(address));
        let datagrams = self.listeners.borrow().datagram_addresses();
        datagrams
            .iter()
            .for_each(|address| self.listen_datagrams(address));
    }

    /// Called once the server serves.
    pub fn fill_pid_file(&self) {
        self.pid_file
            .borrow_mut()
            .iter_mut()
            .for_each(PidFile::fill);
    }

    /// One socket of each address that a predecessor listens on, too.
    pub fn shared_sockets(&self) -> Vec<BoundSocket> {
        self.listeners.borrow().shared()
    }

    pub(super) fn listen_quic(&self, address: &Arc<Address>) {
        let sockets = self.listeners.borrow_mut().take_quic(address);
        for (index, socket) in sockets.into_iter().enumerate() {
            self.workers
                .tell(index, Command::ListenQuic(Arc::clone(address), socket));
        }
    }

    pub(super) fn listen_datagrams(&self, address: &Arc<Address>) {
        let sockets = self.listeners.borrow_mut().take_datagrams(address);
        // There may be more than workers, from a server that had more.
        for (index, socket) in sockets.into_iter().enumerate() {
            let worker = index % self.workers.len().max(1);
            self.workers.tell(
                worker,
                Command::ListenDatagrams(Arc::clone(address), socket),
            );
        }
    }

    pub(super) fn listen(&self, address: &Arc<Address>) {
        let sockets = self.listeners.borrow_mut().take(address);
        // There may be more than workers, from a server that had more.
        for (index, socket) in sockets.into_iter().enumerate() {
            let worker = index % self.workers.len().max(1);
            self.workers
                .tell(worker, Command::Listen(Arc::clone(address), socket));
        }
    }

    /// Announces that the server serves: on the terminal, and to systemd.
    pub fn announce(&self) {
        let generation = Arc::clone(&self.generation.borrow());
        for address in self.listeners.borrow().shown() {
            error_log::log(&message::LISTENING, format_args!("{address}"));
        }
        if let Some(address) = self.metrics.local_address() {
            error_log::log(&message::LISTENING, format_args!("{address} (metrics)"));
        }
        if let Some(address) = self.console.socket.local_address() {
            error_log::log(&message::LISTENING, format_args!("{address} (console)"));
        }
        self.greet();
        if self.is_nginx() {
            nginx_lines::note(format_args!("using the \"epoll\" event method"));
            nginx_lines::note(format_args!("start worker processes"));
        }
        let elapsed = self.shared.started.elapsed();
        error_log::log(
            &message::STARTED,
            format_args!(
                "Saker {}, {}, {}, {elapsed:.0?}",
                env!("CARGO_PKG_VERSION"),
                counted(self.workers.len(), "worker"),
                counted(generation.model.sites.len(), "site")
            ),
        );
        notify(&format!(
            "READY=1\nMAINPID={}\nSTATUS=serving",
            std::process::id()
        ));
    }

    /// Prints what `saker serve` serves where. Standard output may be closed.
    fn greet(&self) {
        let Source::Directory(options) = &self.source else {
            return;
        };
        let listeners = self.listeners.borrow();
        let shown = listeners.shown().into_iter().map(|address| Shown {
            address,
            scheme: self.scheme(address),
            has_http3: listeners.has_quic_at(address),
        });
        let authority = self.tls.borrow().authority.clone();
        let text = startup_summary::text(
            options,
            &self.generation.borrow().model,
            shown,
            authority.as_deref(),
        );
        let _ = std::io::stdout().write_all(text.as_bytes());
    }

    fn scheme(&self, address: &Address) -> &'static str {
        let generation = self.generation.borrow();
        let is_tls =
            |listener: &Listener| listener.tls.is_some() && is_same(&listener.address, address);
        if generation.model.listeners.iter().any(is_tls) {
            "https"
        } else {
            "http"
        }
    }

    /// Looks after the files of certificates and ticket keys, for as long as the server runs.
    pub async fn watch_certificates(&self) {
        let mut tls = Arc::clone(&self.tls.borrow());
        let mut watch = Watch::new(&tls, &self.shared.watcher);
        loop {
            tokio::time::sleep(CERTIFICATES_LOOK).await;
            if !Arc::ptr_eq(&tls, &self.tls.borrow()) {
                tls = Arc::clone(&self.tls.borrow());
                watch = Watch::new(&tls, &self.shared.watcher);
            }
            watch.look(&tls, &self.shared.watcher);
        }
    }

    /// Warms the page cache up, for as long as the server runs: when it has started, and as often
    /// as the configuration says.
    pub async fn warm_up(&self) {
        let mut begun: Option<Instant> = None;
        loop {
            tokio::time::sleep(WARM_LOOK).await;
            let generation = Arc::clone(&self.generation.borrow());
            let cache = &generation.model.cache;
            let every = Duration::from_secs(cache.warmed_every_s);
            let is_due = begun.is_none_or(|at| !every.is_zero() && at.elapsed() >= every);
            if is_due && !cache.warmed.is_empty() && self.shared.store().is_some() {
                begun = Some(Instant::now());
                warming::by_configuration(
                    &self.warm_ups,
                    &generation.model,
                    &self.listeners.borrow(),
                    &self.workers,
                );
            }
        }
    }

    /// Looks after bans and lists of addresses, for as long as the server runs.
    pub async fn look_after_abuse(&self) {
        let mut told = 0;
        loop {
            tokio::time::sleep(ABUSE_LOOK).await;
            if self.successor.has_asked() {
                return std::future::pending().await;
            }
            let (bans, now_s) = (&self.shared.abuse.bans, saker_net::clock::realtime_s());
            bans.sweep(now_s);
            // Write errors have been reported, and are retried.
            let _ = self.ban_file.borrow_mut().keep(bans, now_s);
            self.key_file.borrow_mut().keep(
                &self.generation.borrow().model,
                &self.shared.guard.keys,
                now_s,
            );
            if std::mem::replace(&mut told, bans.changes()) != bans.changes() {
                self.workers.tell_all(|| Command::LookAtBans);
            }
            let (lists, databases) = {
                let model = &self.generation.borrow().model;
                (model.address_lists.clone(), model.geo_databases.clone())
            };
            if !lists.is_empty() || !databases.is_empty() {
                // A worker thread that ended in a panic has said so.
                let _ =
                    tokio::task::spawn_blocking(move || bans::refresh(&lists, &databases)).await;
            }
        }
    }

    /// Fetches OCSP responses for as long as the server runs.
    pub async fn staple_ocsp_responses(&self) {
        let state_dir = self.generation.borrow().model.server.state_dir.clone();
        ocsp_stapling::tend(|| Arc::clone(&self.tls.borrow()), &state_dir).await;
    }

    /// Once asked to stop at once, asking for less changes nothing.
    pub fn ask_stop(&self, graceful: bool) {
        self.stopping.set(true);
        self.at_once.set(self.at_once.get() || !graceful);
        self.stop.notify_one();
    }

    /// Returns true if the server runs an Apache configuration, and so obeys Apache's signals.
    pub fn is_apache(&self) -> bool {
        matches!(self.source, Source::Apache { .. })
    }

    /// Returns whether the server runs by an nginx configuration.
    pub fn is_nginx(&self) -> bool {
        matches!(self.source, Source::Nginx { .. })
    }

    /// Like Apache's graceful-stop: requests may finish, and no connection is accepted.
    pub fn ask_stop_refusing(&self) {
        self.refuses.set(true);
        self.ask_stop(true);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    pub async fn stopping(&self) {
        self.stop.notified().await;
    }

    pub async fn stop_workers(&self) {
        let limit_ms = self.generation.borrow().model.server.shutdown_timeout_ms;
        // A service manager that waits for less would cut what may still finish.
        let needed_us = limit_ms.saturating_add(END_TIME_MS).saturating_mul(1000);
        // Of an upgraded server, systemd waits for the successor.
        if !self.successor.is_upgraded() {
            notify(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={needed_us}"));
        }
        error_log::log(&message::STOPPING, format_args!(""));
        if self.is_apache() && !self.successor.is_upgraded() {
            // As Apache: a server that starts while requests finish does not take this one for
            // running.
            drop(self.pid_file.take());
        }
        let limit = Duration::from_millis(limit_ms);
        let until = Instant::now() + limit;
        if self.successor.is_upgraded() {
            // The successor accepts from the same queues. UDP has none: packets may be on their
            // way here.
            for address in self.listeners.borrow().addresses() {
                self.workers
                    .tell_all(|| Command::Unlisten((*address).clone()));
            }
        }
        if !self.refuses.get() {
            self.let_in_while_waiting(until - FINISH_TIME.min(limit / 2))
                .await;
        }
        self.metrics.close();
        self.console.socket.close();
        // Open Unix sockets would keep clients waiting in a queue that is not served.
        drop(self.listeners.borrow_mut().remove_all_but(&[]));
        self.workers.refuse().await;
        self.successor.set_listeners_closed();
        let finished = self.workers.end(&self.shared, until, &self.at_once).await;
        self.tell_figures();
        let told_by = Instant::now() + TELL_TIME;
        while !self.successor.is_told() && Instant::now() < told_by {
            tokio::time::sleep(STOP_POLL).await;
        }
        if let Some(node) = self.shared.cluster() {
            node.stop();
        }
        if !finished && !self.at_once.get() {
            error_log::log(
                &message::SHUTDOWN_TIMED_OUT,
                format_args!("after {limit_ms} ms"),
            );
        }
    }

    /// New connections are served for as long as older ones keep the server from ending, or until a
    /// successor listens.
    async fn let_in_while_waiting(&self, until: Instant) {
        self.workers.tell_all(|| Command::WindDown);
        loop {
            tokio::time::sleep(STOP_POLL).await;
            let is_waited_for =
                self.shared.earlier_connections() > 0 || self.successor.is_awaited();
            if !is_waited_for
                || self.successor.is_there()
                || self.at_once.get()
                || Instant::now() >= until
            {
                return;
            }
        }
    }

    /// Says to a predecessor that it may go, and takes over what only one server can have, when it
    /// has.
    pub async fn follow_predecessor(&self, shared: Vec<BoundSocket>) {
        if self.follow_running().await {
            return std::future::pending().await;
        }
        let Some(predecessor) = self.listeners.borrow_mut().take_predecessor() else {
            return std::future::pending().await;
        };
        predecessor.prefer(&shared);
        predecessor.say_listening();
        error_log::log(&message::TOOK_OVER, format_args!("pid {}", predecessor.pid));
        succession::until_gone(predecessor, shared).await;
        self.take_rest().await;
        std::future::pending().await
    }

    /// The page cache and UDP ports, which the predecessor had until now.
    async fn take_rest(&self) {
        let model = Arc::clone(&self.generation.borrow());
        page_cache::open_emptied(&model.model, &self.shared).await;
        self.follows.set(false);
        // A reload may have come meanwhile.
        let generation = Arc::clone(&self.generation.borrow());
        let with_quic = self
            .listeners
            .borrow_mut()
            .bind_quic(&generation.model.listeners, self.workers.len());
        let datagrams = self
            .listeners
            .borrow_mut()
            .bind_datagrams(&generation.model.datagrams, self.workers.len());
        let datagrams = datagrams.unwrap_or_else(|error| {
            let facts = format_args!("{}", error.trim_end());
            error_log::log(&message::LISTENER_FAILED, facts);
            Vec::new()
        });
        let tls = Arc::clone(&self.tls.borrow());
        self.workers
            .tell_all(|| Command::Generation(Arc::clone(&generation), Arc::clone(&tls)));
        with_quic
            .iter()
            .for_each(|address| self.listen_quic(address));
        datagrams
            .iter()
            .for_each(|address| self.listen_datagrams(address));
    }
}

/// Returns true if the configured listener is the one shown under `actual`, which has the kernel's
/// choice of port if none is configured.
fn is_same(configured: &Address, actual: &Address) -> bool {
    match (configured, actual) {
        (Address::Tcp(configured), Address::Tcp(actual)) if configured.port() == 0 => {
            configured.ip() == actual.ip()
        }
        _ => configured == actual,
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

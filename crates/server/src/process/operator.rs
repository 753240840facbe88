//! What an operator can ask of the running server: status, reload, reopening logs, stopping. By
//! signal and by control socket alike.

use super::{
    Source, broker, cache_control,
    greeting::{self, Shown},
    guard_keys::KeyFile,
    known_hosts,
    listeners::Listeners,
    neighbours::{self, BanFile},
    page_cache,
    pid_file::PidFile,
    source::on_one_line,
    succession::{self, Successor},
    warming,
    workers::Workers,
};
use crate::{
    automatic::{Automatic, Prepared},
    control::{
        self, BanVerb, CacheVerb, CertificateReport, Control, HostsVerb, LastReload, Lock, Peers,
        ReloadReport, StatusReport, UpstreamReport,
    },
    log_files,
    secured::{Secured, Watch},
    shared::Shared,
    staples,
    worker::Command,
};
use saker_config::model::{Address, Listener};
use saker_gateway::HealthChecks;
use saker_net::BoundSocket;
use saker_page_cache::warm::WarmJobs;
use saker_pipeline::{Generation, LocalFuture};
use saker_telemetry::{
    Counters, Metric, Snapshot, error_log, message,
    metrics::{ExtraGauge, prometheus},
};
use saker_tls::Installed;
use std::{
    cell::{Cell, RefCell},
    io::Write as _,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// How often changed certificates are looked for; looking costs next to nothing.
const CERTIFICATES_LOOK: Duration = Duration::from_millis(250);
/// How often bans are written down, and lists looked at.
const NEIGHBOURS_LOOK: Duration = Duration::from_secs(1);
/// How often it is looked whether it is time for a warm-up.
const WARM_LOOK: Duration = Duration::from_secs(1);

/// How often it is looked whether the server may stop.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Beyond the time for requests: workers and PHP end.
const END_TIME_MS: u64 = 30_000;
/// Of the time for stopping, left for requests that came last.
const FINISH_TIME: Duration = Duration::from_secs(10);

/// What one server at a time can have.
pub struct Held {
    pub listeners: Listeners,
    pub lock: Lock,
    pub pid_file: Option<PidFile>,
    pub peers: Rc<RefCell<Peers>>,
}

pub struct Operator {
    source: Source,
    shared: Arc<Shared>,
    generation: RefCell<Arc<Generation>>,
    secured: RefCell<Arc<Secured>>,
    workers: Workers,
    listeners: RefCell<Listeners>,
    last_reload: RefCell<Option<LastReload>>,
    automatic: Automatic,
    /// Users of the control socket, if there is one.
    peers: Rc<RefCell<Peers>>,
    ban_file: RefCell<BanFile>,
    key_file: RefCell<KeyFile>,
    warm_ups: WarmJobs,
    health: RefCell<HealthChecks>,
    /// On this thread, like everything here; nobody holds on to it across a wait but whoever stops
    /// it.
    php: RefCell<saker_php::Manager>,
    /// Asked to stop.
    stopping: Cell<bool>,
    /// Asked not to wait for open requests.
    at_once: Cell<bool>,
    /// Asked to take no new connections while it waits.
    refuses: Cell<bool>,
    stop: Notify,
    /// Until a successor has asked for it.
    lock: RefCell<Option<Lock>>,
    pid_file: RefCell<Option<PidFile>>,
    successor: Successor,
    /// A predecessor still has the page cache and UDP ports.
    follows: Cell<bool>,
}

/// Opens every access log of a generation, so that what can't be written is known before anything
/// is served.
pub fn open_logs(generation: &Generation, shared: &Shared) -> Result<(), String> {
    let failed = generation.model.sites.iter().flat_map(|site| {
        let logs = site.access_logs.iter().filter_map(|log| {
            let error = shared.logs.open(&log.target).err()?;
            Some(format!(
                "{}: {}\n",
                log.origin,
                log_files::cannot_open("access log", &log_files::name(&log.target), &error)
            ))
        });
        let errors = site
            .error_log
            .iter()
            .filter_map(|log| shared.logs.open_error_log(log).err());
        let forensic = site
            .forensic_log
            .iter()
            .filter_map(|log| shared.logs.open_forensic_log(log).err());
        logs.chain(
            errors
                .chain(forensic)
                .map(|error| format!("{}: {error}\n", site.origin)),
        )
    });
    match failed.collect::<String>() {
        text if text.is_empty() => Ok(()),
        text => Err(text),
    }
}

impl Operator {
    pub fn new(
        source: Source,
        shared: Arc<Shared>,
        generation: Arc<Generation>,
        secured: Arc<Secured>,
        workers: Workers,
        held: Held,
        automatic: Automatic,
    ) -> Operator {
        let Held {
            listeners,
            lock,
            pid_file,
            peers,
        } = held;
        let ban_file = BanFile::open(
            &generation.model.server.state_dir,
            &shared.neighbours.bans,
            saker_net::clock::realtime_s(),
        );
        shared
            .neighbours
            .addresses
            .set_ipv6_prefix(generation.model.guard.ipv6_prefix);
        let follows = listeners.has_predecessor();
        let mut key_file = KeyFile::new(&generation.model.server.state_dir);
        key_file.keep(
            &generation.model,
            &shared.guard.keys,
            saker_net::clock::realtime_s(),
        );
        Operator {
            source,
            shared,
            generation: RefCell::new(generation),
            secured: RefCell::new(secured),
            workers,
            listeners: RefCell::new(listeners),
            last_reload: RefCell::new(None),
            automatic,
            peers,
            ban_file: RefCell::new(ban_file),
            key_file: RefCell::new(key_file),
            warm_ups: WarmJobs::default(),
            health: RefCell::default(),
            php: RefCell::default(),
            stopping: Cell::new(false),
            at_once: Cell::new(false),
            refuses: Cell::new(false),
            stop: Notify::new(),
            lock: RefCell::new(Some(lock)),
            pid_file: RefCell::new(pid_file),
            successor: Successor::default(),
            follows: Cell::new(follows),
        }
    }

    /// Certificates are ordered from here on. To be called within the runtime.
    pub fn begin_automatic(&self, prepared: Prepared) {
        self.automatic.apply(prepared);
    }

    /// Servers are looked after from here on.
    pub fn begin_health(&self) {
        self.look_after(&self.generation.borrow());
    }

    fn look_after(&self, generation: &Generation) {
        if let Err(error) = self.health.borrow_mut().apply(&generation.model.upstreams) {
            error_log::log(
                &message::CONFIG_WARNING,
                format_args!("health checks can't be made: {error}"),
            );
        }
    }

    /// PHP can be asked for from here on. To be called within the runtime.
    pub fn begin_php(&self) {
        self.php
            .borrow_mut()
            .apply(&self.generation.borrow().model, self.shared.broker.as_ref());
    }

    /// After the last request has ended.
    pub async fn stop_php(&self) {
        let mut php = self.php.take();
        php.stop(!self.successor.has_asked()).await;
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
    }

    /// To be called when the server serves.
    pub fn fill_pid_file(&self) {
        self.pid_file
            .borrow_mut()
            .iter_mut()
            .for_each(PidFile::fill);
    }

    /// Of each address that a predecessor listens on, too, one socket.
    pub fn shared_sockets(&self) -> Vec<BoundSocket> {
        self.listeners.borrow().shared()
    }

    fn listen_quic(&self, address: &Arc<Address>) {
        let sockets = self.listeners.borrow_mut().take_quic(address);
        for (index, socket) in sockets.into_iter().enumerate() {
            self.workers
                .tell(index, Command::ListenQuic(Arc::clone(address), socket));
        }
    }

    fn listen(&self, address: &Arc<Address>) {
        let sockets = self.listeners.borrow_mut().take(address);
        for (index, socket) in sockets.into_iter().enumerate() {
            self.workers
                .tell(index, Command::Listen(Arc::clone(address), socket));
        }
    }

    /// Says that the server serves: to people, and to systemd.
    pub fn announce(&self) {
        let generation = Arc::clone(&self.generation.borrow());
        for address in self.listeners.borrow().shown() {
            error_log::log(&message::LISTENING, format_args!("{address}"));
        }
        self.greet();
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

    /// `saker serve` says to whoever typed it what is served where. Nobody may be reading.
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
        let authority = self.secured.borrow().authority.clone();
        let text = greeting::text(
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
        let mut secured = Arc::clone(&self.secured.borrow());
        let mut watch = Watch::new(&secured, &self.shared.watcher);
        loop {
            tokio::time::sleep(CERTIFICATES_LOOK).await;
            if !Arc::ptr_eq(&secured, &self.secured.borrow()) {
                secured = Arc::clone(&self.secured.borrow());
                watch = Watch::new(&secured, &self.shared.watcher);
            }
            watch.look(&secured, &self.shared.watcher);
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
            if is_due && !cache.warmed.is_empty() && self.shared.page_cache.get().is_some() {
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
    pub async fn look_after_neighbours(&self) {
        let mut told = 0;
        loop {
            tokio::time::sleep(NEIGHBOURS_LOOK).await;
            if self.successor.has_asked() {
                return std::future::pending().await;
            }
            let (bans, now_s) = (&self.shared.neighbours.bans, saker_net::clock::realtime_s());
            bans.sweep(now_s);
            // What can't be written was said, and is tried again.
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
                    tokio::task::spawn_blocking(move || neighbours::refresh(&lists, &databases))
                        .await;
            }
        }
    }

    /// Fetches what is stapled, for as long as the server runs.
    pub async fn fetch_staples(&self) {
        let state_dir = self.generation.borrow().model.server.state_dir.clone();
        staples::tend(|| Arc::clone(&self.secured.borrow()), &state_dir).await;
    }

    /// Once asked to stop at once, asking for less changes nothing.
    pub fn ask_stop(&self, graceful: bool) {
        self.stopping.set(true);
        self.at_once.set(self.at_once.get() || !graceful);
        self.stop.notify_one();
    }

    /// Whether it runs by Apache's configuration, and so obeys Apache's signals.
    pub fn is_apache(&self) -> bool {
        matches!(self.source, Source::Apache { .. })
    }

    /// As Apache's graceful-stop: requests may finish, and nothing new comes in.
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
        notify(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={needed_us}"));
        error_log::log(&message::STOPPING, format_args!(""));
        if self.is_apache() {
            // As Apache: who starts another one while requests finish does not take this one for
            // it.
            drop(self.pid_file.take());
        }
        let limit = Duration::from_millis(limit_ms);
        let until = Instant::now() + limit;
        if !self.refuses.get() {
            self.let_in_while_waiting(until - FINISH_TIME.min(limit / 2))
                .await;
        }
        // What we still hold of Unix sockets would keep clients waiting in a queue that nobody
        // looks at.
        drop(self.listeners.borrow_mut().remove_all_but(&[]));
        self.workers.refuse().await;
        self.successor.set_listeners_closed();
        let finished = self.workers.end(&self.shared, until, &self.at_once).await;
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
        let secured = Arc::clone(&self.secured.borrow());
        self.workers
            .tell_all(|| Command::Generation(Arc::clone(&generation), Arc::clone(&secured)));
        with_quic
            .iter()
            .for_each(|address| self.listen_quic(address));
    }

    pub fn reopen(&self) -> Result<(), String> {
        let mut failures = self.shared.logs.reopen();
        failures.extend(
            error_log::reopen()
                .err()
                .map(|error| log_files::cannot_open("error log", "", &error)),
        );
        match failures.is_empty() {
            true => {
                error_log::log(&message::LOG_REOPENED, format_args!(""));
                Ok(())
            }
            false => {
                failures.iter().for_each(|failure| {
                    error_log::log(&message::LOG_REOPEN_FAILED, format_args!("{failure}"))
                });
                Err(failures.join("\n"))
            }
        }
    }

    /// Builds the new configuration beside the running one and swaps it in whole, or leaves
    /// everything as it is and says why.
    pub fn reload_now(&self) -> Result<ReloadReport, String> {
        notify("RELOADING=1");
        let result = self.try_reload();
        let at_unix_s = saker_net::clock::realtime_s().unsigned_abs();
        *self.last_reload.borrow_mut() = Some(LastReload {
            at_unix_s,
            error: result.as_ref().err().cloned(),
        });
        match &result {
            Ok(report) => {
                self.shared.main_counters.increment(Metric::ReloadsOk);
                error_log::log(
                    &message::RELOADED,
                    format_args!("generation {}", report.generation),
                );
            }
            Err(text) => {
                self.shared.main_counters.increment(Metric::ReloadsFailed);
                error_log::log(
                    &message::RELOAD_REFUSED,
                    format_args!("{}", text.trim_end()),
                );
            }
        }
        saker_net::process::give_back_freed_memory();
        notify("READY=1");
        result
    }

    fn try_reload(&self) -> Result<ReloadReport, String> {
        if self.is_stopping() {
            return Err("the server is stopping".into());
        }
        // First, because reading needs them; in force only when the new configuration is.
        let (grants, ungranted) = broker::prepare(self.shared.broker.as_deref())?;
        self.load(grants, ungranted.clone())
            .map_err(|text| match ungranted {
                Some(warning) => format!("{}\n{warning}\n", text.trim_end()),
                None => text,
            })
    }

    /// What it returns early on leaves everything as it was.
    fn load(
        &self,
        grants: broker::Prepared<'_>,
        ungranted: Option<String>,
    ) -> Result<ReloadReport, String> {
        let mut read = self.source.read()?;
        let old = Arc::clone(&self.generation.borrow());
        let has_store = self.shared.page_cache.get().is_some();
        read.warnings
            .extend(fixed_until_restart(&old, &read.model, has_store));
        read.warnings
            .extend(ungranted.or_else(|| broker::missing(self.shared.broker.as_deref(), &read)));
        let users = &read.model.server.control_users;
        let peers = self.peers.borrow().with_users(users)?;
        let known_hosts = self.shared.known_hosts(&read.model)?;
        let generation = Generation::new(old.number + 1, read.model)
            .with_front_end(read.front_end)
            .with_known_hosts(known_hosts);
        let (secured, warnings) = Secured::build(
            &generation.model,
            &generation.hosts,
            Some(&self.secured.borrow()),
        )?;
        read.warnings.extend(warnings);
        let secured = Arc::new(secured);
        let generation = Arc::new(generation.with_identities(&secured.identities));
        open_logs(&generation, &self.shared)?;
        let automatic = self.automatic.prepare(&generation)?;
        let added = self
            .listeners
            .borrow_mut()
            .bind_all(&generation.model.listeners, self.workers.len())?;
        // From here on nothing fails.
        read.warnings.extend(grants.commit());
        self.peers.replace(peers);
        if !self.follows.get() {
            page_cache::open(&generation.model, &self.shared);
        }
        super::tune_error_log(&generation.model);
        self.shared
            .neighbours
            .addresses
            .set_ipv6_prefix(generation.model.guard.ipv6_prefix);
        self.workers
            .tell_all(|| Command::Generation(Arc::clone(&generation), Arc::clone(&secured)));
        *self.secured.borrow_mut() = secured;
        self.php
            .borrow_mut()
            .apply(&generation.model, self.shared.broker.as_ref());
        self.automatic.apply(automatic);
        self.look_after(&generation);
        for address in &added {
            error_log::log(&message::LISTENER_ADDED, format_args!("{address}"));
            self.listen(address);
        }
        // Before TCP's: who comes back to a port finds it free.
        let gone = self
            .listeners
            .borrow_mut()
            .remove_all_quic_but(&generation.model.listeners);
        for address in gone {
            self.workers
                .tell_all(|| Command::UnlistenQuic((*address).clone()));
        }
        if !self.follows.get() {
            let with_quic = self
                .listeners
                .borrow_mut()
                .bind_quic(&generation.model.listeners, self.workers.len());
            with_quic
                .iter()
                .for_each(|address| self.listen_quic(address));
        }
        let removed = self
            .listeners
            .borrow_mut()
            .remove_all_but(&generation.model.listeners);
        for address in removed {
            error_log::log(&message::LISTENER_REMOVED, format_args!("{address}"));
            self.workers
                .tell_all(|| Command::Unlisten((*address).clone()));
        }
        read.warnings.iter().for_each(|warning| {
            error_log::log(
                &message::CONFIG_WARNING,
                format_args!("{}", on_one_line(warning)),
            )
        });
        let report = ReloadReport {
            generation: generation.number,
            listeners: generation.model.listeners.len() as u64,
            sites: generation.model.sites.len() as u64,
            warnings: read.warnings,
        };
        *self.generation.borrow_mut() = generation;
        Ok(report)
    }

    fn certificates(&self) -> Vec<CertificateReport> {
        let installed = self.secured.borrow().identities.run_time().all();
        let report = |one: Installed| CertificateReport {
            names: one.names,
            not_after_unix_s: u64::try_from(one.not_after).unwrap_or(0),
        };
        installed.into_iter().map(report).collect()
    }

    fn snapshot(&self) -> Snapshot {
        let mut all = self.shared.counters.clone();
        all.push(Arc::clone(&self.shared.main_counters));
        Counters::sum(&all)
    }
}

/// Whether a listener is the one that is shown under `actual`, which has the kernel's choice where
/// the port was left to it.
fn is_same(configured: &Address, actual: &Address) -> bool {
    match (configured, actual) {
        (Address::Tcp(configured), Address::Tcp(actual)) if configured.port() == 0 => {
            configured.ip() == actual.ip()
        }
        _ => configured == actual,
    }
}

/// What a reload can't change, where it was asked to.
fn fixed_until_restart(
    old: &Generation,
    new: &saker_config::Model,
    has_store: bool,
) -> Vec<String> {
    let of_store = page_cache::fixed_until_restart(&old.model, new).filter(|_| has_store);
    let (old, new) = (&old.model.server, &new.server);
    let rows = [
        ("server.workers", old.workers != new.workers),
        ("server.affinity", old.affinity != new.affinity),
        ("server.user", old.user != new.user),
        ("server.group", old.group != new.group),
        ("server.state_dir", old.state_dir != new.state_dir),
        (
            "server.error_log",
            old.error_log.target != new.error_log.target,
        ),
    ];
    let changed = rows
        .into_iter()
        .filter(|row| row.1)
        .map(|row| row.0)
        .chain(of_store);
    changed
        .map(|what| format!("{what} changes with the next start, not with a reload"))
        .collect()
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

fn notify(state: &str) {
    let state = match state {
        // systemd wants to know when the reload began (sd_notify(3), Type=notify-reload).
        "RELOADING=1" => format!(
            "RELOADING=1\nMONOTONIC_USEC={}",
            saker_net::clock::monotonic_precise_ns() / 1000
        ),
        state => state.to_owned(),
    };
    if let Err(error) = saker_net::systemd::notify(&state) {
        error_log::log(&message::NOTIFY_FAILED, format_args!("{error}"));
    }
}

impl Control for Operator {
    fn status(&self) -> StatusReport {
        let generation = self.generation.borrow();
        StatusReport {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_ms: self.shared.started.elapsed().as_millis() as u64,
            generation: generation.number,
            configuration: self.source.name(),
            workers: self.workers.len() as u64,
            listeners: self
                .listeners
                .borrow()
                .shown()
                .iter()
                .map(ToString::to_string)
                .collect(),
            sites: generation.model.sites.len() as u64,
            shutdown_timeout_ms: generation.model.server.shutdown_timeout_ms,
            counters: control::counters(&self.snapshot()),
            last_reload: self.last_reload.borrow().clone(),
            certificates: self.certificates(),
            page_cache: self
                .shared
                .store()
                .map(|store| cache_control::sites(&generation.model, &store, &self.shared.tallies)),
            hosts: known_hosts::report(&generation),
            upstreams: generation
                .model
                .upstreams
                .iter()
                .map(|one| UpstreamReport::new(one))
                .collect(),
        }
    }

    fn prometheus(&self) -> String {
        let expiry = self
            .secured
            .borrow()
            .identities
            .first_expiry()
            .map(|at| ExtraGauge {
                name: "certificate_expiry_timestamp_seconds",
                help: "When the first of all certificates runs out, in seconds since 1970.",
                value: at as f64,
            });
        let gauges = [
            ExtraGauge {
                name: "uptime_seconds",
                help: "Seconds since the start.",
                value: self.shared.started.elapsed().as_secs_f64(),
            },
            ExtraGauge {
                name: "watched_directories",
                help: "Directories watched for changes.",
                value: self.shared.watcher.watched_directories() as f64,
            },
            ExtraGauge {
                name: "generation",
                help: "Configurations loaded so far.",
                value: self.generation.borrow().number as f64,
            },
        ];
        let gauges: Vec<_> = gauges
            .into_iter()
            .chain(expiry)
            .chain(known_hosts::gauges(&self.generation.borrow()))
            .collect();
        prometheus(&self.snapshot(), &gauges)
    }

    fn reload(&self) -> LocalFuture<'_, Result<ReloadReport, String>> {
        Box::pin(async { self.reload_now() })
    }

    fn stop(&self, graceful: bool) {
        self.ask_stop(graceful);
    }

    fn hand_over(&self) -> Result<serde_json::Value, String> {
        if !self.is_stopping() {
            return Err("the server is running".into());
        }
        let lock = self
            .lock
            .borrow_mut()
            .take()
            .ok_or("another server has taken over")?;
        let answer = serde_json::json!({
            "ok": true,
            "pid": std::process::id(),
            "workers": self.workers.len(),
            "listeners": self.listeners.borrow().addresses().iter().map(|address| address.to_string()).collect::<Vec<_>>(),
        });
        // What can't be written was said.
        let _ = self
            .ban_file
            .borrow_mut()
            .keep(&self.shared.neighbours.bans, saker_net::clock::realtime_s());
        self.successor.set_asked();
        drop(lock);
        error_log::log(&message::HANDED_OVER, format_args!(""));
        Ok(answer)
    }

    fn successor_listens(&self, listens: bool) {
        match listens {
            true => self.successor.set_listening(),
            false => self.successor.set_failed(),
        }
    }

    fn listeners_closed(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.successor.listeners_closed())
    }

    fn reopen_logs(&self) -> Result<(), String> {
        self.reopen()
    }

    fn bans(&self, verb: &BanVerb) -> Result<serde_json::Value, String> {
        let answer = neighbours::answer(
            verb,
            &self.shared.neighbours.bans,
            &mut self.ban_file.borrow_mut(),
            saker_net::clock::realtime_s(),
        );
        self.workers.tell_all(|| Command::LookAtBans);
        answer
    }

    fn hosts(&self, verb: &HostsVerb) -> Result<serde_json::Value, String> {
        known_hosts::answer(verb, &self.generation.borrow())
    }

    fn cache<'c>(
        &'c self,
        verb: &'c CacheVerb,
    ) -> LocalFuture<'c, Result<serde_json::Value, String>> {
        let (generation, store) = (Arc::clone(&self.generation.borrow()), self.shared.store());
        if let (CacheVerb::Warm(verb), Some(_)) = (verb, &store) {
            let answer = warming::answer(
                verb,
                &self.warm_ups,
                &generation.model,
                &self.listeners.borrow(),
                &self.workers,
            );
            return Box::pin(std::future::ready(answer));
        }
        Box::pin(async move {
            cache_control::answer(verb, &generation.model, store, &self.shared.tallies).await
        })
    }
}

//! What an operator can ask of the running server: status, reload, reopening logs, stopping. By signal and by control socket alike.

use super::{
    Source, cache_control,
    guard_keys::KeyFile,
    known_hosts,
    listeners::Listeners,
    neighbours::{self, BanFile},
    page_cache, starter, warming,
    workers::Workers,
};
use crate::{
    automatic::{Automatic, Prepared},
    control::{self, BanVerb, CacheVerb, CertificateReport, Control, HostsVerb, LastReload, ReloadReport, StatusReport, UpstreamReport},
    log_files,
    secured::{Secured, Watch},
    shared::Shared,
    staples,
    worker::Command,
};
use saker_config::model::{Address, Listener};
use saker_gateway::HealthChecks;
use saker_handlers::page_cache::warm::Jobs;
use saker_pipeline::{Generation, LocalFuture};
use saker_telemetry::{
    Counters, Metric, Snapshot, error_log, message,
    metrics::{ExtraGauge, prometheus},
};
use saker_tls::Installed;
use std::{
    cell::{Cell, RefCell},
    io::Write as _,
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

pub struct Operator {
    source: Source,
    shared: Arc<Shared>,
    generation: RefCell<Arc<Generation>>,
    secured: RefCell<Arc<Secured>>,
    workers: Workers,
    listeners: RefCell<Listeners>,
    last_reload: RefCell<Option<LastReload>>,
    automatic: Automatic,
    ban_file: RefCell<BanFile>,
    key_file: RefCell<KeyFile>,
    warm_ups: Jobs,
    health: RefCell<HealthChecks>,
    /// On this thread, like everything here; nobody holds on to it across a wait but whoever stops it.
    php: RefCell<saker_php::Manager>,
    /// Asked to stop.
    stopping: Cell<bool>,
    /// Asked not to wait for open requests.
    at_once: Cell<bool>,
    stop: Notify,
}

/// Opens every access log of a generation, so that what can't be written is known before anything is served.
pub fn open_logs(generation: &Generation, shared: &Shared) -> Result<(), String> {
    let failed = generation.model.sites.iter().flat_map(|site| {
        let logs = site.access_logs.iter().filter_map(|log| {
            let error = shared.logs.open(&log.target).err()?;
            Some(format!("{}: access log {}: {error}\n", log.origin, log_files::name(&log.target)))
        });
        let errors = site.error_log.iter().filter_map(|log| shared.logs.open_error_log(log).err());
        let forensic = site.forensic_log.iter().filter_map(|log| shared.logs.open_forensic_log(log).err());
        logs.chain(errors.chain(forensic).map(|error| format!("{}: log {error}\n", site.origin)))
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
        listeners: Listeners,
        automatic: Automatic,
    ) -> Operator {
        let ban_file = BanFile::open(&generation.model.server.state_dir, &shared.neighbours.bans, saker_net::clock::realtime_s());
        shared.neighbours.addresses.set_ipv6_prefix(generation.model.guard.ipv6_prefix);
        let mut key_file = KeyFile::new(&generation.model.server.state_dir);
        key_file.keep(&generation.model, &shared.guard.keys, saker_net::clock::realtime_s());
        Operator {
            source,
            shared,
            generation: RefCell::new(generation),
            secured: RefCell::new(secured),
            workers,
            listeners: RefCell::new(listeners),
            last_reload: RefCell::new(None),
            automatic,
            ban_file: RefCell::new(ban_file),
            key_file: RefCell::new(key_file),
            warm_ups: Jobs::default(),
            health: RefCell::default(),
            php: RefCell::default(),
            stopping: Cell::new(false),
            at_once: Cell::new(false),
            stop: Notify::new(),
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
            error_log::log(&message::CONFIG_WARNING, format_args!("health checks can't be made: {error}"));
        }
    }

    /// PHP can be asked for from here on. To be called within the runtime.
    pub fn begin_php(&self) {
        self.php.borrow_mut().apply(&self.generation.borrow().model, self.shared.starter.as_ref());
    }

    /// After the last request has ended.
    pub async fn stop_php(&self) {
        let mut php = self.php.take();
        php.stop().await;
        error_log::log(&message::STOPPED, format_args!(""));
        error_log::flush(Duration::from_secs(1));
    }

    /// Hands every bound listener to the workers.
    pub fn listen_all(&self) {
        let addresses = self.listeners.borrow().addresses();
        addresses.iter().for_each(|address| self.listen(address));
        let with_quic = self.listeners.borrow().quic_addresses();
        with_quic.iter().for_each(|address| self.listen_quic(address));
    }

    fn listen_quic(&self, address: &Arc<Address>) {
        let sockets = self.listeners.borrow_mut().take_quic(address);
        for (index, socket) in sockets.into_iter().enumerate() {
            self.workers.tell(index, Command::ListenQuic(Arc::clone(address), socket));
        }
    }

    fn listen(&self, address: &Arc<Address>) {
        let sockets = self.listeners.borrow_mut().take(address);
        for (index, socket) in sockets.into_iter().enumerate() {
            self.workers.tell(index, Command::Listen(Arc::clone(address), socket));
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
        notify(&format!("READY=1\nMAINPID={}\nSTATUS=serving", std::process::id()));
    }

    /// `saker serve` says to whoever typed it what is served where. Nobody may be reading.
    fn greet(&self) {
        let Source::Directory(options) = &self.source else { return };
        let mut out = std::io::stdout();
        for address in self.listeners.borrow().shown() {
            let _ = match address {
                Address::Tcp(address) => {
                    let http3 = if self.listeners.borrow().has_quic_at(&Address::Tcp(*address)) { " (and HTTP/3)" } else { "" };
                    writeln!(out, "Serving {} on {}://{address}/{http3}", options.root.display(), self.scheme(&Address::Tcp(*address)))
                }
                Address::Unix(path) => writeln!(out, "Serving {} on the socket {}", options.root.display(), path.display()),
            };
        }
        let _ = match (&self.secured.borrow().authority, options.domains.as_slice()) {
            (Some(authority), _) => writeln!(out, "The certificate is by an authority of your own; to trust it: {}", authority.display()),
            (None, []) => Ok(()),
            (None, names) => writeln!(out, "The certificate for {} comes by itself; standard error says when", names.join(", ")),
        };
    }

    fn scheme(&self, address: &Address) -> &'static str {
        let generation = self.generation.borrow();
        let is_tls = |listener: &Listener| listener.tls.is_some() && is_same(&listener.address, address);
        if generation.model.listeners.iter().any(is_tls) { "https" } else { "http" }
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

    /// Warms the page cache up, for as long as the server runs: when it has started, and as often as the configuration says.
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
                warming::by_configuration(&self.warm_ups, &generation.model, &self.listeners.borrow(), &self.workers);
            }
        }
    }

    /// Looks after bans and lists of addresses, for as long as the server runs.
    pub async fn look_after_neighbours(&self) {
        let mut told = 0;
        loop {
            tokio::time::sleep(NEIGHBOURS_LOOK).await;
            let (bans, now_s) = (&self.shared.neighbours.bans, saker_net::clock::realtime_s());
            bans.sweep(now_s);
            // What can't be written was said, and is tried again.
            let _ = self.ban_file.borrow_mut().keep(bans, now_s);
            self.key_file.borrow_mut().keep(&self.generation.borrow().model, &self.shared.guard.keys, now_s);
            if std::mem::replace(&mut told, bans.changes()) != bans.changes() {
                self.workers.tell_all(|| Command::LookAtBans);
            }
            let (lists, databases) = {
                let model = &self.generation.borrow().model;
                (model.address_lists.clone(), model.geo_databases.clone())
            };
            if !lists.is_empty() || !databases.is_empty() {
                // A worker thread that ended in a panic has said so.
                let _ = tokio::task::spawn_blocking(move || neighbours::refresh(&lists, &databases)).await;
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

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    pub async fn stopping(&self) {
        self.stop.notified().await;
    }

    pub async fn stop_workers(&self) {
        notify("STOPPING=1");
        error_log::log(&message::STOPPING, format_args!(""));
        // What we still hold of Unix sockets would keep clients waiting in a queue that nobody looks at.
        drop(self.listeners.borrow_mut().remove_all_but(&[]));
        let limit_ms = self.generation.borrow().model.server.shutdown_timeout_ms;
        let finished = self.workers.end(&self.shared, Duration::from_millis(limit_ms), &self.at_once).await;
        if !finished && !self.at_once.get() {
            error_log::log(&message::SHUTDOWN_TIMED_OUT, format_args!("after {limit_ms} ms"));
        }
    }

    pub fn reopen(&self) -> Result<(), String> {
        let mut failures = self.shared.logs.reopen();
        failures.extend(error_log::reopen().err().map(|error| format!("error log: {error}")));
        match failures.is_empty() {
            true => {
                error_log::log(&message::LOG_REOPENED, format_args!(""));
                Ok(())
            }
            false => {
                failures.iter().for_each(|failure| error_log::log(&message::LOG_REOPEN_FAILED, format_args!("{failure}")));
                Err(failures.join("\n"))
            }
        }
    }

    /// Builds the new configuration beside the running one and swaps it in whole, or leaves everything as it is and says why.
    pub fn reload_now(&self) -> Result<ReloadReport, String> {
        notify("RELOADING=1");
        let result = self.try_reload();
        let at_unix_s = saker_net::clock::realtime_s().unsigned_abs();
        *self.last_reload.borrow_mut() = Some(LastReload { at_unix_s, error: result.as_ref().err().cloned() });
        match &result {
            Ok(report) => {
                self.shared.main_counters.increment(Metric::ReloadsOk);
                error_log::log(&message::RELOADED, format_args!("generation {}", report.generation));
            }
            Err(text) => {
                self.shared.main_counters.increment(Metric::ReloadsFailed);
                error_log::log(&message::RELOAD_REFUSED, format_args!("{}", text.trim_end()));
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
        let mut read = self.source.read()?;
        let old = Arc::clone(&self.generation.borrow());
        let has_store = self.shared.page_cache.get().is_some();
        read.warnings.extend(fixed_until_restart(&old, &read.model, has_store));
        let unstarted = starter::read_again(self.shared.starter.as_deref(), &read);
        let known_hosts = self.shared.known_hosts(&read.model)?;
        let generation = Generation::new(old.number + 1, read.model).with_front_end(read.front_end).with_known_hosts(known_hosts);
        let generation = Arc::new(generation);
        open_logs(&generation, &self.shared)?;
        let (secured, warnings) = Secured::build(&generation.model, Some(&self.secured.borrow()))?;
        read.warnings.extend(warnings);
        let secured = Arc::new(secured);
        let automatic = self.automatic.prepare(&generation)?;
        let added = self.listeners.borrow_mut().bind_all(&generation.model.listeners, self.workers.len())?;
        read.warnings.extend(unstarted);
        // From here on nothing fails.
        page_cache::open(&generation.model, &self.shared);
        super::tune_error_log(&generation.model);
        self.shared.neighbours.addresses.set_ipv6_prefix(generation.model.guard.ipv6_prefix);
        self.workers.tell_all(|| Command::Generation(Arc::clone(&generation), Arc::clone(&secured)));
        *self.secured.borrow_mut() = secured;
        self.php.borrow_mut().apply(&generation.model, self.shared.starter.as_ref());
        self.automatic.apply(automatic);
        self.look_after(&generation);
        for address in &added {
            error_log::log(&message::LISTENER_ADDED, format_args!("{address}"));
            self.listen(address);
        }
        // Before TCP's: who comes back to a port finds it free.
        let gone = self.listeners.borrow_mut().remove_all_quic_but(&generation.model.listeners);
        for address in gone {
            self.workers.tell_all(|| Command::UnlistenQuic((*address).clone()));
        }
        let with_quic = self.listeners.borrow_mut().bind_quic(&generation.model.listeners, self.workers.len());
        with_quic.iter().for_each(|address| self.listen_quic(address));
        let removed = self.listeners.borrow_mut().remove_all_but(&generation.model.listeners);
        for address in removed {
            error_log::log(&message::LISTENER_REMOVED, format_args!("{address}"));
            self.workers.tell_all(|| Command::Unlisten((*address).clone()));
        }
        read.warnings.iter().for_each(|warning| error_log::log(&message::CONFIG_WARNING, format_args!("{}", warning.trim_end())));
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
        let report = |one: Installed| CertificateReport { names: one.names, not_after_unix_s: u64::try_from(one.not_after).unwrap_or(0) };
        installed.into_iter().map(report).collect()
    }

    fn snapshot(&self) -> Snapshot {
        let mut all = self.shared.counters.clone();
        all.push(Arc::clone(&self.shared.main_counters));
        Counters::sum(&all)
    }
}

/// Whether a listener is the one that is shown under `actual`, which has the kernel's choice where the port was left to it.
fn is_same(configured: &Address, actual: &Address) -> bool {
    match (configured, actual) {
        (Address::Tcp(configured), Address::Tcp(actual)) if configured.port() == 0 => configured.ip() == actual.ip(),
        _ => configured == actual,
    }
}

/// What a reload can't change, where it was asked to.
fn fixed_until_restart(old: &Generation, new: &saker_config::Model, has_store: bool) -> Vec<String> {
    let of_store = page_cache::fixed_until_restart(&old.model, new).filter(|_| has_store);
    let (old, new) = (&old.model.server, &new.server);
    let rows = [
        ("server.workers", old.workers != new.workers),
        ("server.affinity", old.affinity != new.affinity),
        ("server.user", old.user != new.user),
        ("server.group", old.group != new.group),
        ("server.state_dir", old.state_dir != new.state_dir),
        ("server.error_log", old.error_log.target != new.error_log.target),
    ];
    let changed = rows.into_iter().filter(|row| row.1).map(|row| row.0).chain(of_store);
    changed.map(|what| format!("{what} changes with the next start, not with a reload")).collect()
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn notify(state: &str) {
    let state = match state {
        // systemd wants to know when the reload began (sd_notify(3), Type=notify-reload).
        "RELOADING=1" => format!("RELOADING=1\nMONOTONIC_USEC={}", saker_net::clock::monotonic_precise_ns() / 1000),
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
            listeners: self.listeners.borrow().shown().iter().map(ToString::to_string).collect(),
            sites: generation.model.sites.len() as u64,
            shutdown_timeout_ms: generation.model.server.shutdown_timeout_ms,
            counters: control::counters(&self.snapshot()),
            last_reload: self.last_reload.borrow().clone(),
            certificates: self.certificates(),
            page_cache: self.shared.store().map(|store| cache_control::sites(&generation.model, &store, &self.shared.tallies)),
            hosts: known_hosts::report(&generation),
            upstreams: generation.model.upstreams.iter().map(|one| UpstreamReport::new(one)).collect(),
        }
    }

    fn prometheus(&self) -> String {
        let expiry = self.secured.borrow().identities.first_expiry().map(|at| ExtraGauge {
            name: "certificate_expiry_timestamp_seconds",
            help: "When the first of all certificates runs out, in seconds since 1970.",
            value: at as f64,
        });
        let gauges = [
            ExtraGauge { name: "uptime_seconds", help: "Seconds since the start.", value: self.shared.started.elapsed().as_secs_f64() },
            ExtraGauge {
                name: "watched_directories",
                help: "Directories watched for changes.",
                value: self.shared.watcher.watched_directories() as f64,
            },
            ExtraGauge { name: "generation", help: "Configurations loaded so far.", value: self.generation.borrow().number as f64 },
        ];
        let gauges: Vec<_> = gauges.into_iter().chain(expiry).chain(known_hosts::gauges(&self.generation.borrow())).collect();
        prometheus(&self.snapshot(), &gauges)
    }

    fn reload(&self) -> LocalFuture<'_, Result<ReloadReport, String>> {
        Box::pin(async { self.reload_now() })
    }

    fn stop(&self, graceful: bool) {
        self.ask_stop(graceful);
    }

    fn reopen_logs(&self) -> Result<(), String> {
        self.reopen()
    }

    fn bans(&self, verb: &BanVerb) -> Result<serde_json::Value, String> {
        let answer =
            neighbours::answer(verb, &self.shared.neighbours.bans, &mut self.ban_file.borrow_mut(), saker_net::clock::realtime_s());
        self.workers.tell_all(|| Command::LookAtBans);
        answer
    }

    fn hosts(&self, verb: &HostsVerb) -> Result<serde_json::Value, String> {
        known_hosts::answer(verb, &self.generation.borrow())
    }

    fn cache<'c>(&'c self, verb: &'c CacheVerb) -> LocalFuture<'c, Result<serde_json::Value, String>> {
        let (generation, store) = (Arc::clone(&self.generation.borrow()), self.shared.store());
        if let (CacheVerb::Warm(verb), Some(_)) = (verb, &store) {
            let answer = warming::answer(verb, &self.warm_ups, &generation.model, &self.listeners.borrow(), &self.workers);
            return Box::pin(std::future::ready(answer));
        }
        Box::pin(async move { cache_control::answer(verb, &generation.model, store, &self.shared.tallies).await })
    }
}

//! Reloading: a new configuration is built beside the running one and put in force as a whole, or
//! not at all.
//!
//! Called by: the control socket and signals.
//! Caveat: everything that can fail happens before anything is changed (`candidate`, then
//! `put_in_force`).
//! Out of scope: settings that only a restart can change; the report lists them.

use super::{
    access_logs, acme::Prepared, broker, document_roots, error_log_settings, launcher::Cause,
    nginx_lines, page_cache, supervisor::Supervisor, systemd::notify, upgrade_state,
};
use saker_cli::source::on_one_line;
use saker_config::model::Address;
use saker_control::{LastReload, Peers, PreparedSocket, ReloadReport};
use saker_discovery::carry_over;
use saker_pipeline::Generation;
use saker_serving::{log_files, tls_state::TlsState, worker_thread::Command};
use saker_telemetry::{Metric, error_log, message};
use std::sync::Arc;

impl Supervisor {
    /// Reopens all log files, after they were renamed.
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
        self.outgrown.set(false);
        let result = self.try_reload();
        let at_unix_s = saker_net::clock::realtime_s().unsigned_abs();
        *self.last_reload.borrow_mut() = Some(LastReload {
            at_unix_s,
            error: result.as_ref().err().cloned(),
            needs_new_server: self.outgrown.get(),
        });
        match &result {
            Ok(report) => {
                self.shared.main_counters.increment(Metric::ReloadsOk);
                error_log::log(
                    &message::RELOADED,
                    format_args!("generation {}", report.generation),
                );
            }
            Err(text) if self.is_nginx() => {
                self.shared.main_counters.increment(Metric::ReloadsFailed);
                nginx_lines::refused(text);
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

    /// Reloads; where the sandbox allows too little, a new server takes over.
    pub fn reload_or_succeed(&self) {
        // A refusal has been logged with all errors.
        if self.reload_now().is_err() && self.outgrown.get() {
            self.succeed();
        }
    }

    /// Has a new server take over, now or once the server before this one has ended: there are no more
    /// than two.
    fn succeed(&self) {
        let is_alone = !self.listeners.borrow().has_inherited();
        self.succession_waits.set(!is_alone);
        if is_alone {
            let launchers = self.launcher.iter();
            launchers.for_each(|launcher| launcher.launch(Cause::Outgrown));
        }
    }

    /// The server before this one has ended. A reload since then may have made a new one needless.
    pub(super) fn succeed_if_asked(&self) {
        if self.succession_waits.take() && self.outgrown.get() {
            self.succeed();
        }
    }

    /// Starts the program file anew, to take over from this process.
    pub fn launch_successor(&self) {
        match self.launcher.as_ref() {
            Some(launcher) => launcher.launch(Cause::Upgrade),
            None => error_log::log(
                &message::UPGRADE_FAILED,
                format_args!("without a sandbox, `saker upgrade` starts a successor"),
            ),
        }
    }

    fn try_reload(&self) -> Result<ReloadReport, String> {
        if self.is_stopping() {
            return Err("the server is stopping".into());
        }
        if self.successor.is_offered() {
            return Err("a new server is taking over, with the configuration as it is now".into());
        }
        // First, because reading needs them; in force only when the new configuration is.
        let (grants, ungranted) = broker::prepare(self.shared.broker.as_deref())?;
        self.load(grants, ungranted.clone())
            .map_err(|text| match ungranted {
                Some(warning) => format!("{}\n{warning}\n", text.trim_end()),
                None => text,
            })
    }

    /// Puts a new configuration in force, or leaves everything as it was.
    fn load(
        &self,
        grants: broker::Prepared<'_>,
        ungranted: Option<String>,
    ) -> Result<ReloadReport, String> {
        let mut candidate = self
            .candidate(ungranted)
            .map_err(|text| self.note_unloaded(text))?;
        // From here on nothing fails.
        candidate.warnings.extend(grants.commit());
        Ok(self.put_in_force(candidate))
    }

    /// Everything that can fail.
    fn candidate(&self, ungranted: Option<String>) -> Result<Candidate, String> {
        let mut read = self.source.read()?;
        self.check_sandbox(&read)?;
        let old = Arc::clone(&self.generation.borrow());
        let has_store = self.shared.store().is_some();
        read.warnings
            .extend(fixed_until_restart(&old, &read.model, has_store));
        read.warnings
            .extend(ungranted.or_else(|| broker::missing(self.shared.broker.as_deref(), &read)));
        let users = &read.model.server.control_users;
        let peers = self.peers.borrow().with_users(users)?;
        let known_hosts = self.shared.known_hosts(&read.model)?;
        let generation = Generation::new(old.number + 1, read.model)
            .with_front_end(read.front_end)
            .with_known_hosts(known_hosts)
            .with_sessions_of(&old);
        let (tls, warnings) = TlsState::build(
            &generation.model,
            &generation.hosts,
            Some(&self.tls.borrow()),
        )?;
        read.warnings.extend(warnings);
        let generation = Arc::new(generation.with_identities(&tls.identities));
        access_logs::open_logs(&generation, &self.shared)?;
        document_roots::report_unusable(&generation.model);
        let acme = self.acme.prepare(&generation)?;
        let (metrics, console) = (&generation.model.metrics, &generation.model.console);
        let metrics = self
            .metrics
            .prepare(metrics.address, "[metrics]", &metrics.origin)?;
        let console = self.console.prepare_socket(console)?;
        let mut listeners = self.listeners.borrow_mut();
        let (model, workers) = (&generation.model, self.workers.len());
        let added_datagrams = listeners.bind_datagrams(&model.datagrams, workers)?;
        let added = listeners
            .bind_all(&model.listeners, workers)
            .inspect_err(|_| {
                listeners.remove_all_datagrams_but(&old.model.datagrams);
            })?;
        drop(listeners);
        Ok(Candidate {
            generation,
            tls: Arc::new(tls),
            peers,
            acme,
            metrics,
            console,
            added,
            added_datagrams,
            warnings: read.warnings,
        })
    }

    fn put_in_force(&self, candidate: Candidate) -> ReloadReport {
        let Candidate {
            generation,
            tls,
            peers,
            acme,
            metrics,
            console,
            added,
            added_datagrams,
            warnings,
        } = candidate;
        self.metrics.put_in_force(metrics);
        self.console.put_in_force(console);
        self.peers.replace(peers);
        if !self.follows.get() {
            page_cache::open(&generation.model, &self.shared);
        }
        error_log_settings::tune(&generation.model);
        self.shared
            .abuse
            .addresses
            .set_ipv6_prefix(generation.model.guard.ipv6_prefix);
        let state_dir = &generation.model.server.state_dir;
        carry_over(
            &generation.model,
            Some(&self.generation.borrow().model),
            state_dir,
        );
        upgrade_state::continue_failures(&generation.model, &self.generation.borrow().model);
        self.apply_live(&generation);
        self.workers
            .tell_all(|| Command::Generation(Arc::clone(&generation), Arc::clone(&tls)));
        *self.tls.borrow_mut() = tls;
        self.php
            .borrow_mut()
            .apply(&generation.model, self.shared.broker.as_ref());
        self.acme.apply(acme);
        self.discover(&generation);
        self.look_after(&generation);
        self.export_traces(&generation);
        self.change_listeners(&generation, &added);
        self.change_datagrams(&generation, &added_datagrams);
        warnings.iter().for_each(|warning| {
            error_log::log(
                &message::CONFIG_WARNING,
                format_args!("{}", on_one_line(warning)),
            )
        });
        let report = ReloadReport {
            generation: generation.number,
            listeners: generation.model.listeners.len() as u64,
            sites: generation.model.sites.len() as u64,
            warnings,
        };
        self.cluster_clients.borrow().set_generation(&generation);
        *self.generation.borrow_mut() = generation;
        report
    }

    /// The same for UDP addresses of streams.
    fn change_datagrams(&self, generation: &Generation, added: &[Arc<Address>]) {
        for address in added {
            error_log::log(&message::LISTENER_ADDED, format_args!("{address} (UDP)"));
            self.listen_datagrams(address);
        }
        let gone = self
            .listeners
            .borrow_mut()
            .remove_all_datagrams_but(&generation.model.datagrams);
        for address in gone {
            error_log::log(&message::LISTENER_REMOVED, format_args!("{address} (UDP)"));
            self.workers
                .tell_all(|| Command::UnlistenDatagrams((*address).clone()));
        }
    }

    /// Hands new listeners to the workers and closes those that are no longer configured.
    fn change_listeners(&self, generation: &Generation, added: &[Arc<Address>]) {
        for address in added {
            error_log::log(&message::LISTENER_ADDED, format_args!("{address}"));
            self.listen(address);
        }
        // Before TCP's: a client that returns to a port finds it free.
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
    }
}

/// A configuration that is ready to be put in force.
struct Candidate {
    generation: Arc<Generation>,
    tls: Arc<TlsState>,
    peers: Peers,
    acme: Prepared,
    metrics: PreparedSocket,
    console: PreparedSocket,
    /// Listeners that were not there before, bound already.
    added: Vec<Arc<Address>>,
    added_datagrams: Vec<Arc<Address>>,
    warnings: Vec<String>,
}

/// Settings that a reload can't change, if the new configuration changes them.
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
        ("server.sandbox", old.sandbox != new.sandbox),
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

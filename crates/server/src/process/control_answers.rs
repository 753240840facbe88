//! Answers of the supervisor on the control socket.
//!
//! Called by: the control socket, through [`Control`].
//! Out of scope: who may ask (`saker_control`), and what commands print (`saker_cli`).

use super::{
    bans, cache_control, cluster, discovery, metrics_endpoint::MetricsSource, sandbox,
    supervisor::Supervisor, upgrade, virtual_hosts, warming,
};
use saker_config::model::MetricsEndpoint;
use saker_control::{
    BanVerb, CacheVerb, CertificateReport, Control, EndpointSocket, Forwarded, HostsVerb,
    OcspReport, Offer, PurgeOrder, ReloadReport, StatusReport, UpstreamReport,
};
use saker_pipeline::LocalFuture;
use saker_serving::worker_thread::Command;
use saker_telemetry::{
    Counters, Snapshot, error_log, message,
    metrics::{Exposition, ExtraGauge, exposition},
};
use saker_tls::{Installed, StapleState};
use std::sync::Arc;

/// Makes the report of a certificate.
pub(super) fn certificate_report(one: Installed) -> CertificateReport {
    let unix_s = |time: i64| u64::try_from(time).unwrap_or(0);
    CertificateReport {
        names: one.names,
        not_after_unix_s: unix_s(one.not_after),
        ocsp: match one.staple {
            StapleState::Off => OcspReport::Off,
            StapleState::Missing => OcspReport::Missing,
            StapleState::Until(i64::MAX) => OcspReport::Stapled(None),
            StapleState::Until(time) => OcspReport::Stapled(Some(unix_s(time))),
        },
    }
}

impl Supervisor {
    fn certificates(&self) -> Vec<CertificateReport> {
        let installed = self.tls.borrow().identities.run_time().all();
        installed.into_iter().map(certificate_report).collect()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut all = self.shared.counters.clone();
        all.push(Arc::clone(&self.shared.main_counters));
        Counters::sum(&all)
    }
}

impl MetricsSource for Supervisor {
    fn socket(&self) -> &EndpointSocket {
        &self.metrics
    }

    fn endpoint(&self) -> MetricsEndpoint {
        self.generation.borrow().model.metrics.clone()
    }

    fn exposition(&self, format: Exposition, has_latencies: bool) -> String {
        let expiry = self
            .tls
            .borrow()
            .identities
            .first_expiry()
            .map(|at| ExtraGauge {
                name: "certificate_expiry_timestamp_seconds",
                label: String::new(),
                help: "When the first of all certificates runs out, in seconds since 1970.",
                value: at as f64,
            });
        let gauges = [
            ExtraGauge {
                name: "uptime_seconds",
                label: String::new(),
                help: "Seconds since the start.",
                value: self.shared.started.elapsed().as_secs_f64(),
            },
            ExtraGauge {
                name: "watched_directories",
                label: String::new(),
                help: "Directories watched for changes.",
                value: self.shared.watcher.watched_directories() as f64,
            },
            ExtraGauge {
                name: "generation",
                label: String::new(),
                help: "Configurations loaded so far.",
                value: self.generation.borrow().number as f64,
            },
        ];
        let gauges: Vec<_> = gauges
            .into_iter()
            .chain(expiry)
            .chain(virtual_hosts::gauges(&self.generation.borrow()))
            .chain(discovery::gauges(&self.generation.borrow()))
            .chain(cluster::gauges(self.shared.cluster()))
            .chain(self.cluster_clients.borrow().gauges())
            .collect();
        let latencies = has_latencies.then_some(&*self.shared.latencies);
        exposition(&self.snapshot(), &gauges, latencies, format)
    }
}

impl Control for Supervisor {
    fn status(&self) -> StatusReport {
        let generation = self.generation.borrow();
        StatusReport {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            is_stopping: self.is_stopping(),
            finishing_pid: self
                .listeners
                .borrow()
                .inherited()
                .map(|inherited| inherited.pid),
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
            counters: saker_control::counters(&self.snapshot()),
            last_reload: self.last_reload.borrow().clone(),
            sandbox: sandbox::report(generation.model.server.sandbox),
            certificates: self.certificates(),
            page_cache: self.shared.store().map(|store| {
                cache_control::sites(&generation.model, &store, &self.shared.site_stats)
            }),
            hosts: virtual_hosts::report(&generation),
            upstreams: generation
                .model
                .upstreams
                .iter()
                .map(|one| UpstreamReport::new(&one.current()))
                .collect(),
        }
    }

    fn prometheus(&self) -> String {
        self.exposition(Exposition::Prometheus, true)
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
        // Write errors have been reported.
        let _ = self
            .ban_file
            .borrow_mut()
            .keep(&self.shared.abuse.bans, saker_net::clock::realtime_s());
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

    fn origin(&self) -> serde_json::Value {
        upgrade::origin()
    }

    fn offer(&self) -> Result<Offer, String> {
        self.make_offer()
    }

    fn release(&self) -> bool {
        self.let_go()
    }

    fn upgraded(&self, pid: u32) {
        self.be_succeeded_by(pid);
    }

    fn leave<'a>(&'a self, addresses: &'a [String]) -> LocalFuture<'a, ()> {
        Box::pin(self.leave_to_successor(addresses))
    }

    fn withdraw(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.take_back())
    }

    fn forwarded(&self) -> LocalFuture<'_, Forwarded> {
        Box::pin(self.successor.forwarded())
    }

    fn reopen_logs(&self) -> Result<(), String> {
        self.reopen()
    }

    fn bans(&self, verb: &BanVerb) -> Result<serde_json::Value, String> {
        let answer = bans::answer(
            verb,
            &self.shared.abuse.bans,
            &mut self.ban_file.borrow_mut(),
            saker_net::clock::realtime_s(),
        );
        self.workers.tell_all(|| Command::LookAtBans);
        answer
    }

    fn console_link(&self) -> Result<serde_json::Value, String> {
        self.make_console_link()
    }

    fn hosts(&self, verb: &HostsVerb) -> Result<serde_json::Value, String> {
        virtual_hosts::answer(verb, &self.generation.borrow())
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
            let model = &generation.model;
            let mut answer =
                cache_control::answer(verb, model, store, &self.shared.site_stats).await?;
            if let CacheVerb::Purge(PurgeOrder {
                wait_ms: Some(wait_ms),
                ..
            }) = verb
            {
                answer["acknowledged"] = cluster::wait(self.shared.cluster(), *wait_ms).await?;
            }
            Ok(answer)
        })
    }

    fn live(&self, seconds: usize) -> serde_json::Value {
        self.live_seconds(seconds)
    }

    fn cluster_status(&self) -> Result<serde_json::Value, String> {
        let clients = self.cluster_clients.borrow().report();
        cluster::status(
            self.shared.cluster(),
            clients,
            &self.generation.borrow().model.cluster,
        )
    }
}

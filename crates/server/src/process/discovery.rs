//! Discovered servers of upstreams: asked for on the main thread, put in force under the changes of
//! operators.
//!
//! Called by: `start` and `reload`; the metrics endpoint, for gauges.
//! Caveat: a failure to keep what was found is logged once per change, and nothing else follows.

use super::supervisor::Supervisor;
use saker_control::DiscoveryReport;
use saker_discovery::carry_over;
use saker_pipeline::Generation;
use saker_telemetry::{error_log, message, metrics::ExtraGauge};
use std::time::Duration;

/// Longest wait at the start for sources that have not answered.
const FIRST_ANSWERS: Duration = Duration::from_secs(3);

impl Supervisor {
    /// Servers are discovered from here on. Ends when all upstreams have some, their sources fail,
    /// or the time is over.
    pub async fn begin_discovery(&self) {
        let generation = std::sync::Arc::clone(&self.generation.borrow());
        carry_over(&generation.model, None, &generation.model.server.state_dir);
        self.discover(&generation);
        let settled = self.discoveries.borrow().settled();
        // What is late is put in force when it comes.
        let _ = tokio::time::timeout(FIRST_ANSWERS, settled).await;
        self.apply_live(&generation);
    }

    /// Asks the sources of a configuration, and no others.
    pub(super) fn discover(&self, generation: &Generation) {
        self.discoveries.borrow_mut().begin(&generation.model);
    }

    /// Puts changes of discovered servers in force, for as long as the server runs.
    pub async fn follow_discovery(&self) {
        loop {
            let changed = self.discoveries.borrow().changed();
            changed.await;
            let generation = std::sync::Arc::clone(&self.generation.borrow());
            self.apply_live(&generation);
            self.look_after(&generation);
            let state_dir = &generation.model.server.state_dir;
            if let Err(error) = self.discoveries.borrow().keep(state_dir) {
                let facts = format_args!("discovered servers can't be kept: {error}");
                error_log::log(&message::CONFIG_WARNING, facts);
            }
        }
    }
}

/// Figures of all sources.
pub fn gauges(generation: &Generation) -> Vec<ExtraGauge<'static>> {
    let upstreams = generation.model.upstreams.iter();
    let reports: Vec<_> = upstreams
        .filter_map(|one| {
            let report = DiscoveryReport::new(one.discovery.as_deref()?);
            Some((format!("upstream=\"{}\"", one.name), report))
        })
        .collect();
    let gauge = |name, help, value: fn(&DiscoveryReport) -> f64| {
        let each = reports.iter();
        each.map(move |(label, report)| ExtraGauge {
            name,
            label: label.clone(),
            help,
            value: value(report),
        })
        .collect::<Vec<_>>()
    };
    [
        gauge(
            "discovered_servers",
            "Servers of an upstream that its source names.",
            |report| report.servers as f64,
        ),
        gauge(
            "discovery_age_seconds",
            "Time since the source of an upstream last answered; -1 if it never has.",
            |report| report.age_ms.map_or(-1.0, |ms| ms as f64 / 1000.0),
        ),
        gauge(
            "discovery_failing",
            "1 if the source of an upstream gives no answer.",
            |report| f64::from(u8::from(report.error.is_some())),
        ),
    ]
    .concat()
}

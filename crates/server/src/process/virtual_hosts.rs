//! Dynamic virtual hosts on the control socket: statistics and purging.
//!
//! Called by: the supervisor.

use saker_control::HostsVerb;
use saker_dynamic_vhosts::Hosts;
use saker_pipeline::Generation;
use saker_telemetry::metrics::ExtraGauge;
use serde_json::{Value, json};
use std::sync::Arc;

pub fn answer(verb: &HostsVerb, generation: &Generation) -> Result<Value, String> {
    let hosts = generation
        .known_hosts
        .as_ref()
        .ok_or("no site looks hosts up in a database")?;
    match verb {
        HostsVerb::Stat => Ok(report(generation).unwrap_or_default()),
        HostsVerb::Purge { names, all } => {
            Ok(json!({ "ok": true, "purged": purge(hosts, names, *all) }))
        }
    }
}

fn purge(hosts: &Arc<Hosts>, names: &[String], all: bool) -> usize {
    match all {
        true => hosts.purge_all(),
        false => names
            .iter()
            .filter(|name| hosts.purge(name.trim_end_matches('.').to_ascii_lowercase().as_str()))
            .count(),
    }
}

/// `None`: no database is configured.
pub fn report(generation: &Generation) -> Option<Value> {
    let figures = generation.known_hosts.as_ref()?.figures();
    let (sites, sites_bytes) = generation.derived.counts();
    Some(json!({
        "ok": true,
        "known": figures.counts.known,
        "missing": figures.counts.missing,
        "asked": figures.asked,
        "failed": figures.failed,
        "away": figures.is_away,
        "sites": sites,
        "bytes": figures.counts.bytes + sites_bytes,
    }))
}

pub fn gauges(generation: &Generation) -> Vec<ExtraGauge<'static>> {
    let Some(hosts) = &generation.known_hosts else {
        return Vec::new();
    };
    let figures = hosts.figures();
    let gauge = |name, help, value| ExtraGauge {
        name,
        label: String::new(),
        help,
        value,
    };
    vec![
        gauge(
            "hosts_known",
            "Hosts of the database that are kept.",
            figures.counts.known as f64,
        ),
        gauge(
            "hosts_missing",
            "Names that the database does not know, and that are kept as such.",
            figures.counts.missing as f64,
        ),
        gauge(
            "hosts_asked",
            "Questions to the database of hosts since it was configured.",
            figures.asked as f64,
        ),
        gauge(
            "hosts_failed",
            "Questions to it that had no answer.",
            figures.failed as f64,
        ),
        gauge(
            "hosts_away",
            "Whether the last question to it had no answer.",
            f64::from(u8::from(figures.is_away)),
        ),
    ]
}

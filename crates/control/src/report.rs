//! The status report, as JSON.
//!
//! Called by: the supervisor, which fills it in; `server`.
//! Caveat: written by hand rather than derived, because the names are a contract with scripts.

use saker_config::model::{Discovery, Member, Upstream};
use saker_telemetry::Snapshot;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusReport {
    pub version: String,
    pub pid: u32,
    pub uptime_ms: u64,
    /// It was asked to stop, or another server has taken over.
    pub is_stopping: bool,
    /// The server that this one has taken over from, while it finishes requests.
    pub finishing_pid: Option<u64>,
    /// Configurations loaded so far; 1 after the start.
    pub generation: u64,
    /// The file, or the directory of `saker serve`.
    pub configuration: String,
    pub workers: u64,
    pub listeners: Vec<String>,
    pub sites: u64,
    /// Maximum duration of `stop`.
    pub shutdown_timeout_ms: u64,
    /// Counters by metric name, summed over the workers.
    pub counters: Vec<(String, u64)>,
    /// `None` before the first reload.
    pub last_reload: Option<LastReload>,
    /// The confinement of the process.
    pub sandbox: Value,
    /// Certificates without files: automatic ones, and that of the local authority.
    pub certificates: Vec<CertificateReport>,
    /// Page cache contents and request results per site; `None`: no page cache.
    pub page_cache: Option<Value>,
    /// State of dynamic virtual hosts; `None`: no database is configured.
    pub hosts: Option<Value>,
    /// Programs and servers behind this one.
    pub upstreams: Vec<UpstreamReport>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamReport {
    pub name: String,
    pub members: Vec<MemberReport>,
    /// `None`: its servers are those of the configuration.
    pub discovery: Option<DiscoveryReport>,
}

/// State of a source of servers.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoveryReport {
    pub source: String,
    /// Servers that it names.
    pub servers: usize,
    /// Time since it last answered; `None`: it never has.
    pub age_ms: Option<u64>,
    /// The reason why it has not answered since.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MemberReport {
    pub address: String,
    /// `up`, `down` (by health checks), `draining` or `disabled`.
    pub state: &'static str,
    pub is_standby: bool,
    /// In hundredths.
    pub weight: u32,
    /// Requests in progress.
    pub busy: u32,
    pub requests: u64,
    pub failures: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CertificateReport {
    pub names: Vec<String>,
    /// Seconds since the epoch.
    pub not_after_unix_s: u64,
    pub ocsp: OcspReport,
}

/// The OCSP response that is stapled to a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OcspReport {
    /// Nothing is stapled to it.
    #[default]
    Off,
    /// None is there yet, or the last one ran out.
    Missing,
    /// Seconds since the epoch until which it is shown; `None`: for good.
    Stapled(Option<u64>),
}

impl OcspReport {
    pub fn to_json(self) -> Value {
        let (state, until) = match self {
            OcspReport::Off => ("off", None),
            OcspReport::Missing => ("missing", None),
            OcspReport::Stapled(until) => ("stapled", until),
        };
        json!({ "state": state, "until_unix_s": until })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct LastReload {
    /// Seconds since the epoch.
    pub at_unix_s: u64,
    /// Reason for a refused reload, with the old configuration left in force.
    pub error: Option<String>,
    /// The configuration needs more than the sandbox of this server allows.
    pub needs_new_server: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReloadReport {
    pub generation: u64,
    pub listeners: u64,
    pub sites: u64,
    /// Rendered.
    pub warnings: Vec<String>,
}

/// Names and values for [`StatusReport::counters`]: names as in Prometheus' text, labels included,
/// without the program's prefix.
pub fn counters(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let named = |name: &str, label: &str| {
        if label.is_empty() {
            name.to_owned()
        } else {
            format!("{name}{{{label}}}")
        }
    };
    snapshot
        .iter()
        .map(|(row, value)| (named(row.name, row.label), value))
        .collect()
}

impl StatusReport {
    pub fn to_json(&self) -> Value {
        let counters: Map<String, Value> = self
            .counters
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(*value)))
            .collect();
        json!({
            "ok": true,
            "version": self.version,
            "pid": self.pid,
            "uptime_s": self.uptime_ms / 1000,
            "uptime_ms": self.uptime_ms,
            "is_stopping": self.is_stopping,
            "finishing_pid": self.finishing_pid,
            "generation": self.generation,
            "configuration": self.configuration,
            "workers": self.workers,
            "listeners": self.listeners,
            "sites": self.sites,
            "shutdown_timeout_ms": self.shutdown_timeout_ms,
            "counters": counters,
            "last_reload": self.last_reload.as_ref().map(LastReload::to_json),
            "sandbox": self.sandbox,
            "certificates": self.certificates.iter().map(CertificateReport::to_json).collect::<Vec<_>>(),
            "page_cache": self.page_cache,
            "hosts": self.hosts,
            "upstreams": self.upstreams.iter().map(UpstreamReport::to_json).collect::<Vec<_>>(),
        })
    }
}

impl UpstreamReport {
    pub fn new(upstream: &Upstream) -> UpstreamReport {
        UpstreamReport {
            name: upstream.name.to_string(),
            members: upstream.members.iter().map(MemberReport::new).collect(),
            discovery: upstream.discovery.as_deref().map(DiscoveryReport::new),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "members": self.members.iter().map(MemberReport::to_json).collect::<Vec<_>>(),
            "discovery": self.discovery.as_ref().map(DiscoveryReport::to_json),
        })
    }
}

impl DiscoveryReport {
    pub fn new(discovery: &Discovery) -> DiscoveryReport {
        let state = discovery.terms.state.lock();
        let now_ms = saker_net::clock::monotonic_ms();
        DiscoveryReport {
            source: discovery.to_string(),
            servers: state.servers.len(),
            age_ms: state.answered_ms.map(|at_ms| now_ms.saturating_sub(at_ms)),
            error: state.error.clone(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "source": self.source, "servers": self.servers, "age_ms": self.age_ms,
            "error": self.error,
        })
    }
}

impl MemberReport {
    fn new(member: &Member) -> MemberReport {
        let (busy, requests, failures) = member.state.figures();
        let state = match () {
            () if member.is_out() => "disabled",
            () if member.state.is_down() => "down",
            () if member.drains() => "draining",
            () => "up",
        };
        let is_standby = member.is_standby || member.is_spare;
        MemberReport {
            address: format!("{}{}", member.backend, member.path),
            state,
            is_standby,
            weight: member.weight_now(),
            busy,
            requests,
            failures,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "address": self.address,
            "state": self.state,
            "standby": self.is_standby,
            "weight": f64::from(self.weight) / 100.0,
            "busy": self.busy,
            "requests": self.requests,
            "failures": self.failures,
        })
    }
}

impl CertificateReport {
    fn to_json(&self) -> Value {
        json!({
            "names": self.names, "not_after_unix_s": self.not_after_unix_s, "ocsp": self.ocsp.to_json(),
        })
    }
}

impl LastReload {
    fn to_json(&self) -> Value {
        json!({
            "ok": self.error.is_none(),
            "at_unix_s": self.at_unix_s,
            "error": self.error,
            "needs_new_server": self.needs_new_server,
        })
    }
}

impl ReloadReport {
    pub fn to_json(&self) -> Value {
        json!({
            "ok": true,
            "generation": self.generation,
            "listeners": self.listeners,
            "sites": self.sites,
            "warnings": self.warnings,
        })
    }
}

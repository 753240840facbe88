//! Metrics over TCP, traces, and rotation of logs.
//!
//! Called by: the process, which serves metrics; loggers, which measure and trace requests.
//! Out of scope: the keys (`directives/metrics`, `directives/tracing`, `directives/rotation`).

use super::{Origin, Upstream};
use saker_net::Network;
use std::{net::SocketAddr, sync::Arc};

/// `[metrics]`: an address for collectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsEndpoint {
    pub address: Option<SocketAddr>,
    /// Clients that may read; empty: all that can connect.
    pub allow: Vec<Network>,
    /// Histograms of latency by site and route.
    pub latencies: bool,
    pub origin: Origin,
}

impl Default for MetricsEndpoint {
    fn default() -> MetricsEndpoint {
        MetricsEndpoint {
            address: None,
            allow: Vec::new(),
            latencies: true,
            origin: Origin::built_in(),
        }
    }
}

/// Requests whose `traceparent` is continued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceTrust {
    /// Those of trusted proxies.
    #[default]
    Proxies,
    All,
    None,
}

/// `[tracing]`: traces and where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// URL of the collector, as written; `None`: no traces.
    pub endpoint: Option<Box<str>>,
    /// The server of the collector; `None` only if the configuration has errors.
    pub upstream: Option<Arc<Upstream>>,
    /// Path of the collector's URL.
    pub target: Box<str>,
    /// Part of the traces that begin here and are recorded, in millionths.
    pub sample_ppm: u64,
    pub service: Box<str>,
    /// Request fields for the collector.
    pub headers: Vec<(Box<str>, Box<str>)>,
    pub trust: TraceTrust,
    pub timeout_ms: u64,
    pub origin: Origin,
}

impl Default for Tracing {
    fn default() -> Tracing {
        Tracing {
            endpoint: None,
            upstream: None,
            target: "/v1/traces".into(),
            sample_ppm: 1_000_000,
            service: "saker".into(),
            headers: Vec::new(),
            trust: TraceTrust::Proxies,
            timeout_ms: 10_000,
            origin: Origin::built_in(),
        }
    }
}

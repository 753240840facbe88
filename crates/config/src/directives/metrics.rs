//! `[metrics]`: metrics over TCP.
//!
//! Called by: `file`.
//! Out of scope: serving them (`saker-server`), and the metrics (`saker-telemetry`).

use super::listener::NETWORK;
use crate::{
    context::{FILE, METRICS},
    kind::{Kind, Word},
    model::MetricsEndpoint,
    row::{Draft, Row, Rows},
    value::{Value, ValueError},
};
use std::net::SocketAddr;

pub(super) static ADDRESS: Word = Word {
    expects: "an IP address with a port, such as \"127.0.0.1:9145\" or \"[::1]:9145\"",
    pattern: "^(\\[[0-9a-fA-F:.]+\\]|[0-9.]+):[0-9]+$",
    read: |text| match text.parse::<SocketAddr>() {
        Ok(address) => Ok(Value::parsed(Some(address))),
        Err(_) if text.starts_with(':') => Err(ValueError::plain(Some(format!(
            "write \"127.0.0.1{text}\" for this machine, \"0.0.0.0{text}\" for all"
        )))),
        Err(_) => Err(ValueError::plain(None)),
    },
};

impl Draft for MetricsEndpoint {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<MetricsEndpoint>] = &[
    Row {
        name: "metrics",
        contexts: FILE,
        kind: Kind::Section(METRICS),
        summary: "Metrics over TCP.",
        since: "0.2",
        aliases: &["prometheus", "telemetry"],
        ..Row::BASE
    },
    Row {
        name: "address",
        contexts: METRICS,
        kind: Kind::Word(&ADDRESS),
        required: true,
        example: Some("\"127.0.0.1:9145\""),
        summary: "Address on which metrics are served at /metrics, as Prometheus text or \
                  OpenMetrics. It is not an address of a [[listener]].",
        since: "0.2",
        aliases: &["listen", "bind"],
        set: |metrics, given| {
            metrics.origin = given.origin();
            metrics.address = given.parsed();
        },
        ..Row::BASE
    },
    Row {
        name: "allow",
        contexts: METRICS,
        kind: Kind::ListOf(&Kind::Word(&NETWORK)),
        default: Some("[]"),
        example: Some("[\"10.0.0.0/8\"]"),
        summary: "Client addresses that may read metrics; others get 403. Empty: all that can \
                  connect.",
        since: "0.2",
        aliases: &["allow_from"],
        set: |metrics, given| metrics.allow = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "latencies",
        contexts: METRICS,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "Measure the latency of requests, as histograms by site and route?",
        since: "0.2",
        aliases: &["histograms"],
        set: |metrics, given| metrics.latencies = given.boolean(),
        ..Row::BASE
    },
];

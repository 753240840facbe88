//! A row: what is measured, and what Saker has to reach.
//!
//! Called by: the runner, the lab, and the reports.
//! Caveat: the name of a row is its identity in options, reports, and published tables.
//! Out of scope: the list of rows (`rows`).

use crate::{
    conditions::{Congestion, Feature, Protocol, Site},
    tool::Tool,
    workload::{Measure, Workload},
};
use saker_testkit::{Peer, bench_files};

#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub title: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Saker beside the peers.
    Compare {
        tool: Tool,
        paths: &'static [&'static str],
        connections: usize,
        targets: Targets,
        site: Site,
    },
    /// Saker with something on beside itself with it off.
    Switch {
        feature: Feature,
        connections: usize,
        at_most: f64,
    },
    /// Memory of connections that wait for their next request.
    Idle {
        protocol: Protocol,
        connections: usize,
        bytes_at_most: f64,
    },
    /// Over an emulated link: so many requests, and how long they take.
    Link {
        link: Shape,
        requests: u64,
        connections: usize,
        streams: usize,
        path: &'static str,
        congestion: Congestion,
        targets: LinkTargets,
    },
    /// One that brings its own site, servers and judgement.
    Own(&'static dyn Workload),
}

/// A link, the same in both directions but for what is lost, which is lost on the way to the
/// client.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub mbit_per_s: u64,
    pub round_trip_ms: u64,
    pub queue_packets: usize,
    pub loss: f64,
    pub reordering: f64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct LinkTargets {
    /// For all requests.
    pub seconds: Option<f64>,
    /// Share of the time that Saker takes over HTTP/2.
    pub of_http2: Option<f64>,
}

/// Ratios of CPU per request; `floor` says too whether the floor takes part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Targets {
    pub best: Option<f64>,
    pub peers: &'static [(Peer, f64)],
    pub floor: Option<f64>,
}

impl Row {
    pub fn site(&self) -> Site {
        match self.kind {
            Kind::Compare { site, .. } => site,
            Kind::Own(workload) => workload.site(),
            _ => Site::Files,
        }
    }

    /// Measure that decides the row.
    pub fn measure(&self) -> Measure {
        match self.kind {
            Kind::Compare { .. } | Kind::Switch { .. } => Measure::Cpu,
            Kind::Idle { .. } => Measure::Memory,
            Kind::Link { .. } => Measure::Seconds,
            Kind::Own(workload) => workload.measure(),
        }
    }

    /// True if it asks for one of the files that are not made for every row.
    pub fn asks_for_huge(&self) -> bool {
        match self.kind {
            Kind::Compare { paths, .. } => paths == [bench_files::HUGE],
            Kind::Link { path, .. } => [bench_files::TEN, bench_files::HUGE].contains(&path),
            Kind::Own(workload) => workload.load().paths == [bench_files::HUGE],
            _ => false,
        }
    }

    pub fn is_over_tls(&self) -> bool {
        match self.kind {
            Kind::Compare { tool, .. } => tool.is_over_tls(),
            Kind::Switch { .. } => false,
            Kind::Idle { protocol, .. } => protocol != Protocol::Http1,
            Kind::Link { .. } => true,
            Kind::Own(workload) => workload.load().tool.is_over_tls(),
        }
    }
}

//! The setting of a load, and its results, for all tools.
//!
//! Called by: the tools of this folder, and whatever needs a load.
//! Caveat: our own tools and wrk's script print one line of exact figures; others have parsers.
//! Out of scope: running a tool (`load`).

use crate::tool::Tool;
pub use saker_load::counts::{COUNTING_BEGINS, COUNTING_ENDS, EXACT_FIGURES};
use saker_testkit::PeerTls;
use std::{net::SocketAddr, path::Path, time::Duration};

/// Before the number of handshakes that were of the wanted kind.
pub const VERIFIED: &str = "verified";

/// Results of a run of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// CPU time of the server while requests were counted.
    pub cpu: Duration,
    pub requests: f64,
    pub bytes: f64,
    pub seconds: f64,
    pub errors: f64,
    /// Zero where the tool does not tell.
    pub p50_us: f64,
    pub p99_us: f64,
    pub longest_us: f64,
    pub shortest_us: f64,
    /// Handshakes that were of the wanted kind, where that is looked at.
    pub verified: f64,
}

/// Amount of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Seconds(u64),
    /// Handshakes and all; tools for HTTP/2 and HTTP/3 alone.
    Requests(u64),
}

impl Amount {
    /// Zero where it is not a time.
    pub fn seconds(self) -> u64 {
        if let Amount::Seconds(seconds) = self {
            seconds
        } else {
            0
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct LoadSetting<'a> {
    pub tool: Tool,
    pub address: SocketAddr,
    pub paths: &'a [&'a str],
    pub connections: usize,
    pub amount: Amount,
    /// `None`: wherever the kernel likes.
    pub core: Option<usize>,
    /// The file of another network namespace, where there is one.
    pub network: Option<&'a Path>,
    /// For scripts and lists.
    pub work: &'a Path,
    pub tls: Option<PeerTls<'a>>,
}

impl LoadSetting<'_> {
    /// URL of the first path.
    pub fn url(&self) -> String {
        self.paths
            .first()
            .map(|path| self.url_of(path))
            .unwrap_or_default()
    }

    pub fn url_of(&self, path: &str) -> String {
        let scheme = if self.tool.is_over_tls() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}/{path}", self.address)
    }
}

/// Requests, bytes, microseconds, errors, and the latencies.
pub fn exact_figures(text: &str) -> Option<Load> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(EXACT_FIGURES))?;
    let figures: Vec<f64> = line
        .split_ascii_whitespace()
        .map(|figure| figure.parse().ok())
        .collect::<Option<_>>()?;
    let &[
        requests,
        bytes,
        duration_us,
        errors,
        p50_us,
        p99_us,
        longest_us,
    ] = figures.as_slice()
    else {
        return None;
    };
    Some(Load {
        requests,
        bytes,
        seconds: duration_us / 1e6,
        errors,
        p50_us,
        p99_us,
        longest_us,
        ..Load::default()
    })
}

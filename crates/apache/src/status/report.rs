//! The numbers that mod_status shows.
//!
//! Called by: the worker's services, which know them; `status`.

use std::time::Duration;

/// The source of the numbers.
pub trait Figures {
    fn report(&self) -> Report;

    /// Returns the numbers of connections and requests.
    fn counts(&self) -> Counts;
}

/// Connections and requests of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: u64,
    pub open: u64,
    pub requests: u64,
    /// Requests that are being answered.
    pub busy: u64,
    /// Connections of HTTP/1 whose request has begun to come.
    pub reading: u64,
}

/// The server at one moment.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub started_unix_s: i64,
    pub now_unix_s: i64,
    pub uptime: Duration,
    /// Time at which the program was built.
    pub built_unix_s: i64,
    /// Configurations so far.
    pub generation: u64,
    pub requests: u64,
    pub bytes_out: u64,
    /// All that requests have taken together.
    pub busy: Duration,
    pub workers: Vec<WorkerReport>,
    /// CPU time of this process, user and system, then that of its children, in seconds.
    pub cpu_s: [f64; 4],
    /// Load of the machine, over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    pub open: Vec<OpenRequest>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    pub connections: u64,
    /// Requests that are being answered.
    pub busy: u64,
}

/// A request that is being answered.
#[derive(Clone, Debug, Default)]
pub struct OpenRequest {
    pub worker: usize,
    pub client: Box<str>,
    /// As asked for.
    pub host: Box<[u8]>,
    /// Its first line, as much of it as is kept.
    pub request: Box<[u8]>,
    pub protocol: &'static str,
    pub age: Duration,
}

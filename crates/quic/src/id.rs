//! Identifiers: of a connection within its endpoint, and of a worker within its process.
//!
//! Called by: the endpoint, its time limits, and the settings that connection ids follow.
//! Out of scope: connection ids on the wire; `connection_id` has them.

/// Identifies a connection within its endpoint; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub(crate) slot: usize,
    pub(crate) serial: u64,
}

/// Index of a worker, and the number of workers; connection ids lead to it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub worker: usize,
    pub workers: usize,
}

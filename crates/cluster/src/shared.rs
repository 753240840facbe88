//! State of this server in its cluster, for its own tasks, the status and metrics.
//!
//! Called by: `follow`, `publish` and `node`.
//! Caveat: locked for moments only, never across an await.

use crate::{
    log::EntryId,
    members::{MemberReport, Members},
};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

#[derive(Default)]
pub struct Shared(Mutex<Facts>);

#[derive(Default)]
pub struct Facts {
    pub is_connected: bool,
    /// Reason why the engine was last unreachable.
    pub error: Option<String>,
    pub reconnects: u64,
    /// Time of the latest look at the log that found nothing new.
    pub synced: Option<Instant>,
    pub is_serving: bool,
    pub position: EntryId,
    /// Number and place of the last purge that the log has.
    pub sent: (u64, EntryId),
    pub received: u64,
    pub clears: u64,
    pub last_clear: Option<String>,
    pub members: Members,
}

/// State of this server in its cluster.
#[derive(Clone, Debug)]
pub struct Report {
    pub id: u64,
    pub name: String,
    pub engine: String,
    pub is_connected: bool,
    pub error: Option<String>,
    pub reconnects: u64,
    /// Everything that was in the log at most `max_staleness` ago is in force here.
    pub is_in_sync: bool,
    /// Time since this server last knew that it had read everything.
    pub staleness_ms: Option<u64>,
    pub position: EntryId,
    pub sent_seq: u64,
    pub received: u64,
    pub clears: u64,
    pub last_clear: Option<String>,
    pub waiting: u64,
    pub waiting_bytes: u64,
    pub members: Vec<MemberReport>,
}

impl Shared {
    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    pub fn staleness(&self, now: Instant) -> Option<Duration> {
        self.synced.map(|at| now.saturating_duration_since(at))
    }
}

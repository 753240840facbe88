//! Protection against abuse: rate limits and bans, bot verification, challenges, login attempts,
//! hotlink protection, signed URLs.
//!
//! Called by: the pipeline's phases through [`AbuseControl`](saker_pipeline::AbuseControl); the
//! server's registry, which creates one [`Abuse`] per worker and generation; the filter and the
//! logger of `filters`. Pure
//! functions over a request, a configuration, and the time: `signed`, `hotlink`, `proof_of_work`,
//! `login`, `xml_rpc`, `bot_names`, `key_ring`. State shared by all workers: `state`. State
//! of one request: `context`.
//! Caveat: shared state is bounded, because an attacker may have any number of addresses.
//! Out of scope: counting (`saker-rate-limits`), connections and sockets (`server`).

mod attempt;
pub mod bot_names;
mod bots;
mod challenge;
mod context;
mod control;
pub mod evasive;
pub mod filters;
pub mod hotlink;
pub mod key_ring;
mod keyed;
mod limits;
mod links;
pub mod login;
mod login_attempts;
pub mod mac;
pub mod proof_of_work;
pub mod remembered;
mod shared_counts;
pub mod signed;
mod state;
mod together;
mod upstream_limits;
pub mod violation;
pub mod xml_rpc;

pub use bots::NameServer;
pub use filters::{AbuseFields, LoginAttempts};
pub use key_ring::KeyRing;
pub use remembered::Remembered;
pub use shared_counts::SharedCounts;
pub use state::{ClientLimits, Confirmed, LoginTable, NameTable, SharedAbuseState};
pub use together::receive_charges;
pub use violation::Violation;

use saker_pipeline::{Generation, LocalFuture};
use saker_telemetry::Counters;
use std::{sync::Arc, time::Duration};

/// The abuse control of one worker and generation.
pub struct Abuse {
    pub generation: Arc<Generation>,
    pub shared: Arc<SharedAbuseState>,
    pub clients: Arc<ClientLimits>,
    /// Verifies bots; `None`: they are treated as any other client.
    pub names: Option<Box<dyn NameServer>>,
    /// The worker's counters.
    pub counters: Arc<Counters>,
    /// Returns a future that completes after the delay.
    pub sleep: fn(Duration) -> LocalFuture<'static, ()>,
    /// Monotonic nanoseconds, for rates.
    pub now_ns: fn() -> u64,
}

/// Fills `bytes` with random ones; `false`: the system gives none.
pub fn random(bytes: &mut [u8]) -> bool {
    aws_lc_rs::rand::fill(bytes).is_ok()
}

//! Costs of requests, and changes that must take effect at once: counts of instructions and system
//! calls, and file changes under load.
//!
//! Called by: `cargo test -p saker --test measured MODULE::`; budgets are in `budgets.txt`.
//! Caveat: each test takes `alone()` or `beside_others()` first, so that no other test disturbs what
//! it counts.
//! Out of scope: comparisons with other servers (tools/bench).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole program is tests.

#[path = "../harness/http3_client/mod.rs"]
mod http3_client;
#[path = "../harness/operate.rs"]
mod operate;
#[path = "../harness/tls_site.rs"]
mod tls_site;

use saker_testkit::{HeavyTurn, heavy};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

mod beside_nginx;
mod budgets;
mod callgrind;
mod console_costs;
mod freshness;
mod hit_costs;
mod location_costs;
mod route_costs;
mod static_changes;
mod system_calls;

static TURNS: RwLock<()> = RwLock::new(());

/// Waits until no other test of this program runs: what is counted is the whole process's, or the
/// machine has to be busy in a way of the test's own.
fn alone() -> RwLockWriteGuard<'static, ()> {
    TURNS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no test runs that has to be alone, and no more heavy ones than there are cores: for
/// what is counted per thread or per call, which other processes do not change.
fn beside_others() -> (HeavyTurn, RwLockReadGuard<'static, ()>) {
    let turn = TURNS.read().unwrap_or_else(PoisonError::into_inner);
    (heavy(), turn)
}

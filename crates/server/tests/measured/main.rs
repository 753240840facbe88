//! Costs of requests, and changes that must take effect at once: counts of instructions and system
//! calls, and file changes under load.
//!
//! Called by: `cargo test -p saker --test measured MODULE::`; budgets are in `budgets.txt`.
//! Caveat: each test takes `alone()` first, so that no other test disturbs what it counts.
//! Out of scope: comparisons with other servers (tools/bench).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole program is tests.

#[path = "../harness/http3_client/mod.rs"]
mod http3_client;
#[path = "../harness/operate.rs"]
mod operate;
#[path = "../harness/tls_site.rs"]
mod tls_site;

mod budgets;
mod callgrind;
mod console_costs;
mod freshness;
mod hit_costs;
mod location_costs;
mod route_costs;
mod static_changes;
mod system_calls;

/// Waits until no other test of this program runs. Two valgrinds at a time, for example, slow each
/// other down so much that tickers are counted.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

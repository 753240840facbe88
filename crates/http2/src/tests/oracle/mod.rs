//! Our machine against the `h2` crate, which other people wrote from the same standard: our server
//! with its client, and our client with its server, over a pipe in memory. Every test is bounded in
//! time; one that hangs has lost a window or a wake-up.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests may fail as tests do"
)]

mod against_client;
mod against_server;
mod our_client;
mod our_server;

use std::future::Future;
use std::time::Duration;

/// Content that shows where a piece was lost or doubled.
fn pattern(count: usize) -> Vec<u8> {
    (0..count as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Runs a test on one thread, with a time limit.
fn bounded<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    runtime.block_on(local.run_until(async {
        tokio::time::timeout(Duration::from_secs(30), test)
            .await
            .expect("within 30 seconds")
    }))
}

//! Makes background requests yield to requests of clients.
//!
//! Called by: warm-up and refetching.
//! Caveat: signs of load are open requests and a late event loop; but every fetch is made in the
//! end, after [`HELD_BACK_MAX`] at the latest.
//! Out of scope: rates and concurrency (`warm`).

use saker_telemetry::{Counters, Metric};
use std::time::{Duration, Instant};

/// With this many open requests, a worker makes no background requests.
const CLIENT_REQUESTS_MAX: u64 = 4;

/// Delay of the event loop that means that the worker is busy.
const LATE: Duration = Duration::from_millis(25);

const PAUSE: Duration = Duration::from_millis(50);

/// The longest time that a background request is held back.
const HELD_BACK_MAX: Duration = Duration::from_secs(2);

/// Waits while there are clients to serve.
pub async fn yield_to_clients(counters: &Counters) {
    let until = Instant::now() + HELD_BACK_MAX;
    // A gauge that other threads decrement may be negative for a moment.
    let client_requests = || counters.value(Metric::RequestsOpen) as i64;
    while client_requests() >= CLIENT_REQUESTS_MAX as i64 && Instant::now() < until {
        tokio::time::sleep(PAUSE).await;
    }
    loop {
        let began = Instant::now();
        tokio::task::yield_now().await;
        if began.elapsed() < LATE || began > until {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

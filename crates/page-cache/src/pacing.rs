//! x

use saker_telemetry::{Counters, Metric};
use std::time::{Duration, Instant};

/// With as many requests of visitors under way, a worker does nothing else.
const VISITORS_MAX: u64 = 4;

/// So late is the event loop of a worker that is busy.
const LATE: Duration = Duration::from_millis(25);

const PAUSE: Duration = Duration::from_millis(50);

/// Nobody is held back longer.
const HELD_BACK_MAX: Duration = Duration::from_secs(2);

/// Waits while there are visitors to serve.
pub async fn yield_to_clients(counters: &Counters) {
    let until = Instant::now() + HELD_BACK_MAX;
    // A gauge that others have lowered may be below zero for a moment.
    let visitors = || counters.value(Metric::RequestsOpen) as i64;
    while visitors() >= VISITORS_MAX as i64 && Instant::now() < until {
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

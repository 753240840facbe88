//! The clock by which a server judges the age of what it knows.
//!
//! Called by: `follow`, `node` and `peers`.
//! It is the system's monotonic clock, which no change of the time of day moves. Simulations run
//! on the virtual clock of the runtime instead, and let the clock of one server jump.
//! Caveat: timers are the runtime's; a clock that jumps makes none of them end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The clock of one server.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Time by which it runs ahead.
    ahead_ms: Arc<AtomicU64>,
}

impl Clock {
    pub fn now(&self) -> Instant {
        let ahead = Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed));
        tokio::time::Instant::now().into_std() + ahead
    }

    #[cfg(test)]
    pub fn jump(&self, ms: u64) {
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

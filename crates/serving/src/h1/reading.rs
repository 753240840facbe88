//! Connections whose request head has begun to arrive, counted for status pages.
//!
//! Called by: `turn`, for heads that do not come at once.

use crate::worker::Worker;
use saker_telemetry::Metric;
use std::rc::Rc;

/// Held while a head is incomplete.
pub struct ReadingHead(Rc<Worker>);

impl ReadingHead {
    pub fn begin(worker: &Rc<Worker>) -> ReadingHead {
        worker.counters.add(Metric::ConnectionsReading, 1);
        ReadingHead(Rc::clone(worker))
    }
}

impl Drop for ReadingHead {
    fn drop(&mut self) {
        self.0.counters.subtract(Metric::ConnectionsReading, 1);
    }
}

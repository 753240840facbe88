//! CUBIC with HyStart++, and BBR, in the place that quinn-proto has for congestion controllers.
//!
//! quinn-proto decides what is lost and whether it is persistent, counts what is in flight and
//! spaces packets out (5/4 of a window per round trip); the window is ours: [`cubic`] says how it
//! grows and shrinks, [`curve`] is the function that gives CUBIC its name, [`slow_start`] ends the
//! first doubling before queues overflow; [`bbr`] goes by bandwidth and delay instead of losses, as
//! [`delivery`] measures them. The difficulty is what the trait does not tell: packets that arrive
//! after they were taken for lost are forgotten by then, so that a reduction which turns out to be
//! for nothing can't be undone (RFC 9438 section 4.9.2); a wide allowance for reordering
//! (`settings`) makes it rare. Absent on purpose: what Appropriate Byte Counting and bursts ask of
//! TCP, because packets are paced; a rate for BBR to send at, which quinn-proto has no place for.

mod bbr;
mod cubic;
mod curve;
mod delivery;
mod slow_start;

pub(crate) use bbr::Bbr;
pub(crate) use cubic::Cubic;

use quinn_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
};
use std::{any::Any, sync::Arc, time::Instant};

/// Makes a controller for each path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BbrConfig {
    pub initial_window_bytes: u64,
}

impl ControllerFactory for BbrConfig {
    fn build(self: Arc<Self>, _: Instant, datagram_bytes: u16) -> Box<dyn Controller> {
        Box::new(Bbr::new(self.initial_window_bytes, datagram_bytes))
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, now: Instant, _: u64, _: u64) {
        self.sent(now);
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: bool, _: &RttEstimator) {
        self.acknowledged(sent, bytes);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        self.end_of_acknowledgement(now, in_flight, app_limited);
    }

    fn on_congestion_event(
        &mut self,
        _: Instant,
        _: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        if is_persistent_congestion {
            self.persistent_congestion();
        } else {
            self.lost(lost_bytes);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.datagram_bytes_are(new_mtu);
    }

    fn window(&self) -> u64 {
        self.window_bytes()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window_bytes();
        metrics.pacing_rate = Some(self.bytes_per_s() * 8);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window_bytes()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubicConfig {
    pub initial_window_bytes: u64,
}

impl ControllerFactory for CubicConfig {
    fn build(self: Arc<Self>, now: Instant, datagram_bytes: u16) -> Box<dyn Controller> {
        Box::new(Cubic::new(self.initial_window_bytes, datagram_bytes, now))
    }
}

impl Controller for Cubic {
    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        self.acknowledged(sent, bytes, rtt.get());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        self.end_of_acknowledgement(now, in_flight, app_limited);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        _: u64,
    ) {
        if is_persistent_congestion {
            self.persistent_congestion();
        } else {
            self.congestion(now, sent);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.datagram_bytes_are(new_mtu);
    }

    fn window(&self) -> u64 {
        self.window_bytes()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window_bytes();
        metrics.ssthresh = self.threshold_bytes();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window_bytes()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

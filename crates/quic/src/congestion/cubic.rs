//! A congestion window by CUBIC (RFC 9438), for QUIC (RFC 9002 section 7).
//!
//! An acknowledgement tells of packets one by one and then of what is still in flight; growth is
//! decided then, once for all of them. The difficulty is to know whether the window was what
//! limited the sender (RFC 9002 section 7.8). quinn-proto says whether anything was left to send,
//! which nothing is after an answer that filled the window to the last byte: so what was in flight
//! counts as well, at its most in the last round trips ([`Peak`]), since acknowledgements come in
//! heaps. Who has something to send but is held back by pacing is not limited by what he has to
//! say, and his window grows; a reduction goes by what was in flight.

use super::{
    curve::{BETA, Curve},
    slow_start::HyStart,
};
use std::time::{Duration, Instant};

/// RFC 9002 section 7.2, in datagrams.
const WINDOW_MIN: f64 = 2.0;
/// A window is used where so much of it, less some datagrams, was in flight. While it doubles, half
/// is enough: the other half is what the last round trip has brought.
const USED: f64 = 0.875;
const USED_IN_SLOW_START: f64 = 0.5;
const UNUSED_DATAGRAMS: f64 = 3.0;

#[derive(Clone, Debug)]
pub struct Cubic {
    initial_window: f64,
    window: f64,
    datagram: f64,
    stage: Stage,
    /// Slow start threshold.
    threshold: Option<f64>,
    /// Losses of packets sent until then have been answered.
    recovering_since: Option<Instant>,
    /// `W_max` of the last reduction.
    plateau: f64,
    batch: Batch,
    peak: Peak,
}

#[derive(Clone, Debug)]
enum Stage {
    /// First slow start; its end is not known yet.
    Begin(HyStart),
    /// After persistent congestion, until the threshold.
    SlowStart,
    Avoidance(Curve),
}

/// Facts collected from one acknowledgement so far.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    /// Everything, and what was sent after the last reduction.
    bytes: u64,
    bytes_that_count: u64,
    newest_sent: Option<Instant>,
    rtt: Duration,
}

/// The most that was in flight in this round trip and in the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    now: f64,
    before: f64,
    since: Option<Instant>,
}

impl Peak {
    fn note(&mut self, in_flight: f64, now: Instant, rtt: Duration) -> f64 {
        let passed = now.saturating_duration_since(*self.since.get_or_insert(now));
        if passed > rtt {
            self.before = if passed > rtt * 2 { 0.0 } else { self.now };
            (self.now, self.since) = (0.0, Some(now));
        }
        self.now = self.now.max(in_flight);
        self.now.max(self.before)
    }
}

impl Cubic {
    pub fn new(initial_window_bytes: u64, datagram_bytes: u16, now: Instant) -> Cubic {
        let (window, datagram) = (initial_window_bytes as f64, f64::from(datagram_bytes));
        let (stage, batch) = (Stage::Begin(HyStart::new(now)), Batch::default());
        Cubic {
            initial_window: window,
            window,
            datagram,
            stage,
            threshold: None,
            recovering_since: None,
            plateau: 0.0,
            batch,
            peak: Peak::default(),
        }
    }

    /// A packet has arrived.
    pub fn acknowledged(&mut self, sent: Instant, bytes: u64, rtt: Duration) {
        let batch = &mut self.batch;
        batch.bytes += bytes;
        // Within recovery a window does not grow (RFC 9002 section 7.3.2).
        if self.recovering_since.is_none_or(|since| sent > since) {
            batch.bytes_that_count += bytes;
        }
        batch.newest_sent = batch.newest_sent.max(Some(sent));
        batch.rtt = rtt;
    }

    /// All packets of an acknowledgement have been told of; what is left is in flight.
    pub fn end_of_acknowledgement(
        &mut self,
        now: Instant,
        in_flight_bytes: u64,
        app_limited: bool,
    ) {
        let Batch {
            bytes,
            bytes_that_count,
            newest_sent,
            rtt,
        } = std::mem::take(&mut self.batch);
        let Some(newest_sent) = newest_sent else {
            return;
        };
        let peak = self.peak.note((in_flight_bytes + bytes) as f64, now, rtt);
        let is_used = !app_limited || self.is_filled_by(peak);
        let bytes = if is_used {
            bytes_that_count as f64
        } else {
            0.0
        };
        match &mut self.stage {
            Stage::Begin(end) => {
                self.window += bytes * end.growth();
                if end.acknowledged(now, newest_sent) {
                    self.avoid_from_here();
                }
            }
            Stage::SlowStart => {
                self.window += bytes;
                if self
                    .threshold
                    .is_some_and(|threshold| self.window >= threshold)
                {
                    self.avoid_from_here();
                }
            }
            Stage::Avoidance(curve) if bytes > 0.0 => {
                self.window = curve.grown(self.window, bytes, now, rtt, self.datagram)
            }
            Stage::Avoidance(curve) if !is_used => curve.pause(now),
            Stage::Avoidance(_) => {}
        }
    }

    fn is_filled_by(&self, in_flight: f64) -> bool {
        let share = if matches!(self.stage, Stage::Avoidance(_)) {
            USED
        } else {
            USED_IN_SLOW_START
        };
        in_flight + UNUSED_DATAGRAMS * self.datagram >= share * self.window
    }

    /// Something sent then was lost or marked: a smaller window, once in a round trip (RFC 9438
    /// sections 4.6 and 4.7).
    pub fn congestion(&mut self, now: Instant, sent: Instant) {
        if self.recovering_since.is_some_and(|since| sent <= since) {
            return;
        }
        self.recovering_since = Some(now);
        self.window = self.used();
        let prior = self.window;
        // Fast convergence: a flow with less than the last time leaves room for others.
        self.plateau = if prior < self.plateau {
            prior * (1.0 + BETA) / 2.0
        } else {
            prior
        };
        self.window = self.reduced();
        self.threshold = Some(self.window);
        self.stage = Stage::Avoidance(Curve::after_loss(prior, self.plateau.max(self.window)));
    }

    /// Nothing arrived for long (RFC 9002 section 7.6, RFC 9438 section 4.8).
    pub fn persistent_congestion(&mut self) {
        self.window = self.used();
        self.threshold = Some(self.reduced());
        self.plateau = 0.0;
        self.window = WINDOW_MIN * self.datagram;
        self.recovering_since = None;
        self.stage = Stage::SlowStart;
    }

    pub fn datagram_bytes_are(&mut self, datagram_bytes: u16) {
        self.datagram = f64::from(datagram_bytes);
        self.window = self.window.max(WINDOW_MIN * self.datagram);
    }

    pub fn window_bytes(&self) -> u64 {
        self.window as u64
    }

    pub fn initial_window_bytes(&self) -> u64 {
        self.initial_window as u64
    }

    /// Slow start threshold; `None` during the first slow start.
    pub fn threshold_bytes(&self) -> Option<u64> {
        self.threshold.map(|threshold| threshold as u64)
    }

    fn avoid_from_here(&mut self) {
        self.threshold = Some(self.window);
        self.stage = Stage::Avoidance(Curve::from_here(self.window));
    }

    /// Part of the window that was in flight: the path has not shown to carry more than that (RFC
    /// 9438 section 4.6).
    fn used(&self) -> f64 {
        let peak = self.peak.now.max(self.peak.before);
        if peak == 0.0 || peak >= USED * self.window {
            self.window
        } else {
            peak
        }
    }

    fn reduced(&self) -> f64 {
        (self.window * BETA).max(WINDOW_MIN * self.datagram)
    }
}

#[cfg(test)]
mod tests;

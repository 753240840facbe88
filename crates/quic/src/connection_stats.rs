//! Statistics of connections for status pages: sums over the open ones, and counters of all.
//!
//! A connection is sampled during a turn if its last sample is half a second old, and at its end;
//! so the figures of open connections lag a little, and idle ones cost nothing. Counters that only
//! grow go to [`Counts`]; the rest is a sum over open connections, [`ConnectionStats`].

use crate::{Counts, Figures};
use std::time::{Duration, Instant};

const LOOKED_AT_EVERY: Duration = Duration::from_millis(500);

/// Limits between the classes of round trips.
const RTT_LIMITS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
];

/// Sums over connections that are open and established.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Connections with a round trip of under 10 ms, 50 ms, 200 ms, and more.
    pub by_rtt: [u64; 4],
    pub rtt_us: u64,
    pub congestion_window_bytes: u64,
    pub receive_window_bytes: u64,
}

/// Last sample of a connection, to add only the difference to the sums.
#[derive(Default)]
pub struct Sample {
    at: Option<Instant>,
    stats: ConnectionStats,
    packets_sent: u64,
    packets_lost: u64,
    congestion_events: u64,
}

impl Sample {
    pub fn is_due(&self, now: Instant) -> bool {
        self.at
            .is_none_or(|at| now.saturating_duration_since(at) >= LOOKED_AT_EVERY)
    }

    /// Samples the connection. `is_counted`: among the open and established.
    pub fn take(
        &mut self,
        now: Instant,
        figures: &Figures,
        is_counted: bool,
        sum: &mut ConnectionStats,
        counts: &mut Counts,
    ) {
        self.at = Some(now);
        counts.packets_sent += passed(&mut self.packets_sent, figures.packets_sent);
        counts.packets_lost += passed(&mut self.packets_lost, figures.packets_lost);
        counts.congestion_events += passed(&mut self.congestion_events, figures.congestion_events);
        let stats = if is_counted {
            ConnectionStats::of(figures)
        } else {
            ConnectionStats::default()
        };
        sum.exchange(&self.stats, &stats);
        self.stats = stats;
    }
}

fn passed(last: &mut u64, now: u64) -> u64 {
    now.saturating_sub(std::mem::replace(last, now))
}

impl ConnectionStats {
    fn of(figures: &Figures) -> ConnectionStats {
        let mut by_rtt = [0; 4];
        let place = RTT_LIMITS
            .iter()
            .filter(|limit| figures.rtt >= **limit)
            .count();
        by_rtt
            .iter_mut()
            .skip(place)
            .take(1)
            .for_each(|count| *count = 1);
        ConnectionStats {
            by_rtt,
            rtt_us: micros(figures.rtt),
            congestion_window_bytes: figures.congestion_window_bytes,
            receive_window_bytes: figures.receive_window_bytes,
        }
    }

    fn exchange(&mut self, old: &ConnectionStats, new: &ConnectionStats) {
        let exchange =
            |sum: &mut u64, old: u64, new: u64| *sum = sum.wrapping_sub(old).wrapping_add(new);
        for ((sum, old), new) in self.by_rtt.iter_mut().zip(old.by_rtt).zip(new.by_rtt) {
            exchange(sum, old, new);
        }
        exchange(&mut self.rtt_us, old.rtt_us, new.rtt_us);
        exchange(
            &mut self.congestion_window_bytes,
            old.congestion_window_bytes,
            new.congestion_window_bytes,
        );
        exchange(
            &mut self.receive_window_bytes,
            old.receive_window_bytes,
            new.receive_window_bytes,
        );
    }
}

pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

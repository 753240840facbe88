//! How connections stand, for status pages: of those that are open now, and of those that have
//! been.
//!
//! A connection is looked at when it has a turn and has not been looked at for half a second, and
//! at its end; so the figures of open ones are a little old, and idle ones cost nothing. What only
//! grows goes to [`Counts`]; the rest is a sum over the open ones, [`Standing`].

use crate::{Counts, Figures};
use std::time::{Duration, Instant};

const LOOKED_AT_EVERY: Duration = Duration::from_millis(500);

/// Round trips are told apart by these limits.
const RTT_LIMITS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
];

/// Sums over connections that are open and established.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Number of have round trips of under 10 ms, 50 ms, 200 ms, and more.
    pub by_rtt: [u64; 4],
    pub rtt_us: u64,
    pub congestion_window_bytes: u64,
    pub receive_window_bytes: u64,
}

/// What a connection has told so far.
#[derive(Default)]
pub struct Told {
    at: Option<Instant>,
    standing: Standing,
    packets_sent: u64,
    packets_lost: u64,
    congestion_events: u64,
}

impl Told {
    pub fn is_due(&self, now: Instant) -> bool {
        self.at
            .is_none_or(|at| now.saturating_duration_since(at) >= LOOKED_AT_EVERY)
    }

    /// `is_counted`: among the open and established.
    pub fn tell(
        &mut self,
        now: Instant,
        figures: &Figures,
        is_counted: bool,
        sum: &mut Standing,
        counts: &mut Counts,
    ) {
        self.at = Some(now);
        counts.packets_sent += passed(&mut self.packets_sent, figures.packets_sent);
        counts.packets_lost += passed(&mut self.packets_lost, figures.packets_lost);
        counts.congestion_events += passed(&mut self.congestion_events, figures.congestion_events);
        let standing = if is_counted {
            Standing::of(figures)
        } else {
            Standing::default()
        };
        sum.exchange(&self.standing, &standing);
        self.standing = standing;
    }
}

fn passed(told: &mut u64, now: u64) -> u64 {
    now.saturating_sub(std::mem::replace(told, now))
}

impl Standing {
    fn of(figures: &Figures) -> Standing {
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
        Standing {
            by_rtt,
            rtt_us: micros(figures.rtt),
            congestion_window_bytes: figures.congestion_window_bytes,
            receive_window_bytes: figures.receive_window_bytes,
        }
    }

    fn exchange(&mut self, old: &Standing, new: &Standing) {
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

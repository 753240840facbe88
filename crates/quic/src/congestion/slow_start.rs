//! The end of the first slow start by growing round trips (HyStart++, RFC 9406).
//!
//! Doubling finds out what a path carries by overflowing its queue: as much as a window is lost
//! then, and the window is cut more than once. A queue that fills is seen before, because round
//! trips of one round are longer than those of the round before. The difficulty is jitter, which
//! looks the same: so growth is only slowed down at first (Conservative Slow Start), and resumed
//! when round trips become short again. Rounds are told by when packets were sent, not by their
//! numbers, since QUIC has three spaces of numbers. `L` of section 4.2 is infinite: packets are
//! paced.

use std::time::{Duration, Instant};

/// The constants of RFC 9406 section 4.3.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

#[derive(Clone, Debug)]
pub struct HyStart {
    /// A packet sent since then, when acknowledged, ends the round.
    round_began: Instant,
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// Conservative Slow Start.
#[derive(Clone, Debug)]
struct Conservative {
    /// Round trips shorter than this show that it was jitter.
    baseline: Duration,
    /// Finished ones, the one in which it began among them.
    rounds: u32,
}

impl HyStart {
    pub fn new(now: Instant) -> HyStart {
        HyStart {
            round_began: now,
            last_round_min: None,
            round_min: None,
            samples: 0,
            conservative: None,
        }
    }

    /// Number of bytes the window grows by for each that has arrived.
    pub fn growth(&self) -> f64 {
        if self.conservative.is_some() {
            1.0 / CSS_GROWTH_DIVISOR
        } else {
            1.0
        }
    }

    /// An acknowledgement came, whose newest packet was sent then. `true`: slow start is over.
    pub fn acknowledged(&mut self, now: Instant, newest_sent: Instant) -> bool {
        let round_trip = now.saturating_duration_since(newest_sent);
        self.round_min = Some(
            self.round_min
                .map_or(round_trip, |least| least.min(round_trip)),
        );
        self.samples += 1;
        if self.samples >= N_RTT_SAMPLE {
            self.judge();
        }
        newest_sent >= self.round_began && self.end_round(now)
    }

    /// RFC 9406 section 4.2, with enough samples of this round.
    fn judge(&mut self) {
        let Some(current) = self.round_min else {
            return;
        };
        match (&self.conservative, self.last_round_min) {
            (Some(conservative), _) if current < conservative.baseline => self.conservative = None,
            (None, Some(last))
                if current
                    >= last + (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH) =>
            {
                self.conservative = Some(Conservative {
                    baseline: current,
                    rounds: 0,
                });
            }
            _ => {}
        }
    }

    fn end_round(&mut self, now: Instant) -> bool {
        self.round_began = now;
        self.last_round_min = self.round_min.take();
        self.samples = 0;
        self.conservative.as_mut().is_some_and(|conservative| {
            conservative.rounds += 1;
            conservative.rounds >= CSS_ROUNDS
        })
    }

    #[cfg(test)]
    pub fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Flow {
        exit: HyStart,
        now: Instant,
    }

    impl Flow {
        fn new() -> Flow {
            let now = Instant::now();
            Flow {
                exit: HyStart::new(now),
                now,
            }
        }

        /// One round: so many acknowledgements at the end of it, each of a packet that took that
        /// long.
        fn round(&mut self, acknowledgements: u32, round_trip_ms: u64) -> bool {
            let sent = self.now;
            self.now += Duration::from_millis(round_trip_ms);
            // The first one ends the round before, as the others' packets were sent after it.
            (0..acknowledgements).fold(false, |over, at| {
                let newest = sent + Duration::from_micros(u64::from(at));
                over | self
                    .exit
                    .acknowledged(self.now + Duration::from_micros(u64::from(at)), newest)
            })
        }
    }

    #[test]
    fn even_round_trips_never_end_it() {
        let mut flow = Flow::new();
        assert!((0..100).all(|_| !flow.round(20, 100)));
        assert_eq!(flow.exit.growth(), 1.0);
    }

    #[test]
    fn a_growing_queue_slows_growth_and_ends_it_five_rounds_later() {
        let mut flow = Flow::new();
        (0..4).for_each(|_| assert!(!flow.round(20, 100)));
        assert!(!flow.round(20, 113), "an eighth of 100 ms, and more");
        assert_eq!(flow.exit.growth(), 0.25);
        let rounds = (1..).find(|_| flow.round(20, 120)).unwrap();
        assert_eq!(rounds, 5);
    }

    #[test]
    fn thresholds_lie_between_four_and_sixteen_milliseconds() {
        for (round_trip, longer, slows) in [
            (8, 11, false),
            (8, 12, true),
            (100, 112, false),
            (104, 117, true),
            (400, 415, false),
            (400, 416, true),
        ] {
            let mut flow = Flow::new();
            (0..3).for_each(|_| assert!(!flow.round(20, round_trip)));
            flow.round(20, longer);
            assert_eq!(
                flow.exit.is_conservative(),
                slows,
                "{round_trip} ms, then {longer}"
            );
        }
    }

    #[test]
    fn few_samples_say_nothing() {
        let mut flow = Flow::new();
        (0..3).for_each(|_| assert!(!flow.round(20, 50)));
        flow.round(7, 90);
        assert!(!flow.exit.is_conservative());
        flow.round(9, 140);
        assert!(flow.exit.is_conservative());
    }

    #[test]
    fn jitter_is_forgiven() {
        let mut flow = Flow::new();
        (0..3).for_each(|_| assert!(!flow.round(20, 50)));
        flow.round(20, 70);
        assert!(flow.exit.is_conservative());
        flow.round(20, 50);
        assert!(!flow.exit.is_conservative(), "shorter again");
        assert!((0..10).all(|_| !flow.round(20, 50)));
    }

    #[test]
    fn one_late_packet_in_a_round_is_not_a_queue() {
        let mut flow = Flow::new();
        (0..3).for_each(|_| assert!(!flow.round(20, 50)));
        for _ in 0..20 {
            assert!(!flow.round(10, 50));
            let late = flow.now - Duration::from_millis(200);
            assert!(!flow.exit.acknowledged(flow.now, late));
        }
        assert!(!flow.exit.is_conservative());
    }
}

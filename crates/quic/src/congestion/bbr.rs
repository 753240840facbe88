//! BBR (draft-ietf-ccwg-bbr): a window by the path's bandwidth and delay, whatever is lost by
//! chance.
//!
//! The path is driven at the largest rate it has delivered of late, with the shortest round trip it
//! has shown: their product is what fits into it without a queue. The difficulty is that
//! quinn-proto sends by the window alone (5/4 of it in a round trip) and knows no rate, so that
//! gains are smaller than the draft's, which has its pacing hold down what its window lets through:
//! a window of 1.2 times what fits keeps a fifth of it in the queue. A loss says nothing by itself;
//! where much is lost round after round, the queue is shorter than that, and the window stays below
//! what it was. Absent on purpose: the draft's bounds by single losses, which take random ones for
//! a full queue from 2 % on.

use super::delivery::{Delivery, Sample};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// In datagrams.
const WINDOW_MIN: f64 = 4.0;
/// For acknowledgements that are held back, in datagrams.
const SPARE: f64 = 2.0;
/// 2/ln 2: doubles what is in flight in each round trip.
const STARTUP_GAIN: f64 = 2.89;
/// Pacing gain per round trip: one probes for more bandwidth, and the next drains the queue.
const CYCLE: [f64; 8] = [1.5, 0.9, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2];
/// The path is full where so many rounds brought less growth than that.
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;
/// As long as asking for more brings so much more, it is asked on: what held the sender back (a
/// receiver's window, say) is gone.
const MORE_GROWTH: f64 = 1.15;
/// A bandwidth counts for so many rounds.
const BANDWIDTH_ROUNDS: u64 = 10;
/// A round trip counts for so long; then a smaller window looks for a shorter one.
const RTT_HOLDS: Duration = Duration::from_secs(10);
const PROBE: Duration = Duration::from_millis(200);
/// A path that has shown nothing under so many times of its shortest in a whole cycle may have
/// become longer; or it is slower than is known, and has a queue that half of a window would not
/// let run empty. So the smallest window asks.
const RTT_DOUBT: f64 = 1.5;
const DOUBT_GAIN: f64 = 0.0;
const PROBE_GAIN: f64 = 0.5;
/// More than that is not lost by chance; looked at where so many datagrams were sent.
const LOSS_MAX: f64 = 0.1;
const LOSS_DATAGRAMS: f64 = 30.0;
const CEILING_LESS: f64 = 0.8;
const CEILING_MORE: f64 = 1.25;

#[derive(Clone, Debug)]
pub struct Bbr {
    initial_window: f64,
    window: f64,
    datagram: f64,
    delivery: Delivery,
    bandwidth: Bandwidth,
    /// The shortest round trip, and when it was seen.
    rtt: Option<(Duration, Instant)>,
    /// The shortest of this cycle, or of this probe.
    rtt_now: Option<Duration>,
    stage: Stage,
    round_ends: u64,
    rounds: u64,
    growth: Growth,
    losses: Losses,
    /// Upper bound of the window after heavy loss.
    ceiling: Option<f64>,
    acknowledged_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Startup,
    /// Draining the queue that startup has built.
    Drain,
    Cycle {
        at: usize,
        since: Instant,
        /// The bandwidth that was known then.
        from: f64,
    },
    /// Fewer packets than fit, to see the path without a queue.
    Probe {
        gain: f64,
        /// `None`: there is a queue yet.
        until: Option<Instant>,
    },
}

/// True if startup still finds more.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    bytes_per_s: f64,
    rounds_without: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    lost: f64,
    arrived: f64,
}

/// The largest of the last rounds: values fall from front to back, and only such are kept as may
/// yet be the largest.
#[derive(Clone, Debug, Default)]
struct Bandwidth(VecDeque<(u64, f64)>);

impl Bandwidth {
    fn note(&mut self, round: u64, bytes_per_s: f64) {
        while self
            .0
            .back()
            .is_some_and(|(_, known)| *known <= bytes_per_s)
        {
            self.0.pop_back();
        }
        self.0.push_back((round, bytes_per_s));
        // The last one always counts.
        while self.0.len() > 1
            && self
                .0
                .front()
                .is_some_and(|(known, _)| round.saturating_sub(*known) >= BANDWIDTH_ROUNDS)
        {
            self.0.pop_front();
        }
    }

    fn bytes_per_s(&self) -> f64 {
        self.0.front().map_or(0.0, |(_, known)| *known)
    }
}

impl Bbr {
    pub fn new(initial_window_bytes: u64, datagram_bytes: u16) -> Bbr {
        let (window, datagram) = (initial_window_bytes as f64, f64::from(datagram_bytes));
        Bbr {
            initial_window: window,
            window,
            datagram,
            delivery: Delivery::default(),
            bandwidth: Bandwidth::default(),
            rtt: None,
            rtt_now: None,
            stage: Stage::Startup,
            round_ends: 0,
            rounds: 0,
            growth: Growth::default(),
            losses: Losses::default(),
            ceiling: None,
            acknowledged_bytes: 0,
        }
    }

    pub fn sent(&mut self, now: Instant) {
        self.delivery.sent(now);
    }

    /// A packet has arrived.
    pub fn acknowledged(&mut self, sent: Instant, bytes: u64) {
        self.delivery.acknowledged(sent, bytes);
        self.acknowledged_bytes += bytes;
        self.losses.arrived += bytes as f64;
    }

    /// All packets of an acknowledgement have been told of.
    pub fn end_of_acknowledgement(
        &mut self,
        now: Instant,
        in_flight_bytes: u64,
        app_limited: bool,
    ) {
        let bytes = std::mem::take(&mut self.acknowledged_bytes) as f64;
        if let Some(sample) = self.delivery.sample(now, in_flight_bytes) {
            self.learn(now, sample, app_limited);
        }
        self.change_stage(now, in_flight_bytes as f64);
        self.move_window(bytes);
    }

    /// So much is taken for lost.
    pub fn lost(&mut self, bytes: u64) {
        self.losses.lost += bytes as f64;
    }

    /// Nothing arrived for long (RFC 9002 section 7.6): what was known is found out again from a
    /// small window on.
    pub fn persistent_congestion(&mut self) {
        self.window = self.window_min();
        self.bandwidth = Bandwidth::default();
        (self.growth, self.losses, self.ceiling) = (Growth::default(), Losses::default(), None);
        self.stage = Stage::Startup;
    }

    pub fn datagram_bytes_are(&mut self, datagram_bytes: u16) {
        self.datagram = f64::from(datagram_bytes);
        self.window = self.window.max(self.window_min());
    }

    pub fn window_bytes(&self) -> u64 {
        self.window as u64
    }

    pub fn initial_window_bytes(&self) -> u64 {
        self.initial_window as u64
    }

    pub fn bytes_per_s(&self) -> u64 {
        self.bandwidth.bytes_per_s() as u64
    }

    fn learn(&mut self, now: Instant, sample: Sample, app_limited: bool) {
        let begins_round = sample.delivered_before >= self.round_ends;
        if begins_round {
            self.rounds += 1;
            self.round_ends = self.delivery.delivered();
            self.look_at_losses();
        }
        // Who has little to say shows little of a path, but never more than it carries.
        if !app_limited || sample.bytes_per_s > self.bandwidth.bytes_per_s() {
            self.bandwidth.note(self.rounds, sample.bytes_per_s);
        }
        if begins_round && !app_limited && self.stage == Stage::Startup {
            self.look_at_growth();
        }
        if self.rtt.is_none_or(|(rtt, _)| sample.rtt <= rtt) {
            self.rtt = Some((sample.rtt, now));
        }
        self.rtt_now = Some(self.rtt_now.map_or(sample.rtt, |rtt| rtt.min(sample.rtt)));
    }

    fn look_at_growth(&mut self) {
        let bytes_per_s = self.bandwidth.bytes_per_s();
        if bytes_per_s >= self.growth.bytes_per_s * FULL_GROWTH {
            self.growth = Growth {
                bytes_per_s,
                rounds_without: 0,
            };
            return;
        }
        self.growth.rounds_without += 1;
        if self.growth.rounds_without >= FULL_ROUNDS {
            self.stage = Stage::Drain;
        }
    }

    fn look_at_losses(&mut self) {
        let Losses { lost, arrived } = self.losses;
        if lost + arrived < LOSS_DATAGRAMS * self.datagram {
            return;
        }
        self.losses = Losses::default();
        let is_much = lost > LOSS_MAX * (lost + arrived);
        if is_much && self.stage == Stage::Startup {
            self.stage = Stage::Drain;
        }
        self.ceiling = match self.ceiling {
            _ if is_much => Some((self.window * CEILING_LESS).max(self.window_min())),
            Some(ceiling) if ceiling < self.fits(CYCLE[0]) => Some(ceiling * CEILING_MORE),
            _ => None,
        };
    }

    /// It was seen long ago, or nothing near it in the cycle that ends: by which gain it is to be
    /// looked at.
    fn doubt(&self, rtt: Duration, now: Instant, ends_cycle: bool) -> Option<f64> {
        if ends_cycle && self.rtt_now.is_some_and(|now| now > rtt.mul_f64(RTT_DOUBT)) {
            return Some(DOUBT_GAIN);
        }
        self.rtt
            .filter(|(_, seen)| now.saturating_duration_since(*seen) > RTT_HOLDS)
            .map(|_| PROBE_GAIN)
    }

    fn change_stage(&mut self, now: Instant, in_flight: f64) {
        let Some((rtt, _)) = self.rtt else { return };
        let is_over = |since: Instant, round_trips: u32| {
            now.saturating_duration_since(since) > rtt * round_trips
        };
        self.stage = match self.stage {
            Stage::Drain if in_flight <= self.wanted(1.0) => self.cycle(2, now),
            Stage::Probe { gain, until: None } if in_flight <= self.wanted(gain) => {
                self.rtt_now = None;
                Stage::Probe {
                    gain,
                    until: Some(now + PROBE.max(rtt * 2)),
                }
            }
            Stage::Probe {
                until: Some(until), ..
            } if now >= until => {
                self.rtt = self.rtt_now.map(|rtt| (rtt, now)).or(self.rtt);
                self.cycle(2, now)
            }
            // What is asked for shows a round trip later.
            Stage::Cycle { at: 0, since, from } if is_over(since, 2) => {
                let grows = self.bandwidth.bytes_per_s() >= from * MORE_GROWTH;
                self.cycle(if grows { 0 } else { 1 }, now)
            }
            Stage::Cycle { at, since, .. } if at > 0 && is_over(since, 1) => {
                let ends_cycle = at + 1 == CYCLE.len();
                let doubt = self.doubt(rtt, now, ends_cycle);
                self.rtt_now = self.rtt_now.filter(|_| !ends_cycle);
                doubt.map_or_else(
                    || self.cycle((at + 1) % CYCLE.len(), now),
                    |gain| Stage::Probe { gain, until: None },
                )
            }
            stays => stays,
        };
    }

    fn cycle(&self, at: usize, now: Instant) -> Stage {
        Stage::Cycle {
            at,
            since: now,
            from: self.bandwidth.bytes_per_s(),
        }
    }

    fn move_window(&mut self, acknowledged: f64) {
        let wanted = self.wanted(match self.stage {
            Stage::Startup => STARTUP_GAIN,
            Stage::Drain => 1.0,
            Stage::Cycle { at, .. } => CYCLE.get(at).copied().unwrap_or(1.0),
            Stage::Probe { gain, .. } => gain,
        });
        let is_young = self.delivery.delivered() < self.initial_window as u64;
        self.window = match self.stage {
            // It never shrinks while it looks for the end.
            Stage::Startup if self.window < wanted || is_young => self.window + acknowledged,
            Stage::Startup => self.window,
            _ => wanted.min(self.window + acknowledged),
        };
        self.window = self
            .ceiling
            .map_or(self.window, |ceiling| self.window.min(ceiling))
            .max(self.window_min());
    }

    /// So many times what the path holds without a queue.
    fn fits(&self, gain: f64) -> f64 {
        self.rtt.map_or(self.initial_window, |(rtt, _)| {
            gain * self.bandwidth.bytes_per_s() * rtt.as_secs_f64()
        })
    }

    fn wanted(&self, gain: f64) -> f64 {
        (self.fits(gain) + self.spare()).max(self.window_min())
    }

    fn spare(&self) -> f64 {
        SPARE * self.datagram
    }

    fn window_min(&self) -> f64 {
        WINDOW_MIN * self.datagram
    }
}

#[cfg(test)]
mod tests;

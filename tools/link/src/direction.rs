//! One direction of a link, without sockets or clocks: packets and the time go in, packets come out
//! when they are due.
//!
//! A packet waits in the queue until those before it have been transmitted, is transmitted for as
//! long as its bits take at the link's rate, and then travels for the delay. Loss strikes on the
//! way, after the transmission, so that lost packets take their share of the rate as they do in
//! life. The one difficulty is exactness: transmissions follow each other on the link's own time,
//! not on the caller's, so that a caller who looks late delivers late but never slower than the
//! rate. Times are nanoseconds since any one moment.

use crate::{chance::Chance, settings::Settings};
use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

const NANOSECONDS_PER_S: u128 = 1_000_000_000;
/// Buffers that are kept for the next packets.
const SPARE_MAX: usize = 4096;

/// Counts of packets by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
    /// They found the queue full.
    pub dropped: u64,
    /// On the way.
    pub lost: u64,
    pub held_back: u64,
    pub queue_packets_peak: usize,
}

pub struct Direction {
    settings: Settings,
    chance: Chance,
    /// End of the last planned transmission.
    free_at_ns: u64,
    /// Starts of the queued transmissions.
    queue: VecDeque<u64>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    next_number: u64,
    spare: Vec<Vec<u8>>,
    counts: Counts,
}

/// Ordered by when it arrives; equals by when they came.
struct UnderWay {
    arrives_ns: u64,
    number: u64,
    packet: Vec<u8>,
}

impl Direction {
    pub fn new(settings: Settings, seed: u64) -> Direction {
        Direction {
            settings,
            chance: Chance::new(seed),
            free_at_ns: 0,
            queue: VecDeque::new(),
            under_way: BinaryHeap::new(),
            next_number: 0,
            spare: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Takes a packet that reaches the link now.
    pub fn receive(&mut self, packet: &[u8], now_ns: u64) {
        self.counts.packets += 1;
        self.counts.bytes += packet.len() as u64;
        while self
            .queue
            .front()
            .is_some_and(|begins_ns| *begins_ns <= now_ns)
        {
            self.queue.pop_front();
        }
        let begins_ns = self.free_at_ns.max(now_ns);
        if begins_ns > now_ns {
            if self.queue.len() >= self.settings.queue_packets {
                self.counts.dropped += 1;
                return;
            }
            self.queue.push_back(begins_ns);
            self.counts.queue_packets_peak = self.counts.queue_packets_peak.max(self.queue.len());
        }
        self.free_at_ns = begins_ns.saturating_add(self.transmission_ns(packet.len()));
        self.travel(packet);
    }

    /// The next packet that has arrived by now. It comes back with [`give_back`](Self::give_back).
    pub fn poll_arrived(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let arrived = self
            .under_way
            .peek()
            .is_some_and(|Reverse(first)| first.arrives_ns <= now_ns);
        if arrived {
            self.under_way.pop().map(|Reverse(first)| first.packet)
        } else {
            None
        }
    }

    pub fn give_back(&mut self, packet: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(packet);
        }
    }

    /// Time at which [`poll_arrived`](Self::poll_arrived) next returns a packet, as far as is
    /// known.
    pub fn next_arrival_ns(&self) -> Option<u64> {
        self.under_way.peek().map(|Reverse(first)| first.arrives_ns)
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn transmission_ns(&self, bytes: usize) -> u64 {
        let Some(rate) = self.settings.rate_bits_per_s else {
            return 0;
        };
        let nanoseconds = bytes as u128 * 8 * NANOSECONDS_PER_S / u128::from(rate.max(1));
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    fn travel(&mut self, packet: &[u8]) {
        if self.chance.hits(self.settings.loss) {
            self.counts.lost += 1;
            return;
        }
        let mut delay = self.settings.delay;
        if self.chance.hits(self.settings.reordering) {
            self.counts.held_back += 1;
            delay += self.settings.held_back;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        let arrives_ns = self
            .free_at_ns
            .saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
        self.under_way.push(Reverse(UnderWay {
            arrives_ns,
            number: self.next_number,
            packet: buffer,
        }));
        self.next_number += 1;
    }
}

impl Ord for UnderWay {
    fn cmp(&self, other: &UnderWay) -> Ordering {
        (self.arrives_ns, self.number).cmp(&(other.arrives_ns, other.number))
    }
}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &UnderWay) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &UnderWay) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for UnderWay {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn direction(change: impl FnOnce(&mut Settings)) -> Direction {
        let mut settings = Settings::default();
        change(&mut settings);
        Direction::new(settings, 1)
    }

    /// Numbers of the packets in the order of their arrival, with the times.
    fn arrivals(direction: &mut Direction) -> Vec<(u32, u64)> {
        let mut seen = Vec::new();
        while let Some(now_ns) = direction.next_arrival_ns() {
            let packet = direction.poll_arrived(now_ns).expect("it is due");
            seen.push((
                u32::from_be_bytes(packet[..4].try_into().expect("4 bytes")),
                now_ns,
            ));
            direction.give_back(packet);
        }
        seen
    }

    fn send(direction: &mut Direction, numbers: std::ops::Range<u32>, bytes: usize, now_ns: u64) {
        for number in numbers {
            let mut packet = vec![0; bytes];
            packet[..4].copy_from_slice(&number.to_be_bytes());
            direction.receive(&packet, now_ns);
        }
    }

    #[test]
    fn nothing_asked_for_is_nothing_done() {
        let mut direction = direction(|_| {});
        send(&mut direction, 0..3, 1500, 5);
        assert_eq!(arrivals(&mut direction), [(0, 5), (1, 5), (2, 5)]);
    }

    #[test]
    fn packets_are_transmitted_one_after_the_other_and_then_travel() {
        let mut direction = direction(|settings| {
            settings.rate_bits_per_s = Some(1_000_000);
            settings.delay = Duration::from_millis(50);
        });
        // 1250 bytes take 10 ms.
        send(&mut direction, 0..3, 1250, 0);
        assert_eq!(direction.poll_arrived(60 * MS - 1), None);
        assert_eq!(
            arrivals(&mut direction),
            [(0, 60 * MS), (1, 70 * MS), (2, 80 * MS)]
        );
        // The link was idle in between.
        send(&mut direction, 3..4, 1250, 100 * MS);
        assert_eq!(arrivals(&mut direction), [(3, 160 * MS)]);
    }

    #[test]
    fn the_rate_holds_for_a_caller_who_looks_late() {
        let mut direction = direction(|settings| settings.rate_bits_per_s = Some(10_000_000));
        // 1250 bytes take a millisecond, and ten come at a time.
        for turn in 0..100 {
            send(
                &mut direction,
                turn * 10..turn * 10 + 10,
                1250,
                u64::from(turn) * 10 * MS,
            );
        }
        let seen = arrivals(&mut direction);
        assert_eq!((seen.len(), seen[999].1), (1000, 1000 * MS));
    }

    #[test]
    fn a_full_queue_drops_the_newest() {
        let mut direction = direction(|settings| {
            settings.rate_bits_per_s = Some(1_000_000);
            settings.queue_packets = 7;
        });
        // One is transmitted, seven wait.
        send(&mut direction, 0..20, 1250, 0);
        let counts = direction.counts();
        assert_eq!(
            (counts.packets, counts.dropped, counts.queue_packets_peak),
            (20, 12, 7)
        );
        // After 25 ms two more have begun.
        send(&mut direction, 20..30, 1250, 25 * MS);
        assert_eq!(direction.counts().dropped, 20);
        let numbers: Vec<u32> = arrivals(&mut direction)
            .into_iter()
            .map(|(number, _)| number)
            .collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 20, 21]);
    }

    #[test]
    fn lost_packets_take_their_share_of_the_rate() {
        let mut direction = direction(|settings| {
            settings.rate_bits_per_s = Some(1_000_000);
            settings.queue_packets = usize::MAX;
            settings.loss = 0.25;
        });
        send(&mut direction, 0..20_000, 125, 0);
        let lost = direction.counts().lost;
        assert!((4800..5200).contains(&lost), "{lost}");
        let seen = arrivals(&mut direction);
        assert_eq!(seen.len() as u64 + lost, 20_000);
        assert!(
            seen.iter()
                .all(|(number, at_ns)| *at_ns == u64::from(number + 1) * MS)
        );
    }

    #[test]
    fn some_are_overtaken() {
        let mut direction = direction(|settings| {
            settings.rate_bits_per_s = Some(1_000_000);
            settings.queue_packets = usize::MAX;
            settings.reordering = 0.02;
            settings.held_back = Duration::from_micros(3500);
        });
        send(&mut direction, 0..10_000, 125, 0);
        let held_back = direction.counts().held_back;
        assert!((150..250).contains(&held_back), "{held_back}");
        let seen = arrivals(&mut direction);
        let overtaken = seen.windows(2).filter(|pair| pair[1].0 < pair[0].0).count() as u64;
        assert_eq!(seen.len(), 10_000);
        // Two in a row that are held back overtake each other no more.
        assert!(
            overtaken <= held_back && overtaken > held_back * 9 / 10,
            "{overtaken} of {held_back}"
        );
    }

    #[test]
    fn times_beyond_all_measure_do_not_wrap() {
        let mut direction = direction(|settings| {
            settings.rate_bits_per_s = Some(1);
            settings.delay = Duration::MAX;
        });
        send(&mut direction, 0..3, 1500, 5);
        assert_eq!(direction.next_arrival_ns(), Some(u64::MAX));
    }
}

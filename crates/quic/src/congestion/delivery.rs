//! Delivery rate of a path: a sample for each acknowledgement (draft-ietf-ccwg-bbr section 4.1).
//!
//! A packet that arrives tells how much arrived between its departure and its acknowledgement. The
//! time for that is the longer of two: in which it was sent, and in which it was acknowledged, so
//! that acknowledgements in heaps make no path faster. Packets that leave at one moment share a
//! note; of an acknowledgement its newest packet counts, and older notes are forgotten with it.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Maximum of samples. Beyond it, every other sample is dropped and new ones are taken half as
/// often: packets that carry only acknowledgements have samples too (an upload is answered with
/// thousands, which the client never acknowledges), and memory must not grow with what a client
/// does. The remaining resolution suffices for any round trip.
const NOTES_MAX: usize = 256;
/// Samples for which an idle connection may keep room.
const NOTES_IDLE: usize = 16;

/// State at the time of sending packets.
#[derive(Clone, Copy, Debug)]
struct Note {
    sent: Instant,
    /// So much had arrived, and when the last of it was acknowledged.
    delivered: u64,
    delivered_at: Instant,
    /// Time at which the packet that was acknowledged last left.
    first_sent: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub bytes_per_s: f64,
    /// Bytes delivered before the packet left.
    pub delivered_before: u64,
    /// Round trip of the newest packet.
    pub rtt: Duration,
}

#[derive(Clone, Debug, Default)]
pub struct Delivery {
    delivered: u64,
    /// Time at which the last of it was acknowledged, and time at which that had been sent; `None`
    /// if nothing is in flight.
    last: Option<(Instant, Instant)>,
    notes: VecDeque<Note>,
    /// Notes are no nearer to each other.
    spacing: Duration,
    newest: Option<Note>,
}

impl Delivery {
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    pub fn sent(&mut self, now: Instant) {
        if self
            .notes
            .back()
            .is_some_and(|note| now.saturating_duration_since(note.sent) <= self.spacing)
        {
            return;
        }
        let (delivered_at, first_sent) = *self.last.get_or_insert((now, now));
        if self.notes.len() >= NOTES_MAX {
            self.thin_out();
        }
        self.notes.push_back(Note {
            sent: now,
            delivered: self.delivered,
            delivered_at,
            first_sent,
        });
    }

    /// The oldest stays, for what was sent with it or behind it.
    fn thin_out(&mut self) {
        let (front, back) = (
            self.notes.front().map(|note| note.sent),
            self.notes.back().map(|note| note.sent),
        );
        let span = back
            .zip(front)
            .map(|(back, front)| back.saturating_duration_since(front))
            .unwrap_or_default();
        self.spacing = span * 2 / NOTES_MAX as u32;
        let mut is_kept = false;
        self.notes.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
    }

    /// A packet has arrived.
    pub fn acknowledged(&mut self, sent: Instant, bytes: u64) {
        self.delivered += bytes;
        if self.newest.is_some_and(|newest| newest.sent >= sent) {
            return;
        }
        // Its own note, or the one before it, whose time is longer by as much as more arrived in
        // it.
        let behind = self.notes.partition_point(|note| note.sent <= sent);
        let found = behind
            .checked_sub(1)
            .and_then(|at| self.notes.get(at))
            .copied();
        self.newest = found.map(|note| Note { sent, ..note }).or(self.newest);
    }

    /// All packets of an acknowledgement have been told of. `None`: they say nothing of how fast
    /// the path is.
    pub fn sample(&mut self, now: Instant, in_flight_bytes: u64) -> Option<Sample> {
        let newest = self.newest.take();
        if let Some(newest) = newest {
            self.last = Some((now, newest.sent));
            let old = self
                .notes
                .partition_point(|note| note.sent <= newest.sent)
                .saturating_sub(1);
            self.notes.drain(..old);
            if self.notes.len() < NOTES_MAX / 4 {
                self.spacing = Duration::ZERO;
            }
        }
        if in_flight_bytes == 0 {
            self.last = None;
            self.notes.clear();
            self.notes.shrink_to(NOTES_IDLE);
        }
        let newest = newest?;
        let took = newest
            .sent
            .saturating_duration_since(newest.first_sent)
            .max(now.saturating_duration_since(newest.delivered_at));
        let bytes = self.delivered - newest.delivered;
        (!took.is_zero()).then(|| Sample {
            bytes_per_s: bytes as f64 / took.as_secs_f64(),
            delivered_before: newest.delivered,
            rtt: now.saturating_duration_since(newest.sent),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: u64 = 1200;

    /// A window of packets, each a millisecond after the other, and acknowledged so.
    #[test]
    fn the_rate_is_that_of_what_was_in_flight() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut delivery = Delivery::default();
        let mut samples = Vec::new();
        for at in 0..60 {
            delivery.sent(begin + ms(at));
            if let Some(acknowledged) = at.checked_sub(20) {
                delivery.acknowledged(begin + ms(acknowledged), DATAGRAM);
                samples.extend(delivery.sample(begin + ms(at), 20 * DATAGRAM));
            }
        }
        let last = samples.last().unwrap();
        assert!(
            (last.bytes_per_s - 1_200_000.0).abs() < 70_000.0,
            "{last:?}"
        );
        assert_eq!((last.rtt, last.delivered_before), (ms(20), 19 * DATAGRAM));
    }

    /// Twenty packets that were sent in twenty milliseconds are acknowledged at once: they did not
    /// travel faster for it.
    #[test]
    fn heaps_of_acknowledgements_make_no_path_faster() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut delivery = Delivery::default();
        (0..20).for_each(|at| delivery.sent(begin + ms(at)));
        (0..20).for_each(|at| delivery.acknowledged(begin + ms(at), DATAGRAM));
        let sample = delivery.sample(begin + ms(40), 0).unwrap();
        assert!(
            (sample.bytes_per_s - 20.0 * 1200.0 / 0.040).abs() < 1.0,
            "{sample:?}"
        );
        assert!(delivery.notes.is_empty() && delivery.notes.capacity() <= NOTES_IDLE);
        // After a pause time counts from the next packet on.
        delivery.sent(begin + ms(5000));
        delivery.acknowledged(begin + ms(5000), DATAGRAM);
        let sample = delivery.sample(begin + ms(5020), 0).unwrap();
        assert!((sample.bytes_per_s - 60_000.0).abs() < 1.0, "{sample:?}");
    }

    #[test]
    fn what_comes_late_counts_and_is_no_sample() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut delivery = Delivery::default();
        (0..3).for_each(|at| delivery.sent(begin + ms(at)));
        delivery.acknowledged(begin + ms(2), DATAGRAM);
        assert!(delivery.sample(begin + ms(20), 2 * DATAGRAM).is_some());
        delivery.acknowledged(begin, DATAGRAM);
        assert_eq!(
            (
                delivery.sample(begin + ms(22), DATAGRAM),
                delivery.delivered()
            ),
            (None, 2 * DATAGRAM)
        );
    }

    /// Acknowledgements of an upload, then a response: few notes, and the rate all the same.
    #[test]
    fn notes_have_a_bound_and_are_fine_enough() {
        let (begin, us) = (Instant::now(), Duration::from_micros);
        let mut delivery = Delivery::default();
        (0..100_000).for_each(|at| delivery.sent(begin + us(at)));
        assert!(delivery.notes.len() <= NOTES_MAX);
        // 2,000 packets in flight, each 10 us after the other.
        let (begin, mut last) = (begin + us(200_000), None);
        for at in 0..8000 {
            delivery.sent(begin + us(at * 10));
            if let Some(acknowledged) = at.checked_sub(2000) {
                delivery.acknowledged(begin + us(acknowledged * 10), DATAGRAM);
                last = delivery
                    .sample(begin + us(at * 10), 2000 * DATAGRAM)
                    .or(last);
            }
            assert!(delivery.notes.len() <= NOTES_MAX);
        }
        let last = last.unwrap();
        assert!(
            (last.bytes_per_s - 120_000_000.0).abs() < 6_000_000.0,
            "{last:?}"
        );
        assert_eq!(last.rtt, us(20_000));
    }
}

//! Histogram of durations: counts per size, exact to about 1.6 %, in a fixed amount of memory.
//!
//! Below 64 µs each microsecond has a count of its own; above that, each doubling is divided into
//! 64 equal parts.

use std::time::Duration;

const PARTS: usize = 64;
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Up to an hour and more.
const DOUBLINGS: usize = 28;

#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: vec![0; PARTS * DOUBLINGS],
            count: 0,
            longest: Duration::ZERO,
        }
    }
}

impl Histogram {
    pub fn record(&mut self, time: Duration) {
        let place = place_of(time.as_micros() as u64).min(self.counts.len() - 1);
        self.counts[place] += 1;
        self.count += 1;
        self.longest = self.longest.max(time);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The time that this share of all, from 0 to 1, stayed within. Zero without any.
    pub fn within(&self, share: f64) -> Duration {
        let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        place
            .map_or(Duration::ZERO, |place| {
                Duration::from_micros(largest_of(place))
            })
            .min(self.longest)
    }
}

fn place_of(microseconds: u64) -> usize {
    let doublings = (u64::BITS - microseconds.leading_zeros()).saturating_sub(PART_BITS + 1);
    let part = (microseconds >> doublings) as usize;
    // The first doubling has its parts to itself; all others have only the upper half of theirs.
    doublings as usize * PARTS + part
}

fn largest_of(place: usize) -> u64 {
    let (doublings, part) = if place < 2 * PARTS {
        (0, place)
    } else {
        (place / PARTS - 1, place % PARTS + PARTS)
    };
    ((part as u64 + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other_and_hold_what_they_say() {
        let mut last = 0;
        for microseconds in 0..100_000 {
            let place = place_of(microseconds);
            assert!(place == last || place == last + 1, "{microseconds}");
            assert!(
                largest_of(place) >= microseconds
                    && largest_of(place) as f64 <= microseconds as f64 * 1.016 + 1.0,
                "{microseconds}"
            );
            last = place;
        }
    }

    #[test]
    fn shares() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.within(0.5), Duration::ZERO);
        for milliseconds in 1..=1000 {
            histogram.record(Duration::from_millis(milliseconds));
        }
        let about = |share: f64, expected: f64| {
            (histogram.within(share).as_secs_f64() / expected - 1.0).abs() < 0.02
        };
        assert!(about(0.5, 0.5) && about(0.99, 0.99) && about(0.001, 0.001));
        assert_eq!(
            (
                histogram.count(),
                histogram.longest(),
                histogram.within(1.0)
            ),
            (1000, Duration::from_secs(1), Duration::from_secs(1))
        );
        histogram.record(Duration::MAX);
        assert_eq!(histogram.longest(), Duration::MAX);
    }
}

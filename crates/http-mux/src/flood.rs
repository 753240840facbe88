//! Counting what a peer does too often.
//!
//! A bucket fills by one per event and leaks at a steady rate; an event that finds it full is a
//! flood. Time is the caller's, in milliseconds. Difficulty: some clients are busy for good
//! reasons, they answer each frame of content with a window update or a ping, so sending content
//! makes room ([`Bucket::credit`]).

/// Levels are in thousandths of an event, so that slow rates leak in single milliseconds.
const UNIT: u64 = 1_000;

/// Fill level of one bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket {
    level: u64,
    at_ms: u64,
}

impl Bucket {
    /// Counts an event; `false`: there have been too many.
    pub fn take(&mut self, max: u32, per_second: u32, now_ms: u64) -> bool {
        let leaked = now_ms
            .saturating_sub(self.at_ms)
            .saturating_mul(u64::from(per_second));
        self.level = self.level.saturating_sub(leaked).saturating_add(UNIT);
        self.at_ms = self.at_ms.max(now_ms);
        self.level <= u64::from(max) * UNIT
    }

    /// Makes room for `count` events.
    pub fn credit(&mut self, count: u64) {
        self.level = self.level.saturating_sub(count * UNIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_takes_its_maximum_at_once_and_its_rate_after() {
        let mut bucket = Bucket::default();
        assert!((0..5).all(|_| bucket.take(5, 2, 1_000)));
        assert!(!bucket.take(5, 2, 1_000));
        let mut bucket = Bucket::default();
        (0..5).for_each(|_| assert!(bucket.take(5, 2, 1_000)));
        assert!(!{ bucket }.take(5, 2, 1_499));
        assert!(bucket.take(5, 2, 1_500));
        assert!(!bucket.take(5, 2, 1_500));
    }

    #[test]
    fn credit_makes_room() {
        let mut bucket = Bucket::default();
        (0..5).for_each(|_| assert!(bucket.take(5, 0, 0)));
        bucket.credit(2);
        assert!(bucket.take(5, 0, 0) && bucket.take(5, 0, 0) && !bucket.take(5, 0, 0));
        let mut empty = Bucket::default();
        empty.credit(100);
        (0..5).for_each(|_| assert!(empty.take(5, 0, 0)));
        assert!(!empty.take(5, 0, 0));
    }

    #[test]
    fn nothing_is_allowed_where_the_maximum_is_zero_and_time_may_stand_or_run_back() {
        assert!(!Bucket::default().take(0, 100, 50));
        let mut bucket = Bucket::default();
        assert!(bucket.take(1, 1, 10_000) && !bucket.take(1, 1, 0));
    }
}

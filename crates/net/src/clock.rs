//! Clocks. The coarse ones cost a few nanoseconds (no system call, no reading of the time-stamp counter) and step with the kernel's tick.
//!
//! Coarse clocks drive deadlines, throttling and the `Date` field; precise ones measure. Difficulty: a coarse clock may lag the precise
//! one by a tick (1 to 10 ms), so the two must not be mixed in one subtraction.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Seconds since 1970, coarse.
pub fn realtime_s() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec
}

/// Milliseconds since 1970, coarse.
pub fn realtime_ms() -> i64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}

/// Nanoseconds since boot, coarse.
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::MonotonicCoarse))
}

/// Milliseconds since boot, coarse.
pub fn monotonic_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// Nanoseconds since 1970, precise.
pub fn realtime_precise_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// Nanoseconds since boot, precise.
pub fn monotonic_precise_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// A clock set before 1970 counts as 1970.
fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    #[test]
    fn coarse_follows_precise_within_a_tick() {
        let before = monotonic_precise_ns();
        let coarse = monotonic_ns();
        assert!(coarse <= monotonic_precise_ns());
        assert!(before - coarse.min(before) < 20_000_000, "more than 20 ms behind");
    }

    #[test]
    fn realtime_agrees_with_the_standard_library() {
        let expected = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(realtime_s().abs_diff(expected.as_secs() as i64) <= 1);
        assert!(realtime_ms().abs_diff(expected.as_millis() as i64) <= 1000);
        assert!(Duration::from_nanos(realtime_precise_ns()).abs_diff(expected) < Duration::from_secs(1));
    }

    #[test]
    fn monotonic_never_goes_back() {
        let mut last = 0;
        for _ in 0..10_000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
        assert!(monotonic_ms() > 0);
    }

    #[test]
    fn a_time_before_the_epoch_is_zero() {
        assert_eq!(nanoseconds(Timespec { tv_sec: -5, tv_nsec: 7 }), 7);
    }
}

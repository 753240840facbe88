//! Clocks. The coarse ones cost a few nanoseconds (no system call, no reading of the time-stamp
//! counter) and step with the kernel's tick.
//!
//! Coarse clocks drive deadlines, throttling and the `Date` field; precise ones measure.
//! Difficulty: a coarse clock may lag the precise one by a tick (1 to 10 ms), so the two must not
//! be mixed in one subtraction.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::cell::Cell;

thread_local! {
    /// Monotonic milliseconds and seconds since 1970 at the beginning of the event loop's turn; 0
    /// before the first.
    static TURN: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

#[cfg(debug_assertions)]
thread_local! {
    /// [`ahead_s`] at the beginning of the turn.
    static AHEAD_IN_TURN: Cell<i64> = const { Cell::new(0) };
}

/// Notes the time for [`turn_ms`] and [`turn_s`]. To be called whenever the event loop of this
/// thread wakes up, and a few times a second by a thread that never sleeps.
pub fn begin_turn() {
    #[cfg(debug_assertions)]
    AHEAD_IN_TURN.set(ahead_s());
    TURN.set((monotonic_ms(), realtime_s()));
}

/// Milliseconds since boot when this thread's event loop last woke up: [`monotonic_ms`] without
/// asking.
pub fn turn_ms() -> u64 {
    if TURN.get().0 == 0 {
        begin_turn();
    }
    TURN.get().0
}

/// Seconds since 1970 when this thread's event loop last woke up: [`realtime_s`] without asking.
pub fn turn_s() -> i64 {
    if TURN.get().0 == 0 || has_jumped() {
        begin_turn();
    }
    TURN.get().1
}

/// Seconds since 1970, coarse.
pub fn realtime_s() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec + ahead_s()
}

/// Milliseconds since 1970, coarse.
pub fn realtime_ms() -> i64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec
        .saturating_add(ahead_s())
        .saturating_mul(1000)
        .saturating_add(now.tv_nsec / 1_000_000)
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

/// Seconds that a test lets the wall clock of this process run ahead: the number in the file that
/// `SAKER_TEST_CLOCK` names, read each time. Release builds have no such variable.
#[cfg(debug_assertions)]
fn ahead_s() -> i64 {
    use std::{fs::File, os::unix::fs::FileExt, sync::LazyLock};
    static FILE: LazyLock<Option<File>> =
        LazyLock::new(|| File::open(std::env::var_os("SAKER_TEST_CLOCK")?).ok());
    let Some(file) = &*FILE else { return 0 };
    let mut text = [0; 20];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    std::str::from_utf8(&text[..length])
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(not(debug_assertions))]
fn ahead_s() -> i64 {
    0
}

/// True if a test has moved the clock since the turn began: a thread that never sleeps would notice
/// a few times a second only.
#[cfg(debug_assertions)]
fn has_jumped() -> bool {
    AHEAD_IN_TURN.get() != ahead_s()
}

#[cfg(not(debug_assertions))]
fn has_jumped() -> bool {
    false
}

/// A clock set before 1970 counts as 1970.
fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::wait_until;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    #[test]
    fn coarse_follows_precise_within_a_tick() {
        let before = monotonic_precise_ns();
        let coarse = monotonic_ns();
        assert!(coarse <= monotonic_precise_ns());
        assert!(
            before - coarse.min(before) < 20_000_000,
            "more than 20 ms behind"
        );
    }

    #[test]
    fn realtime_agrees_with_the_standard_library() {
        let expected = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(realtime_s().abs_diff(expected.as_secs() as i64) <= 1);
        assert!(realtime_ms().abs_diff(expected.as_millis() as i64) <= 1000);
        assert!(
            Duration::from_nanos(realtime_precise_ns()).abs_diff(expected) < Duration::from_secs(1)
        );
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
    fn a_turn_has_one_time() {
        let (ms, s) = (turn_ms(), turn_s());
        assert!(monotonic_ms() - ms < 1000 && realtime_s().abs_diff(s) <= 1);
        wait_until("more time", || monotonic_ms() >= ms + 10);
        assert_eq!((turn_ms(), turn_s()), (ms, s));
        begin_turn();
        assert!(turn_ms() >= ms + 10);
    }

    #[test]
    fn a_time_before_the_epoch_is_zero() {
        assert_eq!(
            nanoseconds(Timespec {
                tv_sec: -5,
                tv_nsec: 7
            }),
            7
        );
    }
}

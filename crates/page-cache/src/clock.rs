//! Times in the units that the cache uses.
//!
//! Called by: the look-up and the store filter.
//! Caveat: wall-clock times have a resolution of one second; locks use monotonic milliseconds.
//! Out of scope: the clock itself (`saker_net::clock`).

pub fn ms(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX)
}

pub fn now_ms() -> i64 {
    saker_net::clock::realtime_s().saturating_mul(1000)
}

pub fn monotonic_ms() -> u64 {
    saker_net::clock::monotonic_ms()
}

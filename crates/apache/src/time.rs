//! The local time, and chance, for expressions and maps.

use saker_expressions::LocalTime;
use saker_telemetry::local_time::{Civil, TimeZone};
use std::hash::{BuildHasher, RandomState};

pub fn local(unix_s: i64) -> LocalTime {
    let civil = Civil::at(unix_s, TimeZone::local().offset_s(unix_s));
    LocalTime {
        year: civil.year as i32,
        month: civil.month as u8,
        day: civil.day as u8,
        hour: civil.hour as u8,
        minute: civil.minute as u8,
        second: civil.second as u8,
        weekday: civil.weekday as u8,
    }
}

/// A number that nobody foresees; not for secrets.
pub fn chance() -> u64 {
    RandomState::new().hash_one(0)
}

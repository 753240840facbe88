//! Civil time in the machine's own zone, for log lines.
//!
//! Place in the walk: access and error log ask once per second of log time, keep the rendered text,
//! and append it.
//!
//! The one difficulty: the offset changes with daylight saving, and neither std nor safe Rust asks
//! the C library; so the zone file is read here ([`zone`]), with the rule after its last transition
//! ([`rule`]).
//!
//! Absent on purpose: leap seconds (logs use POSIX time, as Apache's do) and HTTP dates, which are
//! `saker_http::date`.

mod calendar;
mod rule;
mod strftime;
mod zone;

pub use calendar::{Civil, MONTHS, WEEKDAYS, days_from_civil};
pub use strftime::{append_strftime, check_strftime};
pub use zone::{LocalType, TimeZone};

/// Offset as `+0100`.
pub fn append_offset(offset_s: i32, out: &mut Vec<u8>) {
    out.push(if offset_s < 0 { b'-' } else { b'+' });
    let minutes = offset_s.unsigned_abs() / 60;
    append_padded(minutes / 60 % 100 * 100 + minutes % 60, 4, out);
}

/// Decimal with leading zeros, at least `width` digits (at most 10).
pub fn append_padded(value: u32, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 10];
    let mut rest = value;
    let mut at = digits.len();
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width.min(digits.len()))..]);
}

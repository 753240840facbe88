//! Civil time in the machine's own zone, for log lines.
//!
//! Called by: access and error log, which render a second's text once and append it to each line.
//! Caveat: the offset changes with daylight saving, so it is asked for each moment ([`zone`]).
//! Out of scope: leap seconds (logs use POSIX time, as Apache's do) and HTTP dates, which are
//! `saker_http::date`.

mod calendar;
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

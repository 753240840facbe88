//! HTTP dates (RFC 9110 section 5.6.7): IMF-fixdate out; IMF-fixdate, RFC 850 and asctime in.

/// Bytes of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

/// Formats seconds since the epoch. Times outside years 0 to 9999 are clamped.
pub fn format_date(_unix_s: i64) -> [u8; DATE_BYTES] {
    unimplemented!()
}

/// Parses any of the three forms; `None` for anything else. A two-digit year more than 50 years ahead of `now_unix_s` is in the past.
pub fn parse_date(_text: &[u8], _now_unix_s: i64) -> Option<i64> {
    unimplemented!()
}

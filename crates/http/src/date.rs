//! HTTP dates (RFC 9110 section 5.6.7): IMF-fixdate out; IMF-fixdate, RFC 850 and asctime in.
//!
//! Called by: code that writes Date and Last-Modified, or reads If-Modified-Since and similar
//! fields; the gateway, for dates of programs, which have odd forms.
//! Caveat: three forms must be read, one with a two-digit year.
//! Out of scope: time zones (HTTP uses GMT only, and Apache ignores them in dates of programs), and a check that the day's name agrees with the
//! date: Apache ignores it, too.

/// Bytes of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

const DAY_S: i64 = 86_400;
/// 0000-01-01 00:00:00 and 9999-12-31 23:59:59, the ends of what four digits can say.
const FIRST_S: i64 = -62_167_219_200;
const LAST_S: i64 = 253_402_300_799;

const DAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const DAYS_LONG: [&[u8]; 7] = [
    b"Sunday",
    b"Monday",
    b"Tuesday",
    b"Wednesday",
    b"Thursday",
    b"Friday",
    b"Saturday",
];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Formats seconds since the epoch. Times outside years 0 to 9999 are clamped.
pub fn format_date(unix_s: i64) -> [u8; DATE_BYTES] {
    let unix_s = unix_s.clamp(FIRST_S, LAST_S);
    let (days, second) = (unix_s.div_euclid(DAY_S), unix_s.rem_euclid(DAY_S));
    let (year, month, day) = civil(days);
    let mut out = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    // 1970-01-01 was a Thursday.
    out[0..3].copy_from_slice(DAYS[(days + 4).rem_euclid(7) as usize]);
    write_2(&mut out, 5, day);
    out[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    write_2(&mut out, 12, year / 100);
    write_2(&mut out, 14, year % 100);
    write_2(&mut out, 17, second / 3600);
    write_2(&mut out, 20, second / 60 % 60);
    write_2(&mut out, 23, second % 60);
    out
}

/// Parses any of the three forms; `None` for anything else. A two-digit year more than 50 years
/// ahead of `now_unix_s` is in the past.
pub fn parse_date(text: &[u8], now_unix_s: i64) -> Option<i64> {
    match text.get(3)? {
        b',' => parse_imf(text),
        b' ' => parse_asctime(text),
        _ => parse_rfc850(text, now_unix_s),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn parse_imf(text: &[u8]) -> Option<i64> {
    let mut reader = Reader(text);
    reader.day_name()?;
    reader.literal(b", ")?;
    let day = reader.number(2)?;
    reader.literal(b" ")?;
    let month = reader.month()?;
    reader.literal(b" ")?;
    let year = reader.number(4)?;
    reader.literal(b" ")?;
    let second = reader.time()?;
    reader.literal(b" GMT")?;
    reader.end(unix(year, month, day, second)?)
}

/// `Sun Nov  6 08:49:37 1994`
fn parse_asctime(text: &[u8]) -> Option<i64> {
    let mut reader = Reader(text);
    reader.day_name()?;
    reader.literal(b" ")?;
    let month = reader.month()?;
    reader.literal(b" ")?;
    let day = if reader.literal(b" ").is_some() {
        reader.number(1)?
    } else {
        reader.number(2)?
    };
    reader.literal(b" ")?;
    let second = reader.time()?;
    reader.literal(b" ")?;
    let year = reader.number(4)?;
    reader.end(unix(year, month, day, second)?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn parse_rfc850(text: &[u8], now_unix_s: i64) -> Option<i64> {
    let mut reader = Reader(text);
    reader.day_name_long()?;
    reader.literal(b", ")?;
    let day = reader.number(2)?;
    reader.literal(b"-")?;
    let month = reader.month()?;
    reader.literal(b"-")?;
    let year = full_year(reader.number(2)?, now_unix_s);
    reader.literal(b" ")?;
    let second = reader.time()?;
    reader.literal(b" GMT")?;
    reader.end(unix(year, month, day, second)?)
}

/// Parses a date as programs write it: after any first word, with days of one digit, and whatever
/// stands for the zone, which is taken for GMT as by Apache. `None` for anything else.
pub fn parse_loosely(text: &[u8], now_unix_s: i64) -> Option<i64> {
    let text = text.trim_ascii();
    let rest = text.get(memchr::memchr(b' ', text)? + 1..)?;
    spaced_date(rest)
        .or_else(|| dashed_date(rest, now_unix_s))
        .or_else(|| year_last(rest))
}

/// `06 Nov 1994 08:49:37 +0000`, or `6 Nov …`
fn spaced_date(text: &[u8]) -> Option<i64> {
    let mut reader = Reader(text);
    let day = reader.short_number()?;
    reader.literal(b" ")?;
    let month = reader.capitalized_month()?;
    reader.literal(b" ")?;
    let year = reader.number(4)?;
    reader.literal(b" ")?;
    let second = reader.time()?;
    reader.literal(b" ")?;
    unix(year, month, day, second)
}

/// `06-Nov-94 08:49:37 +0000`
fn dashed_date(text: &[u8], now_unix_s: i64) -> Option<i64> {
    let mut reader = Reader(text);
    let day = reader.number(2)?;
    reader.literal(b"-")?;
    let month = reader.capitalized_month()?;
    reader.literal(b"-")?;
    let year = full_year(reader.number(2)?, now_unix_s);
    reader.literal(b" ")?;
    let second = reader.time()?;
    reader.literal(b" ")?;
    unix(year, month, day, second)
}

/// `Nov  6 08:49:37 1994`
fn year_last(text: &[u8]) -> Option<i64> {
    let mut reader = Reader(text);
    let month = reader.capitalized_month()?;
    reader.literal(b" ")?;
    let day = match reader.literal(b" ") {
        Some(()) => reader.number(1)?,
        None => reader.number(2)?,
    };
    reader.literal(b" ")?;
    let second = reader.time()?;
    reader.literal(b" ")?;
    unix(reader.number(4)?, month, day, second)
}

/// RFC 9110 section 5.6.7: what appears to be more than 50 years ahead is the most recent past year
/// with those digits.
fn full_year(two_digits: i64, now_unix_s: i64) -> i64 {
    let now_year = civil(now_unix_s.clamp(FIRST_S, LAST_S).div_euclid(DAY_S)).0;
    let year = now_year - now_year % 100 + two_digits;
    if year > now_year + 50 {
        year - 100
    } else {
        year
    }
}

/// Unread rest of the text; every step consumes from its front or fails.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn literal(&mut self, text: &[u8]) -> Option<()> {
        let (taken, rest) = self.0.split_at_checked(text.len())?;
        taken.eq_ignore_ascii_case(text).then(|| self.0 = rest)
    }

    fn number(&mut self, digits: usize) -> Option<i64> {
        self.take(digits)?.iter().try_fold(0, |sum, byte| {
            byte.is_ascii_digit()
                .then(|| sum * 10 + i64::from(byte - b'0'))
        })
    }

    /// One digit or two.
    fn short_number(&mut self) -> Option<i64> {
        let digits = if self.0.get(1)?.is_ascii_digit() {
            2
        } else {
            1
        };
        self.number(digits)
    }

    /// Parses a day name. Names are case-sensitive (RFC 9110 section 5.6.7), but recipients should
    /// match them in any case (RFC 9111 section 4.2).
    fn day_name(&mut self) -> Option<()> {
        let name = self.take(3)?;
        DAYS.iter()
            .any(|day| day.eq_ignore_ascii_case(name))
            .then_some(())
    }

    fn day_name_long(&mut self) -> Option<()> {
        let name = self.take(memchr::memchr(b',', self.0)?)?;
        DAYS_LONG
            .iter()
            .any(|day| day.eq_ignore_ascii_case(name))
            .then_some(())
    }

    /// 1 to 12.
    fn month(&mut self) -> Option<i64> {
        let name = self.take(3)?;
        MONTHS
            .iter()
            .position(|month| month.eq_ignore_ascii_case(name))
            .map(|at| at as i64 + 1)
    }

    /// The same, written with a capital and small letters.
    fn capitalized_month(&mut self) -> Option<i64> {
        let is_written_so = matches!(self.0, [b'A'..=b'Z', b'a'..=b'z', b'a'..=b'z', ..]);
        is_written_so.then(|| self.month()).flatten()
    }

    /// `08:49:37` as seconds of the day. The grammar allows a leap second; it is the first second
    /// of the next minute to us.
    fn time(&mut self) -> Option<i64> {
        let hour = self.number(2)?;
        self.literal(b":")?;
        let minute = self.number(2)?;
        self.literal(b":")?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
    }

    fn end(self, value: i64) -> Option<i64> {
        self.0.is_empty().then_some(value)
    }
}

/// Callers pass 0 to 99.
fn write_2(out: &mut [u8; DATE_BYTES], at: usize, number: i64) {
    out[at] = b'0' + (number / 10) as u8;
    out[at + 1] = b'0' + (number % 10) as u8;
}

/// `None` for a day that its month does not have.
fn unix(year: i64, month: i64, day: i64, second: i64) -> Option<i64> {
    let days = days_from_civil(year, month, day);
    (day >= 1 && civil(days) == (year, month, day)).then_some(days * DAY_S + second)
}

// Both ways between a date and days since the epoch, in years that begin in March so that the leap
// day comes last, and in cycles of 400 years (146,097 days) counted from 0000-03-01, which is day
// -719,468.

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let (cycle, year_of_cycle) = (march_year.div_euclid(400), march_year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    cycle * 146_097 + year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year
        - 719_468
}

/// Year, month, day.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_cycle = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = (march_month + 2) % 12 + 1;
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    (year, month, day_of_year - (153 * march_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests;

//! Times of the week in local time.
//!
//! Called by: matchers.
//! Caveat: a result holds until the next edge of the window, at most until the next quarter of an
//! hour, because clocks are changed at such times (daylight saving).
//! Out of scope: dates, and other time zones than the server's.

use saker_ap_expr::LocalTime;

const DAY_MINUTES: u16 = 24 * 60;
const QUARTER_MINUTES: u16 = 15;
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Days of the week, and hours of these days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// A bit per day; Sunday is bit 0.
    pub days: u8,
    /// Minutes of the day: from, until (exclusive). A window over midnight belongs to the day on
    /// which it begins.
    pub hours: Box<[(u16, u16)]>,
}

impl TimeWindow {
    pub const EVERY_DAY: u8 = 0x7f;

    pub fn contains(&self, time: LocalTime) -> bool {
        let minute = u16::from(time.hour) * 60 + u16::from(time.minute);
        let (today, yesterday) = (time.weekday % 7, (time.weekday + 6) % 7);
        let is_day = |day: u8| self.days & (1 << day) != 0;
        if self.hours.is_empty() {
            return is_day(today);
        }
        self.hours.iter().any(|(from, until)| match from < until {
            true => is_day(today) && (*from..*until).contains(&minute),
            false => (is_day(today) && minute >= *from) || (is_day(yesterday) && minute < *until),
        })
    }

    /// Returns the number of seconds for which the result is certain to hold.
    pub fn holds_s(&self, time: LocalTime) -> i64 {
        let minute = u16::from(time.hour) * 60 + u16::from(time.minute);
        let edges = self.hours.iter().flat_map(|(from, until)| [*from, *until]);
        let next = edges
            .chain([
                DAY_MINUTES,
                (minute / QUARTER_MINUTES + 1) * QUARTER_MINUTES,
            ])
            .filter(|edge| *edge > minute)
            .min()
            .unwrap_or(minute + 1);
        i64::from(next - minute) * 60 - i64::from(time.second.min(59))
    }
}

/// Parses a day (`mon`) or a range of days (`mon-fri`) to bits.
pub fn parse_days(text: &str) -> Option<u8> {
    let day = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        DAYS.iter()
            .position(|known| name.starts_with(known) && name.len() <= "wednesday".len())
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (mut at, last) = (day(first)?, day(last)?);
    let mut bits = 1 << at;
    while at != last {
        at = (at + 1) % 7;
        bits |= 1 << at;
    }
    Some(bits)
}

/// Parses `08:00-18:30` to minutes of the day. 24:00 is the end of the day.
pub fn parse_hours(text: &str) -> Option<(u16, u16)> {
    let minutes = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let is_number = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        let (hour, minute): (u16, u16) = match is_number(hour) && is_number(minute) {
            true => (hour.parse().ok()?, minute.parse().ok()?),
            false => return None,
        };
        (minute < 60 && hour * 60 + minute <= DAY_MINUTES).then_some(hour * 60 + minute)
    };
    let (from, until) = text.split_once('-')?;
    let (from, until) = (minutes(from)?, minutes(until)?);
    (from < DAY_MINUTES && from != until).then_some((from, until))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(weekday: u8, hour: u8, minute: u8) -> LocalTime {
        LocalTime {
            year: 2026,
            month: 11,
            day: 23,
            hour,
            minute,
            second: 0,
            weekday,
        }
    }

    #[test]
    fn parsing() {
        assert_eq!(parse_days("mon-fri"), Some(0b0011_1110));
        assert_eq!(parse_days("Saturday - Sunday"), Some(0b0100_0001));
        assert_eq!(parse_days("sun"), Some(1));
        assert_eq!(parse_days("day"), None);
        assert_eq!(parse_hours("08:00-18:30"), Some((480, 1110)));
        assert_eq!(parse_hours("22:00-24:00"), Some((1320, 1440)));
        for bad in [
            "8:00-9:00",
            "08:00",
            "08:60-09:00",
            "24:00-25:00",
            "10:00-10:00",
            "+1:00-02:00",
        ] {
            assert_eq!(parse_hours(bad), None, "{bad}");
        }
    }

    #[test]
    fn windows() {
        let work = TimeWindow {
            days: parse_days("mon-fri").unwrap(),
            hours: [(480, 1080)].into(),
        };
        for (time, expected) in [
            (at(1, 7, 59), false),
            (at(1, 8, 0), true),
            (at(5, 17, 59), true),
            (at(5, 18, 0), false),
            (at(6, 12, 0), false),
        ] {
            assert_eq!(work.contains(time), expected, "{time:?}");
        }
        assert_eq!(work.holds_s(at(1, 7, 59)), 60);
        assert_eq!(work.holds_s(at(1, 9, 1)), 14 * 60);
        let night = TimeWindow {
            days: parse_days("sat").unwrap(),
            hours: [(1320, 360)].into(),
        };
        for (time, expected) in [
            (at(6, 21, 59), false),
            (at(6, 22, 0), true),
            (at(0, 5, 59), true),
            (at(0, 6, 0), false),
            (at(6, 1, 0), false),
        ] {
            assert_eq!(night.contains(time), expected, "{time:?}");
        }
    }
}

//! The POSIX `TZ` text such as `CET-1CEST,M3.5.0,M10.5.0/3`: what holds after the last transition
//! of a zone file (RFC 9636 section 3.3), or in the variable itself.
//!
//! The one difficulty: signs. POSIX counts offsets west of Greenwich; [`LocalType`] counts east.

use super::calendar::{Civil, days_from_civil};
use super::zone::LocalType;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    standard: LocalType,
    saving: Option<Saving>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Saving {
    local: LocalType,
    start: Change,
    end: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    day: Day,
    /// Seconds after midnight of the time in force before the change; may be negative or over a
    /// day.
    time_s: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    /// `Jn`: 1 to 365, 29 February never counted.
    Julian(u32),
    /// `n`: 0 to 365.
    OfYear(u32),
    /// `Mm.w.d`: week 5 is the last.
    Weekday { month: u32, week: u32, weekday: u32 },
}

impl Rule {
    pub(super) fn parse(text: &str) -> Option<Rule> {
        let mut rest = text.as_bytes();
        let standard = LocalType {
            abbreviation: name(&mut rest)?,
            offset_s: -offset(&mut rest, 24)?,
            saving: false,
        };
        if rest.is_empty() {
            return Some(Rule {
                standard,
                saving: None,
            });
        }
        let abbreviation = name(&mut rest)?;
        let offset_s = match rest.first() {
            None | Some(b',') => standard.offset_s + 3600,
            Some(_) => -offset(&mut rest, 24)?,
        };
        let (start, end) = changes(&mut rest)?;
        let local = LocalType {
            abbreviation,
            offset_s,
            saving: true,
        };
        rest.is_empty().then_some(Rule {
            standard,
            saving: Some(Saving { local, start, end }),
        })
    }

    pub(super) fn at(&self, unix_s: i64) -> &LocalType {
        let Some(saving) = &self.saving else {
            return &self.standard;
        };
        let year = Civil::at(unix_s, self.standard.offset_s).year;
        let start = saving.start.unix_s(year, self.standard.offset_s);
        let end = saving.end.unix_s(year, saving.local.offset_s);
        // South of the equator the saving time spans the new year.
        let is_saving = if start < end {
            (start..end).contains(&unix_s)
        } else {
            !(end..start).contains(&unix_s)
        };
        if is_saving {
            &saving.local
        } else {
            &self.standard
        }
    }
}

impl Change {
    fn unix_s(self, year: i64, offset_before_s: i32) -> i64 {
        self.day.days(year) * 86_400 + self.time_s - i64::from(offset_before_s)
    }
}

impl Day {
    /// Days since the epoch of this day in `year`.
    fn days(self, year: i64) -> i64 {
        let new_year = days_from_civil(year, 1, 1);
        let leap = days_from_civil(year, 3, 1) - days_from_civil(year, 2, 1) == 29;
        match self {
            Day::Julian(day) => new_year + i64::from(day) - 1 + i64::from(leap && day >= 60),
            Day::OfYear(day) => new_year + i64::from(day),
            Day::Weekday {
                month,
                week,
                weekday,
            } => {
                let first = days_from_civil(year, month, 1);
                let next_month = if month == 12 {
                    days_from_civil(year + 1, 1, 1)
                } else {
                    days_from_civil(year, month + 1, 1)
                };
                let ahead = (i64::from(weekday) - (first + 4)).rem_euclid(7);
                let day = first + ahead + 7 * (i64::from(week) - 1);
                if day < next_month { day } else { day - 7 }
            }
        }
    }
}

/// Letters, or anything alphanumeric with sign in angle brackets.
fn name(rest: &mut &[u8]) -> Option<String> {
    let (text, after) = if rest.first() == Some(&b'<') {
        let end = rest.iter().position(|byte| *byte == b'>')?;
        (rest.get(1..end)?, rest.get(end + 1..)?)
    } else {
        rest.split_at(
            rest.iter()
                .position(|byte| !byte.is_ascii_alphabetic())
                .unwrap_or(rest.len()),
        )
    };
    let sound = (3..=16).contains(&text.len())
        && text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-".contains(byte));
    *rest = after;
    sound.then(|| text.iter().map(|byte| char::from(*byte)).collect())
}

/// `[+-]h[:m[:s]]` in seconds.
fn offset(rest: &mut &[u8], hours_max: u32) -> Option<i32> {
    let negative = rest.first() == Some(&b'-');
    if negative || rest.first() == Some(&b'+') {
        *rest = &rest[1..];
    }
    let mut total = i32::try_from(number(rest, hours_max)? * 3600).ok()?;
    for unit in [60, 1] {
        if !take(rest, b':') {
            break;
        }
        total += i32::try_from(number(rest, 59)?).ok()? * unit;
    }
    Some(if negative { -total } else { total })
}

fn changes(rest: &mut &[u8]) -> Option<(Change, Change)> {
    if rest.is_empty() {
        // POSIX leaves the rule to the system; everybody's default is that of the United States.
        let change = |month, week| Change {
            day: Day::Weekday {
                month,
                week,
                weekday: 0,
            },
            time_s: 7200,
        };
        return Some((change(3, 2), change(11, 1)));
    }
    let start = change(rest)?;
    Some((start, change(rest)?))
}

fn change(rest: &mut &[u8]) -> Option<Change> {
    take(rest, b',').then_some(())?;
    let day = if take(rest, b'J') {
        Day::Julian(number(rest, 365).filter(|day| *day >= 1)?)
    } else if take(rest, b'M') {
        let month = number(rest, 12).filter(|month| *month >= 1)?;
        take(rest, b'.').then_some(())?;
        let week = number(rest, 5).filter(|week| *week >= 1)?;
        take(rest, b'.').then_some(())?;
        Day::Weekday {
            month,
            week,
            weekday: number(rest, 6)?,
        }
    } else {
        Day::OfYear(number(rest, 365)?)
    };
    // RFC 9636 widens the hours to a week either way.
    let time_s = if take(rest, b'/') {
        i64::from(offset(rest, 167)?)
    } else {
        7200
    };
    Some(Change { day, time_s })
}

fn take(rest: &mut &[u8], byte: u8) -> bool {
    let there = rest.first() == Some(&byte);
    if there {
        *rest = &rest[1..];
    }
    there
}

fn number(rest: &mut &[u8], max: u32) -> Option<u32> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = rest[..digits].iter().try_fold(0u32, |sum, byte| {
        sum.checked_mul(10)?.checked_add(u32::from(byte - b'0'))
    })?;
    *rest = &rest[digits..];
    (digits > 0 && value <= max).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset_at(text: &str, year: i64, month: u32, day: u32, second: i64) -> i32 {
        Rule::parse(text)
            .expect(text)
            .at(days_from_civil(year, month, day) * 86_400 + second)
            .offset_s
    }

    #[test]
    fn central_europe() {
        let text = "CET-1CEST,M3.5.0,M10.5.0/3";
        assert_eq!(offset_at(text, 2026, 3, 29, 3599), 3600);
        assert_eq!(offset_at(text, 2026, 3, 29, 3600), 7200);
        assert_eq!(offset_at(text, 2026, 10, 25, 3599), 7200);
        assert_eq!(offset_at(text, 2026, 10, 25, 3600), 3600);
        assert_eq!(Rule::parse(text).expect("rule").at(0).abbreviation, "CET");
    }

    #[test]
    fn south_of_the_equator_and_odd_forms() {
        let sydney = "AEST-10AEDT,M10.1.0,M4.1.0/3";
        assert_eq!(offset_at(sydney, 2026, 1, 1, 0), 39_600);
        assert_eq!(offset_at(sydney, 2026, 7, 1, 0), 36_000);
        assert_eq!(offset_at("<-0330>3:30", 2026, 7, 1, 0), -12_600);
        assert_eq!(offset_at("EST5EDT", 2026, 7, 1, 0), -14_400);
        assert_eq!(
            offset_at("XXX0YYY,J60/0,J61/0", 2024, 3, 1, 0),
            3600,
            "J60 is the first of March in leap years too"
        );
        assert_eq!(offset_at("XXX0YYY,59/0,60/0", 2024, 2, 29, 0), 3600);
        assert_eq!(
            offset_at("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026, 3, 28, 26 * 3600),
            -3600,
            "time before midnight"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "C",
            "CET",
            "CET-1CEST,",
            "CET-1CEST,M3.5.0",
            "CET-1CEST,M13.1.0,M1.1.0",
            "CET-25",
            "CET-1CEST,M3.5.0,M10.5.0x",
            "<CET",
            "CET99999999999",
        ] {
            assert_eq!(Rule::parse(text), None, "{text}");
        }
    }
}

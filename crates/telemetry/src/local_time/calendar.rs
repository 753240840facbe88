//! Days and civil dates of the proleptic Gregorian calendar.
//!
//! Caveat: no tables or loops. Years are counted from March, so that the leap day is the last of
//! its year, in eras of 400 years, which all have 146,097 days.

pub const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAY_S: i64 = 86_400;
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;
/// Around year 9999 and its mirror image; times outside are clamped, so that text keeps its width.
const TIME_MAX_S: i64 = 253_402_214_400;

/// A moment as a civil date and time, at some offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    /// 0 is Sunday.
    pub weekday: u32,
    /// 0 is the first of January.
    pub day_of_year: u32,
    pub offset_s: i32,
}

impl Civil {
    pub fn at(unix_s: i64, offset_s: i32) -> Civil {
        let local = unix_s.clamp(-62_135_596_800, TIME_MAX_S) + i64::from(offset_s);
        let (days, second) = (local.div_euclid(DAY_S), local.rem_euclid(DAY_S) as u32);
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            weekday: (days + 4).rem_euclid(7) as u32,
            day_of_year: (days - days_from_civil(year, 1, 1)) as u32,
            offset_s,
        }
    }

    pub fn weekday_name(&self) -> &'static str {
        WEEKDAYS.get(self.weekday as usize).copied().unwrap_or("?")
    }

    pub fn month_name(&self) -> &'static str {
        MONTHS
            .get((self.month as usize).wrapping_sub(1))
            .copied()
            .unwrap_or("?")
    }

    /// Week number in which weeks begin on `first_weekday` and days before the first such day are
    /// in week 0.
    pub fn week_of_year(&self, first_weekday: u32) -> u32 {
        (self.day_of_year + 7 - (self.weekday + 7 - first_weekday) % 7) / 7
    }

    /// ISO 8601 year and week: week 1 has the year's first Thursday.
    pub fn iso_week(&self) -> (i64, u32) {
        let days = days_from_civil(self.year, self.month, self.day);
        let thursday = days - i64::from((self.weekday + 6) % 7) + 3;
        let year = civil_from_days(thursday).0;
        (
            year,
            ((thursday - days_from_civil(year, 1, 1)) / 7 + 1) as u32,
        )
    }
}

/// Days since 1970-01-01.
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = i64::from((month + 9) % 12);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year
        - EPOCH_DAYS
}

fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = ((month_from_march + 2) % 12 + 1) as u32;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        let epoch = Civil::at(0, 0);
        assert_eq!(
            (
                epoch.year,
                epoch.month,
                epoch.day,
                epoch.weekday,
                epoch.day_of_year
            ),
            (1970, 1, 1, 4, 0)
        );
        let leap = Civil::at(951_782_400 + 86_399, 0); // 2000-02-29 23:59:59
        assert_eq!(
            (
                leap.year,
                leap.month,
                leap.day,
                leap.hour,
                leap.minute,
                leap.second
            ),
            (2000, 2, 29, 23, 59, 59)
        );
        let shifted = Civil::at(1_795_252_332, 3600); // 2026-11-21 09:12:12 UTC
        assert_eq!(
            (
                shifted.year,
                shifted.month,
                shifted.day,
                shifted.hour,
                shifted.weekday
            ),
            (2026, 11, 21, 10, 6)
        );
        assert_eq!(Civil::at(-1, 0).year, 1969);
        assert!(Civil::at(i64::MAX, 0).year <= 9999 && Civil::at(i64::MIN, 0).year >= 0);
    }

    #[test]
    fn every_day_of_eight_centuries_round_trips() {
        let mut expected = (1700, 1, 1);
        for days in days_from_civil(1700, 1, 1)..days_from_civil(2500, 1, 1) {
            assert_eq!(civil_from_days(days), expected);
            assert_eq!(days_from_civil(expected.0, expected.1, expected.2), days);
            expected = day_after(expected);
        }
    }

    fn day_after((year, month, day): (i64, u32, u32)) -> (i64, u32, u32) {
        let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let last = match month {
            2 => 28 + u32::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (day == last, month) {
            (false, _) => (year, month, day + 1),
            (true, 12) => (year + 1, 1, 1),
            (true, _) => (year, month + 1, 1),
        }
    }

    #[test]
    fn weeks() {
        let at = |y, m, d| Civil::at(days_from_civil(y, m, d) * 86_400, 0);
        assert_eq!(at(2021, 1, 3).iso_week(), (2020, 53));
        assert_eq!(at(2021, 1, 4).iso_week(), (2021, 1));
        assert_eq!(at(2026, 11, 21).iso_week(), (2026, 47));
        assert_eq!(at(2026, 11, 21).week_of_year(0), 46);
        assert_eq!(at(2026, 11, 21).week_of_year(1), 46);
        assert_eq!(at(2023, 1, 1).week_of_year(0), 1);
        assert_eq!(at(2023, 1, 1).week_of_year(1), 0);
    }
}

//! The machine's time zone, from `TZ` or `/etc/localtime`, read by jiff.
//!
//! Called by: access and error log clocks, `%{format}t`, SSI and `ap_expr` times.
//! Caveat: a zone that can't be read is UTC, as in the C library.
//! Out of scope: leap seconds; logs use POSIX time, as Apache's do.

use jiff::{
    Timestamp,
    tz::{self, Dst},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Zone files are a few kilobytes; anything much larger is not one.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Offset and abbreviation in force at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalType {
    pub abbreviation: String,
    /// Seconds east of UTC.
    pub offset_s: i32,
    pub saving: bool,
}

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeZone(tz::TimeZone);

impl TimeZone {
    pub fn utc() -> TimeZone {
        TimeZone(tz::TimeZone::UTC)
    }

    /// The process's zone, read once.
    pub fn local() -> &'static TimeZone {
        static LOCAL: OnceLock<TimeZone> = OnceLock::new();
        LOCAL.get_or_init(|| {
            TimeZone::named(std::env::var("TZ").ok().as_deref()).unwrap_or_else(TimeZone::utc)
        })
    }

    /// A zone by the value of `TZ`: absent is `/etc/localtime`, empty is UTC, else a POSIX rule or
    /// the name of a zone file.
    pub fn named(name: Option<&str>) -> Option<TimeZone> {
        let Some(name) = name else {
            return TimeZone::read(Path::new("/etc/localtime"));
        };
        let name = name.strip_prefix(':').unwrap_or(name);
        if name.is_empty() {
            return Some(TimeZone::utc());
        }
        let path = PathBuf::from("/usr/share/zoneinfo").join(name);
        TimeZone::read(&path).or_else(|| tz::TimeZone::posix(name).ok().map(TimeZone))
    }

    /// A zone file (TZif, RFC 9636).
    fn read(path: &Path) -> Option<TimeZone> {
        let metadata = fs::metadata(path).ok()?;
        if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
            return None;
        }
        let name = path.to_string_lossy();
        tz::TimeZone::tzif(&name, &fs::read(path).ok()?)
            .ok()
            .map(TimeZone)
    }

    /// Offset and abbreviation at `unix_s`; times that jiff can't represent count as its earliest
    /// or latest.
    pub fn at(&self, unix_s: i64) -> LocalType {
        let info = self.0.to_offset_info(timestamp(unix_s));
        LocalType {
            abbreviation: info.abbreviation().to_owned(),
            offset_s: info.offset().seconds(),
            saving: info.dst() == Dst::Yes,
        }
    }

    /// Seconds east of UTC at `unix_s`.
    pub fn offset_s(&self, unix_s: i64) -> i32 {
        self.0.to_offset(timestamp(unix_s)).seconds()
    }
}

fn timestamp(unix_s: i64) -> Timestamp {
    let otherwise = if unix_s < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_second(unix_s).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(TimeZone::named(Some("")), Some(TimeZone::utc()));
        assert_eq!(
            TimeZone::named(Some("JST-9")).expect("rule").offset_s(0),
            32_400
        );
        assert_eq!(TimeZone::named(Some("No/Such_Zone")), None);
        assert!(TimeZone::local().offset_s(0).abs() < 26 * 3600);
    }

    #[test]
    fn rules_change_the_offset_at_their_moments() {
        let zone = TimeZone::named(Some("CET-1CEST,M3.5.0,M10.5.0/3")).expect("rule");
        // 2026-03-29 and 2026-10-25, 01:00 UTC.
        for (at, before, after) in [(1_774_746_000, 3600, 7200), (1_792_890_000, 7200, 3600)] {
            assert_eq!((zone.offset_s(at - 1), zone.offset_s(at)), (before, after));
        }
        let summer = zone.at(1_783_000_000);
        assert_eq!(
            (summer.abbreviation.as_str(), summer.saving),
            ("CEST", true)
        );
    }

    #[test]
    fn times_out_of_range_have_an_offset() {
        let zone = TimeZone::named(Some("JST-9")).expect("rule");
        assert_eq!(
            (zone.offset_s(i64::MIN), zone.offset_s(i64::MAX)),
            (32_400, 32_400)
        );
    }

    #[test]
    fn the_system_zone_files() {
        // Not every machine has them; where they are they must be right.
        let Some(zone) = TimeZone::named(Some("Europe/Berlin")) else {
            return;
        };
        assert_eq!(zone.offset_s(1_795_252_332), 3600);
        assert_eq!(zone.offset_s(1_783_000_000), 7200);
        assert_eq!(zone.at(1_783_000_000).abbreviation, "CEST");
    }
}

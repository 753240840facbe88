//! The machine's time zone, from `TZ` or `/etc/localtime` (TZif, RFC 9636).
//!
//! The one difficulty: a zone file comes in two parts, an old one with 32-bit times that is only
//! there to be skipped, and the real one; every count in it is the file's claim and is checked
//! before it is believed.

use super::rule::Rule;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Zone files are a few kilobytes; anything much larger is not one.
const FILE_BYTES_MAX: u64 = 1 << 20;
const HEAD_BYTES: usize = 44;

/// What holds between two transitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalType {
    pub abbreviation: String,
    /// East of Greenwich.
    pub offset_s: i32,
    pub saving: bool,
}

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeZone {
    /// Moments from which a type holds, ascending.
    transitions: Vec<(i64, u8)>,
    /// Never empty; the first holds before all transitions.
    types: Vec<LocalType>,
    /// After the last transition.
    rule: Option<Rule>,
}

impl TimeZone {
    pub fn utc() -> TimeZone {
        let utc = LocalType {
            abbreviation: "UTC".to_owned(),
            offset_s: 0,
            saving: false,
        };
        TimeZone {
            transitions: Vec::new(),
            types: vec![utc],
            rule: None,
        }
    }

    /// The process's zone, read once; UTC where there is none or it makes no sense.
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
        TimeZone::read(&path).or_else(|| Rule::parse(name).map(TimeZone::of_rule))
    }

    pub fn read(path: &Path) -> Option<TimeZone> {
        let length = std::fs::metadata(path)
            .ok()
            .filter(std::fs::Metadata::is_file)?
            .len();
        (length <= FILE_BYTES_MAX)
            .then(|| std::fs::read(path).ok())?
            .and_then(|bytes| TimeZone::parse(&bytes))
    }

    /// The bytes of a zone file.
    pub fn parse(bytes: &[u8]) -> Option<TimeZone> {
        let first = Head::parse(bytes)?;
        if first.version < b'2' {
            return first.body(bytes.get(HEAD_BYTES..)?, 4);
        }
        let rest = bytes.get(HEAD_BYTES + first.body_bytes(4)..)?;
        let head = Head::parse(rest)?;
        let mut zone = head.body(rest.get(HEAD_BYTES..)?, 8)?;
        zone.rule = footer(rest.get(HEAD_BYTES + head.body_bytes(8)..)?);
        Some(zone)
    }

    /// What holds at a moment.
    pub fn at(&self, unix_s: i64) -> &LocalType {
        let after = self
            .transitions
            .partition_point(|transition| transition.0 <= unix_s);
        if let (true, Some(rule)) = (after == self.transitions.len(), &self.rule) {
            return rule.at(unix_s);
        }
        let index = after
            .checked_sub(1)
            .and_then(|at| self.transitions.get(at))
            .map_or(0, |transition| usize::from(transition.1));
        self.types.get(index).unwrap_or(&self.types[0])
    }

    pub fn offset_s(&self, unix_s: i64) -> i32 {
        self.at(unix_s).offset_s
    }

    fn of_rule(rule: Rule) -> TimeZone {
        TimeZone {
            rule: Some(rule),
            ..TimeZone::utc()
        }
    }
}

/// RFC 9636 section 3.1.
struct Head {
    version: u8,
    universal_count: usize,
    standard_count: usize,
    leap_count: usize,
    transition_count: usize,
    type_count: usize,
    name_bytes: usize,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Head> {
        let head = bytes
            .get(..HEAD_BYTES)
            .filter(|head| head.starts_with(b"TZif"))?;
        // Small enough that no sum of products below can overflow.
        let count = |index: usize| {
            be32(head, 20 + 4 * index)
                .filter(|count| *count <= FILE_BYTES_MAX as u32)
                .map(|count| count as usize)
        };
        Some(Head {
            version: head[4],
            universal_count: count(0)?,
            standard_count: count(1)?,
            leap_count: count(2)?,
            transition_count: count(3)?,
            type_count: count(4)?,
            name_bytes: count(5)?,
        })
    }

    fn body_bytes(&self, time_bytes: usize) -> usize {
        self.transition_count * (time_bytes + 1)
            + self.type_count * 6
            + self.name_bytes
            + self.leap_count * (time_bytes + 4)
            + self.standard_count
            + self.universal_count
    }

    /// RFC 9636 section 3.2.
    fn body(&self, bytes: &[u8], time_bytes: usize) -> Option<TimeZone> {
        let (times, rest) = bytes.split_at_checked(self.transition_count * time_bytes)?;
        let (indices, rest) = rest.split_at_checked(self.transition_count)?;
        let (types, rest) = rest.split_at_checked(self.type_count * 6)?;
        let names = rest.get(..self.name_bytes)?;
        let types: Vec<LocalType> = types
            .chunks_exact(6)
            .map(|entry| local_type(entry, names))
            .collect::<Option<_>>()?;
        let transitions: Vec<(i64, u8)> = times
            .chunks_exact(time_bytes)
            .zip(indices)
            .map(|(time, index)| (signed_time(time), *index))
            .collect();
        let sound = !types.is_empty()
            && transitions
                .iter()
                .all(|transition| usize::from(transition.1) < types.len())
            && transitions.windows(2).all(|pair| pair[0].0 < pair[1].0);
        sound.then_some(TimeZone {
            transitions,
            types,
            rule: None,
        })
    }
}

fn local_type(entry: &[u8], names: &[u8]) -> Option<LocalType> {
    let offset_s = be32(entry, 0)? as i32;
    let name = names.get(usize::from(*entry.get(5)?)..)?;
    let name = name.split(|byte| *byte == 0).next()?;
    let sound = offset_s.unsigned_abs() < 26 * 3600 && name.iter().all(u8::is_ascii_graphic);
    sound.then(|| LocalType {
        abbreviation: name.iter().map(|byte| char::from(*byte)).collect(),
        offset_s,
        saving: entry.get(4) == Some(&1),
    })
}

/// The rule between two line ends; an empty or unusable one leaves the last transition in force.
fn footer(bytes: &[u8]) -> Option<Rule> {
    let text = bytes
        .strip_prefix(b"\n")?
        .split(|byte| *byte == b'\n')
        .next()?;
    Rule::parse(std::str::from_utf8(text).ok()?)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn signed_time(bytes: &[u8]) -> i64 {
    let start = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        -1
    } else {
        0
    };
    bytes
        .iter()
        .fold(start, |time, byte| (time << 8) | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: u8, counts: [u32; 6]) -> Vec<u8> {
        let mut out = b"TZif".to_vec();
        out.push(version);
        out.extend([0; 15]);
        counts
            .iter()
            .for_each(|count| out.extend(count.to_be_bytes()));
        out
    }

    /// One transition to +1 h at 1000, then the footer.
    fn file(footer: &str) -> Vec<u8> {
        let mut out = head(b'2', [0, 0, 0, 0, 1, 4]);
        out.extend([0, 0, 0, 0, 0, 0, b'U', b'T', b'C', 0]);
        out.extend(head(b'2', [0, 0, 0, 1, 2, 8]));
        out.extend(1000i64.to_be_bytes());
        out.push(1);
        out.extend([0, 0, 0, 0, 0, 0]);
        out.extend(3600i32.to_be_bytes());
        out.extend([1, 4]);
        out.extend(b"AAA\0BBB\0\n");
        out.extend(footer.as_bytes());
        out.push(b'\n');
        out
    }

    #[test]
    fn transitions_and_footer() {
        let zone = TimeZone::parse(&file("")).expect("zone");
        assert_eq!(
            (
                zone.offset_s(999),
                zone.offset_s(1000),
                zone.offset_s(i64::MAX)
            ),
            (0, 3600, 3600)
        );
        assert_eq!(
            zone.at(1000),
            &LocalType {
                abbreviation: "BBB".to_owned(),
                offset_s: 3600,
                saving: true
            }
        );
        let zone = TimeZone::parse(&file("CCC-2")).expect("zone");
        assert_eq!((zone.offset_s(999), zone.offset_s(2000)), (0, 7200));
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_survived() {
        let good = file("CET-1CEST,M3.5.0,M10.5.0/3");
        for cut in 0..good.len() {
            let _ = TimeZone::parse(&good[..cut]).map(|zone| zone.offset_s(1 << 40));
        }
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ =
                    TimeZone::parse(&bad).map(|zone| (zone.offset_s(0), zone.offset_s(1 << 40)));
            }
        }
    }

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

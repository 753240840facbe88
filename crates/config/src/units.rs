//! Parses and formats sizes, durations and rates.
//!
//! Decimal and binary prefixes are distinct (`1MB` is 1,000,000, `1MiB` is 1,048,576). One-letter
//! prefixes are ambiguous (nginx and disk vendors differ) and refused with a suggestion of both. A
//! duration always has a unit.

const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
];

const DURATION_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Their patterns for the JSON Schema.
pub const SIZE_PATTERN: &str = "^[0-9]+ ?([kKmMgGtT][iI]?)?[bB]$";
pub const DURATION_PATTERN: &str = "^[0-9]+ ?(ms|s|m|h|d)$";

/// Parses `64KiB`, `1MB`, `512B`. The error is a help text.
pub fn parse_size(text: &str) -> Result<u64, Option<String>> {
    let (number, unit) = split(text).ok_or(None)?;
    let factor = SIZE_UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .map(|(_, factor)| *factor);
    match factor {
        Some(factor) => number.checked_mul(factor).ok_or(None),
        None => Err(size_help(number, unit)),
    }
}

/// Parses `30s`, `500ms`, `2m`, in milliseconds.
pub fn parse_duration_ms(text: &str) -> Result<u64, Option<String>> {
    let (number, unit) = split(text).ok_or(None)?;
    match DURATION_UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => number.checked_mul(*factor).ok_or(None),
        None if unit.is_empty() => Err(Some(format!(
            "a duration needs a unit: write \"{number}s\" for seconds"
        ))),
        None => Err(Some("the units are ms, s, m, h and d".into())),
    }
}

/// Formats in the largest unit that is exact.
pub fn show_size(bytes: u64) -> String {
    let exact = SIZE_UNITS
        .iter()
        .find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    match exact {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => "0".into(),
    }
}

pub fn show_duration(ms: u64) -> String {
    match DURATION_UNITS
        .iter()
        .find(|(_, factor)| ms > 0 && ms.is_multiple_of(*factor))
    {
        Some((unit, factor)) => format!("{}{unit}", ms / factor),
        None => "0s".into(),
    }
}

/// Parses `1MB/s`, in bytes per second.
pub fn parse_bandwidth(text: &str) -> Result<u64, Option<String>> {
    let help = || Some("write bytes per second, such as \"500kB/s\" or \"1MiB/s\"".to_owned());
    let amount = text.trim_end().strip_suffix("/s").ok_or_else(help)?;
    match parse_size(amount) {
        Ok(0) => Err(Some("write \"off\" for no limit".into())),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err(help()),
    }
}

/// Parses `100/s`, `30/m`, in requests per 1000 seconds, rounded up so that a low rate does not
/// become zero.
pub fn parse_request_rate(text: &str) -> Result<u64, Option<String>> {
    let help =
        || Some("write requests per second or minute, such as \"100/s\" or \"30/m\"".to_owned());
    let (number, unit) = text.split_once('/').ok_or_else(help)?;
    let number: u64 = number.trim().parse().map_err(|_| help())?;
    let per_1000_s = match unit.trim() {
        "s" => number.checked_mul(1000),
        "m" => number
            .checked_mul(1000)
            .map(|thousands| thousands.div_ceil(60)),
        _ => return Err(help()),
    };
    match per_1000_s {
        Some(0) => Err(Some(
            "write \"off\" for no limit, `deny = true` in a route for no requests".into(),
        )),
        Some(rate) if rate <= 1_000_000_000_000 => Ok(rate),
        _ => Err(Some("the highest rate is \"1000000000/s\"".into())),
    }
}

/// Splits leading digits from what follows them without a space.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

fn size_help(number: u64, unit: &str) -> Option<String> {
    let prefix = match unit.to_ascii_lowercase().as_str() {
        "" => {
            return Some(format!(
                "write {number} without quotes, or a unit: \"{number}KiB\""
            ));
        }
        "k" => ("KiB", "kB"),
        "m" => ("MiB", "MB"),
        "g" => ("GiB", "GB"),
        _ => {
            return Some(
                "the units are B, kB, MB, GB, TB (thousands) and KiB, MiB, GiB, TiB (1024)".into(),
            );
        }
    };
    Some(format!(
        "write \"{number}{}\" (1024) or \"{number}{}\" (1000)",
        prefix.0, prefix.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("1MB", 1_000_000),
            ("1 GiB", 1 << 30),
            ("5b", 5),
            ("1kb", 1000),
            ("0B", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "KiB",
            "12",
            "12k",
            "-1MB",
            "1.5GB",
            "99999999999999999999B",
            "20000000TiB",
            "1MiBs",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1 d", 86_400_000),
        ] {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
        }
        for text in [
            "",
            "30",
            "s",
            "1S",
            "1.5s",
            "-1s",
            "1w",
            "99999999999999999d",
        ] {
            assert!(parse_duration_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_as_read() {
        for bytes in [1, 999, 1000, 1024, 65_536, 1_000_000, 5 << 30] {
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }
        for ms in [1, 500, 1000, 1500, 60_000, 86_400_000] {
            assert_eq!(parse_duration_ms(&show_duration(ms)), Ok(ms));
        }
    }

    #[test]
    fn rates() {
        assert_eq!(parse_bandwidth("1MB/s"), Ok(1_000_000));
        assert!(
            parse_bandwidth("1MB").is_err()
                && parse_bandwidth("0B/s").is_err()
                && parse_bandwidth("1MB/m").is_err()
        );
        assert_eq!(parse_request_rate("30/m"), Ok(500));
        assert_eq!(parse_request_rate("1/m"), Ok(17));
        assert_eq!(parse_request_rate("100/s"), Ok(100_000));
        for text in ["", "100", "0/s", "1/h", "x/s", "99999999999999999/s"] {
            assert!(parse_request_rate(text).is_err(), "{text}");
        }
    }
}

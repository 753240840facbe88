//! `<IfVersion>`: which Apache we say we are.
//!
//! Configurations ask so that they may use what the version has; ours is the one whose manual and
//! behavior Saker follows.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// The Apache whose manual and behavior this crate follows.
pub const APACHE_VERSION: Version = Version(2, 4, 71);

/// A regular expression and what it is asked about: whether it matches, or why it can't be
/// compiled.
pub type PatternMatch = fn(pattern: &[u8], subject: &[u8]) -> Result<bool, String>;

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    /// `major[.minor[.patch]]`; what is left out is 0, also between two dots.
    pub fn parse(text: &[u8]) -> Option<Version> {
        if text.is_empty() {
            return None;
        }
        let mut parts = text.split(|byte| *byte == b'.').map(number);
        let version = Version(
            parts.next()??,
            parts.next().unwrap_or(Some(0))?,
            parts.next().unwrap_or(Some(0))?,
        );
        parts.next().is_none().then_some(version)
    }

    /// Evaluates `<IfVersion operator text>` for this version; the error is in Apache's words.
    pub fn satisfies(
        self,
        operator: &[u8],
        text: &[u8],
        matches: PatternMatch,
    ) -> Result<bool, String> {
        let (operator, reversed) = match operator {
            [b'!', operator @ ..] if !operator.is_empty() => (operator, true),
            operator => (operator, false),
        };
        Ok(self.satisfies_plain(operator, text, matches)? != reversed)
    }

    fn satisfies_plain(
        self,
        operator: &[u8],
        text: &[u8],
        matches: PatternMatch,
    ) -> Result<bool, String> {
        match (operator, text) {
            (b"~", pattern) => self.matched(pattern, matches),
            (b"=" | b"==", [b'/', inner @ ..]) => match inner.split_last() {
                Some((b'/', pattern)) => self.matched(pattern, matches),
                _ => Err("Missing delimiting / of regular expression.".into()),
            },
            (operator, text) => self.compared(operator, text),
        }
    }

    fn compared(self, operator: &[u8], text: &[u8]) -> Result<bool, String> {
        let holds: fn(Version, Version) -> bool = match operator {
            b"=" | b"==" => |ours, other| ours == other,
            b">" => |ours, other| ours > other,
            b">=" => |ours, other| ours >= other,
            b"<" => |ours, other| ours < other,
            b"<=" => |ours, other| ours <= other,
            _ => {
                return Err(format!(
                    "unrecognized operator '{}'",
                    String::from_utf8_lossy(operator)
                ));
            }
        };
        let other = Version::parse(text).ok_or(
            "Version appears to be invalid. It must have the format major[.minor[.patch]] where major, minor and patch are numbers.",
        )?;
        Ok(holds(self, other))
    }

    fn matched(self, pattern: &[u8], matches: PatternMatch) -> Result<bool, String> {
        matches(pattern, self.to_string().as_bytes())
            .map_err(|_| "Unable to compile regular expression".into())
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    match digits {
        b"" => Some(0),
        digits => std::str::from_utf8(digits)
            .ok()
            .filter(|_| digits.iter().all(u8::is_ascii_digit))?
            .parse()
            .ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in: the pattern as a beginning, after a circumflex.
    fn starts(pattern: &[u8], subject: &[u8]) -> Result<bool, String> {
        match pattern.strip_prefix(b"^") {
            Some(start) => Ok(subject.starts_with(start)),
            None => Err("no".into()),
        }
    }

    #[test]
    fn operators() {
        let rows = [
            (">=", "2.4", true),
            ("=", "2.4.71", true),
            ("==", "2.4", false),
            ("!<", "2.4", true),
            ("<", "3", true),
            (">", "2", true),
            ("<=", "2.4", false),
            ("<=", "2.4.71", true),
            ("!=", "2.4.71", false),
            ("~", "^2.4", true),
            ("!~", "^9", true),
            ("=", "/^2/", true),
            (">=", "2..4", true),
        ];
        for (operator, text, expected) in rows {
            assert_eq!(
                APACHE_VERSION.satisfies(operator.as_bytes(), text.as_bytes(), starts),
                Ok(expected),
                "{operator} {text}"
            );
        }
    }

    #[test]
    fn what_apache_refuses() {
        for (operator, text) in [
            ("%", "2.4"),
            ("=", "2.4.x"),
            ("=", ""),
            ("=", "2.4.71.1"),
            ("~", "("),
            ("=", "/2"),
            ("!", "2"),
        ] {
            assert!(
                APACHE_VERSION
                    .satisfies(operator.as_bytes(), text.as_bytes(), starts)
                    .is_err(),
                "{operator} {text}"
            );
        }
    }
}

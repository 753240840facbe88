//! Comparison of field names for trust decisions.
//!
//! Called by: everything that removes, sets, or trusts such a field. CGI, FastCGI, WSGI, and
//! similar protocols turn a field name into a variable by writing `_` for every character other
//! than a letter or digit (RFC 3875 section 4.1.18), so `Remote-User`, `remote_user`, and
//! `Remote.User` are one variable to a program. A field that decides about permissions is therefore
//! compared in that form.
//! Caveat: semantics of HTTP itself use the exact name (RFC 9110 section 5.1), ignoring case.
//! Nothing here allocates.

use crate::scan;

/// Each byte as a variable's name shows it: letters in lower case, digits, `_` for the rest.
static FOLDED: [u8; 256] = folded();

/// True if programs can't tell the two names apart: they are equal, in any case, once every
/// character other than letters and digits is `_`.
#[inline]
pub fn is_alike(one: &[u8], other: &[u8]) -> bool {
    // Most names differ in length: nothing is read for those.
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| FOLDED[usize::from(*one)] == FOLDED[usize::from(*other)])
}

/// True if `name` is alike to one of `names`.
#[inline]
pub fn is_alike_any(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| is_alike(name, known.as_bytes()))
}

/// True for names of letters, digits and hyphens only: no two of them become one variable, except
/// by case.
#[inline]
pub fn is_plain(name: &[u8]) -> bool {
    plain_length(name) == name.len()
}

/// A field name of letters and hyphens that names are compared with, in any case: eight bytes at a
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    length: usize,
    words: [u64; 3],
    /// The bits by which small letters differ from capitals.
    cases: [u64; 3],
}

impl Known {
    /// `name` in small letters, of at most 24 bytes.
    pub const fn new(name: &str) -> Known {
        let name = name.as_bytes();
        assert!(!name.is_empty() && name.len() <= 24);
        let mut cases = [0; 24];
        let mut at = 0;
        while at < name.len() {
            assert!(name[at] == b'-' || name[at].is_ascii_lowercase());
            cases[at] = match name[at] {
                b'-' => 0,
                _ => 0x20,
            };
            at += 1;
        }
        Known {
            length: name.len(),
            words: words(name),
            cases: words(cases.split_at(name.len()).0),
        }
    }

    /// True if `name` is this one, in any case.
    #[inline]
    pub const fn is(&self, name: &[u8]) -> bool {
        if name.len() != self.length {
            return false;
        }
        let [first, last, middle] = words(name);
        (first | self.cases[0]) == self.words[0]
            && (last | self.cases[1]) == self.words[1]
            && (middle | self.cases[2]) == self.words[2]
    }
}

/// First, last, and middle bytes of at most 24; they overlap where there are fewer.
#[inline]
const fn words(name: &[u8]) -> [u64; 3] {
    match name {
        [] => [0; 3],
        [one] => [*one as u64, 0, 0],
        [one, other] => [*one as u64, *other as u64, 0],
        [one, other, third] => [*one as u64, *other as u64, *third as u64],
        _ => match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => {
                let middle = match name.len() > 16 {
                    true => name.split_at(8).1.first_chunk(),
                    false => None,
                };
                let middle = match middle {
                    Some(middle) => u64::from_le_bytes(*middle),
                    None => 0,
                };
                [
                    u64::from_le_bytes(*first),
                    u64::from_le_bytes(*last),
                    middle,
                ]
            }
            _ => match (name.first_chunk(), name.last_chunk()) {
                (Some(first), Some(last)) => {
                    let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
                    [first as u64, last as u64, 0]
                }
                _ => [0; 3],
            },
        },
    }
}

/// Field names by their lengths and first letters, as a set of 64: most other names need no further
/// look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameSet(u64);

impl NameSet {
    pub const EMPTY: NameSet = NameSet(0);
    pub const ALL: NameSet = NameSet(u64::MAX);

    pub const fn of(names: &[&str]) -> NameSet {
        let (mut set, mut at) = (0, 0);
        while at < names.len() {
            set |= bit(names[at].as_bytes());
            at += 1;
        }
        NameSet(set)
    }

    #[inline]
    pub fn insert(&mut self, name: &[u8]) {
        self.0 |= bit(name);
    }

    /// False if the name is none of the set, in any case.
    #[inline]
    pub const fn may_have(self, name: &[u8]) -> bool {
        self.0 & bit(name) != 0
    }

    /// False if no name is in both sets.
    #[inline]
    pub const fn shares(self, other: NameSet) -> bool {
        self.0 & other.0 != 0
    }

    /// The names of both sets.
    #[inline]
    pub const fn or(self, other: NameSet) -> NameSet {
        NameSet(self.0 | other.0)
    }
}

/// The factors were searched for so that few of the names that browsers send share a bit with one
/// that is not forwarded.
#[inline]
const fn bit(name: &[u8]) -> u64 {
    let first = match name {
        [first, ..] => (*first | 0x20) as usize,
        [] => 0,
    };
    1 << ((name.len() + first * 35) % 64)
}

/// Length of the run of letters, digits and hyphens at the start.
#[inline]
pub fn plain_length(bytes: &[u8]) -> usize {
    scan::run_length::<scan::Plain>(bytes)
}

/// Appends the name as a variable of a program shows it: letters in capitals, digits, `_` for the
/// rest (RFC 3875 section 4.1.18); eight bytes at a time.
#[inline]
pub fn push_variable(name: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if let Some(last) = name.last_chunk() {
        let (words, _) = name.as_chunks();
        for word in words {
            let shown = in_variable(u64::from_le_bytes(*word));
            out.extend_from_slice(&shown.to_le_bytes());
        }
        // The last eight bytes, some of which are there already.
        out.truncate(start + name.len() - 8);
        out.extend_from_slice(&in_variable(u64::from_le_bytes(*last)).to_le_bytes());
    } else if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        let shown = in_variable(u64::from(first) | u64::from(last) << 32);
        out.extend_from_slice(&(shown as u32).to_le_bytes());
        out.truncate(start + name.len() - 4);
        out.extend_from_slice(&((shown >> 32) as u32).to_le_bytes());
    } else {
        let shown = |byte: &u8| in_variable(u64::from(*byte)) as u8;
        out.extend(name.iter().map(shown));
    }
}

const ONES: u64 = u64::from_le_bytes([0x01; 8]);
const HIGH_BITS: u64 = u64::from_le_bytes([0x80; 8]);

/// High bits of the bytes from `FIRST` to `LAST`, all of which have seven bits. Exact: sums of seven
/// bits stay within their bytes.
#[inline]
fn within<const FIRST: u8, const LAST: u8>(bytes: u64) -> u64 {
    let from_first = bytes + ONES * (0x80 - FIRST as u64);
    let behind_last = bytes + ONES * (0x7f - LAST as u64);
    from_first & !behind_last
}

/// Each byte as a variable's name shows it.
#[inline]
fn in_variable(word: u64) -> u64 {
    let low = word & !HIGH_BITS;
    let small = within::<b'a', b'z'>(low) & !word & HIGH_BITS;
    let other = (within::<b'A', b'Z'>(low) | within::<b'0', b'9'>(low)) & !word & HIGH_BITS;
    let kept = ((small | other) >> 7) * 0xff;
    let capitals = word ^ (small >> 2);
    (capitals & kept) | ((ONES * b'_' as u64) & !kept)
}

const fn folded() -> [u8; 256] {
    let mut table = [b'_'; 256];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_show_each_byte_at_each_place() {
        for byte in 0..=255u8 {
            let want = match byte.is_ascii_alphanumeric() {
                true => byte.to_ascii_uppercase(),
                false => b'_',
            };
            for (length, at) in (0..20).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let mut name = vec![b'x'; length];
                let mut shown = vec![b'X'; length];
                (name[at], shown[at]) = (byte, want);
                let mut out = b"HTTP_".to_vec();
                push_variable(&name, &mut out);
                assert_eq!(out, [b"HTTP_", &shown[..]].concat(), "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn known_names_are_found_in_any_case_and_nothing_else_is() {
        let names = ["te", "age", "host", "range", "connection", "content-length"];
        let long = ["if-unmodified-since", "x-litespeed-cache-contro"];
        for name in names.into_iter().chain(long) {
            let known = Known::new(name);
            assert!(known.is(name.as_bytes()) && known.is(name.to_uppercase().as_bytes()));
            for (at, byte) in (0..name.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                let mut other = name.as_bytes().to_vec();
                other[at] = byte;
                let is_same = other.eq_ignore_ascii_case(name.as_bytes());
                assert_eq!(known.is(&other), is_same, "{name} with {byte:#x} at {at}");
            }
            assert!(
                !known.is(&name.as_bytes()[1..]) && !known.is(&[name.as_bytes(), b"x"].concat())
            );
        }
        assert!(!Known::new("te").is(b""));
    }

    #[test]
    fn names_that_become_one_variable_are_alike() {
        for other in [
            "Remote-User",
            "remote-user",
            "REMOTE_USER",
            "Remote_User",
            "remote.user",
            "Remote!User",
            "remote~USER",
        ] {
            assert!(
                is_alike(b"Remote-User", other.as_bytes())
                    && is_alike(other.as_bytes(), b"Remote-User"),
                "{other}"
            );
        }
        for other in [
            "RemoteUser",
            "Remote-Users",
            "Remote--User",
            "Remote-Use",
            "Remote0User",
            "",
            "-Remote-User",
        ] {
            assert!(
                !is_alike(b"Remote-User", other.as_bytes())
                    && !is_alike(other.as_bytes(), b"Remote-User"),
                "{other}"
            );
        }
        assert!(
            is_alike_any(b"x_real_ip", &["forwarded", "x-real-ip"])
                && !is_alike_any(b"x_real_ips", &["forwarded", "x-real-ip"])
        );
    }

    /// Against the definition, for every byte.
    #[test]
    fn the_table_is_the_definition() {
        let variable = |byte: u8| {
            if byte.is_ascii_alphanumeric() {
                byte.to_ascii_uppercase()
            } else {
                b'_'
            }
        };
        for one in 0..=255 {
            for other in 0..=255 {
                assert_eq!(
                    is_alike(&[one], &[other]),
                    variable(one) == variable(other),
                    "{one} {other}"
                );
            }
            assert_eq!(
                is_plain(&[one]),
                one.is_ascii_alphanumeric() || one == b'-',
                "{one}"
            );
        }
    }
}

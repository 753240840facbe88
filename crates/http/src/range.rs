//! Byte ranges (RFC 9110 section 14).
//!
//! Called by: handlers, after the preconditions, for GET. One range, the usual case, allocates
//! nothing.
//! Caveat: many small or overlapping ranges make a large response out of a small request (RFC 9110
//! section 17.15), so their number is bounded, and overlapping ones are joined before they are
//! counted: no byte is sent twice. By nginx's rules they are sent as asked, but never more bytes than
//! the whole has.

use crate::chars::trim_ows;

/// First and last byte position, both inclusive, within the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub first: u64,
    pub last: u64,
}

impl ByteRange {
    pub fn len(self) -> u64 {
        self.last - self.first + 1
    }

    pub fn is_empty(self) -> bool {
        false
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeOutcome {
    /// No usable Range: answer 200 with everything (unknown unit, bad syntax, or more than
    /// `parts_max` parts: RFC 9110 section 14.2 lets a server ignore those).
    Whole,
    One(ByteRange),
    /// Two or more, in the order asked, overlapping or adjacent ones joined.
    Many(Vec<ByteRange>),
    /// Answer 416 with `Content-Range: bytes */length`.
    Unsatisfiable,
}

/// Rules for a Range field, where the standard leaves a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeRules {
    /// Invalid sets are ignored, and ranges that overlap are joined.
    #[default]
    Joined,
    /// nginx's: in a set of bytes, what is invalid is unsatisfiable; ranges are sent as asked, and
    /// the whole if that is less; HEAD has ranges, and the first of several fields counts.
    AsAsked,
    /// Apache's: a range is joined with the one before it only, and sets with more overlaps, or more
    /// reversals of ranges that touch, than these are ignored, and so are those that come to more
    /// than the whole.
    InOrder {
        overlaps_max: u16,
        reversals_max: u16,
    },
}

/// Resolves a Range field value against a length, by the rules.
pub fn resolve_by(rules: RangeRules, value: &[u8], length: u64, parts_max: usize) -> RangeOutcome {
    match rules {
        RangeRules::Joined => resolve(value, length, parts_max),
        RangeRules::AsAsked => as_asked(value, length, parts_max),
        RangeRules::InOrder {
            overlaps_max,
            reversals_max,
        } => in_order(value, length, (parts_max, overlaps_max, reversals_max)),
    }
}

/// Resolves a Range field value against a length.
pub fn resolve(value: &[u8], length: u64, parts_max: usize) -> RangeOutcome {
    let mut parts = Parts::default();
    match satisfiable(value, length, parts_max, |range| parts.add(range)) {
        true => parts.outcome(),
        false => RangeOutcome::Whole,
    }
}

/// Passes on the ranges that can be satisfied; `false` if the field is to be ignored.
fn satisfiable(
    value: &[u8],
    length: u64,
    asked_max: usize,
    mut add: impl FnMut(ByteRange),
) -> bool {
    let Some(set) = range_set(value) else {
        return false;
    };
    let mut asked = 0;
    for spec in set
        .split(|byte| *byte == b',')
        .map(trim_ows)
        .filter(|spec| !spec.is_empty())
    {
        asked += 1;
        let Some(spec) = Spec::parse(spec).filter(|_| asked <= asked_max) else {
            return false;
        };
        match spec.against(length) {
            Resolved::Bytes(range) => add(range),
            // Satisfiable by section 14.1.2, but without a byte that a Content-Range could name.
            Resolved::AllOfNothing => return false,
            Resolved::Unsatisfiable => {}
        }
    }
    asked > 0
}

/// [`RangeRules::InOrder`]. The field's own length bounds the ranges that are asked for.
fn in_order(
    value: &[u8],
    length: u64,
    (parts_max, overlaps_max, reversals_max): (usize, u16, u16),
) -> RangeOutcome {
    let mut ranges: Vec<ByteRange> = Vec::new();
    let (mut overlaps, mut reversals) = (0, 0);
    let is_heeded = parts_max > 0
        && satisfiable(value, length, usize::MAX, |range| {
            let Some(last) = ranges.last_mut() else {
                ranges.push(range);
                return;
            };
            let Some(both) = joined(*last, range) else {
                ranges.push(range);
                return;
            };
            overlaps += 1;
            reversals += u32::from(range.first < last.first);
            *last = both;
        });
    let bytes: u64 = ranges
        .iter()
        .fold(0, |sum, range| range.len().saturating_add(sum));
    let is_fitting = ranges.len() <= parts_max && bytes <= length;
    match ranges.as_slice() {
        _ if !is_heeded || !is_fitting => RangeOutcome::Whole,
        _ if overlaps > u32::from(overlaps_max) || reversals > u32::from(reversals_max) => {
            RangeOutcome::Whole
        }
        [] => RangeOutcome::Unsatisfiable,
        [range] => RangeOutcome::One(*range),
        _ => RangeOutcome::Many(ranges),
    }
}

/// Returns the text after `bytes=`; range units are case-insensitive (section 14.1).
fn range_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// Section 14.1.1.
enum Spec {
    From { first: u64, last: Option<u64> },
    Suffix(u64),
}

enum Resolved {
    Bytes(ByteRange),
    AllOfNothing,
    Unsatisfiable,
}

impl Spec {
    fn parse(text: &[u8]) -> Option<Spec> {
        let (first, last) = text.split_at_checked(memchr::memchr(b'-', text)?)?;
        let last = last.get(1..)?;
        match (first, last) {
            (b"", last) => Some(Spec::Suffix(number(last)?)),
            (first, b"") => Some(Spec::From {
                first: number(first)?,
                last: None,
            }),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                // Section 14.1.1: such a set is invalid, so the field is ignored.
                (first <= last).then_some(Spec::From {
                    first,
                    last: Some(last),
                })
            }
        }
    }

    fn against(self, length: u64) -> Resolved {
        match self {
            Spec::Suffix(0) => Resolved::Unsatisfiable,
            Spec::Suffix(_) if length == 0 => Resolved::AllOfNothing,
            Spec::Suffix(count) => Resolved::Bytes(ByteRange {
                first: length - count.min(length),
                last: length - 1,
            }),
            Spec::From { first, .. } if first >= length => Resolved::Unsatisfiable,
            Spec::From { first, last } => Resolved::Bytes(ByteRange {
                first,
                last: last.unwrap_or(u64::MAX).min(length - 1),
            }),
        }
    }
}

/// The satisfiable ranges, joined as they come. The first stays out of the list, so that one range
/// needs no memory.
#[derive(Default)]
struct Parts {
    first: Option<ByteRange>,
    more: Vec<ByteRange>,
}

impl Parts {
    fn add(&mut self, mut range: ByteRange) {
        let Some(first) = &mut self.first else {
            self.first = Some(range);
            return;
        };
        // A merged range takes the place of the first of its parts, and may itself touch others.
        // Ranges in the list never touch each other.
        let mut place = None;
        let mut at = 0;
        while let Some(other) = self.more.get(at) {
            match joined(*other, range) {
                None => at += 1,
                Some(wider) => {
                    range = wider;
                    self.more.remove(at);
                    place.get_or_insert(at);
                }
            }
        }
        match joined(*first, range) {
            Some(wider) => *first = wider,
            None => self.more.insert(place.unwrap_or(self.more.len()), range),
        }
    }

    fn outcome(self) -> RangeOutcome {
        match self.first {
            None => RangeOutcome::Unsatisfiable,
            Some(first) if self.more.is_empty() => RangeOutcome::One(first),
            Some(first) => RangeOutcome::Many([vec![first], self.more].concat()),
        }
    }
}

/// [`RangeRules::AsAsked`]. Only satisfiable ranges are counted.
fn as_asked(value: &[u8], length: u64, parts_max: usize) -> RangeOutcome {
    let Some(set) = range_set(value).filter(|set| !set.is_empty() && parts_max > 0) else {
        return RangeOutcome::Whole;
    };
    let mut ranges = Vec::new();
    let mut first: Option<ByteRange> = None;
    let mut bytes = 0u64;
    for spec in set.split(|byte| *byte == b',') {
        let Some((start, end)) = bounds(spec, length) else {
            return RangeOutcome::Unsatisfiable;
        };
        if start >= end {
            if start == 0 {
                return RangeOutcome::Whole;
            }
            continue;
        }
        bytes = bytes.saturating_add(end - start);
        let range = ByteRange {
            first: start,
            last: end - 1,
        };
        match first {
            None => first = Some(range),
            Some(_) => ranges.push(range),
        }
        if ranges.len() >= parts_max {
            return RangeOutcome::Whole;
        }
    }
    match first {
        None => RangeOutcome::Unsatisfiable,
        Some(_) if bytes > length => RangeOutcome::Whole,
        Some(first) if ranges.is_empty() => RangeOutcome::One(first),
        Some(first) => {
            ranges.insert(0, first);
            RangeOutcome::Many(ranges)
        }
    }
}

/// The first byte of a range, and the one behind the last. Spaces may stand around numbers.
fn bounds(spec: &[u8], length: u64) -> Option<(u64, u64)> {
    let spaces = |byte: &u8| *byte == b' ';
    let spec = match spec.iter().position(|byte| !spaces(byte)) {
        Some(at) => &spec[at..],
        None => return None,
    };
    let at = memchr::memchr(b'-', spec)?;
    let (first, last) = (&spec[..at], &spec[at + 1..]);
    // Nothing stands between the hyphen and the number of a suffix.
    let last = match at {
        0 => last,
        _ => last.trim_ascii_start(),
    };
    let last = last.trim_ascii_end();
    let exact = |text: &[u8]| number(text).filter(|number| *number <= i64::MAX as u64);
    match (at, last) {
        (0, last) => Some((length.saturating_sub(exact(last)?), length)),
        (_, b"") => Some((exact(first.trim_ascii_end())?, length)),
        (_, last) => {
            let first = exact(first.trim_ascii_end())?;
            let end = exact(last)?.saturating_add(1);
            Some((first, end.min(length)))
        }
    }
}

/// Both as one, if they overlap or are adjacent.
fn joined(one: ByteRange, two: ByteRange) -> Option<ByteRange> {
    let touch = one.first <= two.last.saturating_add(1) && two.first <= one.last.saturating_add(1);
    touch.then(|| ByteRange {
        first: one.first.min(two.first),
        last: one.last.max(two.last),
    })
}

/// Digits only. A number beyond 64 bits is as good as the largest: no representation is that long.
fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| {
        text.iter().fold(0u64, |sum, byte| {
            sum.saturating_mul(10)
                .saturating_add(u64::from(byte - b'0'))
        })
    })
}

#[cfg(test)]
mod tests;

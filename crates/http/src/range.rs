//! Byte ranges (RFC 9110 section 14).
//!
//! Called by: handlers, after the preconditions, for GET. One range, the usual case, allocates
//! nothing.
//! Caveat: many small or overlapping ranges make a large response out of a small request (RFC 9110
//! section 17.15), so their number is bounded, and overlapping ones are joined before they are
//! counted: no byte is sent twice.

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

/// Resolves a Range field value against a length.
pub fn resolve(value: &[u8], length: u64, parts_max: usize) -> RangeOutcome {
    let Some(set) = range_set(value) else {
        return RangeOutcome::Whole;
    };
    let mut parts = Parts::default();
    let mut asked = 0;
    for spec in set
        .split(|byte| *byte == b',')
        .map(trim_ows)
        .filter(|spec| !spec.is_empty())
    {
        asked += 1;
        let Some(spec) = Spec::parse(spec).filter(|_| asked <= parts_max) else {
            return RangeOutcome::Whole;
        };
        match spec.against(length) {
            Resolved::Bytes(range) => parts.add(range),
            // Satisfiable by section 14.1.2, but without a byte that a Content-Range could name.
            Resolved::AllOfNothing => return RangeOutcome::Whole,
            Resolved::Unsatisfiable => {}
        }
    }
    match asked {
        0 => RangeOutcome::Whole,
        _ => parts.outcome(),
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

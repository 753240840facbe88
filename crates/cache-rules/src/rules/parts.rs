//! Partial content (RFC 9111 sections 3.3 and 3.4): which bytes of a representation are held, and
//! whether they are complete.
//!
//! Called by: the page cache, for 206 responses.
//! Caveat: ranges of different versions must never be combined; callers check
//! [`super::validation::same_bytes`] first, and a different total length is rejected here.
//! Out of scope: `multipart/byteranges`, which is never stored, and the bytes themselves.

use saker_http::range::ByteRange;

/// Maximum number of separate ranges.
const PIECES_MAX: usize = 64;

/// `Content-Range: bytes 0-99/1000` of a 206 (RFC 9110 section 14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    pub range: ByteRange,
    /// `None` if the origin does not know it yet.
    pub total: Option<u64>,
}

impl ContentRange {
    pub fn parse(value: &[u8]) -> Option<ContentRange> {
        let text = std::str::from_utf8(value).ok()?;
        let (unit, rest) = text.split_once(' ')?;
        let (positions, total) = rest.split_once('/')?;
        let (first, last) = positions.split_once('-')?;
        let range = ByteRange {
            first: number(first)?,
            last: number(last)?,
        };
        let total = if total == "*" {
            None
        } else {
            Some(number(total)?)
        };
        // Section 14.4: such a value is invalid.
        let sound = unit.eq_ignore_ascii_case("bytes")
            && range.first <= range.last
            && total.is_none_or(|total| range.last < total);
        sound.then_some(ContentRange { range, total })
    }
}

/// The bytes that are held of one representation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    total: Option<u64>,
    /// In order, neither overlapping nor adjacent.
    held: Vec<ByteRange>,
}

impl Parts {
    /// An incomplete response: the first `held` bytes of `total`.
    pub fn prefix(held: u64, total: Option<u64>) -> Parts {
        let range = held.checked_sub(1).map(|last| ByteRange { first: 0, last });
        Parts {
            total,
            held: range.into_iter().collect(),
        }
    }

    /// Adds a range of the same representation. `false`, and unchanged, if lengths contradict each
    /// other or there are too many ranges.
    pub fn add(&mut self, part: ContentRange) -> bool {
        let total = self.total.or(part.total);
        let agrees = part.total.is_none_or(|theirs| total == Some(theirs));
        let fits = |range: &ByteRange| total.is_none_or(|total| range.last < total);
        if !agrees || !fits(&part.range) || !self.held.iter().all(fits) {
            return false;
        }
        let held = self.with(part.range);
        if held.len() > PIECES_MAX {
            return false;
        }
        (self.total, self.held) = (total, held);
        true
    }

    pub fn total(&self) -> Option<u64> {
        self.total
    }

    pub fn held(&self) -> &[ByteRange] {
        &self.held
    }

    /// True if all bytes are held; then the entry is complete, and a 200 (section 3.4).
    pub fn is_complete(&self) -> bool {
        match (self.total, self.held.as_slice()) {
            (Some(0), []) => true,
            (Some(total), [one]) => one.first == 0 && one.last + 1 == total,
            _ => false,
        }
    }

    /// True if a range can be answered without the origin.
    pub fn holds(&self, range: ByteRange) -> bool {
        self.held
            .iter()
            .any(|held| held.first <= range.first && range.last <= held.last)
    }

    /// The missing ranges, in order: what to request from the origin.
    pub fn missing(&self, range: ByteRange) -> Vec<ByteRange> {
        let mut missing = Vec::new();
        let mut next = range.first;
        for held in self
            .held
            .iter()
            .filter(|held| held.last >= range.first && held.first <= range.last)
        {
            if held.first > next {
                missing.push(ByteRange {
                    first: next,
                    last: held.first - 1,
                });
            }
            next = held.last.saturating_add(1);
        }
        if next <= range.last && next >= range.first {
            missing.push(ByteRange {
                first: next,
                last: range.last,
            });
        }
        missing
    }

    fn with(&self, mut range: ByteRange) -> Vec<ByteRange> {
        let touches = |held: &ByteRange| {
            held.first <= range.last.saturating_add(1) && range.first <= held.last.saturating_add(1)
        };
        let (touching, mut apart): (Vec<ByteRange>, Vec<ByteRange>) =
            self.held.iter().copied().partition(touches);
        for held in touching {
            range = ByteRange {
                first: range.first.min(held.first),
                last: range.last.max(held.last),
            };
        }
        apart.push(range);
        apart.sort_unstable_by_key(|held| held.first);
        apart
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // The largest number has no successor, and no representation is that long.
    digits
        .then(|| text.parse().ok())
        .flatten()
        .filter(|number| *number < u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(first: u64, last: u64) -> ByteRange {
        ByteRange { first, last }
    }

    fn part(first: u64, last: u64, total: Option<u64>) -> ContentRange {
        ContentRange {
            range: range(first, last),
            total,
        }
    }

    #[test]
    fn content_ranges() {
        let rows = [
            ("bytes 0-99/1000", Some(part(0, 99, Some(1000)))),
            ("Bytes 5-5/6", Some(part(5, 5, Some(6)))),
            ("bytes 0-99/*", Some(part(0, 99, None))),
            ("bytes */1000", None),
            ("bytes 5-4/1000", None),
            ("bytes 0-1000/1000", None),
            ("bytes 0-99", None),
            ("bytes=0-99/1000", None),
            ("bytes 0-+9/1000", None),
            ("bytes 0-18446744073709551615/*", None),
            ("lines 0-99/1000", None),
            ("", None),
        ];
        for (text, want) in rows {
            assert_eq!(ContentRange::parse(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn parts_become_a_whole() {
        let mut parts = Parts::default();
        assert!(parts.add(part(0, 9, None)) && !parts.is_complete());
        assert!(parts.add(part(20, 29, Some(30))));
        assert_eq!(parts.missing(range(0, 29)), [range(10, 19)]);
        assert_eq!(parts.missing(range(5, 12)), [range(10, 12)]);
        assert_eq!(parts.missing(range(15, 25)), [range(15, 19)]);
        assert!(parts.holds(range(2, 9)) && !parts.holds(range(9, 10)));
        assert!(!parts.add(part(10, 19, Some(31))), "another length");
        assert!(!parts.add(part(10, 30, None)), "beyond the end");
        assert!(parts.add(part(8, 21, Some(30))) && parts.is_complete());
        assert!(Parts::prefix(0, Some(0)).is_complete());
        assert_eq!(
            Parts::prefix(10, Some(30)).missing(range(0, 29)),
            [range(10, 29)]
        );
        assert!(
            !Parts::prefix(40, None).add(part(0, 1, Some(30))),
            "what is held does not fit"
        );
    }

    #[test]
    fn pieces_are_counted() {
        let mut parts = Parts::default();
        let added = (0..100)
            .filter(|number| parts.add(part(number * 10, number * 10, None)))
            .count();
        assert_eq!(added, PIECES_MAX);
    }

    proptest! {
        #[test]
        fn as_a_list_of_bytes_says(ranges in prop::collection::vec((0u64..100, 0u64..20), 0..12), asked in (0u64..100, 0u64..30)) {
            let mut parts = Parts::default();
            let mut bytes = [false; 200];
            for (first, len) in ranges {
                prop_assert!(parts.add(part(first, first + len, None)));
                bytes[first as usize..=(first + len) as usize].fill(true);
            }
            let asked = range(asked.0, asked.0 + asked.1);
            let mut missing = [false; 200];
            for gap in parts.missing(asked) {
                missing[gap.first as usize..=gap.last as usize].fill(true);
            }
            for at in 0..200 {
                let inside = (asked.first..=asked.last).contains(&(at as u64));
                prop_assert_eq!(missing[at], inside && !bytes[at]);
            }
            prop_assert_eq!(parts.holds(asked), parts.missing(asked).is_empty());
        }
    }
}

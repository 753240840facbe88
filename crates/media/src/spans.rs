//! Concatenated ranges of a file, and the new position of an offset when only these ranges are
//! sent.
//!
//! Caveat: chunks of several tracks are interleaved in any order, overlap in hostile files, and
//! leave small gaps. Adjacent ranges are merged, small gaps are included (a few bytes cost less
//! than another call of sendfile), and too many ranges become one.

use std::ops::Range;

/// A gap of so many bytes goes along.
const GAP_MAX: u64 = 16 << 10;
/// Maximum number of ranges; more are sent as one.
const RANGES_MAX: usize = 2048;

/// Ranges in order, apart from each other, each with where it comes to lie.
#[derive(Debug)]
pub struct Spans(Vec<(Range<u64>, u64)>);

impl Spans {
    /// `ranges` in any order; empty ones count for nothing.
    pub fn new(ranges: impl Iterator<Item = Range<u64>>) -> Spans {
        let mut ranges: Vec<Range<u64>> = ranges.filter(|range| range.start < range.end).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP_MAX) => {
                    last.end = last.end.max(range.end)
                }
                _ => merged.push(range),
            }
        }
        if merged.len() > RANGES_MAX
            && let (Some(first), Some(last)) = (merged.first(), merged.last())
        {
            merged = vec![Range {
                start: first.start,
                end: last.end,
            }];
        }
        let mut at = 0;
        let placed = merged.into_iter().map(|range| {
            let before = at;
            at += range.end - range.start;
            (range, before)
        });
        Spans(placed.collect())
    }

    /// Bytes of all.
    pub fn length(&self) -> u64 {
        self.0
            .last()
            .map_or(0, |(range, at)| at + (range.end - range.start))
    }

    /// New position of the byte at `offset` of the file, which has to be in one of the ranges.
    pub fn position(&self, offset: u64) -> u64 {
        let behind = self.0.partition_point(|(range, _)| range.start <= offset);
        let found = behind.checked_sub(1).and_then(|at| self.0.get(at));
        found.map_or(0, |(range, at)| at + (offset - range.start))
    }

    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(range, _)| range.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_placed() {
        let spans = Spans::new([100_000..100_010, 0..10, 5..20, 30..40, 7..7].into_iter());
        assert_eq!(
            spans.ranges().collect::<Vec<_>>(),
            [0..40, 100_000..100_010]
        );
        assert_eq!(
            (spans.length(), spans.position(31), spans.position(100_003)),
            (50, 31, 43)
        );
    }

    #[test]
    fn too_many_are_one() {
        let apart = |count: u64| Spans::new((0..count).map(|at| at * 100_000..at * 100_000 + 1));
        assert_eq!(apart(RANGES_MAX as u64).ranges().count(), RANGES_MAX);
        let one = apart(RANGES_MAX as u64 + 1);
        assert_eq!((one.ranges().count(), one.position(200_000)), (1, 200_000));
    }
}

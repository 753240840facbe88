//! Ranges of numbers, found by bisection in two steps: which piece, by every sixteenth start; then within it.
//!
//! The difficulty is memory that is far away: a plain bisection over a million ranges jumps through all of it. The starts that choose the
//! piece are few enough to stay in a cache near the core, and a piece's starts lie beside each other.

/// Starts per piece: of IPv4, one line of a cache.
const PIECE: usize = 16;

/// Ranges that neither overlap nor touch, in their order. Both ends are in.
#[derive(Debug)]
pub(crate) struct Ranges<T> {
    starts: Box<[T]>,
    ends: Box<[T]>,
    /// Every [`PIECE`]th start.
    pieces: Box<[T]>,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Ranges { starts: Box::default(), ends: Box::default(), pieces: Box::default() }
    }
}

impl<T: Copy + Ord + Step> Ranges<T> {
    /// Of ranges in any order, which may overlap.
    pub fn new(mut ranges: Vec<(T, T)>) -> Ranges<T> {
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let touches = before.1.next().is_none_or(|behind| next.0 <= behind);
            if touches {
                before.1 = before.1.max(next.1);
            }
            touches
        });
        let starts: Box<[T]> = ranges.iter().map(|range| range.0).collect();
        let pieces = starts.iter().step_by(PIECE).copied().collect();
        Ranges { ends: ranges.iter().map(|range| range.1).collect(), pieces, starts }
    }

    pub fn contains(&self, number: T) -> bool {
        // The last piece that begins at the number or before it; then the last range that does.
        let Some(piece) = self.pieces.partition_point(|start| *start <= number).checked_sub(1) else { return false };
        let from = piece * PIECE;
        let near = self.starts.get(from..self.starts.len().min(from + PIECE)).unwrap_or_default();
        let before = near.iter().take_while(|start| **start <= number).count();
        (from + before).checked_sub(1).and_then(|at| self.ends.get(at)).is_some_and(|end| number <= *end)
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn memory_bytes(&self) -> usize {
        (self.starts.len() + self.ends.len() + self.pieces.len()) * size_of::<T>()
    }
}

/// The number behind.
pub(crate) trait Step: Sized {
    fn next(self) -> Option<Self>;
}

impl Step for u32 {
    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }
}

impl Step for u128 {
    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_and_gaps() {
        let ranges = Ranges::new(vec![(10u32, 19), (30, 30), (15, 24), (25, 26), (u32::MAX, u32::MAX)]);
        assert_eq!(ranges.len(), 3, "what touches is one");
        for (number, expected) in
            [(0, false), (9, false), (10, true), (26, true), (27, false), (29, false), (30, true), (31, false), (u32::MAX, true)]
        {
            assert_eq!(ranges.contains(number), expected, "{number}");
        }
        assert!(!Ranges::<u32>::new(Vec::new()).contains(0));
        assert!(Ranges::new(vec![(0, u128::MAX), (5, 6)]).contains(u128::MAX));
    }

    /// Against a look at each, over pieces and their borders.
    #[test]
    fn as_a_search_through_all() {
        let plain: Vec<(u32, u32)> = (0..1000).map(|at| (at * 7, at * 7 + at % 5)).collect();
        for count in [1, 15, 16, 17, 33, 300] {
            let ranges = Ranges::new(plain[..count].to_vec());
            for number in 0..(count as u32 * 7 + 20) {
                let expected = plain[..count].iter().any(|range| (range.0..=range.1).contains(&number));
                assert_eq!(ranges.contains(number), expected, "{number} of {count}");
            }
        }
    }
}

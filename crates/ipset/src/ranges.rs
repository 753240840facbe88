//! Ranges of numbers, searched in two steps: a bucket by the number's distance from the first, then
//! bisection within it.
//!
//! Caveat: memory access dominates: a plain bisection over a million ranges jumps through all of
//! them. The index of buckets stays in a cache near the core, and a bucket's ranges, both ends of
//! each, are adjacent. Where ranges crowd together, bisection takes over.

/// Ranges per bucket, on average.
const PER_BUCKET: usize = 1;
const BUCKETS_MAX: usize = 1 << 20;

/// Ranges that neither overlap nor touch, in their order. Both ends are in.
#[derive(Debug)]
pub(crate) struct Ranges<T> {
    ranges: Box<[(T, T)]>,
    /// The first range that begins in a bucket or behind it; one more at the end.
    buckets: Box<[u32]>,
    /// A distance from the first start, shifted by so much, is the number of a bucket.
    shift: u32,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Ranges {
            ranges: Box::default(),
            buckets: Box::default(),
            shift: 0,
        }
    }
}

impl<T: Copy + Ord + Number> Ranges<T> {
    /// Builds the set from ranges in any order, which may overlap.
    pub fn new(mut ranges: Vec<(T, T)>) -> Ranges<T> {
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let touches = before.1.next().is_none_or(|behind| next.0 <= behind);
            if touches {
                before.1 = before.1.max(next.1);
            }
            touches
        });
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            return Ranges::default();
        };
        let wanted = (ranges.len() / PER_BUCKET)
            .next_power_of_two()
            .min(BUCKETS_MAX);
        let shift = last.0.shift_to(first.0, wanted.ilog2());
        let count = last.0.bucket(first.0, shift) + 1;
        let begin = first.0;
        let mut buckets = Vec::with_capacity(count + 1);
        for (at, range) in ranges.iter().enumerate() {
            let own = range.0.bucket(begin, shift);
            while buckets.len() <= own {
                buckets.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
        buckets.push(u32::try_from(ranges.len()).unwrap_or(u32::MAX));
        Ranges {
            ranges: ranges.into(),
            buckets: buckets.into(),
            shift,
        }
    }

    pub fn contains(&self, number: T) -> bool {
        let Some((first, _)) = self.ranges.first().filter(|range| range.0 <= number) else {
            return false;
        };
        let bucket = number
            .bucket(*first, self.shift)
            .min(self.buckets.len().saturating_sub(2));
        let (Some(from), Some(to)) = (self.buckets.get(bucket), self.buckets.get(bucket + 1))
        else {
            return false;
        };
        let (from, to) = (*from as usize, *to as usize);
        let near = self.ranges.get(from..to).unwrap_or_default();
        // The last that begins at the number or before it; that may be one of an earlier bucket.
        let behind = from + near.partition_point(|range| range.0 <= number);
        behind
            .checked_sub(1)
            .and_then(|at| self.ranges.get(at))
            .is_some_and(|range| number <= range.1)
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.ranges) + size_of_val(&*self.buckets)
    }
}

/// An address as a number.
pub(crate) trait Number: Sized {
    /// The following number.
    fn next(self) -> Option<Self>;

    /// Number of bits by which a distance from `first` is shifted so that this one has `bits` at
    /// most.
    fn shift_to(self, first: Self, bits: u32) -> u32;

    /// `self` is not below `first`.
    fn bucket(self, first: Self, shift: u32) -> usize;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            fn next(self) -> Option<$type> {
                self.checked_add(1)
            }

            fn shift_to(self, first: $type, bits: u32) -> u32 {
                (<$type>::BITS - self.wrapping_sub(first).leading_zeros()).saturating_sub(bits)
            }

            fn bucket(self, first: $type, shift: u32) -> usize {
                self.wrapping_sub(first).checked_shr(shift).unwrap_or(0) as usize
            }
        }
    };
}

number!(u32);
number!(u64);
number!(u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_and_gaps() {
        let ranges = Ranges::new(vec![
            (10u32, 19),
            (30, 30),
            (15, 24),
            (25, 26),
            (u32::MAX, u32::MAX),
        ]);
        assert_eq!(ranges.len(), 3, "what touches is one");
        for (number, expected) in [
            (0, false),
            (9, false),
            (10, true),
            (26, true),
            (27, false),
            (29, false),
            (30, true),
            (31, false),
            (u32::MAX, true),
        ] {
            assert_eq!(ranges.contains(number), expected, "{number}");
        }
        assert!(!Ranges::<u32>::new(Vec::new()).contains(0));
        assert!(Ranges::new(vec![(0, u128::MAX), (5, 6)]).contains(u128::MAX));
    }

    /// Against a look at each, over pieces and their borders.
    #[test]
    fn as_a_search_through_all() {
        let plain: Vec<(u32, u32)> = (0..1000).map(|at| (at * 7, at * 7 + at % 5)).collect();
        for count in [1, 2, 15, 16, 17, 33, 300] {
            let ranges = Ranges::new(plain[..count].to_vec());
            for number in 0..(count as u32 * 7 + 20) {
                let expected = plain[..count]
                    .iter()
                    .any(|range| (range.0..=range.1).contains(&number));
                assert_eq!(ranges.contains(number), expected, "{number} of {count}");
            }
        }
    }
}

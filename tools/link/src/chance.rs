//! Chance that repeats itself: the same seed, the same losses.
//!
//! SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): one word
//! of state, and any seed is a good one.

#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance { state: seed }
    }

    /// True for `share` of all calls.
    pub fn hits(&mut self, share: f64) -> bool {
        share > 0.0 && self.below_one() < share
    }

    fn below_one(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_again_and_another_something_else() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..64).map(|_| chance.hits(0.5)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn shares_are_kept() {
        for share in [0.0, 0.01, 0.3, 1.0] {
            let mut chance = Chance::new(7);
            let hits = (0..100_000).filter(|_| chance.hits(share)).count() as f64 / 1e5;
            assert!((hits - share).abs() < 0.005, "{hits} of {share}");
        }
    }
}

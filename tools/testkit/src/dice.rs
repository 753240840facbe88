//! Chance that is the same in every run: an xorshift generator from a seed.

pub struct Dice {
    state: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    pub fn roll(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// 0 below a bound of 0. The bounds here are so small beside 2^64 that the remainder is as good
    /// as even.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll().checked_rem(bound).unwrap_or(0)
    }

    /// From 0 up to 1, which it never is.
    pub fn share(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_every_time_and_even_enough() {
        let rolls = |seed: u64| -> Vec<u64> {
            let mut dice = Dice::new(seed);
            (0..1_000).map(|_| dice.below(10)).collect()
        };
        assert_eq!(rolls(3), rolls(3));
        assert_ne!(rolls(3), rolls(4));
        for face in 0..10 {
            let count = rolls(3).iter().filter(|roll| **roll == face).count();
            assert!((60..140).contains(&count), "{face} came {count} times");
        }
        assert_eq!(Dice::new(1).below(0), 0);
        assert!((0..1_000).all(|seed| (0.0..1.0).contains(&Dice::new(seed).share())));
    }
}

//! Which addresses and visitors may have entries: a set that forgets nothing and may say yes too often.
//!
//! Why: requests of anybody may ask for purges (a POST invalidates its address, RFC 9111 section 4.4). Were each of them written down, somebody could
//! fill the journal with addresses that nobody ever stored, until older purges had to be given up, and the cache with them.

use crate::purges::TagMark;
use std::sync::atomic::{AtomicU64, Ordering};

/// 1 MiB: with a million entries one of eight questions about others is answered yes.
const WORDS: usize = 1 << 17;

pub struct Probes(Box<[AtomicU64]>);

impl Default for Probes {
    fn default() -> Probes {
        Probes((0..WORDS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Probes {
    pub fn add(&self, marks: [u64; 2]) {
        for mark in marks {
            self.word(mark).fetch_or(bit(mark), Ordering::Relaxed);
        }
    }

    pub fn may_have(&self, mark: TagMark) -> bool {
        self.word(mark.0).load(Ordering::Relaxed) & bit(mark.0) != 0
    }

    fn word(&self, mark: u64) -> &AtomicU64 {
        &self.0[(mark >> 6) as usize % WORDS]
    }
}

fn bit(mark: u64) -> u64 {
    1 << (mark % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_known_and_most_else_is_not() {
        let probes = Probes::default();
        let mark = |number: u64| TagMark::new(b"site", &number.to_le_bytes());
        (0..50_000).for_each(|number| probes.add([mark(number).0, 0]));
        assert!((0..50_000).all(|number| probes.may_have(mark(number))));
        let wrong = (50_000..100_000).filter(|number| probes.may_have(mark(*number))).count();
        assert!(wrong < 1_000, "{wrong}");
    }
}

//! Counts of the pages that were asked for lately.
//!
//! Called by: `peer_access`.
//! Caveat: bounded. When the younger half is full, the older one is dropped, so a page that is
//! asked for now and then counts from the beginning.
//! Out of scope: what follows from the count.

use saker_cache_store::KeyHash;
use std::collections::HashMap;

/// Pages in each half.
const HALF_MAX: usize = 32_768;

/// Counts of pages, by a hash of their keys.
#[derive(Default)]
pub struct Recent {
    young: HashMap<u128, u8>,
    old: HashMap<u128, u8>,
}

impl Recent {
    /// Counts a page, and returns its count.
    pub fn count(&mut self, KeyHash(hash): KeyHash) -> u8 {
        let before = self.young.get(&hash).or_else(|| self.old.get(&hash));
        let count = before.copied().unwrap_or(0).saturating_add(1);
        if self.young.len() >= HALF_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, count);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_and_bounded() {
        let mut recent = Recent::default();
        let [a, b] = [KeyHash(u128::MAX), KeyHash(u128::MAX - 1)];
        assert_eq!([recent.count(a), recent.count(a)], [1, 2]);
        assert_eq!(recent.count(b), 1);
        for number in 0..HALF_MAX - 1 {
            recent.count(KeyHash(number as u128));
        }
        assert_eq!(recent.count(a), 3, "in the older half");
        for number in 0..HALF_MAX * 2 {
            recent.count(KeyHash((HALF_MAX + number) as u128));
            assert!(recent.young.len() + recent.old.len() <= HALF_MAX * 2);
        }
        assert_eq!(recent.count(b), 1, "forgotten");
        for _ in 0..300 {
            recent.count(a);
        }
        assert_eq!(recent.count(a), u8::MAX);
    }
}

//! Versions of entries: one atomic load tells a worker whether an entry in its memory is still
//! current.
//!
//! Called by: the index, which increments a version when a key's entry is replaced or removed, and
//! workers on each hit. A fixed table is indexed by the hash of the key, so a hit takes no lock and
//! makes no system call.
//! Caveat: keys share numbers. A change of one makes workers check the index once for the others,
//! nothing else.
//! Out of scope: purges, which have numbers of their own (`purges`).

use crate::key_hash::KeyHash;
use std::sync::atomic::{AtomicU64, Ordering};

/// 128 KiB. With a thousand new entries per second, an entry in memory shares its number with one
/// of them every 16 seconds.
const NUMBERS: usize = 1 << 14;

/// Set by hits, cleared by the clock hand (`index`): what workers serve from memory counts as used.
const IS_USED: u64 = 1;

const STEP: u64 = 2;

/// The number of a key when its entry was read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    at: u32,
    number: u64,
}

pub(crate) struct Versions(Box<[AtomicU64]>);

impl Default for Versions {
    fn default() -> Versions {
        Versions((0..NUMBERS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Versions {
    /// Must be read before the entry is: changes in between are noticed then.
    pub fn of(&self, hash: KeyHash) -> Version {
        let at = place(hash);
        Version {
            at,
            number: self.0[at as usize].load(Ordering::Acquire) & !IS_USED,
        }
    }

    /// True if nothing has changed. Marks the entry as used.
    pub fn is_current(&self, version: Version) -> bool {
        let Some(number) = self.0.get(version.at as usize) else {
            return false;
        };
        let now = number.load(Ordering::Acquire);
        if now & IS_USED == 0 {
            number.fetch_or(IS_USED, Ordering::Relaxed);
        }
        now & !IS_USED == version.number
    }

    /// The key has another entry now, or none.
    pub fn count_up(&self, hash: KeyHash) -> Version {
        let at = place(hash);
        let before = self.0[at as usize].fetch_add(STEP, Ordering::AcqRel);
        Version {
            at,
            number: before.wrapping_add(STEP) & !IS_USED,
        }
    }

    /// All keys have another entry now, or none.
    pub fn count_all_up(&self) {
        for number in &self.0 {
            number.fetch_add(STEP, Ordering::AcqRel);
        }
    }

    /// True if workers have used entries with that number since the last call.
    pub fn take_used(&self, hash: KeyHash) -> bool {
        let number = &self.0[place(hash) as usize];
        number.load(Ordering::Relaxed) & IS_USED != 0
            && number.fetch_and(!IS_USED, Ordering::Relaxed) & IS_USED != 0
    }
}

/// Index shards use other bits.
fn place(hash: KeyHash) -> u32 {
    (hash.0 as usize % NUMBERS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_seen_and_use_is_none() {
        let versions = Versions::default();
        let (key, same_number, other) = (KeyHash(5), KeyHash(5 + NUMBERS as u128), KeyHash(6));
        let (first, beside) = (versions.of(key), versions.of(other));
        assert!(!versions.take_used(key));
        assert!(versions.is_current(first) && versions.is_current(versions.of(same_number)));
        assert!(versions.take_used(key) && !versions.take_used(key));
        assert!(versions.is_current(first), "use makes no other version");
        let second = versions.count_up(same_number);
        assert!(
            !versions.is_current(first)
                && versions.is_current(second)
                && versions.is_current(beside)
        );
        assert_eq!(versions.of(key), second);
        assert_ne!(versions.count_up(key), second);
        assert!(!versions.is_current(second));
    }
}

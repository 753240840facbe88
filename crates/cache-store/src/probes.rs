//! Probes: which URLs and clients may have entries. A set that forgets nothing and may answer yes
//! too often.
//!
//! Called by: the store, and the page cache before it purges.
//! Caveat: any client's requests may imply purges (a POST invalidates its URL, RFC 9111 section
//! 4.4). Without probes, an attacker could fill the journal with URLs that were never stored, until
//! older purges, and the entries they protect, had to be given up.
//! Out of scope: tags that applications set.

use crate::purges::TagMark;
use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

/// 1 MiB: with a million entries, one question in eight about others is answered yes.
const WORDS: usize = 1 << 17;

/// Number of counters for responses in progress.
const UNDER_WAY: usize = 1 << 12;

pub struct Probes {
    known: Box<[AtomicU64]>,
    under_way: Box<[AtomicU32]>,
}

/// A response being made that may become an entry with these probes; purges of them must not be
/// skipped.
pub struct UnderWay {
    known: Arc<Probes>,
    probes: [u64; 2],
}

impl UnderWay {
    pub(crate) fn new(known: Arc<Probes>, probes: [u64; 2]) -> UnderWay {
        for probe in probes.into_iter().filter(|probe| *probe != 0) {
            known.under_way(probe).fetch_add(1, Ordering::AcqRel);
        }
        UnderWay { known, probes }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        for probe in self.probes.into_iter().filter(|probe| *probe != 0) {
            self.known.under_way(probe).fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Default for Probes {
    fn default() -> Probes {
        Probes {
            known: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            under_way: (0..UNDER_WAY).map(|_| AtomicU32::new(0)).collect(),
        }
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

    /// Returns true if a response with that mark may be in progress.
    pub fn may_come(&self, mark: TagMark) -> bool {
        self.under_way(mark.0).load(Ordering::Acquire) > 0
    }

    fn word(&self, mark: u64) -> &AtomicU64 {
        &self.known[(mark >> 6) as usize % WORDS]
    }

    fn under_way(&self, mark: u64) -> &AtomicU32 {
        &self.under_way[mark as usize % UNDER_WAY]
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
        let wrong = (50_000..100_000)
            .filter(|number| probes.may_have(mark(*number)))
            .count();
        assert!(wrong < 1_000, "{wrong}");
    }
}

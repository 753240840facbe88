//! Purges as numbers: each purge gets the next number, and each tag knows those of its last purges.
//!
//! Called by: the store.
//! Caveat: an entry carries the number of the last purge before its generation began, and is valid
//! if none of its tags was purged since. So a purge costs the same for any number of entries, and
//! an entry purged while it is being generated stays purged. No purge may be forgotten while older
//! entries live: with too many tags, the oldest half is dropped, and with them all entries of the
//! same age.
//! Out of scope: writing purges to disk (`journal`).

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
};
use xxhash_rust::xxh3::Xxh3;

/// Tags whose purges are remembered.
const MARKS_MAX: usize = 1_000_000;

/// Bans that every entry from before them has to be held against.
const BANS_MAX: usize = 1_000;

/// The numbers of a tag's last purges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeTimes {
    pub hard: u64,
    pub soft: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    Purged {
        number: u64,
        purges: Vec<Purge>,
    },
    /// Last purges of a tag, in a compacted journal.
    Mark(TagMark, PurgeTimes),
    Floor {
        number: u64,
        floor: u64,
    },
}

/// A tag within its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TagMark(pub u64);

impl TagMark {
    /// Hashes a tag with its scope: equal tags of two scopes (sites, clients) have different marks.
    /// Two tags with the same mark, one pair in about 10^12, are purged together.
    pub fn new(scope: &[u8], tag: &[u8]) -> TagMark {
        let mut hasher = Xxh3::new();
        hasher.update(&(scope.len() as u64).to_le_bytes());
        hasher.update(scope);
        hasher.update(tag);
        TagMark(hasher.digest())
    }
}

/// One purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything that carries the tag: removed, or stale from now on.
    Tag { mark: TagMark, is_soft: bool },
    /// Everything that an expression matches; the caller knows its grammar.
    Ban(Box<[u8]>),
    /// For the other servers of a cluster; has no effect on this store.
    Remote(RemotePurge),
}

/// A purge that each server of a cluster works out for itself, because it depends on the entries
/// that the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemotePurge {
    /// A URL of a scope, with the URLs that share its page there.
    Url {
        scope: Box<[u8]>,
        url: Box<[u8]>,
        is_soft: bool,
        /// Any client's request may have caused it; see [`RemotePurge::Implied`].
        is_implied: bool,
    },
    /// A tag that any client's requests may purge: a server that cannot have it ignores the purge
    /// ([`crate::Store::may_get`]).
    Implied(TagMark),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    pub number: u64,
    pub text: Box<[u8]>,
}

/// State of an entry with regard to purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Validity {
    Valid,
    Stale,
    Gone,
}

#[derive(Default)]
pub struct Purges {
    /// The last purge that all threads can see.
    number: AtomicU64,
    known: RwLock<PurgeState>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeState {
    pub number: u64,
    /// Entries from before it are gone.
    pub floor: u64,
    pub marks: HashMap<TagMark, PurgeTimes, foldhash::fast::FixedState>,
    pub bans: Vec<Ban>,
    /// No entry may be used for now; not kept on disk.
    pub is_suspended: bool,
}

impl Purges {
    pub fn new(known: PurgeState) -> Purges {
        Purges {
            number: AtomicU64::new(known.number),
            known: RwLock::new(known),
        }
    }

    pub fn purge_seq(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Makes purges visible: first the purges, then the number, so that a thread that reads the
    /// number finds them.
    pub fn apply(&self, record: &JournalRecord) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.apply(record);
        known.bound(MARKS_MAX, BANS_MAX);
        self.number.store(known.number, Ordering::Release);
    }

    /// Suspends the use of all entries, or ends the suspension, with a number of its own: readers
    /// that have seen an earlier one look again.
    pub fn set_suspended(&self, is_suspended: bool, record: &JournalRecord) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.is_suspended = is_suspended;
        known.apply(record);
        self.number.store(known.number, Ordering::Release);
    }

    pub fn is_suspended(&self) -> bool {
        self.read().is_suspended
    }

    pub fn floor(&self) -> u64 {
        self.read().floor
    }

    fn read(&self) -> RwLockReadGuard<'_, PurgeState> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn validity(
        &self,
        purge_seq: u64,
        marks: impl IntoIterator<Item = TagMark>,
        is_banned: impl FnMut(&Ban) -> bool,
    ) -> Validity {
        self.read().validity(purge_seq, marks, is_banned)
    }

    pub fn known(&self) -> PurgeState {
        self.read().clone()
    }
}

impl PurgeState {
    pub fn apply(&mut self, record: &JournalRecord) {
        match record {
            JournalRecord::Purged { number, purges } => {
                self.number = self.number.max(*number);
                purges.iter().for_each(|purge| self.purge(*number, purge));
            }
            JournalRecord::Mark(mark, times) => drop(self.marks.insert(*mark, *times)),
            JournalRecord::Floor { number, floor } => {
                self.number = self.number.max(*number);
                self.floor = self.floor.max(*floor);
            }
        }
    }

    fn purge(&mut self, number: u64, purge: &Purge) {
        match purge {
            Purge::Tag { mark, is_soft } => {
                let times = self.marks.entry(*mark).or_default();
                let time = if *is_soft {
                    &mut times.soft
                } else {
                    &mut times.hard
                };
                *time = number.max(*time);
            }
            Purge::Ban(text) => self.bans.push(Ban {
                number,
                text: text.clone(),
            }),
            Purge::Remote(_) => {}
        }
    }

    /// Gives up the oldest purges if there are too many, and with them the entries that they may be
    /// about.
    fn bound(&mut self, marks_max: usize, bans_max: usize) {
        if self.marks.len() > marks_max {
            let mut numbers: Vec<u64> = self
                .marks
                .values()
                .map(|times| times.hard.max(times.soft))
                .collect();
            let middle = numbers.len() / 2;
            let (_, middle, _) = numbers.select_nth_unstable(middle);
            self.floor = self.floor.max(*middle);
        }
        if self.bans.len() > bans_max {
            let given_up = self.bans.len() - bans_max / 2;
            self.floor = self
                .bans
                .get(given_up - 1)
                .map_or(self.floor, |ban| self.floor.max(ban.number));
        }
        if self.marks.len() > marks_max || self.bans.len() > bans_max {
            let floor = self.floor;
            self.marks
                .retain(|_, times| times.hard.max(times.soft) > floor);
            self.bans.retain(|ban| ban.number > floor);
        }
    }

    fn validity(
        &self,
        purge_seq: u64,
        marks: impl IntoIterator<Item = TagMark>,
        mut is_banned: impl FnMut(&Ban) -> bool,
    ) -> Validity {
        if self.is_suspended
            || purge_seq < self.floor
            || self
                .bans
                .iter()
                .any(|ban| ban.number > purge_seq && is_banned(ban))
        {
            return Validity::Gone;
        }
        let mut validity = Validity::Valid;
        for times in marks.into_iter().filter_map(|mark| self.marks.get(&mark)) {
            if times.hard > purge_seq {
                return Validity::Gone;
            }
            if times.soft > purge_seq {
                validity = Validity::Stale;
            }
        }
        validity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(tag: &str, is_soft: bool) -> Purge {
        Purge::Tag {
            mark: TagMark::new(b"site", tag.as_bytes()),
            is_soft,
        }
    }

    fn marks(tags: &[&str]) -> Vec<TagMark> {
        tags.iter()
            .map(|tag| TagMark::new(b"site", tag.as_bytes()))
            .collect()
    }

    fn no_ban(_: &Ban) -> bool {
        panic!("there is no ban that it would have to be held against")
    }

    #[test]
    fn what_was_made_before_is_purged_and_what_comes_after_is_not() {
        let purges = Purges::default();
        purges.apply(&JournalRecord::Purged {
            number: 1,
            purges: vec![tag("a", false)],
        });
        purges.apply(&JournalRecord::Purged {
            number: 2,
            purges: vec![tag("b", true)],
        });
        let cases = [
            (0, &["a"][..], Validity::Gone),
            (1, &["a"], Validity::Valid),
            (1, &["b"], Validity::Stale),
            (2, &["b"], Validity::Valid),
            (0, &["b", "a"], Validity::Gone),
            (0, &["c"], Validity::Valid),
            (0, &[], Validity::Valid),
        ];
        for (purge_seq, tags, expected) in cases {
            assert_eq!(
                purges.validity(purge_seq, marks(tags), no_ban),
                expected,
                "{purge_seq} {tags:?}"
            );
        }
        assert_eq!(
            purges.validity(0, [TagMark::new(b"other", b"a")], no_ban),
            Validity::Valid,
            "scopes are apart"
        );
        assert_ne!(TagMark::new(b"a", b"bc"), TagMark::new(b"ab", b"c"));
        assert_eq!(purges.purge_seq(), 2);
    }

    #[test]
    fn bans_are_asked_about_what_is_older() {
        let purges = Purges::default();
        purges.apply(&JournalRecord::Purged {
            number: 1,
            purges: vec![Purge::Ban(b"x"[..].into())],
        });
        assert_eq!(
            purges.validity(0, [], |ban| &*ban.text == b"x"),
            Validity::Gone
        );
        assert_eq!(purges.validity(0, [], |_| false), Validity::Valid);
        assert_eq!(purges.validity(1, [], no_ban), Validity::Valid);
    }

    #[test]
    fn what_is_given_up_takes_its_entries_along() {
        let mut known = PurgeState::default();
        for number in 1..=10 {
            known.apply(&JournalRecord::Purged {
                number,
                purges: vec![tag(&format!("t{number}"), false)],
            });
        }
        known.bound(9, 5);
        assert!(known.marks.len() < 6 && known.floor >= 5, "{known:?}");
        for number in 1..=10 {
            let validity = known.validity(number - 1, marks(&[&format!("t{number}")]), no_ban);
            assert_eq!(validity, Validity::Gone, "purge {number} is forgotten");
        }
        assert_eq!(known.validity(10, marks(&["t1"]), no_ban), Validity::Valid);
        let mut known = PurgeState::default();
        for number in 1..=6 {
            known.apply(&JournalRecord::Purged {
                number,
                purges: vec![Purge::Ban(b"x"[..].into())],
            });
        }
        known.bound(9, 5);
        assert!(known.bans.len() <= 5);
        assert_eq!(known.validity(0, [], |_| false), Validity::Gone);
    }
}

//! What has been purged, as numbers: each purge is the next number, and each tag knows those of its
//! last purges.
//!
//! An entry carries the number of the last purge before its making began. It holds if none of its
//! tags was purged since; so purging costs the same whatever the number of entries, and an entry
//! that is made while it is purged is purged. The difficulty is that nothing may be forgotten while
//! entries from before live: where there are too many tags, the oldest half is given up and, with
//! them, every entry that is as old.

use crate::journal::{Record, Times};
use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};
use xxhash_rust::xxh3::Xxh3;

/// Tags whose purges are remembered.
const MARKS_MAX: usize = 1_000_000;
/// Bans that every entry from before them has to be held against.
const BANS_MAX: usize = 1_000;

/// A tag within its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TagMark(pub u64);

impl TagMark {
    /// Tags of two scopes (sites, visitors) have nothing to do with each other. Two tags with the
    /// same mark, which may happen once in a million millions, are purged together.
    pub fn new(scope: &[u8], tag: &[u8]) -> TagMark {
        let mut hasher = Xxh3::new();
        hasher.update(&(scope.len() as u64).to_le_bytes());
        hasher.update(scope);
        hasher.update(tag);
        TagMark(hasher.digest())
    }
}

/// One thing to be purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Whatever carries the tag: gone, or stale from now on.
    Tag { mark: TagMark, is_soft: bool },
    /// Whatever an expression is true of; what it says is for the caller to know.
    Ban(Box<[u8]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    pub number: u64,
    pub text: Box<[u8]>,
}

/// What purges leave of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Valid,
    Stale,
    Gone,
}

#[derive(Default)]
pub struct Purges {
    /// The last purge that everybody can see.
    number: AtomicU64,
    known: RwLock<Known>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub number: u64,
    /// Entries from before it are gone.
    pub floor: u64,
    pub marks: HashMap<TagMark, Times, foldhash::fast::FixedState>,
    pub bans: Vec<Ban>,
}

impl Purges {
    pub fn new(known: Known) -> Purges {
        Purges {
            number: AtomicU64::new(known.number),
            known: RwLock::new(known),
        }
    }

    pub fn moment(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Makes it seen: first what was purged, then the number, so that whoever reads the number
    /// finds the rest.
    pub fn apply(&self, record: &Record) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.apply(record);
        known.bound(MARKS_MAX, BANS_MAX);
        self.number.store(known.number, Ordering::Release);
    }

    pub fn standing(
        &self,
        moment: u64,
        marks: impl IntoIterator<Item = TagMark>,
        is_banned: impl FnMut(&Ban) -> bool,
    ) -> Standing {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .standing(moment, marks, is_banned)
    }

    pub fn known(&self) -> Known {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Known {
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Purged { number, purges } => {
                self.number = self.number.max(*number);
                purges.iter().for_each(|purge| self.purge(*number, purge));
            }
            Record::Mark(mark, times) => drop(self.marks.insert(*mark, *times)),
            Record::Floor { number, floor } => {
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
        }
    }

    /// Gives up what is oldest where there is too much, and with it the entries that it was about.
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

    fn standing(
        &self,
        moment: u64,
        marks: impl IntoIterator<Item = TagMark>,
        mut is_banned: impl FnMut(&Ban) -> bool,
    ) -> Standing {
        if moment < self.floor
            || self
                .bans
                .iter()
                .any(|ban| ban.number > moment && is_banned(ban))
        {
            return Standing::Gone;
        }
        let mut standing = Standing::Valid;
        for times in marks.into_iter().filter_map(|mark| self.marks.get(&mark)) {
            if times.hard > moment {
                return Standing::Gone;
            }
            if times.soft > moment {
                standing = Standing::Stale;
            }
        }
        standing
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
        purges.apply(&Record::Purged {
            number: 1,
            purges: vec![tag("a", false)],
        });
        purges.apply(&Record::Purged {
            number: 2,
            purges: vec![tag("b", true)],
        });
        let cases = [
            (0, &["a"][..], Standing::Gone),
            (1, &["a"], Standing::Valid),
            (1, &["b"], Standing::Stale),
            (2, &["b"], Standing::Valid),
            (0, &["b", "a"], Standing::Gone),
            (0, &["c"], Standing::Valid),
            (0, &[], Standing::Valid),
        ];
        for (moment, tags, expected) in cases {
            assert_eq!(
                purges.standing(moment, marks(tags), no_ban),
                expected,
                "{moment} {tags:?}"
            );
        }
        assert_eq!(
            purges.standing(0, [TagMark::new(b"other", b"a")], no_ban),
            Standing::Valid,
            "scopes are apart"
        );
        assert_ne!(TagMark::new(b"a", b"bc"), TagMark::new(b"ab", b"c"));
        assert_eq!(purges.moment(), 2);
    }

    #[test]
    fn bans_are_asked_about_what_is_older() {
        let purges = Purges::default();
        purges.apply(&Record::Purged {
            number: 1,
            purges: vec![Purge::Ban(b"x"[..].into())],
        });
        assert_eq!(
            purges.standing(0, [], |ban| &*ban.text == b"x"),
            Standing::Gone
        );
        assert_eq!(purges.standing(0, [], |_| false), Standing::Valid);
        assert_eq!(purges.standing(1, [], no_ban), Standing::Valid);
    }

    #[test]
    fn what_is_given_up_takes_its_entries_along() {
        let mut known = Known::default();
        for number in 1..=10 {
            known.apply(&Record::Purged {
                number,
                purges: vec![tag(&format!("t{number}"), false)],
            });
        }
        known.bound(9, 5);
        assert!(known.marks.len() < 6 && known.floor >= 5, "{known:?}");
        for number in 1..=10 {
            let standing = known.standing(number - 1, marks(&[&format!("t{number}")]), no_ban);
            assert_eq!(standing, Standing::Gone, "purge {number} is forgotten");
        }
        assert_eq!(known.standing(10, marks(&["t1"]), no_ban), Standing::Valid);
        let mut known = Known::default();
        for number in 1..=6 {
            known.apply(&Record::Purged {
                number,
                purges: vec![Purge::Ban(b"x"[..].into())],
            });
        }
        known.bound(9, 5);
        assert!(known.bans.len() <= 5);
        assert_eq!(known.standing(0, [], |_| false), Standing::Gone);
    }
}

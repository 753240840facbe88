//! A store changes hands: this process stops writing, another opens the directory, and what this
//! one still learns (purges, entries that are void) is passed on.
//!
//! Called by: the server, when a successor takes over while requests finish here.
//! Caveat: from then on nothing is written here, and nothing found once [`Store::end_reading`] says
//! so. The directory's `new` folder is emptied by the successor, so an entry that is being written
//! just then comes to nothing.
//! Out of scope: how messages travel; the successor applies them in the order in which they were
//! made.

use crate::{
    journal,
    purges::{JournalRecord, Purge},
    store::{Forward, Store},
};
use std::{fmt, io, sync::atomic::Ordering};

const PURGES: u8 = b'P';
const REMOVAL: u8 = b'R';
const CLEARING: u8 = b'C';

/// Use of entries in a directory that is another process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Until [`Store::end_reading`]. The other process changes nothing before, and all purges come
    /// to this one.
    GoesOn,
    Ends,
}

/// Why nothing is written: the directory is another process's.
#[derive(Debug)]
pub struct HandedOver;

impl HandedOver {
    pub fn is(error: &io::Error) -> bool {
        error
            .get_ref()
            .is_some_and(|inner| inner.is::<HandedOver>())
    }
}

impl fmt::Display for HandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another server has the cache directory")
    }
}

impl std::error::Error for HandedOver {}

impl Store {
    /// Hands the directory over: everything acknowledged so far is on disk when this returns, and
    /// later messages go to `forward`. A second call changes nothing.
    pub fn hand_over(&self, forward: Forward, reading: Reading) {
        let mut journal = self.journal();
        if self.is_handed_over() {
            return;
        }
        let reads_on = reading == Reading::GoesOn;
        self.reads_on.store(reads_on, Ordering::Release);
        if self.forward.set(forward).is_ok() {
            journal.close();
        }
    }

    /// From now on nothing is found here: the other process learns of purges.
    pub fn end_reading(&self) {
        self.reads_on.store(false, Ordering::Release);
        self.index.versions().count_all_up();
    }

    /// Returns true if entries are found here.
    pub(crate) fn may_read(&self) -> bool {
        !self.is_handed_over() || self.reads_on.load(Ordering::Acquire)
    }

    /// True once another process owns the directory.
    pub fn is_handed_over(&self) -> bool {
        self.forward.get().is_some()
    }

    /// Passes purges on. `false`: the store is this process' own.
    pub(crate) fn forward_purges(&self, number: u64, purges: &[Purge]) -> bool {
        let Some(forward) = self.forward.get() else {
            return false;
        };
        let mut message = vec![PURGES];
        let purges = purges.to_vec();
        journal::encode(&JournalRecord::Purged { number, purges }, &mut message);
        forward(message);
        true
    }

    /// Passes the removal of an entry on that began at or before `began`. `false`: the store is
    /// this process' own.
    pub(crate) fn forward_removal(&self, key: &[u8], began: u64) -> bool {
        let Some(forward) = self.forward.get() else {
            return false;
        };
        let mut message = vec![REMOVAL];
        message.extend_from_slice(&began.to_le_bytes());
        message.extend_from_slice(key);
        forward(message);
        true
    }

    /// Passes on that all entries made until now are void. `false`: the store is this process' own.
    pub(crate) fn forward_clearing(&self) -> bool {
        let Some(forward) = self.forward.get() else {
            return false;
        };
        forward(vec![CLEARING]);
        true
    }

    /// Carries out what an earlier owner of the directory has passed on.
    /// # Errors
    /// The message is none of ours, or the disk has not stored the purge, which is in force anyway.
    pub fn apply(&self, message: &[u8]) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        match message.split_first() {
            // The number is another process'.
            Some((&PURGES, record)) => match journal::decode(record, 0) {
                Some((JournalRecord::Purged { purges, .. }, _)) => self.purge(purges).map(drop),
                _ => Err(invalid()),
            },
            Some((&REMOVAL, rest)) => {
                let (began, key) = rest.split_first_chunk().ok_or_else(invalid)?;
                // An entry that began later stays.
                let _ = self.remove_older(key, u64::from_le_bytes(*began));
                Ok(())
            }
            Some((&CLEARING, [])) => self.clear().map(drop),
            _ => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HandedOver, Reading};
    use crate::{Bounds, EntryHead, Purge, Store, TagMark};
    use saker_testkit::{TempDir, wait_until};
    use std::sync::{Arc, Mutex};

    fn keep(store: &Arc<Store>, key: &[u8]) {
        let head = EntryHead {
            key: key.to_vec(),
            began: store.begin(),
            purge_seq: store.purge_seq(),
            keep_until_ms: u64::MAX / 2,
            ..EntryHead::default()
        };
        let mut writer = store.write(&head).unwrap();
        writer.write(b"page").unwrap();
        writer.finish().unwrap();
    }

    /// Until the other server is told of purges, they come here.
    #[test]
    fn entries_are_found_until_reading_ends() {
        let dir = TempDir::new("store-reading").unwrap();
        let first = Store::open(&dir, Bounds::default()).unwrap();
        wait_until("the index is complete", || first.totals().is_complete);
        for key in [b"a", b"b", b"c", b"d"] {
            keep(&first, key);
        }
        let messages = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&messages);
        first.hand_over(
            Box::new(move |message| sent.lock().unwrap().push(message)),
            Reading::GoesOn,
        );
        let second = Store::open(&dir, Bounds::default()).unwrap();
        let found = |key: &[u8]| {
            let entry = first.find(key, 1 << 20)?;
            let is_valid = entry.head.purge_seq >= first.purges.floor();
            Some((entry.version, is_valid))
        };
        let (version, _) = found(b"a").unwrap();
        let id = first.find(b"a", 1 << 20).unwrap().id;
        assert!(first.is_current(version) && found(b"b").is_some());
        let refused = first.write(&EntryHead::default()).map(drop);
        assert!(refused.is_err_and(|error| HandedOver::is(&error)));
        assert!(first.remove(b"b") && found(b"b").is_none());
        let _ = first.remove_older(b"c", u64::MAX);
        assert!(found(b"c").is_none());
        assert!(second.find(b"b", 1 << 20).is_some(), "it is told later");
        first.clear().unwrap();
        assert_eq!(found(b"d").map(|(_, is_valid)| is_valid), Some(false));
        first.end_reading();
        assert!(found(b"a").is_none() && !first.is_current(version));
        // Pages in the memory of workers are of this store, too.
        assert!(first.version_if_there(b"a", id).is_none());
        first.hand_over(Box::new(|_| ()), Reading::GoesOn);
        assert!(found(b"a").is_none(), "a second call changes nothing");
        for message in std::mem::take(&mut *messages.lock().unwrap()) {
            second.apply(&message).unwrap();
        }
        assert!(second.find(b"b", 1 << 20).is_none() && second.find(b"c", 1 << 20).is_none());
        let last = second.find(b"d", 1 << 20).unwrap();
        assert!(last.head.purge_seq < second.purges.floor());
    }

    #[test]
    fn entries_and_purges_change_hands_and_later_ones_follow() {
        let dir = TempDir::new("store-hand-over").unwrap();
        let first = Store::open(&dir, Bounds::default()).unwrap();
        keep(&first, b"a");
        keep(&first, b"b");
        let mark = TagMark::new(b"site", b"tag");
        let tag = || {
            vec![Purge::Tag {
                mark,
                is_soft: false,
            }]
        };
        let before = first.purge_seq();
        first.purge(tag()).unwrap();
        let messages = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&messages);
        let unfinished = first.write(&EntryHead {
            key: b"c".to_vec(),
            ..EntryHead::default()
        });
        first.hand_over(
            Box::new(move |message| sent.lock().unwrap().push(message)),
            Reading::Ends,
        );
        let second = Store::open(&dir, Bounds::default()).unwrap();
        assert!(second.find(b"a", 1 << 20).is_some() && first.find(b"a", 1 << 20).is_none());
        assert_eq!(
            second.purge_seq(),
            before + 1,
            "acknowledged purges are known, and no entry was given up for a lost journal"
        );
        assert!(unfinished.unwrap().finish().is_err());
        assert!(first.write(&EntryHead::default()).is_err());
        first.purge(tag()).unwrap();
        assert!(first.remove(b"a"));
        assert_eq!(first.remove_older(b"b", 1), Ok(None), "it began later");
        let messages = std::mem::take(&mut *messages.lock().unwrap());
        assert_eq!(messages.len(), 3);
        for message in messages {
            second.apply(&message).unwrap();
        }
        assert_eq!(second.purge_seq(), before + 2);
        assert!(second.find(b"a", 1 << 20).is_none() && second.find(b"b", 1 << 20).is_some());
        drop(first);
        drop(second);
        let third = Store::open(&dir, Bounds::default()).unwrap();
        assert!(third.find(b"b", 1 << 20).is_some());
        assert_eq!(third.purge_seq(), before + 2);
        for odd in [&b""[..], b"P", b"R1", b"X", b"Pxxxxxxxxxxxxxxxx"] {
            assert!(third.apply(odd).is_err(), "{odd:?}");
        }
    }
}

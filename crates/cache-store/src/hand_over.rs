//! A store changes hands: this process stops writing, another opens the directory, and what this
//! one still learns (purges, entries that are void) is passed on.
//!
//! Called by: the server, when a successor takes over while requests finish here.
//! Caveat: from then on nothing is found here, and nothing written. The directory's `new` folder is
//! emptied by the successor, so an entry that is being written just then comes to nothing.
//! Out of scope: how messages travel; the successor applies them in the order in which they were
//! made.

use crate::{
    journal,
    purges::{JournalRecord, Purge},
    store::{Forward, Store},
};
use std::io;

const PURGES: u8 = b'P';
const REMOVAL: u8 = b'R';

impl Store {
    /// Hands the directory over: everything acknowledged so far is on disk when this returns, and
    /// later messages go to `forward`. A second call changes nothing.
    pub fn hand_over(&self, forward: Forward) {
        let mut journal = self.journal();
        if self.forward.set(forward).is_ok() {
            journal.close();
        }
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
            _ => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bounds, EntryHead, Purge, Store, TagMark};
    use saker_testkit::TempDir;
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
        first.hand_over(Box::new(move |message| sent.lock().unwrap().push(message)));
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

//! The store: finds entries, purges them, and makes room.
//!
//! Layout of the folder: `entries/abc/<hash>` and `<hash>.<coding>`, `new/` for what is being
//! written, `purges` (the journal). Difficulty: the index is filled in the background after a
//! start. Until then a key that it does not know is looked for on the disk; afterwards it is known
//! not to be there without a system call.

use crate::{
    bounds::{Bounds, SiteUse, Totals},
    cache_lock::CacheLock,
    entry::{self, Coding, Content, EntryHead, StoredEntry},
    entry_name::EntryName,
    index::{Index, Slot, Superseded, slot_of},
    journal::Journal,
    key_hash::KeyHash,
    probes::{Probes, UnderWay},
    purges::{Ban, JournalRecord, Purge, Purges, TagMark, Validity},
    space::Space,
    versions::Version,
};
use saker_telemetry::{error_log, message};
use std::{
    fs::{self, File},
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// Nanoseconds up to the year 2262; ids of ours are less.
const ID_FOUND_MAX: u64 = u64::MAX / 2;

pub struct Store {
    pub(crate) root: PathBuf,
    pub(crate) index: Index,
    pub(crate) bounds: Bounds,
    pub(crate) purges: Purges,
    pub(crate) probes: Arc<Probes>,
    pub(crate) space: Space,
    pub(crate) journal: Mutex<Journal>,
    pub(crate) cache_lock: Arc<CacheLock>,
    pub(crate) seed: u64,
    pub(crate) last_id: AtomicU64,
    pub(crate) is_complete: AtomicBool,
    pub(crate) counts: Counts,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub stored: AtomicU64,
    pub evicted: AtomicU64,
    pub expired: AtomicU64,
    pub damaged: AtomicU64,
    pub purges: AtomicU64,
}

impl Store {
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(xxh3_128_with_seed(key, self.seed))
    }

    pub fn cache_lock(&self) -> &Arc<CacheLock> {
        &self.cache_lock
    }

    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The entry of a key, whatever purges say of it. Contents up to `memory_bytes_max` are read
    /// whole. What can't be read is not there.
    pub fn find(&self, key: &[u8], memory_bytes_max: u64) -> Option<StoredEntry> {
        let hash = self.hash(key);
        // Before anything is read: what comes in its place meanwhile has another one.
        let version = self.index.versions().of(hash);
        let slot = self.index.find(hash);
        if slot.is_none() && self.is_complete.load(Ordering::Acquire) {
            return None;
        }
        let found = self.read(hash, Coding::Identity, memory_bytes_max)?;
        let (prologue, head, content) = found;
        if head.key != key {
            return None;
        }
        if slot.is_none() {
            self.note_id(prologue.id);
            self.index.insert_found(slot_of(hash, &prologue), version);
        }
        Some(StoredEntry {
            head,
            id: prologue.id,
            content,
            version,
        })
    }

    /// Whether the store has had no other entry of that key since one of that version was read or
    /// written. One atomic load; keys share versions, so what was `false` here is a question to
    /// [`Store::version_if_there`].
    pub fn is_current(&self, version: Version) -> bool {
        self.index.versions().is_current(version)
    }

    /// The version by which the entry of that id is the one of its key. `None`: another one is, or
    /// none.
    pub fn version_if_there(&self, key: &[u8], id: u64) -> Option<Version> {
        let hash = self.hash(key);
        let version = self.index.versions().of(hash);
        self.index
            .find(hash)
            .is_some_and(|slot| slot.id == id)
            .then_some(version)
    }

    /// A number for an entry whose making begins now ([`EntryHead::began`]): of two entries of a
    /// key, the one that began later stays.
    pub fn begin(&self) -> u64 {
        self.next_id()
    }

    /// The same content in another coding, if it was made from that very entry.
    pub fn find_coding(
        &self,
        key: &[u8],
        id: u64,
        coding: Coding,
        memory_bytes_max: u64,
    ) -> Option<Content> {
        let hash = self.hash(key);
        if self
            .index
            .find(hash)
            .is_some_and(|slot| slot.codings & 1 << coding as u8 == 0)
            && self.is_complete.load(Ordering::Acquire)
        {
            return None;
        }
        let (_, head, content) = self.read(hash, coding, memory_bytes_max)?;
        (head.key == key && head.rules == id.to_le_bytes()).then_some(content)
    }

    fn read(
        &self,
        hash: KeyHash,
        coding: Coding,
        memory_bytes_max: u64,
    ) -> Option<(entry::Prologue, EntryHead, Content)> {
        let path = self.path(hash, coding);
        let outcome = File::open(&path).and_then(|file| entry::read(file, memory_bytes_max));
        match outcome {
            Ok(Some((prologue, head, content))) if prologue.coding == coding => {
                Some((prologue, head, content))
            }
            Ok(_) => {
                self.discard(hash, coding, "it is damaged");
                None
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if coding == Coding::Identity {
                    self.index.remove(hash, |_| true, |_| {});
                }
                None
            }
            Err(error) => {
                error_log::log(
                    &message::CACHE_UNREADABLE,
                    format_args!("{}: {error}", path.display()),
                );
                None
            }
        }
    }

    /// A file that is of no use to anybody, as somebody has found out who read it.
    pub fn discard(&self, hash: KeyHash, coding: Coding, why: &str) {
        let path = self.path(hash, coding);
        self.counts.damaged.fetch_add(1, Ordering::Relaxed);
        error_log::log(
            &message::CACHE_UNREADABLE,
            format_args!("{}: {why}", path.display()),
        );
        let _ = fs::remove_file(&path);
        match coding {
            Coding::Identity => drop(self.index.remove(hash, |_| true, |slot| self.unlink(slot))),
            coding => drop(
                self.index
                    .update(hash, |slot| slot.codings &= !(1 << coding as u8)),
            ),
        }
    }

    /// Whether somebody has looked at the content of an entry since the start; `true` from now on,
    /// if `is_sound`.
    pub fn is_known_sound(&self, hash: KeyHash, is_sound: bool) -> bool {
        let mut known = false;
        self.index.update(hash, |slot| {
            known = slot.is_sound;
            slot.is_sound |= is_sound;
        });
        known
    }

    /// Takes an entry away, from all workers.
    pub fn remove(&self, key: &[u8]) -> bool {
        self.index
            .remove(self.hash(key), |_| true, |slot| self.unlink(slot))
    }

    /// Takes an entry away whose making began before `began`: its id, if there was one.
    ///
    /// # Errors
    /// There is one that began later, and stays.
    pub fn remove_older(&self, key: &[u8], began: u64) -> Result<Option<u64>, Superseded> {
        let hash = self.hash(key);
        let mut removed = None;
        let unlink = |slot: &Slot| {
            removed = Some(slot.id);
            self.unlink(slot);
        };
        match self.index.remove(hash, |slot| slot.id <= began, unlink)
            || self.index.find(hash).is_none()
        {
            true => Ok(removed),
            false => Err(Superseded),
        }
    }

    /// An entry with these probes is about to be written: from now on [`Store::may_have`] says so.
    pub fn expect(&self, probes: [u64; 2]) {
        self.probes.add(probes);
    }

    /// A response that may become such an entry is being made, until this is dropped.
    pub fn under_way(&self, probes: [u64; 2]) -> UnderWay {
        UnderWay::new(Arc::clone(&self.probes), probes)
    }

    /// As [`Store::may_have`], or whether a response may be under way that will become one.
    pub fn may_get(&self, mark: TagMark) -> bool {
        self.may_have(mark) || self.probes.may_come(mark)
    }

    /// The number of the last purge. An entry whose making begins now carries it; and as long as it
    /// is the same, whatever held still holds.
    pub fn purge_seq(&self) -> u64 {
        self.purges.purge_seq()
    }

    /// What purges have left of an entry.
    pub fn validity(
        &self,
        purge_seq: u64,
        marks: impl IntoIterator<Item = TagMark>,
        is_banned: impl FnMut(&Ban) -> bool,
    ) -> Validity {
        self.purges.validity(purge_seq, marks, is_banned)
    }

    /// Whether an entry may carry that tag as one of its probes. Before the index is complete, any
    /// may.
    pub fn may_have(&self, mark: TagMark) -> bool {
        !self.is_complete.load(Ordering::Acquire) || self.probes.may_have(mark)
    }

    /// What a response purges, told together with what purges have left of the response itself,
    /// which was begun at `moment`: nothing comes between the two. The number that an entry made of
    /// it carries.
    pub fn purge_along(
        &self,
        purges: Vec<Purge>,
        purge_seq: u64,
        marks: &[TagMark],
    ) -> (Validity, u64) {
        let journal = self.journal();
        let validity = self.validity(purge_seq, marks.iter().copied(), |_| true);
        // An error is in the log, and holds all the same.
        let number = self
            .purge_with(journal, purges)
            .unwrap_or_else(|_| self.purge_seq());
        (validity, number)
    }

    /// When it returns, nobody gets any more what was purged, whatever happens to this process. An
    /// error says that the disk has not taken it: then it holds all the same, and the next process
    /// begins with an empty cache unless the disk takes it before.
    pub fn purge(&self, purges: Vec<Purge>) -> io::Result<u64> {
        self.purge_with(self.journal(), purges)
    }

    fn purge_with(
        &self,
        mut journal: MutexGuard<'_, Journal>,
        purges: Vec<Purge>,
    ) -> io::Result<u64> {
        let number = self.purges.purge_seq() + 1;
        self.counts
            .purges
            .fetch_add(purges.len() as u64, Ordering::Relaxed);
        let record = JournalRecord::Purged { number, purges };
        let outcome = journal.append(&record);
        self.purges.apply(&record);
        drop(journal);
        if let Err(error) = outcome {
            error_log::log(
                &message::CACHE_JOURNAL_FAILED,
                format_args!("{}: {error}", self.root.display()),
            );
            return Err(error);
        }
        Ok(number)
    }

    pub fn totals(&self) -> Totals {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Totals {
            entries: self.index.entries(),
            bytes: self.index.bytes(),
            stored: count(&self.counts.stored),
            evicted: count(&self.counts.evicted),
            expired: count(&self.counts.expired),
            damaged: count(&self.counts.damaged),
            purges: count(&self.counts.purges),
            is_complete: self.is_complete.load(Ordering::Acquire),
        }
    }

    pub fn site_use(&self, site: &[u8]) -> SiteUse {
        self.index.site(xxh3_64(site))
    }

    /// The heads of all entries, read from the disk one by one: not for a thread that others wait
    /// for. `false` from `each` ends it.
    pub fn for_each(&self, mut each: impl FnMut(&EntryHead, u64) -> bool) {
        for shard in 0..self.index.shards() {
            for hash in self.index.hashes(shard) {
                let read = File::open(self.path(hash, Coding::Identity))
                    .and_then(|file| entry::read(file, 0));
                if let Ok(Some((prologue, head, _))) = read
                    && !each(&head, prologue.content_bytes)
                {
                    return;
                }
            }
        }
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Greater than every other one.
    pub(crate) fn next_id(&self) -> u64 {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos() as u64);
        let next = |last: u64| Some(now.max(last + 1));
        self.last_id
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .map_or(now, |last| now.max(last + 1))
    }

    /// An id of an earlier process, whose clock may have been ahead of ours: what begins from now
    /// on is newer. A damaged file may say anything.
    pub(crate) fn note_id(&self, id: u64) {
        self.last_id
            .fetch_max(id.min(ID_FOUND_MAX), Ordering::Relaxed);
    }

    pub(crate) fn path(&self, hash: KeyHash, coding: Coding) -> PathBuf {
        let name = EntryName(hash, coding).to_string();
        let mut path = self.root.join("entries");
        path.push(&name[..3]);
        path.push(name);
        path
    }

    pub(crate) fn unlink(&self, slot: &Slot) {
        for coding in Coding::ALL {
            if coding == Coding::Identity || slot.codings & 1 << coding as u8 != 0 {
                let _ = fs::remove_file(self.path(slot.hash, coding));
            }
        }
    }

    /// Lets entries go until `bytes` more of a site fit.
    pub(crate) fn make_room(&self, site: u64, bytes: u64) {
        // What was put in meanwhile may have to go, too; but nobody is kept at it for ever.
        for _ in 0..10_000 {
            let Some(victim) = self.index.victim(site, bytes) else {
                return;
            };
            if self
                .index
                .remove(victim, |_| true, |slot| self.unlink(slot))
            {
                self.counts.evicted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.journal().close();
    }
}

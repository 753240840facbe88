//! The store: finds entries, purges them, and makes room.
//!
//! Called by: the page cache and the server's cache commands.
//! Caveat: layout of the directory: `entries/abc/<hash>` and `<hash>.<coding>`, `new/` for files
//! being written, `purges` (the journal). Until the index is complete, unknown keys are looked up
//! on disk; afterwards a miss needs no system call.
//! Out of scope: writing (`writer`) and starting (`open`).

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
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// Nanoseconds up to the year 2262; valid ids are less.
const ID_FOUND_MAX: u64 = u64::MAX / 2;

/// Learns of purges made here before they are in force, to pass them on to other servers.
pub trait Outgoing: Send + Sync {
    /// Writes purges down. Called in the order of the purges, by one thread at a time.
    /// # Errors
    /// The disk has not stored them. The purge is in force here anyway.
    fn note(&self, purges: &[Purge]) -> io::Result<()>;
}

/// Passes a message on to the store's new owner.
pub type Forward = Box<dyn Fn(Vec<u8>) + Send + Sync>;

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
    /// Set when another process has the directory.
    pub(crate) forward: OnceLock<Forward>,
    /// Entries are found although the directory is another's.
    pub(crate) reads_on: AtomicBool,
    /// Set where other servers share the purges.
    pub(crate) outgoing: OnceLock<Arc<dyn Outgoing>>,
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

    /// Returns the entry of a key, even if it was purged. Contents up to `memory_bytes_max` are
    /// read whole. Unreadable entries are misses.
    pub fn find(&self, key: &[u8], memory_bytes_max: u64) -> Option<StoredEntry> {
        if !self.may_read() {
            return None;
        }
        let hash = self.hash(key);
        // Before the file is read: a replacement meanwhile has another version.
        let version = self.index.versions().of(hash);
        let slot = self.index.find(hash);
        // What has been removed since the directory is another's may still have its file.
        if slot.is_none() && (self.is_complete.load(Ordering::Acquire) || self.is_handed_over()) {
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

    /// True if the key has had no other entry since one of that version was read or written. One
    /// atomic load. Keys share versions, so on `false` ask [`Store::version_if_there`].
    pub fn is_current(&self, version: Version) -> bool {
        self.index.versions().is_current(version)
    }

    /// The version under which the entry with that id is current. `None`: another one is, or none.
    pub fn version_if_there(&self, key: &[u8], id: u64) -> Option<Version> {
        if !self.may_read() {
            return None;
        }
        let hash = self.hash(key);
        let version = self.index.versions().of(hash);
        self.index
            .find(hash)
            .is_some_and(|slot| slot.id == id)
            .then_some(version)
    }

    /// A number for an entry whose making begins now ([`EntryHead::began`]): of two entries of a
    /// key, the one that began later wins.
    pub fn begin(&self) -> u64 {
        self.next_id()
    }

    /// The content in another coding, if it was made from exactly that entry.
    pub fn find_coding(
        &self,
        key: &[u8],
        id: u64,
        coding: Coding,
        memory_bytes_max: u64,
    ) -> Option<Content> {
        if !self.may_read() {
            return None;
        }
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

    /// Removes a file that proved useless when it was read.
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

    /// True if the content of an entry has been verified since the start; if `is_sound`, it counts
    /// as verified from now on.
    pub fn is_known_sound(&self, hash: KeyHash, is_sound: bool) -> bool {
        let mut known = false;
        self.index.update(hash, |slot| {
            known = slot.is_sound;
            slot.is_sound |= is_sound;
        });
        known
    }

    /// Removes an entry, for all workers.
    pub fn remove(&self, key: &[u8]) -> bool {
        if self.forward_removal(key, u64::MAX) {
            self.index.remove(self.hash(key), |_| true, |_| ());
            return true;
        }
        let hash = self.hash(key);
        self.index.remove(hash, |_| true, |slot| self.unlink(slot))
            || self.remove_unindexed(hash, key, u64::MAX).is_some()
    }

    /// Removes an entry that the index doesn't know yet, which began at or before `began`; returns its
    /// id. If the index gets it just then, its file is found to be missing.
    fn remove_unindexed(&self, hash: KeyHash, key: &[u8], began: u64) -> Option<u64> {
        if self.is_complete.load(Ordering::Acquire) {
            return None;
        }
        let file = File::open(self.path(hash, Coding::Identity)).ok()?;
        let (prologue, head, _) = entry::read(file, 0).ok()??;
        if head.key != key || prologue.id > began {
            return None;
        }
        self.index.versions().count_up(hash);
        self.unlink(&slot_of(hash, &prologue));
        Some(prologue.id)
    }

    /// Removes an entry whose making began before `began`; returns its id, if there was one.
    /// # Errors
    /// The key has an entry that began later, and keeps it.
    pub fn remove_older(&self, key: &[u8], began: u64) -> Result<Option<u64>, Superseded> {
        let hash = self.hash(key);
        if self.forward_removal(key, began) {
            self.index.remove(hash, |slot| slot.id <= began, |_| ());
            return Ok(None);
        }
        let mut removed = None;
        let unlink = |slot: &Slot| {
            removed = Some(slot.id);
            self.unlink(slot);
        };
        match self.index.remove(hash, |slot| slot.id <= began, unlink)
            || self.index.find(hash).is_none()
        {
            true => Ok(removed.or_else(|| self.remove_unindexed(hash, key, began))),
            false => Err(Superseded),
        }
    }

    /// Announces an entry with these probes: from now on [`Store::may_have`] returns `true` for
    /// them.
    pub fn expect(&self, probes: [u64; 2]) {
        self.probes.add(probes);
    }

    /// Announces a response that may become such an entry, until the value is dropped.
    pub fn under_way(&self, probes: [u64; 2]) -> UnderWay {
        UnderWay::new(Arc::clone(&self.probes), probes)
    }

    /// Like [`Store::may_have`], including responses in progress.
    pub fn may_get(&self, mark: TagMark) -> bool {
        self.may_have(mark) || self.probes.may_come(mark)
    }

    /// The number of the last purge. Entries whose making begins now carry it; while it is
    /// unchanged, valid entries stay valid.
    pub fn purge_seq(&self) -> u64 {
        self.purges.purge_seq()
    }

    /// Returns the state of an entry with regard to purges.
    pub fn validity(
        &self,
        purge_seq: u64,
        marks: impl IntoIterator<Item = TagMark>,
        is_banned: impl FnMut(&Ban) -> bool,
    ) -> Validity {
        self.purges.validity(purge_seq, marks, is_banned)
    }

    /// True if an entry may have that probe. Before the index is complete, any may.
    pub fn may_have(&self, mark: TagMark) -> bool {
        !self.is_complete.load(Ordering::Acquire) || self.probes.may_have(mark)
    }

    /// Carries out a response's purges and returns what earlier purges have left of the response
    /// itself, whose making began at `purge_seq`, in one step. Also returns the number for an entry
    /// made from it.
    pub fn purge_along(
        &self,
        purges: Vec<Purge>,
        purge_seq: u64,
        marks: &[TagMark],
    ) -> (Validity, u64) {
        let journal = self.journal();
        let validity = self.validity(purge_seq, marks.iter().copied(), |_| true);
        // A failure is logged, and the purge holds anyway.
        let number = self
            .purge_with(journal, purges, true)
            .unwrap_or_else(|_| self.purge_seq());
        (validity, number)
    }

    /// Purges. When it returns, no request gets a purged entry, whatever happens to this process.
    /// # Errors
    /// The disk has not stored it. The purge is in force anyway; the next process begins with an
    /// empty cache unless the disk stores it before.
    pub fn purge(&self, purges: Vec<Purge>) -> io::Result<u64> {
        self.purge_with(self.journal(), purges, true)
    }

    /// Like [`Store::purge`], for purges of another server: they are not passed on.
    /// # Errors
    /// As of [`Store::purge`].
    pub fn purge_received(&self, purges: Vec<Purge>) -> io::Result<u64> {
        self.purge_with(self.journal(), purges, false)
    }

    fn purge_with(
        &self,
        mut journal: MutexGuard<'_, Journal>,
        mut purges: Vec<Purge>,
        is_own: bool,
    ) -> io::Result<u64> {
        let before = self.purges.purge_seq();
        let number = before + 1;
        let forwarded = self.forward_purges(number, &purges);
        let noted = match self.outgoing.get() {
            // First: what is in force here must reach the others, even if this process ends now.
            Some(outgoing) if is_own && !forwarded => outgoing.note(&purges),
            _ => Ok(()),
        };
        purges.retain(|purge| !matches!(purge, Purge::Remote(_)));
        if purges.is_empty() {
            return noted.map(|()| before);
        }
        self.counts
            .purges
            .fetch_add(purges.len() as u64, Ordering::Relaxed);
        let record = JournalRecord::Purged { number, purges };
        let outcome = match forwarded {
            true => Ok(()),
            false => journal.append(&record),
        };
        self.purges.apply(&record);
        drop(journal);
        if let Err(error) = outcome {
            self.report_journal(&error);
            return Err(error);
        }
        noted.map(|()| number)
    }

    fn report_journal(&self, error: &io::Error) {
        error_log::log(
            &message::CACHE_JOURNAL_FAILED,
            format_args!("{}: {error}", self.root.display()),
        );
    }

    /// Removes all entries made before now, and those being made.
    /// # Errors
    /// As of [`Store::purge`].
    pub fn clear(&self) -> io::Result<u64> {
        let mut journal = self.journal();
        let number = self.purges.purge_seq() + 1;
        let floor = number;
        let record = JournalRecord::Floor { number, floor };
        let outcome = match self.forward_clearing() {
            true => Ok(()),
            false => journal.append(&record),
        };
        self.purges.apply(&record);
        drop(journal);
        match outcome {
            Ok(()) => Ok(number),
            Err(error) => {
                self.report_journal(&error);
                Err(error)
            }
        }
    }

    /// Shares the purges made here with other servers. A second call changes nothing.
    pub fn share(&self, outgoing: Arc<dyn Outgoing>) {
        let _ = self.outgoing.set(outgoing);
    }

    /// True if other servers share the purges made here.
    pub fn is_shared(&self) -> bool {
        self.outgoing.get().is_some()
    }

    /// Suspends the use of entries, or ends the suspension. Entries stay, and new ones are stored.
    pub fn set_serving(&self, serves: bool) {
        let mut journal = self.journal();
        if self.purges.is_suspended() != serves || self.is_handed_over() {
            return;
        }
        // Entries carry the number, so no later purge may have it.
        let record = JournalRecord::Floor {
            number: self.purges.purge_seq() + 1,
            floor: self.purges.floor(),
        };
        let outcome = journal.append(&record);
        self.purges.set_suspended(!serves, &record);
        drop(journal);
        if let Err(error) = outcome {
            self.report_journal(&error);
        }
    }

    /// False while the use of entries is suspended.
    pub fn is_serving(&self) -> bool {
        !self.purges.is_suspended()
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

    /// Returns head and content of an entry by the hash of its key, for operators. Contents up to
    /// `memory_bytes_max` are read whole.
    pub fn entry(&self, hash: KeyHash, memory_bytes_max: u64) -> Option<(EntryHead, Content)> {
        if !self.may_read() {
            return None;
        }
        self.index.find(hash)?;
        let (_, head, content) = self.read(hash, Coding::Identity, memory_bytes_max)?;
        Some((head, content))
    }

    /// Reads the heads of all entries from disk, one by one; must not run on a worker's thread.
    /// `false` from `each` ends it.
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

    /// Greater than all earlier ids.
    pub(crate) fn next_id(&self) -> u64 {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos() as u64);
        let next = |last: u64| Some(now.max(last + 1));
        self.last_id
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .map_or(now, |last| now.max(last + 1))
    }

    /// Notes an id of an earlier process, whose clock may have been ahead. Damaged files may
    /// contain anything.
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

    /// Evicts entries until `bytes` more of a site fit.
    pub(crate) fn make_room(&self, site: u64, bytes: u64) {
        // Entries inserted meanwhile may have to go as well, but not forever.
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
        if !self.is_handed_over() {
            self.journal().close();
        }
    }
}

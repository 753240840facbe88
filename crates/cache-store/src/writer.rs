//! Writes an entry: content as it arrives, the prologue last, then the final name.
//!
//! Called by: the page cache, through `Store::write`.
//! Caveat: a writer dropped before its end leaves nothing behind. The file is renamed while the
//! index holds its slot, so that both agree.
//! Out of scope: reading (`entry`).

use crate::{
    entry::{Coding, EntryHead, PROLOGUE_BYTES, Prologue},
    hand_over::HandedOver,
    index::slot_of,
    private_files,
    store::Store,
    versions::Version,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The result of a completely written entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It can be found from now on.
    Placed { id: u64, version: Version },
    /// The key has an entry whose making began later, and keeps it.
    Superseded,
}

impl Store {
    /// Begins an entry; it exists once [`Writer::finish`] has returned.
    pub fn write(self: &Arc<Self>, head: &EntryHead) -> io::Result<Writer> {
        Writer::begin(self, head, Coding::Identity)
    }

    /// Begins another coding of an entry's content.
    pub fn write_coding(
        self: &Arc<Self>,
        key: &[u8],
        id: u64,
        coding: Coding,
    ) -> io::Result<Writer> {
        let head = EntryHead {
            key: key.to_vec(),
            rules: id.to_le_bytes().to_vec(),
            ..EntryHead::default()
        };
        Writer::begin(self, &head, coding)
    }
}

pub struct Writer {
    store: Arc<Store>,
    file: File,
    /// The temporary name; empty after the rename.
    path: PathBuf,
    key: Vec<u8>,
    head: Vec<u8>,
    prologue: Prologue,
    hasher: Box<Xxh3>,
}

impl Writer {
    pub(crate) fn begin(
        store: &Arc<Store>,
        head: &EntryHead,
        coding: Coding,
    ) -> io::Result<Writer> {
        refuse_if_handed_over(store)?;
        store.space.check()?;
        let number = store.next_id();
        let id = if head.began == 0 { number } else { head.began };
        let path = store.root.join("new").join(format!("{number:x}"));
        let mut file =
            private_files::create_new(&path).map_err(|error| store.space.note_error(error))?;
        let encoded = head.encode();
        let prologue = Prologue {
            coding,
            head_bytes: u32::try_from(encoded.len()).map_err(|_| io::ErrorKind::FileTooLarge)?,
            content_bytes: 0,
            content_sum: 0,
            id,
            purge_seq: head.purge_seq,
            keep_until_ms: head.keep_until_ms,
            site: xxh3_64(&head.site),
            probes: head.probes,
        };
        let written = file
            .write_all(&[&[0; PROLOGUE_BYTES][..], &encoded].concat())
            .map_err(|error| store.space.note_error(error));
        let writer = Writer {
            store: Arc::clone(store),
            file,
            path,
            key: head.key.clone(),
            head: encoded,
            prologue,
            hasher: Box::default(),
        };
        written.map(|()| writer)
    }

    /// Bytes of content so far.
    pub fn content_bytes(&self) -> u64 {
        self.prologue.content_bytes
    }

    pub fn write(&mut self, content: &[u8]) -> io::Result<()> {
        let bytes = self.prologue.content_bytes + content.len() as u64;
        if self.store.bounds.entry_bytes_max > 0 && bytes > self.store.bounds.entry_bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.store.space.reserve(content.len() as u64)?;
        self.file
            .write_all(content)
            .map_err(|error| self.store.space.note_error(error))?;
        self.hasher.update(content);
        self.prologue.content_bytes = bytes;
        Ok(())
    }

    /// The last step: gives the entry its name.
    pub fn finish(mut self) -> io::Result<Finished> {
        refuse_if_handed_over(&self.store)?;
        self.prologue.content_sum = self.hasher.digest();
        self.file
            .write_all_at(&self.prologue.encode(&self.head), 0)
            .map_err(|error| self.store.space.note_error(error))?;
        let finished = match self.prologue.coding {
            Coding::Identity => self.place_entry()?,
            coding => self.place_coding(coding)?,
        };
        if finished != Finished::Superseded {
            self.path = PathBuf::new();
        }
        Ok(finished)
    }

    fn place_entry(&self) -> io::Result<Finished> {
        let store = &self.store;
        let hash = store.hash(&self.key);
        store.make_room(self.prologue.site, self.prologue.file_bytes());
        store.probes.add(self.prologue.probes);
        let mut slot = slot_of(hash, &self.prologue);
        slot.is_sound = true;
        let old = store.index.find(hash).map_or(0, |slot| slot.codings);
        let inserted = store.index.insert(slot, || {
            // Codings of the previous entry.
            let codings = Coding::ALL
                .into_iter()
                .filter(|coding| *coding != Coding::Identity && old & 1 << *coding as u8 != 0);
            codings.for_each(|coding| drop(fs::remove_file(store.path(hash, coding))));
            self.rename(Coding::Identity)
        })?;
        let Ok(version) = inserted else {
            return Ok(Finished::Superseded);
        };
        store.counts.stored.fetch_add(1, Ordering::Relaxed);
        Ok(Finished::Placed {
            id: self.prologue.id,
            version,
        })
    }

    fn place_coding(&self, coding: Coding) -> io::Result<Finished> {
        let hash = self.store.hash(&self.key);
        let version = self.store.index.versions().of(hash);
        let mut outcome = Err(io::ErrorKind::NotFound.into());
        self.store.index.update(hash, |slot| {
            outcome = self.rename(coding);
            if outcome.is_ok() && slot.codings & 1 << coding as u8 == 0 {
                slot.codings |= 1 << coding as u8;
                slot.bytes += self.prologue.file_bytes();
            }
        });
        outcome.map(|()| Finished::Placed {
            id: self.prologue.id,
            version,
        })
    }

    fn rename(&self, coding: Coding) -> io::Result<()> {
        let to = self.store.path(self.store.hash(&self.key), coding);
        match fs::rename(&self.path, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                to.parent().map_or(Ok(()), private_files::create_folder)?;
                fs::rename(&self.path, &to)
            }
            outcome => outcome,
        }
    }
}

fn refuse_if_handed_over(store: &Store) -> io::Result<()> {
    match store.is_handed_over() {
        true => Err(io::Error::other(HandedOver)),
        false => Ok(()),
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

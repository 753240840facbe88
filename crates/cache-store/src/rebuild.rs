//! Fills the index after a start, while the store is in use.
//!
//! Called by: housekeeping.
//! Caveat: files that are no entries, or that expired, are removed.
//! Out of scope: verifying contents.

use crate::{
    entry::{Coding, PROLOGUE_BYTES, Prologue},
    entry_name::EntryName,
    index::slot_of,
    store::Store,
};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::Ordering,
};

/// Reads the prologues of all entries; `goes_on` is called now and then. `true` if it got to the
/// end.
pub fn rebuild(store: &Store, now_s: u32, goes_on: impl Fn() -> bool) -> bool {
    let Ok(folders) = fs::read_dir(store.root.join("entries")) else {
        return false;
    };
    for folder in folders.flatten() {
        if !goes_on() {
            return false;
        }
        read_folder(store, &folder.path(), now_s);
    }
    store.is_complete.store(true, Ordering::Release);
    true
}

/// Codings come after their entries, because of their names.
fn read_folder(store: &Store, folder: &Path, now_s: u32) {
    let Ok(files) = fs::read_dir(folder) else {
        return;
    };
    let mut names: Vec<_> = files.flatten().map(|file| file.file_name()).collect();
    names.sort_unstable();
    for name in names {
        let path = folder.join(&name);
        let known = name.to_str().and_then(EntryName::parse);
        // Before the file is read.
        let version = known
            .as_ref()
            .map(|EntryName(hash, _)| store.index.versions().of(*hash));
        let Some(((EntryName(hash, coding), version), prologue)) =
            known.zip(version).zip(prologue(&path))
        else {
            let _ = fs::remove_file(path);
            continue;
        };
        match coding {
            Coding::Identity if slot_of(hash, &prologue).keep_until_s < now_s => {
                drop(fs::remove_file(path))
            }
            Coding::Identity => {
                store.probes.add(prologue.probes);
                store.note_id(prologue.id);
                store.index.insert_found(slot_of(hash, &prologue), version);
            }
            coding => {
                let is_known = store.index.update(hash, |slot| {
                    if slot.codings & 1 << coding as u8 == 0 {
                        slot.codings |= 1 << coding as u8;
                        slot.bytes += prologue.file_bytes();
                    }
                });
                if !is_known {
                    let _ = fs::remove_file(path);
                }
            }
        }
    }
}

fn prologue(path: &Path) -> Option<Prologue> {
    let mut bytes = [0; PROLOGUE_BYTES];
    File::open(path).ok()?.read_exact_at(&mut bytes, 0).ok()?;
    Prologue::decode(&bytes)
}

//! `random_index`: a directory is answered by one of its files, by chance.
//!
//! Called by: `content`.
//! Caveat: hidden files are never chosen. A directory without files is answered as without it.

use saker_net::jobs::{self, JobKind};
use std::{
    fs,
    hash::{BuildHasher, RandomState},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// Entries that are looked at.
const ENTRIES_MAX: usize = 100_000;

/// Returns the name of a file in the directory.
pub async fn pick(folder: PathBuf, site: usize) -> Option<Vec<u8>> {
    let read = jobs::run(JobKind::Listing, Some(site), move |cancel| {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for entry in fs::read_dir(folder).ok()?.flatten().take(ENTRIES_MAX) {
            if cancel.is_cancelled() {
                return None;
            }
            let name = entry.file_name().as_bytes().to_vec();
            let is_file = entry.metadata().is_ok_and(|found| found.is_file());
            if is_file && !name.starts_with(b".") {
                names.push(name);
            }
        }
        Some(names)
    });
    let mut names = read.await.ok().flatten()?;
    let count = u64::try_from(names.len()).ok().filter(|count| *count > 0)?;
    let chosen = RandomState::new().hash_one(0) % count;
    Some(names.swap_remove(usize::try_from(chosen).ok()?))
}

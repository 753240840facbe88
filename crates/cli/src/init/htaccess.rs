//! `.htaccess` files of the application: passwords and denials that the configuration must not lose.
//!
//! Called by: `text`.
//! Caveat: a tree that is too large, or can't be read in part, counts as if it had one; rules that
//! are not there cost little.
//! Out of scope: what they say.

use std::{collections::HashSet, fs, os::unix::fs::MetadataExt, path::Path};

const NAME: &str = ".htaccess";
/// Entries that are looked at.
const ENTRIES_MAX: usize = 500_000;

/// Returns true if such a file lies in the folder or anywhere below it.
pub fn is_below(root: &Path) -> bool {
    let (mut folders, mut seen, mut entries) = (vec![root.to_owned()], HashSet::new(), 0_usize);
    while let Some(folder) = folders.pop() {
        // Links are followed, because the server may follow them; each folder once.
        let is_new = fs::metadata(&folder).map(|found| seen.insert((found.dev(), found.ino())));
        if !matches!(is_new, Ok(true)) {
            continue;
        }
        let Ok(found) = fs::read_dir(&folder) else {
            return true;
        };
        for entry in found {
            entries += 1;
            let Some(entry) = entry.ok().filter(|_| entries <= ENTRIES_MAX) else {
                return true;
            };
            if entry.file_name() == NAME {
                return true;
            }
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let path = entry.path();
            if !is_file && path.is_dir() {
                folders.push(path);
            }
        }
    }
    false
}

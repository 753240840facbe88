//! `.htaccess` files of the application: passwords and denials that the configuration must not lose.
//!
//! Called by: `init`, `text`.
//! Caveat: a tree that is too large, or can't be read in part, counts as if it had one; rules that
//! are not there cost little.
//! Out of scope: rules other than access rules.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

const NAME: &str = ".htaccess";
/// Limit of entries that are read.
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

/// Folders below the root, closed or with a log-in by a `.htaccess` file that says nothing about
/// single files.
pub fn closed_folders(root: &Path) -> Vec<PathBuf> {
    let (mut folders, mut entries, mut closed) = (vec![root.to_owned()], 0_usize, Vec::new());
    while let Some(folder) = folders.pop() {
        let path = folder.join(NAME);
        if folder != root && fs::read(path).is_ok_and(|text| closes(&text)) {
            closed.push(folder);
            continue;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries < ENTRIES_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    closed.sort();
    closed
}

fn closes(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    let lines = || text.lines().map(str::trim_start);
    let is_rule = |line: &str| line.starts_with("require ") || line.starts_with("deny ");
    lines().any(is_rule)
        && !lines().any(|line| {
            line.starts_with("<files")
                || line.starts_with("<limit")
                || line.starts_with("require all granted")
                || line.starts_with("allow from all")
        })
}

//! Logs named by rules (`SecAuditLog`): checks that they can be written, which the library does not
//! report.
//!
//! Caveat: the library opens logs while it reads rules. Only the serving process lets it: any other
//! process that reads a configuration (`saker check` as root, the process that starts programs)
//! would create files that the server can't write.

use crate::origin::Origin;
use std::{
    collections::HashSet,
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

static ARE_WRITTEN: AtomicBool = AtomicBool::new(false);

/// Lets the library open logs from now on: called once by the serving process, before it reads its
/// configuration.
pub fn write_logs() {
    ARE_WRITTEN.store(true, Relaxed);
}

/// Returns whether a directive opens a log that must not be opened in this process.
pub(super) fn is_left_out(name: &str) -> bool {
    matches!(name, "secauditlog" | "secauditlog2" | "secdebuglog") && !ARE_WRITTEN.load(Relaxed)
}

/// Settings of the audit log; the last of each counts.
#[derive(Debug, Default)]
pub(super) struct AuditLog {
    is_on: bool,
    is_concurrent: bool,
    files: [Option<(PathBuf, Origin)>; 2],
    folder: Option<(PathBuf, Origin)>,
}

impl AuditLog {
    /// Notes one directive, by its name in lowercase.
    pub fn note(&mut self, name: &str, arguments: &str, origin: &Origin) {
        let value = super::words::unquoted(arguments);
        let named = || Some((PathBuf::from(value), origin.clone()));
        match name {
            "secauditengine" => self.is_on = !value.eq_ignore_ascii_case("off"),
            "secauditlogtype" => {
                self.is_concurrent =
                    ["concurrent", "parallel"].contains(&&*value.to_ascii_lowercase())
            }
            "secauditlog" => self.files[0] = named(),
            "secauditlog2" => self.files[1] = named(),
            "secauditlogstoragedir" => self.folder = named(),
            _ => {}
        }
    }

    /// Returns the logs that can't be written, with their locations.
    pub fn faults(&self) -> Vec<(Origin, String)> {
        if !self.is_on {
            return Vec::new();
        }
        // A URL (`SecAuditLogType HTTPS`) or a program is not a file.
        let is_file = |path: &Path| {
            !path.to_string_lossy().starts_with("http") && !path.to_string_lossy().starts_with('|')
        };
        let files = self
            .files
            .iter()
            .flatten()
            .filter(|(path, _)| is_file(path))
            .map(|(path, origin)| (path, origin, file_fault(path)));
        let folder = self.folder.iter().filter(|_| self.is_concurrent);
        let folder = folder.map(|(path, origin)| {
            (
                path,
                origin,
                (!path.is_dir()).then(|| "no such directory".to_owned()),
            )
        });
        let all = files.chain(folder);
        all.filter_map(|(path, origin, why)| {
            Some((
                origin.clone(),
                format!("cannot write the audit log {}: {}", path.display(), why?),
            ))
        })
        .collect()
    }
}

fn file_fault(path: &Path) -> Option<String> {
    // Files that were opened before: the library keeps them open, even if their owner has changed.
    static HELD: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Some(format!("no such directory: {}", folder.display()));
    }
    let kind = fs::metadata(path).map(|metadata| metadata.file_type());
    if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
        return Some("it is a directory".into());
    }
    if !ARE_WRITTEN.load(Relaxed) || kind.is_ok_and(|kind| !kind.is_file()) {
        return None;
    }
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let held = held.get_or_insert_default();
    match OpenOptions::new().append(true).create(true).open(path) {
        Ok(_) => {
            held.insert(path.to_owned());
            None
        }
        Err(_) if held.contains(path) => None,
        Err(error) => Some(error.to_string()),
    }
}

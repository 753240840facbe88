//! Logs that rules name (`SecAuditLog`): whether they can be written, which the library does not
//! say.
//!
//! The library opens them while it reads rules. So only the process that serves lets it: whoever
//! only looks at a configuration (`saker check` as root, the process that starts programs) would
//! make them his own files, which the server then can't write.

use crate::model::Origin;
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

/// From now on logs are opened: said once, by the process that serves, before it reads its
/// configuration.
pub fn write_logs() {
    ARE_WRITTEN.store(true, Relaxed);
}

/// Whether a directive opens a log that is not to be opened here.
pub(super) fn is_left_out(name: &str) -> bool {
    matches!(name, "secauditlog" | "secauditlog2" | "secdebuglog") && !ARE_WRITTEN.load(Relaxed)
}

/// What is said of the audit log, the last of each.
#[derive(Debug, Default)]
pub(super) struct AuditLog {
    is_on: bool,
    is_concurrent: bool,
    files: [Option<(PathBuf, Origin)>; 2],
    folder: Option<(PathBuf, Origin)>,
}

impl AuditLog {
    /// One directive, its name in lower case.
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

    /// What can't be written, and where it is named.
    pub fn faults(&self) -> Vec<(Origin, String)> {
        if !self.is_on {
            return Vec::new();
        }
        // A URL (`SecAuditLogType HTTPS`) and a program are no files.
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
    // Those that could be opened once: the library holds on to them, whomever they belong to since.
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

//! Files that were read, with what tells whether they have changed.
//!
//! One load reads a file once, however many sites name it.

use super::LoadProblem;
use saker_config::model::Origin;
use saker_net::privileged;
use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Far more than certificates of a machine's authorities have.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Another file by the same name, or the same with other content, has another stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Takes the stamp of a file; the default if its metadata cannot be read.
    pub fn of(path: &Path) -> FileStamp {
        privileged::metadata(path)
            .map_or_else(|_| FileStamp::default(), |found| FileStamp::new(&found))
    }

    /// The same with the rights of this process alone, for paths that clients have a part in.
    pub fn of_unprivileged(path: &Path) -> FileStamp {
        fs::metadata(path).map_or_else(|_| FileStamp::default(), |found| FileStamp::new(&found))
    }

    fn new(found: &fs::Metadata) -> FileStamp {
        FileStamp {
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

#[derive(Debug, Default)]
pub struct Files {
    /// Passphrases may be requested from the operator.
    asks: bool,
    stamps: HashMap<PathBuf, FileStamp>,
    contents: HashMap<PathBuf, Option<Arc<[u8]>>>,
}

impl Files {
    pub fn new(asks: bool) -> Files {
        Files {
            asks,
            ..Files::default()
        }
    }

    pub fn asks(&self) -> bool {
        self.asks
    }

    /// The content; `None` if it can't be read, which is told once.
    pub fn read(
        &mut self,
        path: &Path,
        origin: &Origin,
        what: &str,
        problems: &mut Vec<LoadProblem>,
    ) -> Option<Arc<[u8]>> {
        if let Some(content) = self.contents.get(path) {
            return content.clone();
        }
        // The stamp is older than the content, so that a change in between is seen as one.
        self.stamps.insert(path.into(), FileStamp::of(path));
        let content = match read_bounded(path) {
            Ok(content) => Some(Arc::from(content)),
            Err(error) => {
                problems.push(unreadable(path, origin, what, &error));
                None
            }
        };
        self.contents.insert(path.into(), content.clone());
        content
    }

    /// Notes that something loaded before from this file is used on.
    pub fn keep(&mut self, path: &Path, stamp: FileStamp) {
        self.stamps.insert(path.into(), stamp);
    }

    pub fn stamp(&self, path: &Path) -> Option<FileStamp> {
        self.stamps.get(path).copied()
    }

    pub fn into_stamps(self) -> HashMap<PathBuf, FileStamp> {
        self.stamps
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let found = privileged::metadata(path)?;
    if !found.is_file() || found.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file of a sensible size",
        ));
    }
    privileged::read(path)
}

fn unreadable(path: &Path, origin: &Origin, what: &str, error: &io::Error) -> LoadProblem {
    let problem = LoadProblem::error(
        origin.clone(),
        format!("{} ({what}) can't be read: {error}", path.display()),
    );
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let problem = problem.with_help(
                "let the user that Saker is started as read it and the folders on the way",
            );
            LoadProblem {
                is_denied: true,
                ..problem
            }
        }
        io::ErrorKind::NotFound => problem.with_help(
            "a path that does not begin with / starts at the folder of the configuration file",
        ),
        _ => problem,
    }
}

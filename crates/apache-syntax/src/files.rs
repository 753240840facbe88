//! Sources of configuration files: the disk, or memory for tests and fuzzing.

use saker_net::privileged;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
}

/// The part of a file system that reading a configuration needs. Links are followed.
pub trait Files {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// `None` for what is not there or can't be looked at.
    fn kind(&self, path: &Path) -> Option<FileKind>;
    /// Names in a directory, in any order.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;
}

/// The file system, as this process's user sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDisk;

impl Files for OnDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let too_large = fs::metadata(path)?.len() > crate::limits::FILE_BYTES_MAX as u64;
        if too_large {
            Err(io::ErrorKind::FileTooLarge.into())
        } else {
            fs::read(path)
        }
    }

    fn kind(&self, path: &Path) -> Option<FileKind> {
        let metadata = fs::metadata(path).ok()?;
        Some(if metadata.is_dir() {
            FileKind::Directory
        } else {
            FileKind::File
        })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(directory)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect()
    }
}

/// The file system for the server's own configuration: what root alone may read is asked of the
/// broker.
///
/// Caveat: never for `.htaccess` files, whose authors would learn by `<IfFile>` which files of
/// root's exist.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDiskPrivileged;

impl Files for OnDiskPrivileged {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let too_large = privileged::metadata(path)?.len() > crate::limits::FILE_BYTES_MAX as u64;
        if too_large {
            Err(io::ErrorKind::FileTooLarge.into())
        } else {
            privileged::read(path)
        }
    }

    fn kind(&self, path: &Path) -> Option<FileKind> {
        let metadata = privileged::metadata(path).ok()?;
        Some(if metadata.is_dir() {
            FileKind::Directory
        } else {
            FileKind::File
        })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        privileged::list(directory)
    }
}

/// Files by absolute path; directories are there where files are below them.
#[derive(Clone, Debug, Default)]
pub struct InMemory(pub BTreeMap<PathBuf, Vec<u8>>);

impl InMemory {
    pub fn with(mut self, path: &str, text: impl Into<Vec<u8>>) -> InMemory {
        self.0.insert(path.into(), text.into());
        self
    }
}

impl Files for InMemory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0
            .get(path)
            .cloned()
            .ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn kind(&self, path: &Path) -> Option<FileKind> {
        let below = || self.0.keys().any(|file| file.starts_with(path));
        self.0
            .contains_key(path)
            .then_some(FileKind::File)
            .or_else(|| below().then_some(FileKind::Directory))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let below = self
            .0
            .keys()
            .filter_map(|file| file.strip_prefix(directory).ok());
        let mut names: Vec<OsString> = below
            .filter_map(|file| Some(file.components().next()?.as_os_str().to_owned()))
            .collect();
        names.dedup();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_directories() {
        let files = InMemory::default()
            .with("/a/b/c", "x")
            .with("/a/b/d", "y")
            .with("/a/e", "z");
        assert_eq!(files.kind(Path::new("/a/b")), Some(FileKind::Directory));
        assert_eq!(files.kind(Path::new("/a/e")), Some(FileKind::File));
        assert_eq!(files.kind(Path::new("/a/f")), None);
        assert_eq!(files.list(Path::new("/a")).unwrap(), ["b", "e"]);
        assert_eq!(files.read(Path::new("/a/b/d")).unwrap(), b"y");
        assert!(files.read(Path::new("/a/b")).is_err());
    }
}

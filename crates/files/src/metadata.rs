//! Metadata of a file.
//!
//! Called by: this crate and the handlers (validators, lengths, policies).
//! Out of scope: access time, which is never needed and would differ each time.

use rustix::fs::{FileType, Stat, fstat};
use std::{fs::File, io};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// Socket, device, FIFO: never opened for reading, never served.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub kind: Kind,
    pub size: u64,
    pub mtime_s: i64,
    pub mtime_ns: u32,
    pub ctime_s: i64,
    pub ctime_ns: u32,
    pub inode: u64,
    pub device: u64,
    pub mode: u32,
    pub uid: u32,
}

/// Metadata of an open file, to see whether it changed.
pub fn metadata(file: &File) -> io::Result<Metadata> {
    Ok(Metadata::from(&fstat(file)?))
}

impl Metadata {
    /// The kind of the file, as a noun for messages.
    pub fn noun(&self) -> &'static str {
        match FileType::from_raw_mode(self.mode) {
            FileType::RegularFile => "file",
            FileType::Directory => "directory",
            FileType::Symlink => "symbolic link",
            FileType::Fifo => "FIFO",
            FileType::Socket => "socket",
            FileType::CharacterDevice | FileType::BlockDevice => "device",
            FileType::Unknown => "thing of an unknown kind",
        }
    }
}

impl From<&Stat> for Metadata {
    fn from(stat: &Stat) -> Self {
        Metadata {
            kind: kind(FileType::from_raw_mode(stat.st_mode)),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_s: stat.st_mtime,
            mtime_ns: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            ctime_s: stat.st_ctime,
            ctime_ns: u32::try_from(stat.st_ctime_nsec).unwrap_or(0),
            inode: stat.st_ino,
            device: stat.st_dev,
            mode: stat.st_mode,
            uid: stat.st_uid,
        }
    }
}

fn kind(file_type: FileType) -> Kind {
    match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn agrees_with_the_standard_library() {
        let scratch = Scratch::new();
        scratch.write("a", "hello");
        let file = File::open(scratch.path("a")).unwrap();
        let (ours, theirs) = (metadata(&file).unwrap(), file.metadata().unwrap());
        assert_eq!(
            (ours.kind, ours.size, ours.mode, ours.uid),
            (Kind::File, 5, theirs.mode(), theirs.uid())
        );
        assert_eq!(
            (ours.mtime_s, i64::from(ours.mtime_ns)),
            (theirs.mtime(), theirs.mtime_nsec())
        );
        assert_eq!(
            (ours.ctime_s, i64::from(ours.ctime_ns)),
            (theirs.ctime(), theirs.ctime_nsec())
        );
        assert_eq!((ours.inode, ours.device), (theirs.ino(), theirs.dev()));
        assert_eq!(
            metadata(&File::open("/dev/null").unwrap()).unwrap().kind,
            Kind::Other
        );
        assert_eq!(
            metadata(&File::open("/").unwrap()).unwrap().kind,
            Kind::Directory
        );
    }
}

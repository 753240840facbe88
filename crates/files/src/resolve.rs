//! From a root and a relative path to an open file.

use crate::{Stamp, Watcher};
use std::{fs::File, path::Path};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy {
    Follow,
    OwnerMatch,
    Inside,
    Never,
}

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

pub struct Resolved {
    /// Open for reading (files), or as a path (directories: usable for listing).
    pub file: File,
    pub metadata: Metadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// ENOENT, ENOTDIR, ENAMETOOLONG: 404.
    NotFound,
    /// EACCES, EPERM: 403.
    Denied,
    /// A link that the policy does not let pass: 403.
    LinkDenied,
    /// ELOOP: 403.
    LinkLoop,
    /// EMFILE, ENFILE: 503.
    Descriptors,
    /// Anything else (errno): 500.
    Io(i32),
}

/// Opens `root`/`relative`. `relative` has no empty, `.` or `..` component (it may have a trailing slash). Stamps of everything that the
/// outcome depends on are pushed whether it succeeds or not, so that failures can be kept too.
pub fn resolve(
    _watcher: &Watcher,
    _root: &Path,
    _relative: &[u8],
    _policy: LinkPolicy,
    _stamps: &mut Vec<Stamp>,
) -> Result<Resolved, ResolveError> {
    unimplemented!()
}

/// Metadata of an open file, to see whether it changed.
pub fn metadata(_file: &File) -> std::io::Result<Metadata> {
    unimplemented!()
}

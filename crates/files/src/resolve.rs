//! From a root and a relative path to an open file.
//!
//! Called by the pipeline's map_to_storage and by handlers. The walk itself is in `walk`; here are
//! the words, the link policies, and the opening of what the walk found. The difficulty: between
//! the walk and the opening the name may be given to something else, a FIFO that would block or a
//! link that leads out. So it is opened without following and without blocking, and must be the
//! very object that was walked to. Absent on purpose: percent-decoding and `..` in requests, which
//! `http` has dealt with.

use crate::{
    Kind, Metadata, Stamp, Watcher,
    open::open_unblocked,
    walk::{Found, Walk},
};
use rustix::{fs::OFlags, io::Errno};
use std::{fmt, fs::File, os::unix::ffi::OsStrExt, path::Path};

/// Longest relative path that is looked at (PATH_MAX).
const RELATIVE_BYTES_MAX: usize = 4096;

/// Number of times a path is walked again because it changed under our feet.
const ATTEMPTS_MAX: usize = 4;

/// What symbolic links below the root may do. Links in the root's own path are the administrator's
/// and always followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy {
    Follow,
    /// Followed if link and target belong to the same user.
    OwnerMatch,
    /// Followed if what they finally lead to lies beneath the root.
    Inside,
    Never,
}

#[derive(Debug)]
pub struct Resolved {
    /// Open for reading (files), or as a path (directories: usable with [`crate::read_directory`];
    /// other things: not at all).
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
    /// A link whose target is not there: 404 (403 in Apache).
    LinkDangling,
    /// EMFILE, ENFILE: 503.
    Descriptors,
    /// Anything else (errno): 500.
    Io(i32),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::NotFound => f.write_str("no such file or folder"),
            ResolveError::Denied => f.write_str("the server's user may not read it (permissions of the file or of a folder above it)"),
            ResolveError::LinkDenied => f.write_str("a symbolic link on the way is not followed (`symlinks`)"),
            ResolveError::LinkLoop => f.write_str("symbolic links lead in a circle"),
            ResolveError::LinkDangling => f.write_str("a symbolic link leads to what is not there"),
            ResolveError::Descriptors => f.write_str("no file descriptor is free"),
            ResolveError::Io(errno) => std::io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

impl From<Errno> for ResolveError {
    fn from(errno: Errno) -> Self {
        match errno {
            // EINVAL, EILSEQ: a name that this file system could not even hold.
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
                ResolveError::NotFound
            }
            Errno::ACCESS | Errno::PERM => ResolveError::Denied,
            Errno::LOOP => ResolveError::LinkLoop,
            Errno::MFILE | Errno::NFILE => ResolveError::Descriptors,
            other => ResolveError::Io(other.raw_os_error()),
        }
    }
}

/// Opens `root`/`relative`. `relative` has no empty, `.` or `..` component (it may have a trailing
/// slash). Stamps of everything that the outcome depends on are pushed whether it succeeds or not,
/// so that failures can be kept too. `root` is absolute; if it is a file, `relative` must be empty.
pub fn resolve(
    watcher: &Watcher,
    root: &Path,
    relative: &[u8],
    policy: LinkPolicy,
    stamps: &mut Vec<Stamp>,
) -> Result<Resolved, ResolveError> {
    let stamps_before = stamps.len();
    for _ in 0..ATTEMPTS_MAX {
        stamps.truncate(stamps_before);
        if let Some(outcome) = attempt(watcher, root, relative, policy, stamps) {
            return outcome;
        }
    }
    Err(ResolveError::Io(Errno::STALE.raw_os_error()))
}

/// `None` if the path changed while it was walked.
fn attempt(
    watcher: &Watcher,
    root: &Path,
    relative: &[u8],
    policy: LinkPolicy,
    stamps: &mut Vec<Stamp>,
) -> Option<Result<Resolved, ResolveError>> {
    match walk(watcher, root, relative, policy, stamps) {
        Ok(found) => open(found),
        Err(error) => Some(Err(error)),
    }
}

fn walk(
    watcher: &Watcher,
    root: &Path,
    relative: &[u8],
    policy: LinkPolicy,
    stamps: &mut Vec<Stamp>,
) -> Result<Found, ResolveError> {
    let root = root.as_os_str().as_bytes();
    if !root.starts_with(b"/") {
        return Err(ResolveError::Io(Errno::INVAL.raw_os_error()));
    }
    let is_outlandish = relative.len() > RELATIVE_BYTES_MAX || relative.contains(&0);
    if is_outlandish
        || relative
            .split(|byte| *byte == b'/')
            .any(|component| component == b"..")
    {
        return Err(ResolveError::NotFound);
    }
    let mut walk = Walk::from_slash(watcher, stamps)?;
    walk.along(root, LinkPolicy::Follow)?;
    walk.set_root();
    let outcome = walk.along(relative, policy);
    // Checked before an error is told, too: what exists outside is nobody's business.
    if policy == LinkPolicy::Inside && !walk.is_beneath_root() {
        return Err(ResolveError::LinkDenied);
    }
    outcome?;
    Ok(walk.found())
}

fn open(found: Found) -> Option<Result<Resolved, ResolveError>> {
    let Found::File {
        parent,
        name,
        metadata: walked,
    } = found
    else {
        let (Found::Directory { file, metadata } | Found::Other { file, metadata }) = found else {
            return None;
        };
        return Some(Ok(Resolved { file, metadata }));
    };
    let (file, metadata) = match open_unblocked(&parent, &name, OFlags::NOFOLLOW) {
        Ok(opened) => opened,
        // Gone, a link, or a socket by now.
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return None,
        Err(error) => return Some(Err(error.into())),
    };
    let is_the_same = metadata.kind == Kind::File
        && (metadata.device, metadata.inode) == (walked.device, walked.inode);
    is_the_same.then_some(Ok(Resolved { file, metadata }))
}

#[cfg(test)]
mod tests;

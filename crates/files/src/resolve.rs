//! Resolves a root and a relative path to an open file.
//!
//! Called by: the phase `map_to_storage`, and handlers. The walk itself is in `walk`; this module
//! opens its result.
//! Caveat: between walking and opening, the name may be given to something else, a FIFO that would
//! block or a link that leads out. So it is opened without following and without blocking, and must
//! be the very object that was walked to.
//! Out of scope: percent-decoding and `..` in requests, which `http` has handled.

use crate::{
    ChangeToken, Kind, LinkPolicy, Metadata, ResolveError, Watcher,
    open::open_unblocked,
    walk::{Found, Walk},
};
use rustix::{fs::OFlags, io::Errno};
use std::{fs::File, os::unix::ffi::OsStrExt, path::Path};

/// Longest relative path that is looked at (PATH_MAX).
const RELATIVE_BYTES_MAX: usize = 4096;

/// Number of times a path is walked again because it changed under our feet.
const ATTEMPTS_MAX: usize = 4;

#[derive(Debug)]
pub struct Resolved {
    /// Open for reading (files), or as a path (directories: usable with [`crate::read_directory`];
    /// other things: not at all).
    pub file: File,
    pub metadata: Metadata,
}

/// Opens `root`/`relative`. `relative` has no empty, `.` or `..` component (it may have a trailing
/// slash). Change tokens of everything that the outcome depends on are pushed whether it succeeds or not,
/// so that failures can be kept too. `root` is absolute; if it is a file, `relative` must be empty.
pub fn resolve(
    watcher: &Watcher,
    root: &Path,
    relative: &[u8],
    policy: LinkPolicy,
    tokens: &mut Vec<ChangeToken>,
) -> Result<Resolved, ResolveError> {
    let tokens_before = tokens.len();
    for _ in 0..ATTEMPTS_MAX {
        tokens.truncate(tokens_before);
        if let Some(outcome) = attempt(watcher, root, relative, policy, tokens) {
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
    tokens: &mut Vec<ChangeToken>,
) -> Option<Result<Resolved, ResolveError>> {
    match walk(watcher, root, relative, policy, tokens) {
        Ok(found) => open(found),
        Err(error) => Some(Err(error)),
    }
}

fn walk(
    watcher: &Watcher,
    root: &Path,
    relative: &[u8],
    policy: LinkPolicy,
    tokens: &mut Vec<ChangeToken>,
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
    let mut walk = Walk::from_slash(watcher, tokens)?;
    walk.along(root, LinkPolicy::Follow)?;
    walk.set_root();
    let outcome = walk.along(relative, policy);
    // Checked before an error is returned, too: the existence of files outside is not revealed.
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

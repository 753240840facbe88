//! New directories for another user, made by root in places that this user may be able to change.
//!
//! Called by: starts as root, for directories that the server's user writes to.
//! Caveat: between mkdir(2) and chown(2) the name can come to stand for something else, so the
//! directory is opened without following a link, and given away by its descriptor.
//! Out of scope: directories that were there before.

use rustix::{
    fs::{Dir, Mode, OFlags, fstat},
    process::geteuid,
};
use std::{io, os::fd::OwnedFd, path::Path};

/// Creates a directory and returns it, open: the caller's own, and empty.
///
/// # Errors
///
/// It exists, can't be created, or has been replaced since.
pub fn create(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(mode))?;
    let folder = open(path)?;
    match fstat(&folder)?.st_uid == geteuid().as_raw() && is_empty(&folder)? {
        true => Ok(folder),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another directory has its name by now",
        )),
    }
}

/// Opens a directory that is no link.
///
/// # Errors
///
/// There is no such directory.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn is_empty(folder: &OwnedFd) -> io::Result<bool> {
    for entry in Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_new_directories_and_no_links() {
        let dir = TempDir::private("folders").unwrap();
        let (new, link) = (dir.join("new"), dir.join("link"));
        create(&new, 0o700).unwrap();
        let again = create(&new, 0o700).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        symlink(&new, &link).unwrap();
        assert!(create(&link, 0o700).is_err() && open(&link).is_err());
        assert!(is_empty(&open(&new).unwrap()).unwrap());
        dir.write("new/file", "").unwrap();
        assert!(!is_empty(&open(&new).unwrap()).unwrap());
    }
}

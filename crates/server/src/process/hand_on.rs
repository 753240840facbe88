//! Hands files that an earlier run created as root or as another user to the server's user: the
//! server's own files and directories, never logs.
//!
//! Called by: `privileges` and `page_cache`, while the process is root.
//! Caveat: that other user could have placed anything there, so neither links nor files with a
//! second name are touched.

use rustix::{
    fs::{CWD, Dir, FileType, Mode, OFlags, fchown, fstat, openat},
    process::Uid,
};
use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// Maximum depth; the directories of a page cache have less.
const DEPTH_MAX: u32 = 8;

/// Owner and group of a folder that root keeps, and that only the server's own group may enter.
pub fn is_guard(uid: u32, gid: u32) -> bool {
    uid == 0 && saker_net::process::GUARD_GROUPS.contains(&gid)
}

/// Hands a file, or a directory with all of its content, to the user. Never follows links.
pub fn hand_on(path: &Path, uid: u32) {
    hand_on_in(CWD, path, uid);
}

/// The same for an entry of an open directory, whose own path another user may change.
pub fn hand_on_in(folder: BorrowedFd<'_>, path: &Path, uid: u32) {
    if let Ok(found) = CString::new(path.as_os_str().as_bytes())
        .map_err(io::Error::from)
        .and_then(|name| open_entry(folder, &name))
    {
        // Failures will repeat, and be reported, when the file is used.
        let _ = hand_on_entry(&found, uid, DEPTH_MAX);
    }
}

fn open_entry(folder: BorrowedFd<'_>, name: &CString) -> io::Result<OwnedFd> {
    Ok(openat(
        folder,
        name,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Goes into folders only where they were not the user's before: in those that were, so is
/// everything, since each start as root does this.
fn hand_on_entry(entry: &OwnedFd, uid: u32, depth: u32) -> io::Result<()> {
    let stat = fstat(entry)?;
    match FileType::from_raw_mode(stat.st_mode) {
        // Another hard link may be another user's file.
        FileType::RegularFile if stat.st_uid != uid && stat.st_nlink == 1 => give(entry, uid),
        FileType::Directory
            if depth > 0 && (stat.st_uid != uid || is_guard(stat.st_uid, stat.st_gid)) =>
        {
            for found in Dir::read_from(entry)? {
                let found = found?;
                let name = found.file_name().to_owned();
                if name.as_bytes() != b"." && name.as_bytes() != b".." {
                    // Links and sockets are left where they are.
                    let _ = open_entry(entry.as_fd(), &name)
                        .and_then(|inner| hand_on_entry(&inner, uid, depth - 1));
                }
            }
            // Last: until then no other user can change its content.
            match is_guard(stat.st_uid, stat.st_gid) {
                true => Ok(()),
                false => give(entry, uid),
            }
        }
        _ => Ok(()),
    }
}

fn give(entry: &OwnedFd, uid: u32) -> io::Result<()> {
    Ok(fchown(entry, Some(Uid::from_raw(uid)), None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, chown, symlink},
    };

    #[test]
    fn what_a_run_as_another_user_left_is_handed_on() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scratch = TempDir::private("unit").unwrap();
        let (folder, outside) = (scratch.join("acme"), scratch.join("outside"));
        fs::create_dir_all(folder.join("certificates")).unwrap();
        for path in [
            folder.join("account"),
            folder.join("certificates/a.pem"),
            outside.clone(),
        ] {
            fs::write(path, "").unwrap();
        }
        chown(folder.join("certificates"), Some(2), None).unwrap();
        chown(folder.join("certificates/a.pem"), Some(2), None).unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        fs::hard_link(&outside, folder.join("second")).unwrap();
        hand_on(&folder, 65_534);
        let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
        for path in [
            folder.clone(),
            folder.join("account"),
            folder.join("certificates"),
            folder.join("certificates/a.pem"),
        ] {
            assert_eq!(owner(&path), 65_534, "{}", path.display());
        }
        assert_eq!((owner(&outside), owner(&folder.join("link"))), (0, 0));
        hand_on(&folder.join("link"), 65_534);
        assert_eq!(owner(&outside), 0);
        hand_on(&scratch.join("missing"), 65_534);
    }
}

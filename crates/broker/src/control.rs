//! The control socket's file, which belongs to root: users with access, and removal.
//!
//! Called by: the server's start, as root; the loop (`serve`), when grants are committed and at the
//! server's end.
//! Caveat: the server's own group may write to the state directory, so entries are examined by
//! descriptor before they are changed.
//! Out of scope: binding, which happens before the change of user; the server's own check of
//! clients.

use crate::{acl, files, open};
use rustix::{
    fs::{
        AtFlags, FileType, FlockOperation, Mode, OFlags, XattrFlags, flock, fremovexattr,
        fsetxattr, fstat, openat, removexattr, setxattr, unlinkat,
    },
    io::Errno,
};
use saker_net::process::GUARD_GROUPS;
use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

pub const PID_FILE: &str = "saker.pid";
pub const SOCKET: &str = "control.sock";

/// Lets these users through a state directory to the control socket in it, and to nothing else;
/// others no more.
///
/// # Errors
/// The kernel's: no socket, or a file system without access control lists.
pub fn admit(directory: impl AsFd, users: &BTreeSet<u32>) -> io::Result<()> {
    let socket = openat(
        &directory,
        SOCKET,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let found = fstat(&socket)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket || found.st_nlink != 1 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "control.sock is not a socket",
        ));
    }
    // A descriptor without rights has no other name to set anything by (open(2), O_PATH).
    let socket = format!("/proc/self/fd/{}", socket.as_raw_fd());
    if users.is_empty() {
        return [
            fremovexattr(&directory, acl::ACCESS),
            removexattr(&socket, acl::ACCESS),
        ]
        .into_iter()
        .try_for_each(|removed| match removed {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            removed => Ok(removed?),
        });
    }
    let mode = fstat(&directory)?.st_mode;
    fsetxattr(
        &directory,
        acl::ACCESS,
        &acl::with_users(mode, users, 0o1),
        XattrFlags::empty(),
    )?;
    Ok(setxattr(
        &socket,
        acl::ACCESS,
        &acl::with_users(0o600, users, 0o6),
        XattrFlags::empty(),
    )?)
}

/// The same in a state directory by its path, for the broker.
pub fn admit_at(state_dir: &Path, users: &BTreeSet<u32>) -> io::Result<()> {
    admit(open_guarded(state_dir)?, users)
}

/// Removes the files that a server has left in its state directory, unless a successor has locked
/// it.
pub fn clean_up(state_dir: &Path) -> io::Result<()> {
    let directory = open_guarded(state_dir)?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = openat(&directory, PID_FILE, flags, Mode::empty())?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    files::remove_socket(&state_dir.join(SOCKET))?;
    Ok(unlinkat(&directory, PID_FILE, AtFlags::empty())?)
}

/// A directory that root keeps for the group of a server, or for itself.
fn open_guarded(path: &Path) -> io::Result<OwnedFd> {
    let directory = open::open(path, saker_net::privileged::Open::Directory)?;
    let found = fstat(&directory)?;
    match found.st_uid == 0 && (found.st_mode & 0o022 == 0 || GUARD_GROUPS.contains(&found.st_gid))
    {
        true => Ok(directory),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{}: others can write to it", path.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::{
            fs::{PermissionsExt, chown, symlink},
            net::UnixListener,
        },
        path::PathBuf,
    };

    /// Creates a state directory as a server leaves it: owned by root, for a group of its own.
    fn state(name: &str) -> Option<PathBuf> {
        let root = std::env::temp_dir().join(format!("saker-state-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o770)).unwrap();
        rustix::process::geteuid().is_root().then(|| {
            chown(&root, Some(0), Some(*GUARD_GROUPS.start())).unwrap();
            fs::write(root.join(PID_FILE), "1").unwrap();
            root
        })
    }

    #[test]
    fn users_reach_a_socket_and_nothing_in_its_place() {
        let Some(root) = state("admit") else { return };
        let socket = root.join(SOCKET);
        let listed =
            |path: &Path| rustix::fs::getxattr(path, acl::ACCESS, &mut [0_u8; 256][..]).is_ok();
        drop(UnixListener::bind(&socket).unwrap());
        match admit_at(&root, &[41_011].into()) {
            Err(error) if error.raw_os_error() == Some(95) => {
                return println!("left out: no access control lists here");
            }
            outcome => outcome.unwrap(),
        }
        assert!(listed(&root) && listed(&socket));
        admit_at(&root, &BTreeSet::new()).unwrap();
        assert!(!listed(&root) && !listed(&socket));
        // The server's user lays something else there.
        let secret = root.with_extension("secret");
        fs::write(&secret, "").unwrap();
        let place: [fn(&Path, &Path) -> io::Result<()>; 2] = [
            |from, to| symlink(from, to),
            |from, to| fs::hard_link(from, to),
        ];
        for lay in place {
            fs::remove_file(&socket).unwrap();
            lay(&secret, &socket).unwrap();
            assert!(admit_at(&root, &[41_011].into()).is_err());
            assert!(!listed(&secret));
        }
        chown(&root, Some(41_001), None).unwrap();
        assert!(
            admit_at(&root, &BTreeSet::new()).is_err(),
            "another user's directory"
        );
        fs::remove_dir_all(root).unwrap();
        fs::remove_file(secret).unwrap();
    }

    #[test]
    fn a_successors_files_stay() {
        let Some(root) = state("clean") else { return };
        let socket = root.join(SOCKET);
        drop(UnixListener::bind(&socket).unwrap());
        let successor = fs::File::open(root.join(PID_FILE)).unwrap();
        flock(&successor, FlockOperation::LockExclusive).unwrap();
        assert!(clean_up(&root).is_err() && socket.exists());
        // Closing is not enough: a program that another test is starting may hold a copy.
        flock(&successor, FlockOperation::Unlock).unwrap();
        clean_up(&root).unwrap();
        assert!(!socket.exists() && !root.join(PID_FILE).exists());
        fs::remove_dir_all(root).unwrap();
    }
}

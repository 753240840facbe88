//! Directories of the server's own, which no path of a site leads into: its state, with keys and
//! accounts, and the page cache.
//!
//! Called by: `walk` and `edit`, for each directory; `open`; the server at its start. Caveat: the server
//! itself opens them by their names, not by a walk.

use rustix::fs::{Stat, fstat, readlink, stat};
use std::{
    ffi::OsStr,
    fs::File,
    io,
    ops::RangeInclusive,
    os::{
        fd::{AsFd, AsRawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::OnceLock,
};

struct Private {
    /// Device and inode.
    state: (u64, u64),
    /// Groups that only servers hold: directories of root's with one of them are private, those of
    /// the page cache and of other servers included.
    groups: RangeInclusive<u32>,
}

static PRIVATE: OnceLock<Private> = OnceLock::new();

/// Keeps walks of this process out of its state directory, and out of all directories of root's with
/// one of these groups. Only the first call counts.
///
/// # Errors
/// The directory can't be looked at.
pub fn keep_private(state: impl AsFd, groups: RangeInclusive<u32>) -> io::Result<()> {
    let stat = fstat(state)?;
    let state = (stat.st_dev, stat.st_ino);
    let _ = PRIVATE.set(Private { state, groups });
    Ok(())
}

/// True for such a directory.
pub(crate) fn is_private(stat: &Stat) -> bool {
    let Some(private) = PRIVATE.get() else {
        return false;
    };
    // A folder of root's that others may enter is none, whatever number its group has.
    let is_guarded = || stat.st_uid == 0 && stat.st_mode & 0o007 == 0;
    (stat.st_dev, stat.st_ino) == private.state
        || private.groups.contains(&stat.st_gid) && is_guarded()
}

/// True if the open file has its name below such a directory now. One whose name can't be found out
/// counts as below one.
pub(crate) fn is_below_private(file: &File) -> bool {
    if PRIVATE.get().is_none() {
        return false;
    }
    let Ok(path) = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new()) else {
        return true;
    };
    Path::new(OsStr::from_bytes(path.to_bytes()))
        .ancestors()
        .skip(1)
        .any(|above| stat(above).is_ok_and(|found| is_private(&found)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkPolicy, ResolveError, Watcher, edit, open_public, resolve, scratch::Scratch};
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, chown},
    };

    #[test]
    fn no_link_leads_into_the_state_directory_or_a_guarded_one() {
        const GROUPS: RangeInclusive<u32> = 1_879_048_192..=2_147_483_646;
        let scratch = Scratch::new();
        for folder in ["state", "cache"] {
            scratch.write(&format!("{folder}/acme/key.pem"), "key");
            scratch.link(&format!("www/{folder}"), scratch.path(folder));
            let key = scratch.path(folder).join("acme/key.pem");
            scratch.link(&format!("www/{folder}.txt"), key);
        }
        scratch.link("www/up", "..");
        scratch.link("homes/pages", scratch.path("state"));
        scratch.write("homes/moved/inner", "");
        let watcher = Watcher::idle();
        let look = |path: &str| {
            let (root, path) = (scratch.path("www"), path.as_bytes());
            resolve(&watcher, &root, path, LinkPolicy::Follow, &mut Vec::new())
                .map(drop)
                .err()
        };
        let paths =
            |folder| ["", ".txt", "/acme", "/acme/key.pem"].map(|end| format!("{folder}{end}"));
        assert_eq!(look("state.txt"), None);
        let state = File::open(scratch.path("state")).unwrap();
        keep_private(&state, GROUPS).unwrap();
        // Stays open as a server's does: its inode must not become that of another test's folder.
        std::mem::forget(state);
        for path in paths("state")
            .iter()
            .chain(&["up/state/acme/key.pem".into()])
        {
            assert_eq!(look(path), Some(ResolveError::Denied), "{path}");
        }
        // The root itself lies in a tenant's folder, who can put a link in its place.
        for (root, path) in [
            ("homes/pages", "acme/key.pem"),
            ("homes/pages/acme", "key.pem"),
        ] {
            let (root, mut tokens) = (scratch.path(root), Vec::new());
            let found = resolve(
                &watcher,
                &root,
                path.as_bytes(),
                LinkPolicy::Never,
                &mut tokens,
            );
            assert_eq!(
                found.map(drop).err(),
                Some(ResolveError::Denied),
                "{root:?} {path}"
            );
        }
        // A root above it: WebDAV goes from folder to folder.
        let above = File::open(scratch.root()).unwrap();
        assert!(edit::enter_directory(&above, b"state").is_err());
        assert!(edit::enter_directory(&above, b"homes").is_ok());
        assert!(open_public(&scratch.path("www/state.txt")).is_err());
        assert!(open_public(&scratch.path("www/up/homes/moved/inner")).is_ok());
        assert_eq!(look("cache.txt"), None);
        if rustix::process::geteuid().is_root() {
            chown(scratch.path("cache"), Some(0), Some(*GROUPS.start())).unwrap();
            let close =
                |mode| fs::set_permissions(scratch.path("cache"), fs::Permissions::from_mode(mode));
            close(0o775).unwrap();
            assert_eq!(
                look("cache.txt"),
                None,
                "a folder of a group with such a number"
            );
            close(0o770).unwrap();
            for path in paths("cache") {
                assert_eq!(look(&path), Some(ResolveError::Denied), "{path}");
            }
        }
    }
}

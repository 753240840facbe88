//! Directories of the server's own, which no path of a site leads into: its state, with keys and
//! accounts, and the page cache.
//!
//! Called by: `walk`, for each directory below a root; the server at its start. Caveat: the server
//! itself opens them by their names, not by a walk.

use rustix::fs::{Stat, fstat};
use std::{io, ops::RangeInclusive, os::fd::AsFd, sync::OnceLock};

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
    (stat.st_dev, stat.st_ino) == private.state
        || stat.st_uid == 0 && private.groups.contains(&stat.st_gid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkPolicy, ResolveError, Watcher, resolve, scratch::Scratch};
    use std::{fs::File, os::unix::fs::chown};

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
        keep_private(File::open(scratch.path("state")).unwrap(), GROUPS).unwrap();
        for path in paths("state")
            .iter()
            .chain(&["up/state/acme/key.pem".into()])
        {
            assert_eq!(look(path), Some(ResolveError::Denied), "{path}");
        }
        assert_eq!(look("cache.txt"), None);
        if rustix::process::geteuid().is_root() {
            chown(scratch.path("cache"), Some(0), Some(*GROUPS.start())).unwrap();
            for path in paths("cache") {
                assert_eq!(look(&path), Some(ResolveError::Denied), "{path}");
            }
        }
    }
}

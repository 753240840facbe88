//! Link policies, and the errors of resolving a path.
//!
//! Called by: `walk` and `resolve`.

use rustix::io::Errno;
use std::fmt;

/// Policy for symbolic links below the root. Links in the root's own path are the administrator's
/// and always followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy {
    Follow,
    /// Followed if link and target belong to the same user.
    OwnerMatch,
    /// Followed if the final target lies beneath the root.
    Inside,
    Never,
}

/// Reason why a path cannot be served, with the status that handlers answer.
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
            ResolveError::Denied => f.write_str("the server's user may not read it (permissions of the file or of a folder above it), or it is in a state directory"),
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

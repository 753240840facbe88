//! Opens a path so that no user but root (and the user of a server that root did not start)
//! decides where it leads.
//!
//! Called by: the broker, for granted paths; the server itself, for logs that the broker does not
//! open, and for the rotation of logs. The path is walked name by name, each relative to the
//! descriptor of its directory. As long as only root can change the entries of a directory, links
//! are followed. From the first directory that another user can write to, no link is followed and
//! there is no way back up (as openat2(2) does with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS), and a
//! file found there must have a single name and belong to root or to the owner of its directory. So
//! neither the server's user nor the owner of a site can have a foreign file opened, or have the
//! server wait for the other end of a pipe.
//! Caveat: a directory whose access control list lets users write counts as theirs.
//! Out of scope: grants; owners and modes of existing files, which stay as they are.

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl, fgetxattr, fstat,
        fstatfs, getxattr, openat, readlinkat, statat,
    },
    io::Errno,
    process::{getegid, geteuid},
};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Component, Path, PathBuf},
};

/// The kernel's limit (path_resolution(7)).
const LINKS_MAX: u32 = 40;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_ALL: u32 = 0o002;
/// Links of procfs lead to open files of a process (linux/magic.h); the broker's are not the
/// server's.
const PROC_MAGIC: i64 = 0x9fa0;
/// Standard streams and their like: a link of root's to one is followed in any directory.
const STREAMS: [&str; 5] = [
    "/dev/stdout",
    "/dev/stderr",
    "/dev/null",
    "/proc/self/fd/1",
    "/proc/self/fd/2",
];
/// Attempts to make a log, which another process may make or remove at the same time.
const ATTEMPTS: usize = 8;
const SEARCH: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// The purpose that a path is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// A file that is read: configuration, certificate, key.
    Read,
    /// A log: for appending, made with this mode where it is missing.
    Append { mode: u32 },
    /// A directory whose names are read.
    Directory,
}

/// The process that opens, and the users it trusts in addition to root.
#[derive(Clone, Copy, Debug)]
pub struct Opener {
    /// The user and group of a server that root did not start: its directories are like root's.
    trusted: Option<(u32, u32)>,
    /// The server's user: its files are accepted in directories of others.
    owner: Option<u32>,
    is_server: bool,
}

/// The users who decide what stands in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    Root,
    /// Any user creates entries, but only their owner replaces them: root's entries stay root's.
    Sticky,
    Others,
}

/// The last name of a path, in its directory.
#[derive(Debug)]
pub struct Entry {
    pub directory: OwnedFd,
    pub name: OsString,
    pub trust: Trust,
    /// It is a link of procfs to an open file of this process, which the kernel alone can follow.
    pub is_open_file: bool,
}

impl Entry {
    /// Another name in the same directory.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn beside(&self, name: &OsStr) -> io::Result<Entry> {
        Ok(Entry {
            directory: self.directory.try_clone()?,
            name: name.to_owned(),
            trust: self.trust,
            is_open_file: false,
        })
    }

    /// The device and number of what has this name now; links are not followed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let found = statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((found.st_dev, found.st_ino))
    }
}

/// Opens a log for appending with the rights of this process. In a directory that only root can
/// change, it may be anything that can be written to; elsewhere it is a regular file as in [`check`].
///
/// # Errors
/// The kernel's, and refusals, which have no number.
pub fn open_log(path: &Path, mode: u32, has_broker: bool) -> io::Result<OwnedFd> {
    let opener = Opener::of_server(has_broker);
    let path = std::path::absolute(path)?;
    for _ in 1..ATTEMPTS {
        match opener.open_log(&path, mode) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                ) && path.parent().is_some_and(Path::exists) => {}
            outcome => return outcome,
        }
    }
    opener.open_log(&path, mode)
}

impl Opener {
    /// The broker, which is root and trusts no other user.
    pub const BROKER: Opener = Opener {
        trusted: None,
        owner: None,
        is_server: false,
    };

    /// This process as the server. With a broker its user is not trusted: programs run as that
    /// user, too, and have less than the server has.
    pub fn of_server(has_broker: bool) -> Opener {
        let user = geteuid().as_raw();
        Opener {
            trusted: (!has_broker && user != 0).then(|| (user, getegid().as_raw())),
            owner: Some(user),
            is_server: true,
        }
    }

    /// Opens a path.
    ///
    /// # Errors
    /// The kernel's, and refusals, which have no number.
    pub fn open(&self, path: &Path, how: Open) -> io::Result<OwnedFd> {
        named(path, self.open_entry(&self.find(path)?, how))
    }

    /// Looks whether [`Opener::open`] would, and opens and makes nothing.
    ///
    /// # Errors
    /// Those that [`Opener::open`] would have.
    pub fn examine(&self, path: &Path, how: Open) -> io::Result<()> {
        let entry = self.find(path)?;
        match statat(&entry.directory, &entry.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => self.check(&entry, &found, how),
            Err(Errno::NOENT) if matches!(how, Open::Append { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Walks to the directory of a path's last name, which may be missing.
    pub fn find(&self, path: &Path) -> io::Result<Entry> {
        if !path.is_absolute() {
            return refuse("not an absolute path");
        }
        let mut names = names(path);
        let (mut directory, mut trust) = self.root()?;
        let mut links = 0;
        let entry = |directory, name, trust, is_open_file| Entry {
            directory,
            name,
            trust,
            is_open_file,
        };
        while let Some(name) = names.pop() {
            if name == ".." && trust == Trust::Others {
                return refuse("`..` behind a directory that other users can write to");
            }
            let found = match statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) if names.is_empty() => {
                    return Ok(entry(directory, name, trust, false));
                }
                found => found?,
            };
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Symlink if names.is_empty() && self.is_open_file(&directory)? => {
                    return Ok(entry(directory, name, trust, true));
                }
                FileType::Symlink => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP.into());
                    }
                    let target = self.follow(&directory, &name, &found, trust)?;
                    if target.is_absolute() {
                        (directory, trust) = self.root()?;
                    }
                    names.extend(self::names(&target));
                }
                _ if names.is_empty() && name != ".." => {
                    return Ok(entry(directory, name, trust, false));
                }
                FileType::Directory => {
                    let next = openat(&directory, &name, self.search(), Mode::empty())?;
                    trust = self.enter(trust, &next)?;
                    directory = next;
                }
                _ => return Err(Errno::NOTDIR.into()),
            }
        }
        Ok(entry(directory, ".".into(), trust, false))
    }

    /// Opens what [`Opener::find`] has found, if it passes [`Opener::check`].
    ///
    /// # Errors
    /// The kernel's, and refusals, which have no number.
    pub fn open_entry(&self, entry: &Entry, how: Open) -> io::Result<OwnedFd> {
        let found = match statat(&entry.directory, &entry.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Some(found),
            Err(Errno::NOENT) if matches!(how, Open::Append { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        // Before it is opened, because opening a device may do something.
        if let Some(found) = &found {
            self.check(entry, found, how)?;
        }
        let (flags, mode) = match how {
            Open::Read => (OFlags::RDONLY, 0),
            Open::Directory => (OFlags::RDONLY | OFlags::DIRECTORY, 0),
            Open::Append { .. } if found.is_some() => (OFlags::WRONLY | OFlags::APPEND, 0),
            Open::Append { mode } => (
                OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL,
                mode & 0o777,
            ),
        };
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(
            &entry.directory,
            &entry.name,
            flags,
            Mode::from_raw_mode(mode),
        )?;
        self.check(entry, &fstat(&opened)?, how)?;
        fcntl_setfl(&opened, fcntl_getfl(&opened)? & !OFlags::NONBLOCK)?;
        Ok(opened)
    }

    /// Refuses what others may have laid there for this process to open.
    ///
    /// # Errors
    /// Refusals have no number.
    pub fn check(&self, entry: &Entry, found: &Stat, how: Open) -> io::Result<()> {
        match (FileType::from_raw_mode(found.st_mode), how) {
            (FileType::RegularFile, Open::Read | Open::Append { .. })
            | (FileType::Directory, Open::Directory) => {}
            (FileType::Fifo, Open::Append { .. }) if found.st_uid == 0 => {}
            (FileType::Directory, _) => return Err(Errno::ISDIR.into()),
            (FileType::RegularFile, _) => return Err(Errno::NOTDIR.into()),
            _ => return refuse("not a regular file"),
        }
        if entry.trust == Trust::Root {
            return Ok(());
        }
        if !matches!(how, Open::Directory) && found.st_nlink != 1 {
            return refuse("has several names, in a directory that other users can write to");
        }
        let is_owners = found.st_uid == 0
            || self.owner == Some(found.st_uid)
            || found.st_uid == fstat(&entry.directory)?.st_uid;
        match is_owners {
            true => Ok(()),
            false => refuse("belongs to neither root nor the owner of its directory"),
        }
    }

    fn open_log(&self, path: &Path, mode: u32) -> io::Result<OwnedFd> {
        let entry = self.find(path)?;
        if entry.trust != Trust::Root {
            return named(path, self.open_entry(&entry, Open::Append { mode }));
        }
        let mut flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
        if !entry.is_open_file {
            flags |= OFlags::CREATE | OFlags::NOFOLLOW;
        }
        let mode = Mode::from_raw_mode(mode & 0o777);
        Ok(openat(&entry.directory, &entry.name, flags, mode)?)
    }

    /// The server may enter directories whose names it may not read.
    fn search(&self) -> OFlags {
        match self.is_server {
            true => OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            false => SEARCH,
        }
    }

    fn root(&self) -> io::Result<(OwnedFd, Trust)> {
        let directory = openat(CWD, "/", self.search(), Mode::empty())?;
        let trust = self.enter(Trust::Root, &directory)?;
        Ok((directory, trust))
    }

    fn is_open_file(&self, directory: &OwnedFd) -> io::Result<bool> {
        Ok(self.is_server && is_procfs(directory)?)
    }

    fn follow(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
        link: &Stat,
        trust: Trust,
    ) -> io::Result<PathBuf> {
        let is_roots = link.st_uid == 0 && link.st_nlink == 1;
        let may_lead_anywhere = trust == Trust::Root || trust == Trust::Sticky && is_roots;
        if !(may_lead_anywhere || self.is_server && is_roots) {
            return refuse("a symbolic link in a directory that other users can write to");
        }
        if !self.is_server && is_procfs(directory)? {
            return refuse("a symbolic link of procfs");
        }
        let target = readlinkat(directory, name, Vec::new())?;
        if !may_lead_anywhere
            && !STREAMS
                .iter()
                .any(|stream| target.to_bytes() == stream.as_bytes())
        {
            return refuse("a symbolic link in a directory that other users can write to");
        }
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// The trust of a directory within one of `trust`.
    fn enter(&self, trust: Trust, directory: &OwnedFd) -> io::Result<Trust> {
        let found = fstat(directory)?;
        // No user makes entries of procfs.
        if trust == Trust::Others || self.is_server && is_procfs(directory)? {
            return Ok(trust);
        }
        let is_trusted = |(user, _)| user == found.st_uid;
        if found.st_uid != 0 && !self.trusted.is_some_and(is_trusted) {
            return Ok(Trust::Others);
        }
        let is_sticky = found.st_mode & STICKY != 0;
        let is_trusted = |(_, group)| group == found.st_gid;
        let open_to_group = || {
            found.st_gid != 0 && !self.trusted.is_some_and(is_trusted)
                || self.has_access_list(directory)
        };
        Ok(
            match found.st_mode & (WRITABLE_BY_GROUP | WRITABLE_BY_ALL) {
                0 => Trust::Root,
                WRITABLE_BY_GROUP if !open_to_group() => Trust::Root,
                _ if is_sticky => Trust::Sticky,
                _ => Trust::Others,
            },
        )
    }

    /// The mode's digit of the group is the list's mask then (acl(5)).
    fn has_access_list(&self, directory: &OwnedFd) -> bool {
        const ACCESS: &str = "system.posix_acl_access";
        let mut none = [0_u8; 0];
        let asked = match self.is_server {
            // A descriptor without rights has no other name to ask by (open(2), O_PATH).
            true => getxattr(
                format!("/proc/self/fd/{}", directory.as_raw_fd()),
                ACCESS,
                &mut none[..],
            ),
            false => fgetxattr(directory, ACCESS, &mut none[..]),
        };
        !matches!(asked, Err(Errno::NODATA | Errno::OPNOTSUPP))
    }
}

/// Names the path in a refusal.
fn named<T>(path: &Path, outcome: io::Result<T>) -> io::Result<T> {
    outcome.map_err(|error| match error.raw_os_error() {
        Some(_) => error,
        None => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
    })
}

fn is_procfs(directory: &OwnedFd) -> io::Result<bool> {
    Ok(fstatfs(directory)?.f_type as i64 == PROC_MAGIC)
}

/// The names of a path, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

fn refuse<T>(reason: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

#[cfg(test)]
#[path = "guarded_open_tests.rs"]
mod tests;

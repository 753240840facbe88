//! Opens a path as root, so that no user but root decides where it leads.
//!
//! Called by: the loop (`serve`), for granted paths. The path is walked name by name, each relative
//! to the descriptor of its directory. As long as only root can change the entries of a directory,
//! links are followed. From the first directory that another user can write to, no link is followed
//! and there is no way back up (as openat2(2) does with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS),
//! and a file found there must have a single name and belong to root or to the owner of its
//! directory. So neither the server's user nor the owner of a site can have a foreign file opened.
//! Caveat: a directory whose access control list lets users write counts as theirs.
//! Out of scope: grants; owners and modes of existing files, which stay as they are.

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl, fgetxattr, fstat,
        fstatfs, openat, readlinkat, statat,
    },
    io::Errno,
};
use saker_net::privileged::Open;
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
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
const SEARCH: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

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
}

/// Opens a granted path.
///
/// # Errors
/// The kernel's, and refusals, which have no number.
pub fn open(path: &Path, how: Open) -> io::Result<OwnedFd> {
    open_entry(&find(path)?, how).map_err(|error| match error.raw_os_error() {
        Some(_) => error,
        None => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
    })
}

/// Looks whether [`open`] would, and opens and makes nothing.
///
/// # Errors
/// Those that [`open`] would have.
pub fn examine(path: &Path, how: Open) -> io::Result<()> {
    let entry = find(path)?;
    match statat(&entry.directory, &entry.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => check(&entry, &found, how),
        Err(Errno::NOENT) if matches!(how, Open::Append { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Walks to the directory of a path's last name, which may be missing.
pub fn find(path: &Path) -> io::Result<Entry> {
    if !path.is_absolute() {
        return refuse("not an absolute path");
    }
    let mut names = names(path);
    let (mut directory, mut trust) = root()?;
    let mut links = 0;
    while let Some(name) = names.pop() {
        if name == ".." && trust == Trust::Others {
            return refuse("`..` behind a directory that other users can write to");
        }
        let found = match statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) if names.is_empty() => {
                return Ok(Entry {
                    directory,
                    name,
                    trust,
                });
            }
            found => found?,
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let target = follow(&directory, &name, &found, trust)?;
                if target.is_absolute() {
                    (directory, trust) = root()?;
                }
                names.extend(self::names(&target));
            }
            _ if names.is_empty() && name != ".." => {
                return Ok(Entry {
                    directory,
                    name,
                    trust,
                });
            }
            FileType::Directory => {
                let next = openat(&directory, &name, SEARCH, Mode::empty())?;
                trust = enter(trust, &next)?;
                directory = next;
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(Entry {
        directory,
        name: ".".into(),
        trust,
    })
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

fn root() -> io::Result<(OwnedFd, Trust)> {
    let directory = openat(CWD, "/", SEARCH, Mode::empty())?;
    let trust = enter(Trust::Root, &directory)?;
    Ok((directory, trust))
}

fn follow(directory: &OwnedFd, name: &OsStr, link: &Stat, trust: Trust) -> io::Result<PathBuf> {
    match trust {
        Trust::Root => {}
        Trust::Sticky if link.st_uid == 0 && link.st_nlink == 1 => {}
        Trust::Sticky | Trust::Others => {
            return refuse("a symbolic link in a directory that other users can write to");
        }
    }
    if fstatfs(directory)?.f_type as i64 == PROC_MAGIC {
        return refuse("a symbolic link of procfs");
    }
    let target = readlinkat(directory, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}

/// The trust of a directory within one of `trust`.
fn enter(trust: Trust, directory: &OwnedFd) -> io::Result<Trust> {
    let found = fstat(directory)?;
    if trust == Trust::Others || found.st_uid != 0 {
        return Ok(Trust::Others);
    }
    let is_sticky = found.st_mode & STICKY != 0;
    let open_to_group = || found.st_gid != 0 || has_access_list(directory);
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
fn has_access_list(directory: &OwnedFd) -> bool {
    !matches!(
        fgetxattr(directory, "system.posix_acl_access", &mut [0_u8; 0][..]),
        Err(Errno::NODATA | Errno::OPNOTSUPP)
    )
}

fn open_entry(entry: &Entry, how: Open) -> io::Result<OwnedFd> {
    let found = match statat(&entry.directory, &entry.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Some(found),
        Err(Errno::NOENT) if matches!(how, Open::Append { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    // Before it is opened, because opening a device may do something.
    if let Some(found) = &found {
        check(entry, found, how)?;
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
    check(entry, &fstat(&opened)?, how)?;
    fcntl_setfl(&opened, fcntl_getfl(&opened)? & !OFlags::NONBLOCK)?;
    Ok(opened)
}

fn check(entry: &Entry, found: &Stat, how: Open) -> io::Result<()> {
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
    match found.st_uid == 0 || found.st_uid == fstat(&entry.directory)?.st_uid {
        true => Ok(()),
        false => refuse("belongs to neither root nor the owner of its directory"),
    }
}

fn refuse<T>(reason: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;

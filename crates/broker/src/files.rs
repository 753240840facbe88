//! Socket files and the PidFile: binds sockets in place of dead ones, and removes what a server
//! leaves behind.
//!
//! Called by: the loop (`serve`), on request and at the server's end.
//! Caveat: a socket file is dead if no process listens on it. At the end this is checked twice,
//! because a successor may be between bind(2) and listen(2).
//! Out of scope: the state directory, which the server's lock guards.

use crate::open::{Entry, Trust, find};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, chmodat, openat, renameat, statat, unlinkat},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with},
};
use saker_net::privileged::beside;
use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsRawFd, BorrowedFd},
    path::{Path, PathBuf},
    time::Duration,
};

const PID_BYTES_MAX: u64 = 32;
/// Between the two questions to a socket file.
const BIND_TIME: Duration = Duration::from_millis(50);

/// Binds a Unix socket in a directory owned by root, in place of a dead socket's file, and sets the
/// file's mode.
pub fn bind_unix(socket: BorrowedFd<'_>, path: &Path, mode: u32) -> io::Result<()> {
    let entry = find(path)?;
    if entry.trust != Trust::Root {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{}: other users can write to its directory", path.display()),
        ));
    }
    let address = address(&entry)?;
    match bind(socket, &address) {
        Err(Errno::ADDRINUSE) if is_dead(&entry) => {
            unlinkat(&entry.directory, &entry.name, AtFlags::empty())?;
            bind(socket, &address)?;
        }
        outcome => outcome?,
    }
    // No client can connect before listen(2).
    Ok(chmodat(
        &entry.directory,
        &entry.name,
        Mode::from_raw_mode(mode & 0o777),
        AtFlags::empty(),
    )?)
}

/// Removes a socket's file.
pub fn remove_socket(path: &Path) -> io::Result<()> {
    let entry = find(path)?;
    match is_socket(&entry) {
        true => Ok(unlinkat(&entry.directory, &entry.name, AtFlags::empty())?),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{}: not a socket", path.display()),
        )),
    }
}

/// Removes a PidFile that still has this number in it.
pub fn remove_pid_file(path: &Path, pid: u32) -> io::Result<()> {
    let entry = entry_with_number(path, pid)?;
    Ok(unlinkat(&entry.directory, &entry.name, AtFlags::empty())?)
}

/// Gives the file beside a PidFile its name, if it has this number in it.
pub fn place_pid_file(path: &Path, pid: u32) -> io::Result<()> {
    let entry = entry_with_number(&beside(path), pid)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(renameat(
        &entry.directory,
        &entry.name,
        &entry.directory,
        name,
    )?)
}

/// Returns the place of a file that has this number in it.
fn entry_with_number(path: &Path, pid: u32) -> io::Result<Entry> {
    let entry = find(path)?;
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(&entry.directory, &entry.name, flags, Mode::empty())?);
    let mut text = String::new();
    if file.metadata()?.is_file() {
        file.take(PID_BYTES_MAX).read_to_string(&mut text)?;
    }
    match text.trim().parse() == Ok(pid) {
        true => Ok(entry),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{}: another server's", path.display()),
        )),
    }
}

/// Removes the files of a server that has gone, as far as they are still its own.
pub fn clean_up<'p>(
    pid: u32,
    pid_files: impl Iterator<Item = &'p PathBuf>,
    sockets: impl Iterator<Item = &'p PathBuf>,
) {
    pid_files.for_each(|path| drop(remove_pid_file(path, pid)));
    let is_left = |path: &&PathBuf| find(path).is_ok_and(|entry| is_dead(&entry));
    let left: Vec<&PathBuf> = sockets.filter(is_left).collect();
    if !left.is_empty() {
        std::thread::sleep(BIND_TIME);
        left.into_iter()
            .filter(is_left)
            .for_each(|path| drop(remove_socket(path)));
    }
}

fn is_socket(entry: &Entry) -> bool {
    let found = statat(&entry.directory, &entry.name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}

fn is_dead(entry: &Entry) -> bool {
    let probe = || -> rustix::io::Result<()> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(probe, &address(entry).map_err(|_| Errno::INVAL)?)
    };
    is_socket(entry) && probe() == Err(Errno::CONNREFUSED)
}

/// Addresses the socket by the directory's descriptor, which is shorter than any limit and leads
/// nowhere else.
fn address(entry: &Entry) -> io::Result<SocketAddrUnix> {
    let directory = format!("/proc/self/fd/{}", entry.directory.as_raw_fd());
    Ok(SocketAddrUnix::new(
        Path::new(&directory).join(&entry.name),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::{
            fd::{AsFd, OwnedFd},
            unix::{
                fs::{PermissionsExt, chown},
                net::{UnixListener, UnixStream},
            },
        },
    };

    fn folder(name: &str) -> Option<PathBuf> {
        let root = std::env::temp_dir().join(format!("saker-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        rustix::process::geteuid().is_root().then_some(root)
    }

    fn socket() -> OwnedFd {
        socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap()
    }

    #[test]
    fn a_socket_takes_the_place_of_a_dead_one() {
        let Some(root) = folder("sockets") else {
            return;
        };
        let path = root.join("web.sock");
        drop(UnixListener::bind(&path).unwrap());
        let ours = socket();
        bind_unix(ours.as_fd(), &path, 0o660).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o660
        );
        rustix::net::listen(&ours, 1).unwrap();
        UnixStream::connect(&path).unwrap();
        // Live sockets stay, and so do files that are not sockets.
        let error = bind_unix(socket().as_fd(), &path, 0o660).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        clean_up(1, [].iter(), [path.clone()].iter());
        assert!(path.exists());
        drop(ours);
        clean_up(1, [].iter(), [path.clone()].iter());
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        assert!(
            bind_unix(socket().as_fd(), &path, 0o660).is_err() && remove_socket(&path).is_err()
        );
        clean_up(1, [].iter(), [path.clone()].iter());
        assert!(path.exists());
        // Not where others decide what stands there.
        fs::remove_file(&path).unwrap();
        chown(&root, Some(41_001), None).unwrap();
        assert!(bind_unix(socket().as_fd(), &path, 0o660).is_err() && !path.exists());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_a_pid_file_of_this_server_is_removed() {
        let Some(root) = folder("pid") else { return };
        let path = root.join("pid");
        for (text, goes) in [
            ("12\n", true),
            ("13\n", false),
            ("", false),
            ("12 12", false),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(remove_pid_file(&path, 12).is_ok(), goes, "{text:?}");
            assert_eq!(path.exists(), !goes);
        }
        fs::remove_file(&path).unwrap();
        for (text, goes) in [("13\n", false), ("12\n", true)] {
            fs::write(root.join("pid.new"), text).unwrap();
            assert_eq!(place_pid_file(&path, 12).is_ok(), goes, "{text:?}");
            assert_eq!(path.exists(), goes);
        }
        fs::write(root.join("other"), "12").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("other", &path).unwrap();
        chown(&root, Some(41_001), None).unwrap();
        assert!(remove_pid_file(&path, 12).is_err() && root.join("other").exists());
        fs::remove_dir_all(root).unwrap();
    }
}

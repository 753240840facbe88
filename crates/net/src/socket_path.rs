//! Paths of Unix sockets that are longer than an address has room for.
//!
//! Called by: whatever binds or connects to a socket in a directory that the operator may choose.
//! Caveat: a longer path goes through `/proc/self/fd`, so it needs `/proc`, and the kernel reports
//! that path as the address. Out of scope: names that are too long by themselves.

use rustix::fs::{Mode, OFlags, open};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

/// `sun_path` holds 108 bytes, a NUL among them (unix(7)).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A path that fits an address and leads to the same socket.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    /// Keeps `/proc/self/fd/N` what it is.
    _directory: Option<OwnedFd>,
}

impl SocketPath {
    /// # Errors
    /// The directory of a long path can't be opened.
    pub fn new(socket: &Path) -> io::Result<SocketPath> {
        if socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
            return Ok(SocketPath {
                path: socket.to_owned(),
                _directory: None,
            });
        }
        let (Some(directory), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let directory = open(
            directory,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let path = Path::new("/proc/self/fd")
            .join(directory.as_raw_fd().to_string())
            .join(name);
        Ok(SocketPath {
            path,
            _directory: Some(directory),
        })
    }

    pub fn as_path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::net::{UnixListener, UnixStream},
    };

    #[test]
    fn a_path_that_fits_is_itself() {
        let path = format!("/{}", "x".repeat(SOCKET_PATH_BYTES_MAX - 1));
        assert_eq!(
            SocketPath::new(Path::new(&path)).unwrap().as_path(),
            Path::new(&path)
        );
        assert!(
            SocketPath::new(Path::new(&format!("{path}x")))
                .unwrap()
                .as_path()
                .starts_with("/proc/self/fd")
        );
    }

    #[test]
    fn a_longer_one_leads_to_the_same_socket() {
        let directory = std::env::temp_dir()
            .join(format!("saker-socket-path-{}", std::process::id()))
            .join("é".repeat(100));
        fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("php.sock");
        let listener = UnixListener::bind(SocketPath::new(&socket).unwrap().as_path()).unwrap();
        assert!(fs::symlink_metadata(&socket).is_ok());
        UnixStream::connect(SocketPath::new(&socket).unwrap().as_path()).unwrap();
        drop(listener);
        let missing = SocketPath::new(&directory.join("missing").join("php.sock"));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(directory.parent().unwrap()).unwrap();
    }
}

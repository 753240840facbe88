//! The state directory: who may own it, who runs in it, and where its control socket is.
//!
//! Opened before anything listens. `saker.pid` is the lock: whoever holds it (`flock(2)`) is the running server, so a socket that is
//! still there while the lock is free belongs to a dead one and is replaced.
//! Difficulty: the default directory of `saker serve` may lie in `/tmp`, where anyone can put a directory of that name first. So the
//! entry itself (not only what a link leads to) has to belong to us or to root, and nobody else may write into it.
//! Absent on purpose: the pid file is never trusted to say that a server runs; only the lock says so.

use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::{
    fmt,
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            fs::{DirBuilderExt, PermissionsExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

pub const PID_FILE: &str = "saker.pid";
pub const SOCKET: &str = "control.sock";

/// `sun_path` holds 108 bytes, a NUL among them.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// A client that asks whether a server runs holds the lock for an instant; a server that stops lets go of it last.
const LOCK_ATTEMPTS: u32 = 6;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub enum StateDirError {
    Io {
        path: PathBuf,
        doing: &'static str,
        error: io::Error,
    },
    NotDirectory(PathBuf),
    /// Belongs to somebody else.
    Foreign {
        path: PathBuf,
        owner: u32,
    },
    /// Others may write into it.
    Writable {
        path: PathBuf,
        mode: u32,
    },
    /// Another server holds the lock.
    Running {
        path: PathBuf,
        pid: Option<u32>,
    },
}

impl fmt::Display for StateDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateDirError::Io { path, doing, error } => write!(f, "state directory {}: cannot {doing}: {error}", path.display()),
            StateDirError::NotDirectory(path) => write!(f, "state directory {}: not a directory", path.display()),
            StateDirError::Foreign { path, owner } => {
                write!(
                    f,
                    "state directory {}: belongs to user {owner}, not to this user or root; name another with --state-dir",
                    path.display()
                )
            }
            StateDirError::Writable { path, mode } => {
                write!(f, "state directory {}: other users may write into it (mode {mode:04o}); chmod go-w it", path.display())
            }
            StateDirError::Running { path, pid: Some(pid) } => {
                write!(f, "already running with pid {pid} (state directory {})", path.display())
            }
            StateDirError::Running { path, pid: None } => write!(f, "already running (state directory {})", path.display()),
        }
    }
}

impl std::error::Error for StateDirError {}

/// An open state directory that passed the checks.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    dir: OwnedFd,
    created: bool,
}

impl StateDir {
    /// Creates it (mode 0700, parents too) if it is missing.
    pub fn open(path: &Path) -> Result<StateDir, StateDirError> {
        StateDir::open_for(path, None)
    }

    /// The directory may also belong to `service_uid`: the user that a server started as root changes to.
    pub fn open_for(path: &Path, service_uid: Option<u32>) -> Result<StateDir, StateDirError> {
        let failed = |doing| move |error: io::Error| StateDirError::Io { path: path.to_owned(), doing, error };
        let created = std::fs::symlink_metadata(path).is_err();
        if created {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create it"))?;
        }
        let owned = |uid: u32| is_ours(uid) || service_uid == Some(uid);
        let entry = fs::lstat(path).map_err(|errno| failed("look at it")(errno.into()))?;
        if !owned(entry.st_uid) {
            return Err(StateDirError::Foreign { path: path.to_owned(), owner: entry.st_uid });
        }
        let dir = match fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOTDIR) => return Err(StateDirError::NotDirectory(path.to_owned())),
            opened => opened.map_err(|errno| failed("open it")(errno.into()))?,
        };
        let stat = fs::fstat(&dir).map_err(|errno| failed("look at it")(errno.into()))?;
        if !owned(stat.st_uid) {
            return Err(StateDirError::Foreign { path: path.to_owned(), owner: stat.st_uid });
        }
        match stat.st_mode & 0o7777 {
            mode if mode & 0o022 != 0 => Err(StateDirError::Writable { path: path.to_owned(), mode }),
            _ => Ok(StateDir { path: path.to_owned(), dir, created }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Becomes the one server of this directory and writes the pid file.
    pub fn lock(self) -> Result<Lock, StateDirError> {
        let mut holder = None;
        for attempt in 0..LOCK_ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(LOCK_PAUSE);
            }
            match self.try_lock() {
                Ok(Attempt::Held(file)) => return Ok(Lock { state: self, file }),
                Ok(Attempt::Busy(pid)) => holder = pid,
                Err(error) => return Err(StateDirError::Io { path: self.path.clone(), doing: "lock saker.pid in it", error }),
            }
        }
        Err(StateDirError::Running { path: self.path.clone(), pid: holder })
    }

    fn try_lock(&self) -> io::Result<Attempt> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = std::fs::File::from(fs::openat(&self.dir, PID_FILE, flags, Mode::from(0o644))?);
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Attempt::Busy(read_pid(&mut file))),
            Err(errno) => return Err(errno.into()),
        }
        // A server that stopped meanwhile has removed the name, and our lock holds a file that nobody else will find.
        if !self.is_named(&file) {
            return Ok(Attempt::Busy(None));
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Attempt::Held(file))
    }

    fn is_named(&self, file: &std::fs::File) -> bool {
        match (fs::fstat(file), fs::statat(&self.dir, PID_FILE, AtFlags::SYMLINK_NOFOLLOW)) {
            (Ok(ours), Ok(named)) => (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
    }
}

enum Attempt {
    Held(std::fs::File),
    Busy(Option<u32>),
}

/// The right to run in a state directory. Keep it until the process ends: `saker stop` waits for it to be let go.
#[derive(Debug)]
pub struct Lock {
    state: StateDir,
    file: std::fs::File,
}

impl Lock {
    pub fn path(&self) -> &Path {
        self.state.path()
    }

    /// Binds the control socket (mode 0600, not blocking) in place of a dead server's.
    pub fn bind_control(&self) -> Result<UnixListener, StateDirError> {
        self.bind().map_err(|error| StateDirError::Io { path: self.path().to_owned(), doing: "bind control.sock in it", error })
    }

    fn bind(&self) -> io::Result<UnixListener> {
        self.remove_dead_socket()?;
        let path = SocketPath::new(self.path())?;
        let listener = UnixListener::bind(path.as_path())?;
        // Whoever connects before this line is still asked for credentials.
        std::fs::set_permissions(path.as_path(), std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Anything but a socket in its place is somebody's file, and stays.
    fn remove_dead_socket(&self) -> io::Result<()> {
        match fs::statat(&self.state.dir, SOCKET, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Socket => {
                Ok(fs::unlinkat(&self.state.dir, SOCKET, AtFlags::empty())?)
            }
            Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "something that is not a socket has its name")),
        }
    }
}

impl Drop for Lock {
    /// As far as it can: after a change of user the names may have to stay, and the next server copes with that.
    fn drop(&mut self) {
        let _ = self.remove_dead_socket();
        let _ = self.file.set_len(0);
        let _ = fs::unlinkat(&self.state.dir, PID_FILE, AtFlags::empty());
        if self.state.created {
            let _ = std::fs::remove_dir(&self.state.path);
        }
    }
}

/// Whether a server runs in `state_dir` now, and with which pid.
pub fn running(state_dir: &Path) -> Option<Running> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = std::fs::File::from(fs::open(state_dir.join(PID_FILE), flags, Mode::empty()).ok()?);
    match fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(Running { pid: read_pid(&mut file) }),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    pub pid: Option<u32>,
}

/// A path to the control socket that fits an address: through `/proc/self/fd` where the plain one is too long.
pub struct SocketPath {
    path: PathBuf,
    /// Keeps `/proc/self/fd/N` what it is.
    _dir: Option<OwnedFd>,
}

impl SocketPath {
    pub fn new(state_dir: &Path) -> io::Result<SocketPath> {
        let path = state_dir.join(SOCKET);
        if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
            return Ok(SocketPath { path, _dir: None });
        }
        let dir = fs::open(state_dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()));
        Ok(SocketPath { path, _dir: Some(dir) })
    }

    pub fn as_path(&self) -> &Path {
        &self.path
    }
}

/// Ours, or root's, who could do anything anyway.
fn is_ours(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn read_pid(file: &mut std::fs::File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
pub(crate) mod tests;

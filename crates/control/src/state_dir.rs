//! The state directory: its ownership, the lock of the running server, and the path of its control
//! socket.
//!
//! Called by: the server, before anything listens. `saker.pid` is the lock: its holder (`flock(2)`)
//! is the running server, so a socket that is still there while the lock is free belongs to a dead
//! server and is replaced. The default directory of `saker serve` may be in `/tmp`, where any user
//! can create a directory of that name first. So the entry itself (not only the target of a link)
//! has to belong to the server's user or to root, and no other user may have write access. A server
//! started by root protects its directory from the user that it switches to, because other
//! processes of that user (PHP, programs of sites) must not read its keys: only a group that this
//! server alone holds may enter.
//! Caveat: the content of the pid file is never taken as proof that a server runs; only the lock
//! is.

use crate::start_record;
use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::{
    cell::Cell,
    collections::BTreeSet,
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            fs::{DirBuilderExt, FileExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

pub use saker_broker::control::{PID_FILE, SOCKET};

/// The mark of a directory that is open to the group of the server's user (set-group-ID).
const SHARED: u32 = 0o2000;
/// Entries of state directories, and what a directory or a new file system has.
const OWN_ENTRIES: [&str; 8] = [
    ".",
    "..",
    "lost+found",
    PID_FILE,
    SOCKET,
    "acme",
    "authority",
    "cache",
];
/// Beginnings of other such names: keys, bans, files beside them, sockets of PHP.
const OWN_PREFIXES: [&str; 12] = [
    ".discovered.",
    "bans",
    "cluster.",
    "console",
    "discovered.",
    "guard.keys",
    "lsphp",
    "ocsp",
    "php",
    "saker",
    "session.key",
    "webdav-locks",
];
/// Clients that wait to be accepted.
const BACKLOG: i32 = 128;
/// A client that asks whether a server runs holds the lock for an instant; a server that stops lets
/// go of it last.
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
    /// It belongs to another user.
    Foreign {
        path: PathBuf,
        owner: u32,
    },
    /// Others may write into it.
    Writable {
        path: PathBuf,
        mode: u32,
    },
    /// A link that another user can have laid.
    Link(PathBuf),
    /// It is root's, and has something else in it.
    Occupied {
        path: PathBuf,
        entry: String,
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
            StateDirError::Io { path, doing, error } => write!(
                f,
                "state directory {}: cannot {doing}: {error}",
                path.display()
            ),
            StateDirError::NotDirectory(path) => {
                write!(f, "state directory {}: not a directory", path.display())
            }
            StateDirError::Foreign { path, owner } => {
                write!(
                    f,
                    "state directory {}: belongs to user {owner}, not to this user or root; name another with --state-dir",
                    path.display()
                )
            }
            StateDirError::Writable { path, mode } => {
                write!(
                    f,
                    "state directory {}: other users may write into it (mode {mode:04o}); chmod go-w it",
                    path.display()
                )
            }
            StateDirError::Link(path) => {
                write!(
                    f,
                    "state directory {}: a link that another user can change; name the directory itself",
                    path.display()
                )
            }
            StateDirError::Occupied { path, entry } => {
                write!(
                    f,
                    "state directory {}: has something else in it ({entry}), and would be closed to all but the server; name a directory of its own",
                    path.display()
                )
            }
            StateDirError::Running {
                path,
                pid: Some(pid),
            } => {
                let path = path.display();
                write!(
                    f,
                    "already running with pid {pid} (state directory {path}); to end it: saker stop --state-dir '{path}'"
                )
            }
            StateDirError::Running { path, pid: None } => {
                write!(f, "already running (state directory {})", path.display())
            }
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

    /// Opens or creates the directory. It may also belong to `service_uid`: the user that a server
    /// started as root switches to, which needs access through newly created parents.
    pub fn open_for(path: &Path, service_uid: Option<u32>) -> Result<StateDir, StateDirError> {
        let failed = |doing| {
            move |error: io::Error| StateDirError::Io {
                path: path.to_owned(),
                doing,
                error,
            }
        };
        let created = std::fs::symlink_metadata(path).is_err();
        if created {
            create(path, service_uid.is_some()).map_err(failed("create it"))?;
        }
        let owned = |uid: u32| is_ours(uid) || service_uid == Some(uid);
        let entry = fs::lstat(path).map_err(|errno| failed("look at it")(errno.into()))?;
        if !owned(entry.st_uid) {
            return Err(StateDirError::Foreign {
                path: path.to_owned(),
                owner: entry.st_uid,
            });
        }
        let is_link = FileType::from_raw_mode(entry.st_mode) == FileType::Symlink;
        let is_root = rustix::process::geteuid().is_root();
        if is_link && is_root && !is_roots_link(path, &entry) {
            return Err(StateDirError::Link(path.to_owned()));
        }
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, !is_link);
        let dir = match fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOTDIR) => return Err(StateDirError::NotDirectory(path.to_owned())),
            opened => opened.map_err(|errno| failed("open it")(errno.into()))?,
        };
        let stat = fs::fstat(&dir).map_err(|errno| failed("look at it")(errno.into()))?;
        if !owned(stat.st_uid) {
            return Err(StateDirError::Foreign {
                path: path.to_owned(),
                owner: stat.st_uid,
            });
        }
        // Ours from an earlier start: the group is held by the server alone ([`Lock::guard`]), or
        // is that of the server's user.
        let is_guarded = stat.st_uid == 0
            && saker_net::process::GUARD_GROUPS.contains(&stat.st_gid)
            && stat.st_mode & 0o002 == 0;
        let is_shared =
            stat.st_uid == 0 && stat.st_mode & 0o002 == 0 && is_shared(stat.st_mode, stat.st_gid);
        let mode = stat.st_mode & 0o7777;
        if mode & 0o022 != 0 && !is_guarded && !is_shared {
            return Err(StateDirError::Writable {
                path: path.to_owned(),
                mode,
            });
        }
        // About to be given to the server: the name may have led to a directory of the system.
        if is_root && service_uid.is_some() && stat.st_uid == 0 && !is_guarded && !is_shared {
            let stranger = stranger(&dir).map_err(failed("read it"))?;
            if let Some(entry) = stranger {
                let path = path.to_owned();
                return Err(StateDirError::Occupied { path, entry });
            }
        }
        Ok(StateDir {
            path: path.to_owned(),
            dir,
            created,
        })
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
                Ok(Attempt::Held(file)) => {
                    return Ok(Lock {
                        state: self,
                        file,
                        is_own: Cell::new(true),
                    });
                }
                Ok(Attempt::Busy(pid)) => holder = pid,
                Err(error) => {
                    return Err(StateDirError::Io {
                        path: self.path.clone(),
                        doing: "lock saker.pid in it",
                        error,
                    });
                }
            }
        }
        Err(StateDirError::Running {
            path: self.path.clone(),
            pid: holder,
        })
    }

    /// The lock of a server that goes on until this one serves: nothing is changed before
    /// [`Lock::take`]. `created`: that server has created the directory.
    pub fn share_lock(mut self, file: OwnedFd, created: bool) -> Lock {
        self.created = created;
        Lock {
            state: self,
            file: file.into(),
            is_own: Cell::new(false),
        }
    }

    fn try_lock(&self) -> io::Result<Attempt> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file =
            std::fs::File::from(fs::openat(&self.dir, PID_FILE, flags, Mode::from(0o644))?);
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Attempt::Busy(read_pid(&mut file))),
            Err(errno) => return Err(errno.into()),
        }
        // A server that stopped meanwhile has removed the name, and our lock holds a file that no
        // other process will find.
        if !self.is_named(&file) {
            return Ok(Attempt::Busy(None));
        }
        // Another name may be another user's.
        if !is_plain(&fs::fstat(&file)?) {
            return Err(io::Error::other("it is not a file with this name alone"));
        }
        file.set_len(0)?;
        match writeln!(file, "{}", std::process::id()) {
            // The lock holds without it, and a full disk is no reason not to serve.
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                ) =>
            {
                Err(error)
            }
            _ => Ok(Attempt::Held(file)),
        }
    }

    /// Returns true if it is the file that has the lock's name now.
    fn is_named(&self, file: &std::fs::File) -> bool {
        match (
            fs::fstat(file),
            fs::statat(&self.dir, PID_FILE, AtFlags::SYMLINK_NOFOLLOW),
        ) {
            (Ok(ours), Ok(named)) => (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
    }
}

enum Attempt {
    Held(std::fs::File),
    Busy(Option<u32>),
}

/// The right to run in a state directory. Keep it until the process ends: `saker stop` waits for it
/// to be let go.
#[derive(Debug)]
pub struct Lock {
    state: StateDir,
    file: std::fs::File,
    /// `false`: another server removes the files at its end.
    is_own: Cell<bool>,
}

impl Lock {
    pub fn path(&self) -> &Path {
        self.state.path()
    }

    /// The directory that was checked, whatever its path leads to by now.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.state.dir.as_fd()
    }

    /// A duplicate for a successor, and `true` if this server has created the directory.
    pub fn share(&self) -> io::Result<(OwnedFd, bool)> {
        Ok((self.file.try_clone()?.into(), self.state.created))
    }

    /// The files are the successor's: they stay.
    pub fn give(&self) {
        self.is_own.set(false);
    }

    /// The files are this server's from now on, which writes its number.
    pub fn take(&self) {
        self.is_own.set(true);
        let number = format!("{}\n", std::process::id());
        // As at a start: a full disk is no reason not to serve. The descriptor's place is shared
        // with the predecessor.
        let _ = self.file.set_len(0);
        let _ = self.file.write_all_at(number.as_bytes(), 0);
    }

    /// The group that guards the directory: that of an earlier start, or an unused one.
    pub fn guard_group(&self) -> u32 {
        let groups = saker_net::process::GUARD_GROUPS;
        let before = fs::fstat(&self.state.dir)
            .ok()
            .filter(|stat| stat.st_uid == 0)
            .map(|stat| stat.st_gid);
        before
            .filter(|gid| groups.contains(gid))
            .unwrap_or_else(|| {
                let random = RandomState::new().build_hasher().finish() as u32;
                groups.start() + random % (groups.end() - groups.start())
            })
    }

    /// Called as root: from now on only root and processes with this group can access the
    /// directory, even if another user owns it.
    pub fn guard(&self, gid: u32) -> io::Result<()> {
        fs::fchown(
            &self.state.dir,
            Some(rustix::process::Uid::ROOT),
            Some(rustix::process::Gid::from_raw(gid)),
        )?;
        Ok(fs::fchmod(&self.state.dir, Mode::from(0o770))?)
    }

    /// For root, if no group can guard the directory: opens it to the group of the server's user,
    /// and marks it, so that a later start knows why others may write to it.
    pub fn open_to(&self, gid: u32) -> io::Result<()> {
        fs::fchown(
            &self.state.dir,
            Some(rustix::process::Uid::ROOT),
            Some(rustix::process::Gid::from_raw(gid)),
        )?;
        Ok(fs::fchmod(&self.state.dir, Mode::from(0o770 | SHARED))?)
    }

    /// Called as root: gives the pid file to the server's user. Nothing else that a process with the
    /// server's group may have put in its place, and no file of a predecessor, whose it is already.
    pub fn give_pid_file(&self, uid: u32) -> io::Result<()> {
        if !self.is_own.get() {
            return Ok(());
        }
        let stat = fs::fstat(&self.file)?;
        let is_safe = is_plain(&stat)
            && (stat.st_uid == 0 || stat.st_uid == uid)
            && self.state.is_named(&self.file);
        match is_safe {
            true => Ok(fs::fchown(
                &self.file,
                Some(rustix::process::Uid::from_raw(uid)),
                None,
            )?),
            false => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "saker.pid is another user's, or has been replaced",
            )),
        }
    }

    /// Lets these users through the directory to the control socket, and to nothing else in it.
    /// After [`Lock::guard`].
    pub fn admit(&self, users: &BTreeSet<u32>) -> io::Result<()> {
        saker_broker::control::admit(&self.state.dir, users)
    }

    /// Binds the control socket (mode 0600, not blocking) in place of a dead server's.
    pub fn bind_control(&self) -> Result<UnixListener, StateDirError> {
        self.bind().map_err(|error| StateDirError::Io {
            path: self.path().to_owned(),
            doing: "bind control.sock in it",
            error,
        })
    }

    fn bind(&self) -> io::Result<UnixListener> {
        self.remove_dead_socket()?;
        let path = SocketPath::new(self.path())?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Before it has a name, which may lead to another file later. Where the kernel does not take
        // it, clients still have their credentials checked.
        let _ = fs::fchmod(&socket, Mode::RUSR | Mode::WUSR);
        net::bind(&socket, &SocketAddrUnix::new(path.as_path())?)?;
        net::listen(&socket, BACKLOG)?;
        Ok(socket.into())
    }

    /// Anything but a socket is left in place.
    fn remove_dead_socket(&self) -> io::Result<()> {
        match fs::statat(&self.state.dir, SOCKET, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Socket => {
                Ok(fs::unlinkat(&self.state.dir, SOCKET, AtFlags::empty())?)
            }
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "something that is not a socket has its name",
            )),
        }
    }
}

impl Drop for Lock {
    /// Removes the files as far as possible: after a change of user the names may have to stay, and
    /// the next server copes with that.
    fn drop(&mut self) {
        if !self.is_own.get() {
            return;
        }
        let _ = self.remove_dead_socket();
        let _ = self.file.set_len(0);
        let _ = fs::unlinkat(&self.state.dir, PID_FILE, AtFlags::empty());
        if self.state.created {
            let _ = std::fs::remove_dir(&self.state.path);
        }
    }
}

/// Returns the server that runs in `state_dir` now, with its pid, if there is one.
pub fn running(state_dir: &Path) -> Option<Running> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file =
        std::fs::File::from(fs::open(state_dir.join(PID_FILE), flags, Mode::empty()).ok()?);
    match fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(Running {
            pid: read_pid(&mut file),
        }),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    pub pid: Option<u32>,
}

/// A path to the control socket that fits an address, however long the state directory's is.
pub struct SocketPath(saker_net::socket_path::SocketPath);

impl SocketPath {
    pub fn new(state_dir: &Path) -> io::Result<SocketPath> {
        saker_net::socket_path::SocketPath::new(&state_dir.join(SOCKET)).map(SocketPath)
    }

    pub fn as_path(&self) -> &Path {
        self.0.as_path()
    }
}

/// Makes the directory, for its owner alone. `is_passed`: another user needs access through parents
/// that are made with it.
fn create(path: &Path, is_passed: bool) -> io::Result<()> {
    let make = |path: &Path, mode: u32| {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(path)
    };
    let parents = path
        .parent()
        .filter(|parent| is_passed && !parent.as_os_str().is_empty());
    parents.map_or(Ok(()), |parents| make(parents, 0o755))?;
    make(path, 0o700)
}

/// Root's link, at a place where no other user can put another.
fn is_roots_link(path: &Path, link: &Stat) -> bool {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::stat(parent.unwrap_or(Path::new(".")));
    link.st_uid == 0 && parent.is_ok_and(|parent| start_record::is_roots_alone(&parent))
}

/// A regular file with one name.
fn is_plain(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1
}

/// An entry that no server leaves in its state directory.
fn stranger(dir: &OwnedFd) -> io::Result<Option<String>> {
    for entry in fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        let is_known = OWN_ENTRIES.contains(&&*name)
            || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if !is_known {
            return Ok(Some(name.into_owned()));
        }
    }
    Ok(None)
}

/// Returns whether the directory belongs to that user.
fn is_shared(mode: u32, gid: u32) -> bool {
    mode & SHARED != 0
        && (rustix::process::geteuid().is_root() || rustix::process::getegid().as_raw() == gid)
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

//! Opens files and ports that this process may not open itself, through the broker: the part of the
//! server that keeps root (`saker-broker`).
//!
//! Called by: everything that opens what the configuration names and root alone may own (keys,
//! logs, configuration files and their directories, low ports). Each function tries by itself
//! first, and asks the broker only if the kernel denies permission; without a broker the denial is
//! final.
//! Out of scope: request paths. Nothing that a client, a document root or a `.htaccess` file can
//! name may come here.

pub use crate::guarded_open::Open;
use crate::guarded_open::{self, Entry, Opener};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fmt::Debug,
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    net::SocketAddr,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::{
            ffi::OsStringExt,
            fs::{MetadataExt, OpenOptionsExt},
        },
    },
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

/// The client's side of a broker. It decides by its own reading of the configuration.
pub trait Broker: Send + Sync + Debug {
    fn open(&self, path: &Path, how: Open) -> io::Result<OwnedFd>;
    /// Binds a TCP or UDP socket that has its options already.
    fn bind(&self, socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()>;
    /// Binds a Unix socket and gives its file this mode. Replaces the file of a server that is
    /// gone.
    fn bind_unix(&self, socket: BorrowedFd<'_>, path: &Path, mode: u32) -> io::Result<()>;
    /// Removes a socket's file, or a PidFile that has this process's number in it.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Gives a PidFile that was written beside its place ([`beside`]) its name.
    fn place_file(&self, path: &Path) -> io::Result<()>;
    /// Says whether it can't be asked any more.
    fn has_ended(&self) -> bool;
}

static BROKER: OnceLock<Box<dyn Broker>> = OnceLock::new();

/// Once, at start. Later calls change nothing.
pub fn set_broker(broker: Box<dyn Broker>) {
    let _ = BROKER.set(broker);
}

pub fn broker() -> Option<&'static dyn Broker> {
    BROKER.get().map(Box::as_ref)
}

/// Paths opened by the functions of this module while [`record`] was on, including those that did
/// not exist.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    pub files: BTreeSet<PathBuf>,
    pub directories: BTreeSet<PathBuf>,
}

static RECORDED: Mutex<Option<Recorded>> = Mutex::new(None);

/// Begins to note what is opened: a process of root's learns so what the configuration consists of.
pub fn record() {
    *RECORDED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Recorded::default());
}

/// Ends [`record`], and returns what was noted, as absolute paths.
pub fn recorded() -> Recorded {
    RECORDED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
        .unwrap_or_default()
}

fn note(path: &Path, is_directory: bool) {
    if let Some(recorded) = RECORDED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .as_mut()
        && let Ok(path) = std::path::absolute(path)
    {
        if is_directory {
            recorded.directories.insert(path)
        } else {
            recorded.files.insert(path)
        };
    }
}

/// Tries the broker where the kernel refused.
fn or_broker<T>(
    own: io::Result<T>,
    ask: impl FnOnce(&dyn Broker) -> io::Result<T>,
) -> io::Result<T> {
    match own {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            broker().map_or(Err(error), ask)
        }
        own => own,
    }
}

pub fn open(path: &Path) -> io::Result<File> {
    note(path, false);
    // A FIFO in place of a key must not block the open.
    let own = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    or_broker(own, |broker| broker.open(path, Open::Read).map(File::from))
}

/// For appending. Where there is a broker it opens every log, as Apache and nginx do it as root:
/// the file that is made is root's.
pub fn open_append(path: &Path, mode: u32) -> io::Result<File> {
    let own = || guarded_open::open_log(path, mode, broker().is_some()).map(File::from);
    match broker() {
        None => own(),
        // Logs that no configuration names one by one, and standard streams, are this user's to
        // open; what others may have laid in their place is refused once more.
        Some(broker) => broker
            .open(path, Open::Append { mode })
            .map(File::from)
            .or_else(|refused| {
                own().map_err(|own| match own.raw_os_error() {
                    None => own,
                    Some(_) => refused,
                })
            }),
    }
}

/// The manner in which the server opens what others may have laid there.
pub fn opener() -> Opener {
    Opener::of_server(broker().is_some())
}

/// Opens a file that a log was renamed to, for reading: by the broker where it is root's alone.
/// `path`: its absolute path, which has to lead to the same file.
pub fn open_renamed_log(entry: &Entry, path: &Path) -> io::Result<File> {
    let own = opener().open_entry(entry, Open::Read).map(File::from);
    let file = match own {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => broker()
            .map_or(Err(error), |broker| broker.open(path, Open::Read))
            .map(File::from)?,
        own => own?,
    };
    let found = file.metadata()?;
    match entry.identity()? == (found.dev(), found.ino()) {
        true => Ok(file),
        false => Err(io::Error::other("another file has this name")),
    }
}

/// Returns the metadata of the path's target; follows symbolic links.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    let found = std::fs::metadata(path);
    note(path, found.as_ref().is_ok_and(Metadata::is_dir));
    match found {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && broker().is_some() => {
            let opened = open(path)
                .or_else(|_| open_directory(path))
                .map_err(|_| error)?;
            opened.metadata()
        }
        found => found,
    }
}

/// A regular file's content.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut bytes = Vec::with_capacity(
        usize::try_from(found.size())
            .unwrap_or_default()
            .min(1 << 20),
    );
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "stream did not contain valid UTF-8",
        )
    })
}

/// The names in a directory, in any order.
pub fn list(path: &Path) -> io::Result<Vec<OsString>> {
    note(path, true);
    match std::fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && broker().is_some() => {
            names(open_directory(path).map_err(|_| error)?)
        }
        entries => entries?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect(),
    }
}

/// For what the kernel says of it, or of names in it.
pub fn open_directory(path: &Path) -> io::Result<File> {
    note(path, true);
    let own = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(path);
    or_broker(own, |broker| {
        broker.open(path, Open::Directory).map(File::from)
    })
}

fn names(directory: File) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    // Not opened once more: this user may not go through it.
    for entry in rustix::fs::Dir::new(OwnedFd::from(directory))? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

/// Binds a socket that has its options, by the broker where the port is root's. `shares`: another
/// socket of this server has a part of the address, perhaps from before it gave up root's rights;
/// the kernel lets sockets of one user share addresses.
pub(crate) fn bind_socket(
    socket: &socket2::Socket,
    address: SocketAddr,
    shares: bool,
) -> io::Result<()> {
    use std::os::fd::AsFd;
    let ask = |broker: &dyn Broker| broker.bind(socket.as_fd(), address);
    match (socket.bind(&address.into()), broker()) {
        (Err(error), Some(broker)) if shares && error.kind() == io::ErrorKind::AddrInUse => {
            ask(broker)
        }
        (own, _) => or_broker(own, ask),
    }
}

/// As the usual umask of 022 leaves it.
pub const SOCKET_MODE: u32 = 0o755;

/// Binds a Unix socket by `own`, and by the broker where the directory is root's. There the file of
/// a server that is gone is in the way of `own`, too.
pub(crate) fn bind_unix(
    socket: &socket2::Socket,
    path: &Path,
    mode: Option<u32>,
    own: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    use std::os::fd::AsFd;
    match (own(), broker()) {
        (Err(error), Some(broker))
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::AddrInUse
            ) =>
        {
            broker.bind_unix(socket.as_fd(), path, mode.unwrap_or(SOCKET_MODE))
        }
        (own, _) => own,
    }
}

/// Removes a socket's file or a PidFile of this process's: by the broker where the directory is
/// root's.
pub fn remove_file(path: &Path) -> io::Result<()> {
    or_broker(std::fs::remove_file(path), |broker| {
        broker.remove_file(path)
    })
}

/// The file beside `path` that is to take its place.
pub fn beside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Gives a file that was written beside its place its name: by the broker where the directory is
/// root's.
pub fn place_file(path: &Path) -> io::Result<()> {
    or_broker(std::fs::rename(beside(path), path), |broker| {
        broker.place_file(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_an_open_directory() {
        let folder = std::env::temp_dir().join(format!("saker-privileged-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("b")).unwrap();
        std::fs::write(folder.join("a"), "x").unwrap();
        let mut found = names(File::open(&folder).unwrap()).unwrap();
        found.sort();
        assert_eq!(found, ["a", "b"]);
        assert_eq!(read(&folder.join("a")).unwrap(), b"x");
        assert!(read(&folder).is_err() && read(&folder.join("none")).is_err());
        assert_eq!(list(&folder).unwrap().len(), 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

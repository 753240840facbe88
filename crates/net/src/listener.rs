//! Listening sockets: bound once by the main thread, registered with the event loop of each worker.
//!
//! Called by: the server at start and reload (`bind`, `BoundSocket`), and its workers (`Listener`).
//! Caveat: an accepted socket is returned *unregistered* ([`RawStream`]), so that a connection that
//! has already sent its request and closes after the response never costs an epoll_ctl.
//! Out of scope: limits, and pauses when descriptors run out; the caller sees the error and
//! decides.

use crate::{
    Bind, LocalAddress, PeerAddress, RawStream, privileged, socket_options, stream::Family,
};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags},
    io::Errno,
    net::{SocketAddrAny, SocketFlags},
};
use socket2::{Domain, SockAddr, Socket, Type};
use std::{
    cell::Cell,
    ffi::c_int,
    io,
    net::SocketAddr,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Maximum time the kernel holds back a connection that sends nothing (TCP_DEFER_ACCEPT); our own
/// header deadline takes over after it.
const DEFER_ACCEPT_S: c_int = 5;

/// Connections that died in the queue and are skipped by one [`Listener::try_accept`] before it
/// lets others run.
const ABORTED_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindOptions {
    /// Length of the accept queue; the kernel cuts it to net.core.somaxconn.
    pub backlog: u32,
    /// Several sockets on one address, among which the kernel spreads connections: one per worker.
    pub reuse_port: bool,
    /// Hand out a connection only when it has data. Not for protocols where the server speaks
    /// first.
    pub defer_accept: bool,
    /// For `[::]`: leave IPv4 alone, because another listener has the same port there. Otherwise
    /// `[::]` takes both.
    pub v6_only: bool,
    /// Another socket of this server has a part of the address, or all of it: with `reuse_port`.
    pub shares: bool,
    /// Size of the kernel's buffers, which then do not grow; `None`: the kernel chooses.
    pub send_buffer_bytes: Option<u32>,
    pub receive_buffer_bytes: Option<u32>,
}

impl Default for BindOptions {
    fn default() -> Self {
        BindOptions {
            backlog: 4096,
            reuse_port: false,
            defer_accept: false,
            v6_only: false,
            shares: false,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        }
    }
}

/// Binds and listens. The socket is non-blocking and closed on exec; connections accepted from it
/// have TCP_NODELAY.
pub fn bind(address: Bind<'_>, options: BindOptions) -> io::Result<BoundSocket> {
    match address {
        Bind::Tcp(address) => bind_tcp(address, options),
        Bind::Unix(path, mode) => bind_unix(path, mode, options),
    }
}

/// Returns an error if a socket already listens on the address. Clients cannot connect to the
/// socket bound here: it does not listen.
pub fn refuse_if_taken(address: SocketAddr, v6_only: bool) -> io::Result<()> {
    bound_tcp(
        address,
        BindOptions {
            v6_only,
            ..BindOptions::default()
        },
    )
    .map(drop)
}

/// A listening socket that no event loop knows yet. Dropping it closes it, and leaves the file of a
/// Unix socket where it is.
#[derive(Debug)]
pub struct BoundSocket {
    fd: OwnedFd,
    family: Family,
    name: Option<String>,
    file: Option<SocketFile>,
    /// Connections come out of a queue of this socket's own, and only with data.
    defers: bool,
    is_inherited: bool,
}

impl BoundSocket {
    /// From a descriptor that someone else bound (systemd). Refuses what isn't a listening stream
    /// socket of a family we speak.
    pub fn adopt(fd: OwnedFd, name: Option<String>) -> io::Result<Self> {
        let socket = Socket::from(fd);
        let family = match socket.domain()? {
            Domain::IPV4 | Domain::IPV6 => Family::Tcp,
            Domain::UNIX => Family::Unix,
            _ => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
        };
        if !socket.is_listener()? || socket.r#type()? != Type::STREAM {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
        if family == Family::Tcp {
            socket.set_tcp_nodelay(true)?;
        }
        Ok(BoundSocket {
            fd: socket.into(),
            family,
            name,
            file: None,
            defers: false,
            is_inherited: true,
        })
    }

    /// From a descriptor that another process of this program bound and hands over. `path`: of a
    /// Unix socket. `has_own_queue`: no other worker has the same one.
    ///
    /// # Errors
    /// Like [`BoundSocket::adopt`].
    pub fn inherit(fd: OwnedFd, path: Option<&Path>, has_own_queue: bool) -> io::Result<Self> {
        let mut socket = BoundSocket::adopt(fd, None)?;
        socket.is_inherited = false;
        socket.defers = has_own_queue && socket.family == Family::Tcp;
        socket.file = path.and_then(|path| SocketFile::at(path).ok());
        Ok(socket)
    }

    /// The name that systemd's socket unit gave (`FileDescriptorName=`), for sockets that came from
    /// there.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The same queue through another descriptor, for another worker where SO_REUSEPORT is not
    /// wanted (Unix, inherited sockets).
    pub fn try_clone(&self) -> io::Result<BoundSocket> {
        Ok(BoundSocket {
            fd: self.fd.try_clone()?,
            family: self.family,
            name: self.name.clone(),
            file: self.file.clone(),
            defers: false,
            is_inherited: self.is_inherited,
        })
    }

    pub fn local_address(&self) -> io::Result<LocalAddress> {
        let address = rustix::net::getsockname(&self.fd)?;
        if self.family == Family::Tcp {
            return Ok(LocalAddress::Ip(SocketAddr::try_from(address)?));
        }
        let address = rustix::net::SocketAddrUnix::try_from(address)?;
        let path = address
            .path()
            .map(|path| path.to_string_lossy().into_owned());
        Ok(LocalAddress::Unix(
            path.map(PathBuf::from).unwrap_or_default(),
        ))
    }

    /// Removes the file of a Unix socket, if it is still ours: a successor may have put its own in
    /// that place.
    pub fn unlink(&self) -> io::Result<()> {
        match &self.file {
            Some(file) if SocketFile::at(&file.path)? == *file => {
                privileged::remove_file(&file.path)
            }
            _ => Ok(()),
        }
    }
}

impl AsFd for BoundSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Result of taking from the queue.
#[derive(Debug)]
pub struct Accepted {
    pub stream: RawStream,
    pub peer: PeerAddress,
    /// Its first data was there when the event loop woke up for it. Data of others may have come
    /// since.
    pub by_wake_up: bool,
}

/// A listening socket on the event loop of this thread.
#[derive(Debug)]
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
    family: Family,
    defers: bool,
    /// The last look at the queue has seen it empty.
    is_drained: Cell<bool>,
    is_inherited: bool,
}

impl Listener {
    /// Must be called inside a tokio runtime with I/O enabled.
    #[allow(unsafe_code)]
    pub fn register(socket: BoundSocket) -> io::Result<Listener> {
        // SAFETY: the descriptor must stay open and the same for the life of the AsyncFd. It is an
        // OwnedFd, whose number never changes and which only its drop closes; the AsyncFd owns it,
        // lends it out by shared reference only, and deregisters before it drops it (guaranteed by
        // the types). Test: accepts_without_registering.
        let fd = unsafe { AsyncFd::register_with_interest(socket.fd, Interest::READABLE)? };
        Ok(Listener {
            fd,
            family: socket.family,
            defers: socket.defers,
            is_drained: Cell::new(true),
            is_inherited: socket.is_inherited,
        })
    }

    /// True if another process keeps the queue open (systemd): what waits in it is there for a
    /// successor.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Waits until the queue may hold a connection. Stays ready until [`Listener::try_accept`] has
    /// seen the queue empty.
    pub async fn readable(&self) -> io::Result<()> {
        let mut guard = self.fd.readable().await?;
        guard.retain_ready();
        Ok(())
    }

    /// Takes one connection; `WouldBlock` means wait, `Interrupted` call again, anything else
    /// (EMFILE, ENFILE, ENOBUFS, ENOMEM) pause: the connection stays in the queue and the listener
    /// stays readable.
    pub fn try_accept(&self) -> io::Result<Accepted> {
        let mut accepted = self
            .fd
            .try_io(Interest::READABLE, |fd| accept(fd, self.family));
        let is_drained = accepted
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        let was_drained = self.is_drained.replace(is_drained);
        if let Ok(accepted) = &mut accepted {
            accepted.by_wake_up = was_drained && self.defers;
        }
        accepted
    }
}

/// Which file our bind made, so that we remove no other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<SocketFile> {
        let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(SocketFile {
            path: path.to_owned(),
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }
}

fn bind_tcp(address: SocketAddr, options: BindOptions) -> io::Result<BoundSocket> {
    let socket = bound_tcp(address, options)?;
    socket.listen(backlog(options))?;
    Ok(BoundSocket {
        fd: socket.into(),
        family: Family::Tcp,
        name: None,
        file: None,
        defers: options.defer_accept && options.reuse_port,
        is_inherited: false,
    })
}

fn bound_tcp(address: SocketAddr, options: BindOptions) -> io::Result<Socket> {
    let socket = new_socket(Domain::for_address(address))?;
    if address.is_ipv6() {
        // Said in any case: net.ipv6.bindv6only may turn the default around.
        socket.set_only_v6(options.v6_only || !address.ip().is_unspecified())?;
    }
    // A restart must not wait for TIME_WAIT connections of its predecessor.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(options.reuse_port)?;
    // Linux copies this to accepted sockets: one call here instead of one per connection.
    socket.set_tcp_nodelay(true)?;
    // Before listening, so that accepted sockets offer the window that goes with it (tcp(7)).
    if let Some(bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    }
    if options.defer_accept {
        socket_options::set_defer_accept(&socket, DEFER_ACCEPT_S)?;
    }
    privileged::bind_socket(&socket, address, options.shares)?;
    Ok(socket)
}

fn bind_unix(path: &Path, mode: Option<u32>, options: BindOptions) -> io::Result<BoundSocket> {
    let socket = new_socket(Domain::UNIX)?;
    privileged::bind_unix(&socket, path, mode, || bind_own(&socket, path, mode))?;
    let file = SocketFile::at(path)?;
    socket.listen(backlog(options))?;
    Ok(BoundSocket {
        fd: socket.into(),
        family: Family::Unix,
        name: None,
        file: Some(file),
        defers: false,
        is_inherited: false,
    })
}

fn bind_own(socket: &Socket, path: &Path, mode: Option<u32>) -> io::Result<()> {
    let address = SockAddr::unix(path)?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse || !is_stale(path) {
            return Err(error);
        }
        std::fs::remove_file(path)?;
        socket.bind(&address)?;
    }
    if let Some(mode) = mode {
        // Clients cannot connect between bind and listen, so none gets in under the umask's mode.
        set_socket_mode(path, mode)?;
    }
    Ok(())
}

/// Sets the mode of a socket's file. In a directory of another user its name may lead to some other
/// file by now, which is left alone.
fn set_socket_mode(path: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket || found.st_nlink != 1 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another file has the socket's name",
        ));
    }
    // A descriptor without rights has no other name to set anything by (open(2), O_PATH).
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::chmod(name, Mode::from_raw_mode(mode))?)
}

fn new_socket(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, None)?; // close-on-exec
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn backlog(options: BindOptions) -> c_int {
    c_int::try_from(options.backlog).unwrap_or(c_int::MAX)
}

/// A socket file that refuses connections is a dead server's. Anything else (a file, a full queue,
/// no permission) is left alone. Two servers started in the same instant may both find it dead; the
/// later bind then wins, which is what a later start means.
fn is_stale(path: &Path) -> bool {
    let is_socket = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket);
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn accept(listening: &OwnedFd, family: Family) -> io::Result<Accepted> {
    for _ in 0..ABORTED_MAX {
        match rustix::net::acceptfrom_with(listening, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
        {
            Ok((fd, address)) => {
                return Ok(Accepted {
                    stream: RawStream::new(fd, family),
                    peer: peer(address),
                    by_wake_up: false,
                });
            }
            Err(error) if died_in_queue(error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

fn peer(address: Option<SocketAddrAny>) -> PeerAddress {
    address
        .and_then(|address| SocketAddr::try_from(address).ok())
        .map_or(PeerAddress::Unix, PeerAddress::Ip)
}

/// accept(2), "Error handling": pending network errors of the new connection are reported here and
/// affect no other connection.
fn died_in_queue(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNABORTED
            | Errno::INTR
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
    )
}

#[cfg(test)]
mod tests;

//! Connections: first raw, then registered with the event loop.
//!
//! Called by: the server's drivers and upstream connections.
//! Caveat: system calls are counted. A keep-alive request must cost one recv and one send: a read
//! that does not fill the buffer means the socket is drained (edge-triggered epoll), so the next
//! read waits without asking the kernel first.
//! Out of scope: timeouts and buffers, which belong to the driver; TLS, a layer above.

use crate::socket_options;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::{
    fs::File,
    io::{self, IoSlice},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// More buffers than this in one call are refused by Linux (EMSGSIZE); the rest goes with the next
/// call.
const IOV_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Tcp,
    Unix,
}

/// An open, non-blocking connection that no event loop knows: good for a request that is here
/// already and a response that fits the socket's buffer.
#[derive(Debug)]
pub struct RawStream {
    fd: OwnedFd,
    family: Family,
}

impl RawStream {
    pub(crate) fn new(fd: OwnedFd, family: Family) -> Self {
        RawStream { fd, family }
    }

    pub fn is_tcp(&self) -> bool {
        self.family == Family::Tcp
    }

    /// `Ok(0)` is the peer's end of stream (given a buffer that isn't empty).
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.fd, buf, RecvFlags::empty())?.1)
    }

    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.fd, buf, SendFlags::NOSIGNAL)?)
    }

    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        send_vectored(&self.fd, bufs, SendFlags::NOSIGNAL)
    }

    /// See [`Stream::local_address`].
    pub fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        local_address(&self.fd, self.family)
    }

    /// Puts the connection on the event loop of this thread (one epoll_ctl). Must be called inside
    /// a tokio runtime.
    pub fn register(self) -> io::Result<Stream> {
        match self.family {
            Family::Tcp => TcpStream::from_std(self.fd.into()).map(Stream::Tcp),
            Family::Unix => UnixStream::from_std(self.fd.into()).map(Stream::Unix),
        }
    }
}

impl AsFd for RawStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A connection on the event loop. Every `poll_` method that returns `Pending` has left the waker
/// where tokio finds it; there is one waker for reading and one for writing.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Takes the connection off the event loop.
    pub fn deregister(self) -> io::Result<RawStream> {
        Ok(match self {
            Stream::Tcp(stream) => RawStream::new(stream.into_std()?.into(), Family::Tcp),
            Stream::Unix(stream) => RawStream::new(stream.into_std()?.into(), Family::Unix),
        })
    }

    /// `Ready(Ok(0))` is the end of stream (given a buffer that isn't empty). Offer a buffer larger
    /// than what is expected: only a short read saves the extra recv that would find the socket
    /// empty.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buf),
        })?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// [`Stream::poll_read`] for a task that was woken because there is something to read: asks the
    /// kernel at once, without looking at the budget or leaving a waker, and only then waits. One
    /// atomic load beside the recv.
    pub fn poll_read_now(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_reading(cx, buf.len(), |fd| {
            Ok(rustix::net::recv(fd, &mut *buf, RecvFlags::empty())?.1)
        })
    }

    /// [`Stream::poll_read_now`] into the room behind what `buf` holds, of which there must be
    /// some; nothing is cleared first.
    pub fn poll_read_behind(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        self.poll_reading(cx, buf.capacity() - buf.len(), |fd| {
            Ok(rustix::net::recv(fd, spare_capacity(buf), RecvFlags::empty())?.0)
        })
    }

    /// Asks the kernel first, and waits if it has nothing.
    fn poll_reading(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        mut recv: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut read = None;
            // WouldBlock makes tokio forget the readiness, which after a short read is what we know
            // already.
            let outcome = self.reading(|fd| {
                let bytes = recv(fd)?;
                read = Some(bytes);
                if bytes == 0 || bytes == room {
                    Ok(bytes)
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                }
            });
            match (read, outcome) {
                (Some(bytes), _) => return Poll::Ready(Ok(bytes)),
                (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_readable(cx))?
                }
                (None, Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                (None, result) => return Poll::Ready(result),
            }
        }
    }

    /// Writes what the socket takes at once; `WouldBlock` where it takes nothing. Leaves no waker:
    /// go on with [`Stream::poll_write`].
    pub fn write_now(&self, buf: &[u8]) -> io::Result<usize> {
        let sent = rustix::net::send(self, buf, SendFlags::NOSIGNAL)?;
        if sent < buf.len() {
            // Full: the next `poll_write` must wait for readiness without a system call.
            let _: io::Result<usize> = self.writing(|_| Err(io::ErrorKind::WouldBlock.into()));
        }
        Ok(sent)
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    /// Like [`Stream::poll_write`], and tells the kernel that more follows at once (MSG_MORE): a
    /// head leaves in one packet with the file that [`Stream::poll_sendfile`] sends next. Without
    /// that next write the bytes leave after 200 ms.
    pub fn poll_send_more(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |fd| {
            Ok(rustix::net::send(
                fd,
                buf,
                SendFlags::NOSIGNAL | SendFlags::MORE,
            )?)
        })
    }

    /// [`Stream::poll_send_more`], but asks the kernel first and tokio only when the socket is
    /// full.
    pub fn poll_send_more_now(
        &mut self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match rustix::net::send(&*self, buf, SendFlags::NOSIGNAL | SendFlags::MORE) {
            Ok(sent) => Poll::Ready(Ok(sent)),
            Err(_) => self.poll_send_more(cx, buf),
        }
    }

    /// [`Stream::poll_send_more`] from several buffers.
    pub fn poll_send_more_vectored(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |fd| {
            send_vectored(fd, bufs, SendFlags::NOSIGNAL | SendFlags::MORE)
        })
    }

    /// Sends up to `count` bytes of `file` from `offset`. `Ready(Ok(0))` with `count > 0` means
    /// that the file ends there: it has shrunk.
    ///
    /// After a short write that has filled the socket, the next call waits without asking the
    /// kernel: an EAGAIN from sendfile costs as much as sending some pages, because it fetches them
    /// first. A short write may also mean that the file ended there, even if it has grown since: of
    /// a socket that has room, no event would ever say that it is writable again.
    pub fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut sent = None;
            let outcome = self.writing(|fd| {
                let mut from = offset;
                let bytes = rustix::fs::sendfile(fd, file, Some(&mut from), count)?;
                sent = Some(bytes);
                match bytes == count || has_room(fd) {
                    true => Ok(bytes),
                    false => Err(io::ErrorKind::WouldBlock.into()),
                }
            });
            match (sent, outcome) {
                (Some(bytes), _) => return Poll::Ready(Ok(bytes)),
                (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_writable(cx))?
                }
                (None, Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                (None, result) => return Poll::Ready(result),
            }
        }
    }

    /// Ready when there is something to read, the peer has closed its side, or the connection
    /// broke. Reads nothing: after a short read this tells, without a system call, that the client
    /// said more or went away while its response is being made.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => stream.poll_read_ready(cx),
            Stream::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => stream.poll_write_ready(cx),
            Stream::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// Sends our end of stream; reading goes on. Needed before a lingering close (RFC 9112 section
    /// 9.6). A connection that the peer has cut already is no error.
    pub fn shutdown_write(&self) -> io::Result<()> {
        match rustix::net::shutdown(self, Shutdown::Write) {
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// TCP_CORK: holds back partial packets until it is taken off. Prefer
    /// [`Stream::poll_send_more`], which costs no call of its own.
    pub fn set_cork(&self, corked: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => Ok(rustix::net::sockopt::set_tcp_cork(stream, corked)?),
            Stream::Unix(_) => Ok(()),
        }
    }

    /// Bytes written that the peer has not acknowledged (TCP) or read (Unix): how far behind a slow
    /// reader is.
    pub fn unsent_bytes(&self) -> io::Result<usize> {
        socket_options::unsent_bytes(self)
    }

    /// True if the connection is over both ways: the peer has reset it, or, on a Unix socket,
    /// closed its end. The end of the peer's stream alone does not count. A system call.
    pub fn is_hung_up(&self) -> bool {
        let mut watched = [PollFd::new(self, PollFlags::empty())];
        // HUP and ERR are told without being asked for (poll(2)).
        let told = rustix::event::poll(&mut watched, Some(&Timespec::default()));
        told.is_ok()
            && watched[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// The address that the client reached us at; `None` on Unix sockets.
    pub fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        local_address(
            self,
            if self.is_tcp() {
                Family::Tcp
            } else {
                Family::Unix
            },
        )
    }

    /// The address at the other end; `None` on Unix sockets, and where it is gone.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// Has the kernel look from time to time whether the other end is there (SO_KEEPALIVE).
    pub fn keep_alive(&self) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_keepalive(self, true)?)
    }

    pub fn is_tcp(&self) -> bool {
        matches!(self, Stream::Tcp(_))
    }

    /// Makes the close send a reset instead of waiting for the peer to take what is left: for peers
    /// that are being punished or are late.
    pub fn reset_on_drop(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => Ok(rustix::net::sockopt::set_socket_linger(
                stream,
                Some(std::time::Duration::ZERO),
            )?),
            Stream::Unix(_) => Ok(()),
        }
    }

    fn reading(&self, read: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_io(Interest::READABLE, || read(stream.as_fd())),
            Stream::Unix(stream) => stream.try_io(Interest::READABLE, || read(stream.as_fd())),
        }
    }

    /// `WouldBlock`, without a call of `write`, where the socket is not known to be writable.
    fn writing(
        &self,
        write: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_io(Interest::WRITABLE, || write(stream.as_fd())),
            Stream::Unix(stream) => stream.try_io(Interest::WRITABLE, || write(stream.as_fd())),
        }
    }

    /// Runs `write` whenever the socket is writable; WouldBlock clears the readiness, so that the
    /// loop ends in a wait.
    fn poll_writing(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_writable(cx))?;
            match self.writing(&write) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// True if the socket takes bytes now. Where it does not, the kernel will say so when it does again
/// (`tcp_poll` asks for that event).
fn has_room(fd: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::new(&fd, PollFlags::OUT)];
    rustix::event::poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn send_vectored(fd: impl AsFd, bufs: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    let bufs = bufs.get(..IOV_MAX).unwrap_or(bufs);
    Ok(rustix::net::sendmsg(
        fd,
        bufs,
        &mut SendAncillaryBuffer::default(),
        flags,
    )?)
}

fn local_address(fd: impl AsFd, family: Family) -> io::Result<Option<SocketAddr>> {
    match family {
        Family::Tcp => Ok(Some(SocketAddr::try_from(rustix::net::getsockname(fd)?)?)),
        Family::Unix => Ok(None),
    }
}

#[cfg(test)]
mod tests;

//! A connection to a program: a socket, plain or under TLS, or the pipes of a process. One verb
//! set, so that exchanges do not know what is below them.

use crate::{programs::Pipes, tls_stream::UpstreamTlsStream};
use saker_net::Stream;
use std::{
    cell::RefCell,
    io::{self, IoSlice},
    net::SocketAddr,
    task::{Context, Poll, Waker},
};

pub enum Transport {
    Socket(Stream),
    Tls(Box<UpstreamTlsStream>),
    Process(Pipes),
}

impl Transport {
    /// `Ok(0)` is the end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Socket(stream) => stream.poll_read_now(cx, buf),
            Transport::Tls(secured) => secured.poll_read(cx, buf),
            Transport::Process(pipes) => pipes.poll_read(cx, buf),
        }
    }

    /// The same into the room behind what `buf` holds. `scratch`: for what needs a cleared buffer.
    pub fn poll_read_behind(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        scratch: &RefCell<Box<[u8]>>,
    ) -> Poll<io::Result<usize>> {
        if let Transport::Socket(stream) = self {
            return stream.poll_read_behind(cx, buf);
        }
        let mut scratch = scratch.borrow_mut();
        let room = scratch.len().min(buf.capacity() - buf.len());
        let read = self.poll_read(cx, scratch.get_mut(..room).unwrap_or_default());
        if let Poll::Ready(Ok(bytes)) = read {
            buf.extend_from_slice(scratch.get(..bytes).unwrap_or_default());
        }
        read
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Socket(stream) => match stream.write_now(buf) {
                Ok(sent) => Poll::Ready(Ok(sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.poll_write(cx, buf)
                }
                Err(error) => Poll::Ready(Err(error)),
            },
            Transport::Tls(secured) => secured.poll_write(cx, buf),
            Transport::Process(pipes) => pipes.poll_write(cx, buf),
        }
    }

    /// True if content is sent from where it lies; else it is copied anyway.
    pub fn sends_in_place(&self) -> bool {
        matches!(self, Transport::Socket(_))
    }

    /// Writes of both, in their order.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Transport::Socket(stream) if !first.is_empty() => {
                stream.poll_write_vectored(cx, &[IoSlice::new(first), IoSlice::new(second)])
            }
            _ if first.is_empty() => self.poll_write(cx, second),
            _ => self.poll_write(cx, first),
        }
    }

    /// Nothing more will be written: where that is what ends the request's content, it is told now.
    pub fn end_writing(&mut self) {
        if let Transport::Process(pipes) = self {
            pipes.end_input();
        }
    }

    /// The data was complete: closing truncates nothing.
    pub fn finish(&mut self) {
        if let Transport::Process(pipes) = self {
            pipes.finish();
        }
    }

    /// Ready when everything that was taken has gone to the socket.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Socket(_) | Transport::Process(_) => Poll::Ready(Ok(())),
            Transport::Tls(secured) => secured.poll_flush(cx),
        }
    }

    /// Returns the address of the other end; `None`: it has none.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        match self {
            Transport::Socket(stream) => stream.peer_address(),
            Transport::Tls(secured) => secured.peer_address(),
            Transport::Process(_) => None,
        }
    }

    /// Returns the address of this end; `None`: it has none.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Transport::Socket(stream) => stream.local_address().ok().flatten(),
            Transport::Tls(secured) => secured.local_address(),
            Transport::Process(_) => None,
        }
    }

    /// Says that nothing more will be written; what comes can still be read.
    pub fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Transport::Socket(stream) => stream.shutdown_write(),
            Transport::Tls(secured) => secured.shutdown(),
            Transport::Process(pipes) => {
                pipes.end_input();
                Ok(())
            }
        }
    }

    /// True if an idle connection has ended, or speaks without being asked. No system call where
    /// nothing has happened.
    pub fn is_stale(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match self {
            Transport::Socket(stream) => stream.poll_readable(&mut cx).is_ready(),
            // What TLS says to itself (tickets for the next session) is no word of the server's.
            Transport::Tls(secured) => secured.poll_read(&mut cx, &mut [0]).is_ready(),
            // Never kept.
            Transport::Process(_) => true,
        }
    }
}

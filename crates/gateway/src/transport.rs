//! A connection to a program: a socket, plain or under TLS. One verb set, so that conversations do not know what is below them.

use crate::secured::Secured;
use saker_net::Stream;
use std::{
    io,
    task::{Context, Poll, Waker},
};

pub enum Transport {
    Socket(Stream),
    Tls(Box<Secured>),
}

impl Transport {
    /// `Ok(0)` is the end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Socket(stream) => stream.poll_read_now(cx, buf),
            Transport::Tls(secured) => secured.poll_read(cx, buf),
        }
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Socket(stream) => match stream.write_now(buf) {
                Ok(sent) => Poll::Ready(Ok(sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.poll_write(cx, buf),
                Err(error) => Poll::Ready(Err(error)),
            },
            Transport::Tls(secured) => secured.poll_write(cx, buf),
        }
    }

    /// Ready when everything that was taken has gone to the socket.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Socket(_) => Poll::Ready(Ok(())),
            Transport::Tls(secured) => secured.poll_flush(cx),
        }
    }

    /// Says that nothing more will be written; what comes can still be read.
    pub fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Transport::Socket(stream) => stream.shutdown_write(),
            Transport::Tls(secured) => secured.shutdown(),
        }
    }

    /// Whether an idle connection has ended, or speaks without being asked. No system call where nothing has happened.
    pub fn is_stale(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match self {
            Transport::Socket(stream) => stream.poll_readable(&mut cx).is_ready(),
            // What TLS says to itself (tickets for the next session) is no word of the server's.
            Transport::Tls(secured) => secured.poll_read(&mut cx, &mut [0]).is_ready(),
        }
    }
}

//! A connection that has changed its protocol: bytes pass both ways, and nobody here knows what
//! they mean.
//!
//! Left in [`Response::tunnel`](crate::Response::tunnel) by a handler whose other side has agreed
//! to change (RFC 9110 section 7.8); the driver says so to the client and is in charge of the bytes
//! from then on. Drivers show their client's end by the same trait, so that one relay serves all
//! protocols. Absent on purpose: buffers. Who reads lends one.

use std::{
    io,
    task::{Context, Poll},
};

/// One end. Each method may leave a waker, at most one for reading and one for writing; so one task
/// sees to both.
pub trait Tunnel {
    /// `Ok(0)` is the end of what comes; the other direction goes on.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Takes some of `buf`, at least a byte of it.
    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;

    /// Ready when everything that was taken has gone as far as it can be followed.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Nothing more will be written. Called once, after a flush.
    fn shutdown(&mut self) -> io::Result<()>;

    /// Ready when nothing has moved for too long. Asked after the others.
    fn poll_idle(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

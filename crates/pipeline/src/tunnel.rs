//! A connection that has switched protocols: bytes are relayed both ways without interpretation.
//!
//! Called by: the driver, which takes it from [`Response::tunnel`](crate::Response::tunnel) after a
//! handler's upstream has agreed to switch (RFC 9110 section 7.8), confirms the switch to the
//! client, and relays the bytes. Drivers implement the same trait for the client's end, so that one
//! relay serves all protocols.
//! Caveat: one task polls both directions, because each end stores at most one waker per direction.
//! Out of scope: buffers, which the relay provides.

use std::{
    io,
    task::{Context, Poll},
};

/// One end of a tunnel. Stores at most one waker for reading and one for writing, so a single task
/// must poll both.
pub trait Tunnel {
    /// Reads bytes. `Ok(0)` is the end of this direction; the other continues.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes at least one byte of `buf`.
    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;

    /// Ready once all written bytes have been passed on as far as this end can tell.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Closes the write direction. Called once, after a flush.
    fn shutdown(&mut self) -> io::Result<()>;

    /// Ready after the idle timeout. Polled after the other methods.
    fn poll_idle(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

//! The event loop's readiness state for a descriptor that is read elsewhere.
//!
//! Called by: workers, to detect changed files; `idle_streams`, which waits for it.
//! Caveat: the result is as of the loop's last poll, which reported everything that had happened
//! before it; a check costs one load.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    task::{Context, Poll, ready},
};
use tokio::io::{Interest, unix::AsyncFd};

#[derive(Debug)]
pub struct Readiness(AsyncFd<OwnedFd>);

impl Readiness {
    /// Must be called inside a tokio runtime with I/O enabled. The descriptor is duplicated.
    pub fn new(readable: impl AsFd) -> io::Result<Readiness> {
        let fd = readable.as_fd().try_clone_to_owned()?;
        // SAFETY: assumes that the descriptor stays open and the same until it is deregistered.
        // `AsyncFd` owns the `OwnedFd`, lends it by shared reference only, and deregisters before
        // it drops it. Test: `is_told_once_for_each_change`.
        #[allow(unsafe_code)]
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE)? };
        Ok(Readiness(fd))
    }

    /// Waits until it is readable. To be followed by reading until there is nothing left.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_read_ready(cx))?.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// True if it has become readable since the last call that said so. To be followed by reading
    /// until there is nothing left.
    pub fn take(&self) -> bool {
        let mut is_ready = false;
        // WouldBlock makes tokio forget the readiness; what comes from now on makes an event of its
        // own.
        let _: io::Result<()> = self.0.try_io(Interest::READABLE, |_| {
            is_ready = true;
            Err(io::ErrorKind::WouldBlock.into())
        });
        is_ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    #[tokio::test]
    async fn is_told_once_for_each_change() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        let readiness = Readiness::new(&reader).unwrap();
        assert!(!readiness.take());
        for _ in 0..2 {
            rustix::io::write(&writer, b"x").unwrap();
            let mut turns = 0;
            while !readiness.take() {
                turns += 1;
                assert!(turns < 10_000, "the event loop never told");
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
            assert!(!readiness.take(), "nothing has happened since");
        }
        drop(readiness);
        assert_eq!(rustix::io::read(&reader, &mut [0; 4]), Ok(2));
    }
}

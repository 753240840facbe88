//! A stream from which only so many bytes are received per command.
//!
//! Called by: `lib`, for each connection; `redis_log` refills the budget before a command.
//! Caveat: an exhausted budget ends the connection.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of one answer. 65 records of the longest kind are 8.5 MB.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone)]
pub struct Budget(Arc<AtomicU64>);

impl Budget {
    pub fn refill(&self) {
        self.0.store(ANSWER_BYTES_MAX, Ordering::Relaxed);
    }

    pub fn is_exhausted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

pub struct Bounded<S> {
    stream: S,
    budget: Budget,
}

pub fn bound<S>(stream: S) -> (Bounded<S>, Budget) {
    let budget = Budget(Arc::default());
    let bounded = Bounded {
        stream,
        budget: budget.clone(),
    };
    (bounded, budget)
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = (buffer.filled().len() - before) as u64;
        let left = self.budget.0.load(Ordering::Relaxed);
        self.budget
            .0
            .store(left.saturating_sub(bytes), Ordering::Relaxed);
        match bytes > 0 && bytes >= left {
            true => {
                // An error comes without bytes.
                buffer.set_filled(before);
                Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()))
            }
            false => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn read(bytes: u64) -> (io::Result<usize>, bool) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (mut stream, budget) = bound(tokio::io::repeat(b'x').take(bytes));
            budget.refill();
            let read = stream.read_to_end(&mut Vec::new()).await;
            (read, budget.is_exhausted())
        })
    }

    #[test]
    fn an_answer_has_a_limit() {
        let (most, is_exhausted) = read(ANSWER_BYTES_MAX - 1);
        assert_eq!(
            (most.ok(), is_exhausted),
            (Some(ANSWER_BYTES_MAX as usize - 1), false)
        );
        let (error, is_exhausted) = read(ANSWER_BYTES_MAX);
        assert!(error.is_err() && is_exhausted);
    }
}

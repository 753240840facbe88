//! A client that goes while its answer is made: nobody waits for that answer any more, so its making ends.
//!
//! Used by the walk. A request that is answered at once is not watched at all; one that waits costs nothing until something comes on its connection.
//! Difficulty: what comes may be the next request (pipelining), which is kept, up to a bound; beyond it we no longer look. The end of the
//! client's stream is taken for its leave, as nginx takes it: that a client only ends its half can't be told from that.

use super::{Connection, request_body::BodyState};
use saker_telemetry::Metric;
use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, ready},
};

/// Bytes of further requests that are taken while an answer is made.
const AHEAD_BYTES_MAX: usize = 64 << 10;

impl Connection {
    /// The outcome of `making`, or `None` if the client has gone before it. A body that is still coming is watched by whoever reads it. Once
    /// `outlives_client` is set, nobody looks any more.
    pub(super) async fn unless_gone<T>(
        &self,
        state: &RefCell<BodyState>,
        outlives_client: &Cell<bool>,
        making: impl Future<Output = T>,
    ) -> Option<T> {
        let mut making = pin!(making);
        poll_fn(|cx| {
            if let Poll::Ready(made) = making.as_mut().poll(cx) {
                return Poll::Ready(Some(made));
            }
            // Its reader may be in the middle of something, and sees the end itself.
            if !state.borrow().is_end() || outlives_client.get() {
                return Poll::Pending;
            }
            self.poll_gone(cx).map(|()| None)
        })
        .await
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut io = self.io.borrow_mut();
            if io.input.len() >= AHEAD_BYTES_MAX {
                return Poll::Pending;
            }
            if ready!(io.transport.poll_readable(cx)).is_err() {
                return Poll::Ready(());
            }
            let mut buffers = self.session.worker.buffers.borrow_mut();
            match ready!(io.transport.poll_read(cx, &mut buffers.read)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(bytes) => {
                    self.session.worker.counters.add(Metric::BytesIn, bytes as u64);
                    io.input.extend_from_slice(buffers.read.get(..bytes).unwrap_or_default());
                }
            }
        }
    }
}

//! Detects clients that disconnect while their response is being generated.
//!
//! Called by: `dispatch`. Requests answered at once are not watched; waiting ones cost nothing
//! until bytes arrive.
//! Caveat: arriving bytes may be the next request (pipelining); they are kept up to a limit, and
//! watching ends beyond it. The end of the client's stream is not a disconnect: a client may close
//! its half and wait for the response (RFC 9112 section 9.6), as scripts and health checks do, and
//! Apache serves it. Only a connection closed in both directions counts.
//! Out of scope: TCP reports an orderly closed socket only with the reset that our first bytes
//! provoke; the request continues until then.

use super::{connection::Connection, request_body::BodyState};
use saker_telemetry::Metric;
use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// Bytes of further requests that are taken while an answer is made.
const AHEAD_BYTES_MAX: usize = 64 << 10;
/// Polling interval for half-closed connections; no event reports a reset after the client's end
/// of stream.
const HALF_CLOSED_LOOK: Duration = Duration::from_millis(500);

/// Time of the next look at a half-closed connection.
type NextLook = Option<Pin<Box<Sleep>>>;

impl Connection {
    /// Returns the outcome of `making`, or `None` if the client disconnects first. A body that is
    /// still being received is watched by its reader; once `outlives_client` is set, nothing is
    /// watched. `making` stays where it is: moved in here, it would be copied, and take its room
    /// twice.
    pub(super) async fn unless_gone<T>(
        &self,
        state: &RefCell<BodyState>,
        outlives_client: &Cell<bool>,
        mut making: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let mut next_look = NextLook::None;
        poll_fn(|cx| {
            if let Poll::Ready(made) = making.as_mut().poll(cx) {
                return Poll::Ready(Some(made));
            }
            // Its reader may be in the middle of something, and sees the end itself.
            if !state.borrow().is_end() || outlives_client.get() {
                return Poll::Pending;
            }
            self.poll_gone(cx, &mut next_look).map(|()| None)
        })
        .await
    }

    fn poll_gone(&self, cx: &mut Context<'_>, next_look: &mut NextLook) -> Poll<()> {
        loop {
            if let Some(look) = next_look {
                ready!(look.as_mut().poll(cx));
                if self.io.borrow().transport.is_hung_up() {
                    return Poll::Ready(());
                }
                look.as_mut().reset(Instant::now() + HALF_CLOSED_LOOK);
                continue;
            }
            let mut io = self.io.borrow_mut();
            if io.input.len() >= AHEAD_BYTES_MAX {
                return Poll::Pending;
            }
            if ready!(io.transport.poll_readable(cx)).is_err() {
                return Poll::Ready(());
            }
            let mut buffers = self.session.worker.buffers.borrow_mut();
            match ready!(io.transport.poll_read(cx, &mut buffers.read)) {
                Err(_) => return Poll::Ready(()),
                Ok(0) if io.transport.is_hung_up() => return Poll::Ready(()),
                Ok(0) => *next_look = Some(Box::pin(sleep(HALF_CLOSED_LOOK))),
                Ok(bytes) => {
                    self.session
                        .worker
                        .counters
                        .add(Metric::BytesIn, bytes as u64);
                    io.input
                        .extend_from_slice(buffers.read.get(..bytes).unwrap_or_default());
                }
            }
        }
    }
}

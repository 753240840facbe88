//! Detects clients that disconnect while their response is being generated.
//!
//! Called by: `dispatch`, and `turn` where the source of a response pauses. Requests answered at once are not watched; waiting ones cost nothing
//! until bytes arrive.
//! Caveat: arriving bytes may be the next request (pipelining); they are kept up to a limit, and
//! watching ends beyond it. The end of the client's stream is not a disconnect: a client may close
//! its half and wait for the response (RFC 9112 section 9.6), as scripts and health checks do, and
//! Apache serves it. Only a connection closed in both directions counts, except where the
//! configuration says otherwise ([`ClientAbort`]), as nginx's does.
//! Out of scope: TCP reports an orderly closed socket only with the reset that our first bytes
//! provoke; the request continues until then.

use super::{connection::Connection, request_body::BodyState};
use saker_pipeline::ClientAbort;
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
pub(super) type NextLook = Option<Pin<Box<Sleep>>>;

impl Connection {
    /// Returns the outcome of `making`, or `None` if the client disconnects first. A body that is
    /// still being received is watched by its reader; where `client_abort` says so, nothing is
    /// watched. `making` stays where it is: moved in here, it would be copied, and take its room
    /// twice.
    pub(super) async fn unless_gone<T>(
        &self,
        state: &RefCell<BodyState>,
        client_abort: &Cell<ClientAbort>,
        mut making: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let mut next_look = NextLook::None;
        poll_fn(|cx| {
            if let Poll::Ready(made) = making.as_mut().poll(cx) {
                return Poll::Ready(Some(made));
            }
            // Its reader may be in the middle of something, and sees the end itself.
            let abort = client_abort.get();
            if !state.borrow().is_end() || abort == ClientAbort::Ignored {
                return Poll::Pending;
            }
            self.poll_gone(cx, &mut next_look, abort).map(|()| None)
        })
        .await
    }

    /// Ready when the client has left. Further requests of it are kept.
    pub(super) fn poll_gone(
        &self,
        cx: &mut Context<'_>,
        next_look: &mut NextLook,
        abort: ClientAbort,
    ) -> Poll<()> {
        let is_end_enough = abort.takes_end_of_stream();
        loop {
            if let Some(look) = next_look {
                if is_end_enough {
                    return Poll::Ready(());
                }
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
                Ok(0) if is_end_enough || io.transport.is_hung_up() => return Poll::Ready(()),
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

//! The life of an HTTP/1 connection: turns and dispatches until it closes, or continues as HTTP/2
//! or as a tunnel.
//!
//! Called by: `start`.

use super::{connection::Connection, step::Step, tunnel};
use crate::{h2, request::Cause};
use std::{future::poll_fn, rc::Rc, time::Duration};

/// Time during which bytes are read and discarded after the last response, so that a reset does not
/// destroy it on its way to the client (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

impl Connection {
    /// Runs the connection to its end.
    pub(super) async fn run(mut self) {
        let cause = loop {
            let mut step = poll_fn(|cx| self.poll_turn(cx)).await;
            while let Step::Dispatch(request) = step {
                step = match Box::pin(self.dispatch(*request)).await {
                    Some(next) => next,
                    None => poll_fn(|cx| self.poll_turn(cx)).await,
                };
            }
            match step {
                Step::Close(cause) => break cause,
                Step::Http2(beginning) => {
                    let (session, io) =
                        (self.session.hand_over(), self.io.borrow_mut().hand_over());
                    drop(self);
                    return Box::pin(h2::run(session, io, beginning)).await;
                }
                Step::Tunnel(beginning) => {
                    let (session, io) =
                        (self.session.hand_over(), self.io.borrow_mut().hand_over());
                    drop(self);
                    return Box::pin(tunnel::run(session, io, *beginning)).await;
                }
                Step::Dispatch(_) => {}
            }
        };
        self.session.worker.counters.increment(cause.metric());
        let mut io = self.io.borrow_mut().hand_over();
        match cause.lingers() {
            true => {
                let worker = Rc::clone(&self.session.worker);
                Box::pin(io.linger(&worker, LINGER, LINGER_BYTES_MAX)).await;
            }
            false
                if matches!(
                    cause,
                    Cause::WriteTimeout | Cause::Cut | Cause::Refused | Cause::Banned
                ) => {}
            false if cause == Cause::Gone => io.transport.answer_close_notify(),
            false => io.transport.send_close_notify(),
        }
    }
}

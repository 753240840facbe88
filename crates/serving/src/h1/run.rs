//! The life of an HTTP/1 connection: turns and dispatches until it closes, or continues as HTTP/2
//! or as a tunnel.
//!
//! Called by: `start`.

use super::{
    connection::Connection,
    idle,
    step::{DispatchRequest, Step},
    tunnel,
};
use crate::{
    h2,
    io::Io,
    request::{Cause, Session},
};
use std::{future::poll_fn, pin::Pin, rc::Rc, time::Duration};

/// Time during which bytes are read and discarded after the last response, so that a reset does not
/// destroy it on its way to the client (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// The end of a connection's HTTP/1.
enum End {
    /// It goes on as something else.
    Continued(Pin<Box<dyn Future<Output = ()>>>),
    Closed(Cause),
    /// It waits without a task, until a time.
    Idle(u64),
}

impl Connection {
    /// Runs the connection to its end. It lies in the future once, where the future is made: what an
    /// async function takes by value, it keeps beside what becomes of that.
    #[allow(
        clippy::manual_async_fn,
        reason = "an async function would hold the connection twice"
    )]
    pub(super) fn run(mut self) -> impl Future<Output = ()> {
        async move {
            let cause = match self.serve().await {
                End::Continued(rest) => {
                    drop(self);
                    return rest.await;
                }
                End::Closed(cause) => cause,
                End::Idle(until_ms) => {
                    let (session, io) = self.hand_over();
                    drop(self);
                    return idle::wait(session, io, until_ms);
                }
            };
            self.session.worker.counters.increment(cause.metric());
            if cause.lingers() {
                Box::pin(self.linger()).await;
            } else {
                self.say_goodbye(cause);
            }
        }
    }

    /// Turns and dispatches until neither is possible any more. Between two of them nothing is held
    /// but the connection.
    async fn serve(&mut self) -> End {
        loop {
            let step = poll_fn(|cx| self.poll_turn(cx)).await;
            let mut due = match self.take_step(step) {
                Ok(request) => Some(request),
                Err(end) => return end,
            };
            while let Some(request) = due.take() {
                let next = Box::pin(self.dispatch(request)).await;
                match next.map(|step| self.take_step(step)) {
                    Some(Ok(request)) => due = Some(request),
                    Some(Err(end)) => return end,
                    None => {}
                }
            }
        }
    }

    /// The request to dispatch, or the end.
    fn take_step(&mut self, step: Step) -> Result<Box<DispatchRequest>, End> {
        Err(match step {
            Step::Dispatch(request) => return Ok(request),
            Step::Close(cause) => End::Closed(cause),
            Step::Idle(until_ms) => End::Idle(until_ms),
            Step::Http2(beginning) => {
                let (session, io) = self.hand_over();
                End::Continued(Box::pin(h2::run(session, io, beginning)))
            }
            Step::Tunnel(beginning) => {
                let (session, io) = self.hand_over();
                End::Continued(Box::pin(tunnel::run(session, io, *beginning)))
            }
        })
    }

    fn hand_over(&mut self) -> (Session, Io) {
        (self.session.hand_over(), self.io.borrow_mut().hand_over())
    }

    async fn linger(&mut self) {
        let mut io = self.io.borrow_mut().hand_over();
        let worker = Rc::clone(&self.session.worker);
        io.linger(&worker, LINGER, LINGER_BYTES_MAX).await;
    }

    fn say_goodbye(&mut self, cause: Cause) {
        let mut io = self.io.borrow_mut().hand_over();
        match cause {
            Cause::WriteTimeout | Cause::Cut | Cause::Refused | Cause::Banned => {}
            Cause::Gone => io.transport.answer_close_notify(),
            _ => io.transport.send_close_notify(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<F>(_: impl FnOnce(Connection) -> F) -> usize {
        size_of::<F>()
    }

    fn bytes_of_dispatch<'a, F>(
        _: impl FnOnce(&'a mut Connection, Box<DispatchRequest>) -> F,
    ) -> usize {
        size_of::<F>()
    }

    /// The task of an idle connection is its future and a hundred bytes, in steps of 128.
    #[test]
    fn a_connection_lies_in_its_task_once() {
        let (connection, task) = (size_of::<Connection>(), bytes_of(Connection::run));
        assert!(task <= 288, "{task}, of which {connection}");
    }

    /// It is made and moved for each request that is dispatched.
    #[test]
    fn a_dispatch_is_not_large() {
        let bytes = bytes_of_dispatch(Connection::dispatch);
        assert!(bytes <= 3 << 10, "{bytes}");
    }
}

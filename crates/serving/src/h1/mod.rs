//! Drives HTTP/1 connections: bytes in, heads parsed, exchanges answered, bytes out.
//!
//! Place in the walk: top and bottom. A request that a resolved resource can answer is served
//! within one poll (`turn.rs`): one recv, one send, no allocation. Everything else becomes an
//! `Exchange` and takes the walk (`walk.rs`). The difficulty is to hold nothing while idle: buffers
//! belong to the worker and are borrowed only while there are bytes.

mod inbound;
mod outgoing;
mod request_body;
mod start;
mod tunnel;
mod turn;
mod upgrade;
mod walk;
mod watch;

pub use inbound::request_limits;
pub use start::{first_read, run};

use crate::{
    h2,
    io::Io,
    request::{Cause, Session},
};
use saker_http1::HeadScanner;
use saker_net::Deadline;
use std::{cell::RefCell, future::poll_fn, rc::Rc, time::Duration};
use turn::{Sending, Step};

/// One connection on the event loop.
struct Connection {
    session: Session,
    io: Rc<RefCell<Io>>,
    deadline: Rc<Deadline>,
    scanner: HeadScanner,
    /// The input holds bytes that nobody has looked at.
    unseen_input: bool,
    /// The last read took all there was.
    drained: bool,
    /// The head limit is running.
    in_head: bool,
    /// The server stops, and waits a moment for the first request of a connection that has just
    /// come.
    awaits_first: bool,
    /// The write limit is running.
    writing: bool,
    /// A response that is under way.
    sending: Option<Box<Sending>>,
}

/// How long we read on, and throw away, after our last response, so that a reset does not take it
/// from the client (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

impl Connection {
    fn new(session: Session, io: Io) -> Connection {
        let deadline = session.worker.deadlines.add();
        Connection {
            session,
            io: Rc::new(RefCell::new(io)),
            deadline,
            scanner: HeadScanner::default(),
            unseen_input: false,
            drained: false,
            in_head: false,
            awaits_first: false,
            writing: false,
            sending: None,
        }
    }

    async fn run(mut self) {
        let cause = loop {
            let mut step = poll_fn(|cx| self.poll_turn(cx)).await;
            while let Step::Walk(request) = step {
                step = match Box::pin(self.walk(*request)).await {
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
                Step::Walk(_) => {}
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
            false if cause == Cause::Gone => io.transport.answer_goodbye(),
            false => io.transport.say_goodbye(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A response that ends here was cut by the end of the worker; it has its line all the same.
        // A panic may hold the logs.
        if let Some(sending) = self.sending.take().filter(|_| !std::thread::panicking()) {
            sending.log_cut(&self.session);
        }
        self.session.worker.deadlines.remove(&self.deadline);
    }
}

fn now_ms() -> u64 {
    saker_net::clock::turn_ms()
}

//! Drives HTTP/1 connections: bytes in, heads parsed, exchanges answered, bytes out.
//!
//! Place in the walk: top and bottom. A request that a resolved resource can answer is served within one poll (`turn.rs`): one recv,
//! one send, no allocation. Everything else becomes an `Exchange` and takes the walk (`walk.rs`). The difficulty is to hold nothing while
//! idle: buffers belong to the worker and are borrowed only while there are bytes.

mod inbound;
mod io;
mod log;
mod outgoing;
mod pace;
mod request_body;
mod session;
mod start;
mod turn;
mod walk;

pub use start::start;

use crate::deadlines::Deadline;
use io::Io;
use saker_http::HeadIndex;
use saker_http1::HeadScanner;
use session::Session;
use std::{cell::RefCell, future::poll_fn, rc::Rc, time::Duration};
use turn::{Cause, Sending, Step};

/// Bytes asked for by one recv: more than a head usually has, so that a short read tells that the socket is drained.
const READ_BYTES: usize = 64 << 10;

/// What a worker lends to whichever of its connections has bytes.
pub struct Buffers {
    read: Box<[u8]>,
    out: Vec<u8>,
    index: HeadIndex,
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers { read: vec![0; READ_BYTES].into(), out: Vec::with_capacity(READ_BYTES), index: HeadIndex::default() }
    }
}

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
    /// The write limit is running.
    writing: bool,
    /// A response that is under way.
    sending: Option<Box<Sending>>,
}

/// How long we read on, and throw away, after our last response, so that a reset does not take it from the client (RFC 9112 section 9.6).
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
            if let Step::Close(cause) = step {
                break cause;
            }
        };
        self.session.worker.counters.increment(cause.metric());
        if cause.lingers() {
            Box::pin(self.linger()).await;
        }
    }

    async fn linger(&mut self) {
        let io = Rc::clone(&self.io);
        if io.borrow().stream.shutdown_write().is_err() {
            return;
        }
        let worker = Rc::clone(&self.session.worker);
        let mut left = LINGER_BYTES_MAX;
        let drain = poll_fn(|cx| io.borrow_mut().poll_discard(cx, &worker, &mut left));
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A response that ends here was cut by the end of the worker; it has its line all the same. A panic may hold the logs.
        if let Some(sending) = self.sending.take().filter(|_| !std::thread::panicking()) {
            sending.log_cut(&self.session);
        }
        self.session.worker.deadlines.remove(&self.deadline);
    }
}

impl Cause {
    /// Whether the client may still be sending, so that closing at once could take our last response from it.
    fn lingers(&self) -> bool {
        matches!(self, Cause::Rejected | Cause::Unread | Cause::HeadTimeout)
    }
}

fn now_ms() -> u64 {
    saker_net::clock::turn_ms()
}

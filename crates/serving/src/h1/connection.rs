//! The state of an HTTP/1 connection.
//!
//! Called by: everything beside it, by subject: `turn`, `dispatch`, `watch`, `run`.
//! Caveat: it owns no buffers while idle.

use super::step::Sending;
use crate::{io::Io, request::Session};
use saker_http1::HeadScanner;
use saker_net::Deadline;
use saker_telemetry::Metric;
use std::{cell::RefCell, rc::Rc};

/// One connection on the event loop.
pub struct Connection {
    pub(super) session: Session,
    pub(super) io: Rc<RefCell<Io>>,
    pub(super) deadline: Rc<Deadline>,
    /// Set while a head comes in pieces.
    pub(super) scanner: Option<Box<HeadScanner>>,
    /// The input holds bytes that have not been parsed.
    pub(super) unseen_input: bool,
    /// The last read took all there was.
    pub(super) drained: bool,
    /// The head limit is running.
    pub(super) in_head: bool,
    /// The server stops, and waits a moment for the first request of a connection that has just
    /// come.
    pub(super) awaits_first: bool,
    /// The write limit is running.
    pub(super) writing: bool,
    /// The response being sent.
    pub(super) sending: Option<Box<Sending>>,
}

impl Connection {
    pub(super) fn new(session: Session, io: Io) -> Connection {
        let deadline = session.worker.deadlines.add();
        Connection {
            session,
            io: Rc::new(RefCell::new(io)),
            deadline,
            scanner: None,
            unseen_input: false,
            drained: false,
            in_head: false,
            awaits_first: false,
            writing: false,
            sending: None,
        }
    }
}

impl Connection {
    /// Notes that the head limit runs, or does not. Status pages count such connections.
    pub(super) fn set_in_head(&mut self, is_in_head: bool) {
        let counters = &self.session.worker.counters;
        match (self.in_head, is_in_head) {
            (false, true) => counters.add(Metric::ConnectionsReading, 1),
            (true, false) => counters.subtract(Metric::ConnectionsReading, 1),
            _ => {}
        }
        self.in_head = is_in_head;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.set_in_head(false);
        // The worker's end cuts this response; it is logged all the same. After a panic the logs
        // may be borrowed.
        if let Some(sending) = self.sending.take().filter(|_| !std::thread::panicking()) {
            sending.log_cut(&self.session);
        }
        self.session.worker.deadlines.remove(&self.deadline);
    }
}

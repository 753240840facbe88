//! Time without a byte, for both ends of a session.
//!
//! Called by: `tcp`, and `datagrams`.
//! Caveat: exact to a tick of the worker's ticker.

use saker_net::{Deadline, Deadlines, clock};
use std::{
    rc::Rc,
    task::{Context, Poll},
};

/// A limit that each byte moves.
pub struct IdleLimit {
    deadlines: Rc<Deadlines>,
    deadline: Rc<Deadline>,
    limit_ms: u64,
}

impl IdleLimit {
    pub fn new(deadlines: &Rc<Deadlines>, limit_ms: u64) -> IdleLimit {
        let limit = IdleLimit {
            deadlines: Rc::clone(deadlines),
            deadline: deadlines.add(),
            limit_ms,
        };
        limit.push();
        limit
    }

    /// Begins the time again.
    pub fn push(&self) {
        self.deadline
            .arm(clock::monotonic_ms().saturating_add(self.limit_ms));
    }

    /// Returns true if the time is over.
    pub fn is_over(&self) -> bool {
        self.deadline.is_over()
    }

    /// Ready when the time is over.
    pub fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.deadline.is_over() {
            return Poll::Ready(());
        }
        self.deadline.register(cx);
        Poll::Pending
    }
}

impl Drop for IdleLimit {
    fn drop(&mut self) {
        self.deadlines.remove(&self.deadline);
    }
}

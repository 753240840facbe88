//! Requests that wait for a connection, or for a stream of one.
//!
//! Called by: `acquire`, which joins; connections and their streams, which wake.
//! Caveat: several are woken and may find the room taken again.
//! Out of scope: how long a request may wait.

use std::{cell::RefCell, collections::VecDeque};
use tokio::sync::oneshot;

/// Requests that have no connection yet.
#[derive(Default)]
pub struct Waiting(RefCell<VecDeque<oneshot::Sender<bool>>>);

impl Waiting {
    /// There may be room for so many.
    pub fn wake(&self, count: usize) {
        self.tell(count, true);
    }

    pub fn tell(&self, count: usize, may_hope: bool) {
        let mut waiting = self.0.borrow_mut();
        let mut left = count;
        while left > 0
            && let Some(first) = waiting.pop_front()
        {
            left -= usize::from(first.send(may_hope).is_ok());
        }
    }

    pub fn join(&self, most: usize) -> Option<oneshot::Receiver<bool>> {
        let mut waiting = self.0.borrow_mut();
        waiting.retain(|one| !one.is_closed());
        let (sender, receiver) = oneshot::channel();
        (waiting.len() < most).then(|| {
            waiting.push_back(sender);
            receiver
        })
    }
}

//! Small shared memory of exchanges, used again from request to request.
//!
//! Called by: [`Exchange::new`](crate::Exchange::new), which takes it, and
//! [`Exchange::recycle`](crate::Exchange::recycle), which gives it back.
//! Caveat: only parts without another owner are used again: a task that outlives its request keeps
//! the flag and the id that it has. An id that a log line has used is never used again.
//! Out of scope: heads and read buffers, which have spares of their own.

use crate::ClientAbort;
use saker_telemetry::error_log::LogId;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// Shared parts of one exchange.
#[derive(Default)]
pub(crate) struct SharedParts {
    /// See [`UpstreamState::client_abort`](crate::UpstreamState::client_abort).
    pub client_abort: Rc<Cell<ClientAbort>>,
    pub log_id: Rc<LogId>,
    /// Memory of the host and of the path, both empty.
    pub texts: (Vec<u8>, Vec<u8>),
}

/// Room of a text above which it is not worth keeping.
const TEXT_BYTES_MAX: usize = 1 << 10;

/// Parts that a thread keeps.
const SPARE_COUNT_MAX: usize = 32;

thread_local! {
    static SPARE: RefCell<Vec<SharedParts>> = const { RefCell::new(Vec::new()) };
}

impl SharedParts {
    pub fn take() -> SharedParts {
        // While the thread exits, there are none.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
        spare.ok().flatten().unwrap_or_default()
    }

    /// Keeps the parts for another exchange, unless they have another owner.
    pub fn keep(mut self) {
        if !self.is_unused() {
            return;
        }
        for text in [&mut self.texts.0, &mut self.texts.1] {
            text.clear();
            if text.capacity() > TEXT_BYTES_MAX {
                *text = Vec::new();
            }
        }
        self.client_abort.set(ClientAbort::default());
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_COUNT_MAX {
                spare.push(self);
            }
        });
    }

    fn is_unused(&self) -> bool {
        Rc::strong_count(&self.client_abort) == 1
            && Rc::strong_count(&self.log_id) == 1
            && self.log_id.text().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_hold_is_left_to_them() {
        let first = SharedParts::take();
        let flag = Rc::as_ptr(&first.client_abort);
        first.client_abort.set(ClientAbort::Ignored);
        first.keep();
        let second = SharedParts::take();
        assert_eq!(Rc::as_ptr(&second.client_abort), flag);
        assert_eq!(
            second.client_abort.get(),
            ClientAbort::Hangup,
            "that of another request"
        );
        let held = Rc::clone(&second.client_abort);
        second.keep();
        let third = SharedParts::take();
        assert_ne!(Rc::as_ptr(&third.client_abort), Rc::as_ptr(&held));
        let id = Rc::clone(&third.log_id);
        third.keep();
        assert!(!Rc::ptr_eq(&SharedParts::take().log_id, &id));
    }

    #[test]
    fn so_many_are_kept_and_no_more() {
        let all: Vec<SharedParts> = (0..SPARE_COUNT_MAX + 3)
            .map(|_| SharedParts::take())
            .collect();
        all.into_iter().for_each(SharedParts::keep);
        assert_eq!(SPARE.with_borrow(Vec::len), SPARE_COUNT_MAX);
    }
}

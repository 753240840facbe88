//! Small shared memory of exchanges, used again from request to request.
//!
//! Called by: [`Exchange::new`](crate::Exchange::new), which takes it, and
//! [`Exchange::recycle`](crate::Exchange::recycle), which gives it back.
//! Caveat: only parts without another owner are used again: a task that outlives its request keeps
//! the flag and the id that it has. An id that a log line has used is never used again.
//! Out of scope: heads and read buffers, which have spares of their own.

use saker_telemetry::error_log::LogId;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// Shared parts of one exchange.
#[derive(Default)]
pub(crate) struct SharedParts {
    /// See [`UpstreamState::outlives_client`](crate::UpstreamState::outlives_client).
    pub outlives_client: Rc<Cell<bool>>,
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
        self.outlives_client.set(false);
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_COUNT_MAX {
                spare.push(self);
            }
        });
    }

    fn is_unused(&self) -> bool {
        Rc::strong_count(&self.outlives_client) == 1
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
        let flag = Rc::as_ptr(&first.outlives_client);
        first.outlives_client.set(true);
        first.keep();
        let second = SharedParts::take();
        assert_eq!(Rc::as_ptr(&second.outlives_client), flag);
        assert!(!second.outlives_client.get(), "that of another request");
        let held = Rc::clone(&second.outlives_client);
        second.keep();
        let third = SharedParts::take();
        assert_ne!(Rc::as_ptr(&third.outlives_client), Rc::as_ptr(&held));
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

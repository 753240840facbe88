//! Small shared memory of exchanges, used again from request to request.
//!
//! Called by: [`Exchange::new`], which takes it, and drivers, which end an exchange with
//! [`Exchange::recycle`].
//! Caveat: only what nobody else refers to is used again: a task that outlives its request keeps
//! the flag and the id that it has. An id that a log line has used is never used again.
//! Out of scope: heads and read buffers, which have spares of their own.

use crate::Exchange;
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
}

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

    fn is_unused(&self) -> bool {
        Rc::strong_count(&self.outlives_client) == 1
            && Rc::strong_count(&self.log_id) == 1
            && self.log_id.text().is_none()
    }
}

impl Exchange {
    /// Drops the exchange, whose memory serves another one.
    pub fn recycle(self) {
        let parts = SharedParts {
            outlives_client: Rc::clone(&self.upstream.outlives_client),
            log_id: Rc::clone(&self.log.id),
        };
        drop(self);
        if !parts.is_unused() {
            return;
        }
        parts.outlives_client.set(false);
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_COUNT_MAX {
                spare.push(parts);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, NoBody};
    use saker_config::model::{Address, Origin, Site};
    use saker_http::{RequestHead, Version};
    use std::sync::Arc;

    fn exchange() -> Exchange {
        let address = ([127, 0, 0, 1], 80).into();
        let listener = Arc::new(Address::Tcp(address));
        Exchange::new(
            Rc::new(Client::new(address, address, listener, false)),
            RequestHead::build("GET", "/", Version::Http11, &[]),
            Box::new(NoBody),
            Arc::new(Site::new(Origin::built_in())),
            0,
        )
    }

    #[test]
    fn what_others_hold_is_left_to_them() {
        let first = exchange();
        let flag = Rc::as_ptr(&first.upstream.outlives_client);
        first.upstream.outlives_client.set(true);
        first.recycle();
        let second = exchange();
        assert_eq!(Rc::as_ptr(&second.upstream.outlives_client), flag);
        assert!(!second.upstream.outlives_client.get());
        let held = Rc::clone(&second.upstream.outlives_client);
        second.recycle();
        let third = exchange();
        assert_ne!(Rc::as_ptr(&third.upstream.outlives_client), flag);
        let id = Rc::clone(&third.log.id);
        third.recycle();
        assert!(!Rc::ptr_eq(&exchange().log.id, &id), "somebody holds it");
        drop(held);
    }
}

//! The queue of pages to be fetched again.
//!
//! Called by: `cache`, which holds it, and `refetch`, which fills and drains it.
//! Caveat: one per worker.
//! Out of scope: choosing the pages.

use crate::replay_request::ReplayRequest;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

/// A page to be fetched again, and its site.
pub struct QueuedRefetch {
    pub site: Box<[u8]>,
    pub replay: Rc<ReplayRequest>,
}

/// A worker's queue.
#[derive(Default)]
pub struct RefetchQueue {
    pub waiting: RefCell<VecDeque<QueuedRefetch>>,
    pub under_way: Cell<usize>,
    /// The purge sequence number at the last look.
    pub seen: Cell<u64>,
}

//! x

use crate::replay_request::ReplayRequest;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

/// A page that is to be made again, and its site.
pub struct QueuedRefetch {
    pub site: Box<[u8]>,
    pub replay: Rc<ReplayRequest>,
}

/// What a worker has to make again.
#[derive(Default)]
pub struct RefetchQueue {
    pub waiting: RefCell<VecDeque<QueuedRefetch>>,
    pub under_way: Cell<usize>,
    /// The store's number when it was last looked.
    pub seen: Cell<u64>,
}

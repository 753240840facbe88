//! The HTTP/2 connections of one backend.
//!
//! Called by: the pool, which owns them and sweeps them, and `acquire`.
//! Out of scope: making connections.

use super::{link::Link, waiting::Waiting};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// Connections to one backend.
#[derive(Default)]
pub struct Links {
    pub all: RefCell<Vec<Rc<Link>>>,
    pub waiting: Rc<Waiting>,
    pub is_connecting: Cell<bool>,
}

impl Links {
    /// One of that epoch that takes a request more.
    pub fn with_room(&self, epoch: u32) -> Option<Rc<Link>> {
        self.all
            .borrow()
            .iter()
            .find(|link| link.epoch == epoch && link.room() > 0)
            .map(Rc::clone)
    }

    /// Closes what has been idle too long, and forgets what takes no more requests.
    pub fn sweep(&self, now_ms: u64, kept_ms: u64, epoch: u32) {
        self.all
            .borrow_mut()
            .retain(|link| !link.sweep(now_ms, kept_ms, epoch));
    }
}

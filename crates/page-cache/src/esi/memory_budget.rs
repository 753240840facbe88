//! Memory for the parts of one page: how much a page and all that it includes may hold at a time.
//!
//! Called by: everything that takes a template or a part into memory. Caveat: shared by all levels
//! of a page, which runs on one thread; what is held is given back when it is dropped. Out of
//! scope: what the store and the memory tier hold of pages for all.

use std::{cell::Cell, rc::Rc};

/// Bytes that are left.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Rc<Cell<usize>>);

/// Bytes that have been taken, until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    bytes: usize,
    of: MemoryBudget,
}

impl MemoryBudget {
    pub fn new(bytes: usize) -> MemoryBudget {
        MemoryBudget(Rc::new(Cell::new(bytes)))
    }

    pub fn left(&self) -> usize {
        self.0.get()
    }

    /// `None`: that is more than there is left.
    pub fn take(&self, bytes: usize) -> Option<Reservation> {
        let mut held = Reservation {
            bytes: 0,
            of: self.clone(),
        };
        held.grow_to(bytes).then_some(held)
    }
}

impl Reservation {
    /// `false`: that is more than there is left, and nothing has changed.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let Some(left) = self.of.left().checked_sub(more) else {
            return false;
        };
        self.of.0.set(left);
        self.bytes += more;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.of.0.set(self.of.left() + self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_comes_back() {
        let budget = MemoryBudget::new(10);
        let mut first = budget.take(4).unwrap();
        assert!(budget.take(7).is_none() && budget.left() == 6);
        assert!(first.grow_to(9) && first.grow_to(3) && !first.grow_to(11) && budget.left() == 1);
        let last = budget.take(1).unwrap();
        drop(first);
        assert_eq!(budget.left(), 9);
        drop(last);
        assert_eq!(budget.left(), 10);
    }
}

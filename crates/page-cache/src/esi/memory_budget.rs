//! Memory budget of one page: how much it and everything it includes may hold at a time.
//!
//! Called by: everything that reads a template or a fragment into memory.
//! Caveat: shared by all levels of a page, on one thread; a reservation is returned when it is
//! dropped.
//! Out of scope: what the store and the memory cache hold.

use std::{cell::Cell, rc::Rc};

/// Remaining bytes.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Rc<Cell<usize>>);

/// Reserved bytes, returned on drop.
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

    /// Reserves memory; `None` if there is not enough left.
    pub fn take(&self, bytes: usize) -> Option<Reservation> {
        let mut held = Reservation {
            bytes: 0,
            of: self.clone(),
        };
        held.grow_to(bytes).then_some(held)
    }
}

impl Reservation {
    /// Grows the reservation; `false` and unchanged if there is not enough left.
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

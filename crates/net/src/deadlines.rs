//! Time limits of connections, without a timer each. Used by drivers for clients, and by the
//! gateway for programs.
//!
//! A connection writes its next deadline into a cell; the worker's ticker looks at all of them a
//! few times a second and wakes those that are over. Arming and disarming cost a store, so a
//! request pays nothing for its limits.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
};

/// Number of times the ticker looks, and so how exact a limit is.
pub const TICK_MS: u64 = 250;

const NEVER: u64 = u64::MAX;

/// One connection's deadline.
pub struct Deadline {
    at_ms: Cell<u64>,
    over: Cell<bool>,
    slot: Cell<usize>,
    waker: RefCell<Option<Waker>>,
}

impl Deadline {
    /// A limit of its own: one before it that was over is forgotten.
    pub fn arm(&self, at_ms: u64) {
        self.at_ms.set(at_ms);
        self.over.set(false);
    }

    pub fn disarm(&self) {
        self.arm(NEVER);
    }

    /// Moves the deadline forward in time only if it is not armed yet: many small steps then share
    /// one limit.
    pub fn arm_once(&self, at_ms: u64) {
        if self.at_ms.get() == NEVER {
            self.at_ms.set(at_ms);
        }
    }

    /// Its time; the greatest there is if it is not armed.
    pub fn at_ms(&self) -> u64 {
        self.at_ms.get()
    }

    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    /// To be called by a task before it waits.
    pub fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
    }

    fn fire(&self) {
        self.over.set(true);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}

/// All deadlines of a worker.
#[derive(Default)]
pub struct Deadlines {
    armed: RefCell<Vec<Rc<Deadline>>>,
    /// Removed ones, to be used again once their owners have let them go.
    spare: RefCell<Vec<Rc<Deadline>>>,
}

/// Deadlines that are kept for reuse.
const SPARE_MAX: usize = 32;

impl Deadlines {
    pub fn add(&self) -> Rc<Deadline> {
        let mut all = self.armed.borrow_mut();
        let deadline = self.spare().unwrap_or_else(|| {
            Rc::new(Deadline {
                at_ms: Cell::new(NEVER),
                over: Cell::new(false),
                slot: Cell::new(0),
                waker: RefCell::new(None),
            })
        });
        deadline.slot.set(all.len());
        all.push(Rc::clone(&deadline));
        deadline
    }

    /// A deadline that no other owner has any more.
    fn spare(&self) -> Option<Rc<Deadline>> {
        let deadline = self.spare.borrow_mut().pop()?;
        (Rc::strong_count(&deadline) == 1).then(|| {
            deadline.disarm();
            deadline
        })
    }

    pub fn remove(&self, deadline: &Deadline) {
        let mut all = self.armed.borrow_mut();
        let slot = deadline.slot.get();
        debug_assert!(std::ptr::eq(&*all[slot], deadline));
        let removed = all.swap_remove(slot);
        if let Some(moved) = all.get(slot) {
            moved.slot.set(slot);
        }
        let waker = removed.waker.take();
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.push(removed);
        }
        drop((spare, all));
        // Its task may end with it, and remove deadlines of its own.
        drop(waker);
    }

    /// Wakes every task whose deadline is over.
    pub fn fire(&self, now_ms: u64) {
        for deadline in self
            .armed
            .borrow()
            .iter()
            .filter(|deadline| deadline.at_ms.get() <= now_ms)
        {
            deadline.fire();
        }
    }

    /// Wakes every task, so that each looks at what has changed around it (the worker is draining).
    pub fn wake_all(&self) {
        for deadline in self.armed.borrow().iter() {
            if let Some(waker) = deadline.waker.borrow().as_ref() {
                waker.wake_by_ref();
            }
        }
    }

    pub fn len(&self) -> usize {
        self.armed.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_what_is_over_and_nothing_else() {
        let all = Deadlines::default();
        let (a, b, c) = (all.add(), all.add(), all.add());
        a.arm(100);
        b.arm(200);
        all.fire(150);
        assert!(a.is_over() && !b.is_over() && !c.is_over());
        all.remove(&a);
        b.disarm();
        all.fire(1000);
        assert!(!b.is_over());
        all.remove(&c);
        all.remove(&b);
        assert!(all.is_empty());
    }

    #[test]
    fn one_that_is_used_again_has_forgotten_all() {
        let all = Deadlines::default();
        let first = all.add();
        let place = Rc::as_ptr(&first);
        first.arm(100);
        first.register(&Context::from_waker(Waker::noop()));
        all.fire(100);
        all.remove(&first);
        let held = all.add();
        assert!(
            !std::ptr::eq(Rc::as_ptr(&held), place),
            "its owner still has it"
        );
        drop(first);
        all.remove(&held);
        let place = Rc::as_ptr(&held);
        drop(held);
        let again = all.add();
        assert!(std::ptr::eq(Rc::as_ptr(&again), place));
        assert!(!again.is_over() && again.waker.borrow().is_none());
        all.fire(u64::MAX - 1);
        assert!(!again.is_over());
        all.remove(&again);
        assert!(all.is_empty());
    }

    #[test]
    fn arming_once_keeps_the_first_limit() {
        let all = Deadlines::default();
        let deadline = all.add();
        deadline.arm_once(100);
        deadline.arm_once(500);
        all.fire(100);
        assert!(deadline.is_over());
    }

    #[test]
    fn the_next_limit_does_not_inherit_that_the_last_one_was_over() {
        let all = Deadlines::default();
        let deadline = all.add();
        deadline.arm(100);
        all.fire(100);
        deadline.arm(200);
        assert!(!deadline.is_over());
        all.fire(200);
        assert!(deadline.is_over());
        deadline.disarm();
        assert!(!deadline.is_over());
    }
}

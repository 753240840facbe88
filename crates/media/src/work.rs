//! Steps of work that this thread has done on files, counted so that tests and the fuzz target can
//! compare them with the size of the file.
//!
//! Called by: every loop over a file's tables.
//! Caveat: a step is one iteration of such a loop, not a unit of time.
//! Out of scope: limits; each loop is bounded by its input.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) fn step() {
    STEPS.set(STEPS.get().wrapping_add(1));
}

/// Steps of this thread since it began.
pub fn steps() -> u64 {
    STEPS.get()
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;

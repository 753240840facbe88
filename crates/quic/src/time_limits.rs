//! The next time limit of many connections.
//!
//! A heap with lazy entries: a limit that moves later leaves its entry where it is, and is looked
//! at when that one comes up; one that moves earlier gets another entry before it, and the later
//! one stays good for what comes after. So a packet that puts off the idle timeout costs a
//! comparison, and a connection has as many entries as it has kinds of limits. The difficulty is
//! entries of the dead, which their owner recognizes by number.

use crate::id::Id;
use std::{cmp::Reverse, collections::BinaryHeap, time::Instant};

#[derive(Default)]
pub struct TimeLimits(BinaryHeap<Reverse<(Instant, Id)>>);

/// Entries of one connection in the heap: each earlier than the one before.
#[derive(Default)]
pub struct Armed(Vec<Instant>);

impl TimeLimits {
    /// Makes sure that there is an entry not later than `due`.
    pub fn arm(&mut self, armed: &mut Armed, id: Id, due: Option<Instant>) {
        let Some(due) = due else { return };
        if armed.0.last().is_none_or(|armed| due < *armed) {
            armed.0.push(due);
            self.0.push(Reverse((due, id)));
        }
    }

    pub fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((due, _))| *due)
    }

    /// An entry whose time has come. Its connection has to be told by [`Armed::is_up`], and armed
    /// again.
    pub fn pop(&mut self, now: Instant) -> Option<(Instant, Id)> {
        self.next().filter(|due| *due <= now)?;
        self.0.pop().map(|Reverse(entry)| entry)
    }
}

impl Armed {
    /// The earliest entry has come up.
    pub fn is_up(&mut self) {
        self.0.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn limits_that_move_later_cost_nothing_and_earlier_ones_count() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let (mut limits, mut armed) = (TimeLimits::default(), Armed::default());
        let id = Id { slot: 3, serial: 9 };
        limits.arm(&mut armed, id, Some(at(10)));
        for ms in 11..1000 {
            limits.arm(&mut armed, id, Some(at(ms)));
        }
        assert_eq!(limits.0.len(), 1);
        limits.arm(&mut armed, id, Some(at(5)));
        assert_eq!(limits.next(), Some(at(5)));
        assert_eq!(limits.pop(at(4)), None);
        assert!(limits.pop(at(5)).is_some());
        armed.is_up();
        limits.arm(&mut armed, id, Some(at(900)));
        assert_eq!(limits.next(), Some(at(10)), "the later entry serves again");
        assert!(limits.pop(at(20)).is_some());
        armed.is_up();
        assert_eq!(limits.pop(at(20)), None);
        limits.arm(&mut armed, id, None);
        assert_eq!(limits.next(), None, "nothing is left behind");
    }
}

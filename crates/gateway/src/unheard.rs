//! Fresh connections on which no byte has come back: perhaps no process has taken them yet, since
//! kept ones hold them all.
//!
//! Difficulty: a script that takes its time looks the same from here. So only one that has waited
//! for a while counts, and counts once: a process is freed for it, and where it had one all along,
//! no more is lost than one connection.

use std::collections::VecDeque;

/// Time a new connection may remain unanswered before a kept one is closed to make room. Scripts
/// that take longer gain nothing from kept connections.
pub const PATIENCE_MS: u64 = 10;

#[derive(Default)]
pub struct Unheard {
    waiting: VecDeque<Waiting>,
    next: u64,
}

struct Waiting {
    id: u64,
    since_ms: u64,
    has_room: bool,
}

impl Unheard {
    /// One more; by its number it is found again.
    pub fn add(&mut self, now_ms: u64) -> u64 {
        let id = self.next;
        self.next += 1;
        self.waiting.push_back(Waiting {
            id,
            since_ms: now_ms,
            has_room: false,
        });
        id
    }

    /// A byte has come, or it has ended.
    pub fn remove(&mut self, id: u64) {
        self.waiting.retain(|one| one.id != id);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if one waits for which no room has been made.
    pub fn wants_room(&self) -> bool {
        self.waiting.iter().any(|one| !one.has_room)
    }

    /// True if room is to be made for one now; it is taken for made.
    pub fn makes_room(&mut self, now_ms: u64) -> bool {
        let longest = self
            .waiting
            .iter_mut()
            .find(|one| !one.has_room)
            .filter(|one| now_ms.saturating_sub(one.since_ms) >= PATIENCE_MS);
        longest.is_some_and(|one| !std::mem::replace(&mut one.has_room, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_once_for_each_that_waits_long() {
        let mut unheard = Unheard::default();
        let (first, second) = (unheard.add(100), unheard.add(105));
        assert!(!unheard.makes_room(109), "nobody has waited long");
        assert!(unheard.makes_room(110));
        assert!(!unheard.makes_room(114), "there is room for the first");
        assert!(unheard.wants_room() && unheard.makes_room(115));
        assert!(!unheard.makes_room(1000) && !unheard.wants_room() && !unheard.is_empty());
        unheard.remove(first);
        unheard.remove(second);
        assert!(unheard.is_empty());
    }

    #[test]
    fn who_was_heard_wants_nothing() {
        let mut unheard = Unheard::default();
        let first = unheard.add(0);
        unheard.add(50);
        unheard.remove(first);
        assert!(!unheard.makes_room(55) && unheard.makes_room(60));
    }
}

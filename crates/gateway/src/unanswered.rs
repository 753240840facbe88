//! Fresh connections on which no byte has come back: perhaps no process has taken them yet, since
//! kept ones hold them all.
//!
//! Difficulty: a script that takes its time looks the same from here. So only one that has waited
//! for a while counts, and counts once: a process is freed for it, and where it had one all along,
//! no more is lost than one connection.

use std::collections::VecDeque;

/// Time a new connection may remain unanswered before a kept one is closed to make room. Scripts
/// that take longer gain nothing from kept connections.
pub const UNANSWERED_MS_MAX: u64 = 10;

#[derive(Default)]
pub struct UnansweredConnections {
    waiting: VecDeque<Waiting>,
    next: u64,
}

struct Waiting {
    id: u64,
    since_ms: u64,
    has_room: bool,
    /// The number by which all workers have been asked for room.
    wanted: Option<u64>,
}

impl UnansweredConnections {
    /// One more; by its number it is found again.
    pub fn add(&mut self, now_ms: u64) -> u64 {
        let id = self.next;
        self.next += 1;
        self.waiting.push_back(Waiting {
            id,
            since_ms: now_ms,
            has_room: false,
            wanted: None,
        });
        id
    }

    /// A byte has come, or it has ended. Returns the number by which all workers were asked for room.
    pub fn remove(&mut self, id: u64) -> Option<u64> {
        let at = self.waiting.iter().position(|one| one.id == id)?;
        self.waiting.remove(at)?.wanted
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
        self.late(now_ms).is_some()
    }

    /// Asks all workers for room for one now, where this one has none.
    pub fn wants(&mut self, now_ms: u64, want: impl FnOnce() -> u64) -> bool {
        let Some(late) = self.late(now_ms) else {
            return false;
        };
        late.wanted = Some(want());
        true
    }

    /// One that has waited too long, for which nothing has been done so far.
    fn late(&mut self, now_ms: u64) -> Option<&mut Waiting> {
        let late = self
            .waiting
            .iter_mut()
            .find(|one| !one.has_room)
            .filter(|one| now_ms.saturating_sub(one.since_ms) >= UNANSWERED_MS_MAX)?;
        late.has_room = true;
        Some(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_once_for_each_that_waits_long() {
        let mut unanswered = UnansweredConnections::default();
        let (first, second) = (unanswered.add(100), unanswered.add(105));
        assert!(!unanswered.makes_room(109), "nobody has waited long");
        assert!(unanswered.makes_room(110));
        assert!(!unanswered.makes_room(114), "there is room for the first");
        assert!(unanswered.wants_room() && unanswered.makes_room(115));
        assert!(!unanswered.makes_room(1000) && !unanswered.wants_room() && !unanswered.is_empty());
        unanswered.remove(first);
        unanswered.remove(second);
        assert!(unanswered.is_empty());
    }

    #[test]
    fn who_was_heard_wants_nothing() {
        let mut unanswered = UnansweredConnections::default();
        let first = unanswered.add(0);
        unanswered.add(50);
        unanswered.remove(first);
        assert!(!unanswered.makes_room(55) && unanswered.makes_room(60));
    }
}

//! Ports of trusted peers that begin no session now, because what they send may be their clients' own.
//!
//! Called by: `datagrams`, before it reads a PROXY header.
//! Caveat: a peer that writes the header into the first datagram of a session passes the client's later
//! ones on as they are, and one of these may look like a header. So a port whose session is refused is
//! held as long as it goes on sending, and one whose session has ended here, until it has ended there.
//! Out of scope: ports with a session, whose datagrams are content.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::Hash,
};

/// Ports that are held. If there are more, no peer that names clients begins a session.
const HELD_MAX: usize = 1 << 16;
/// Time until a peer knows that a session has ended.
pub const LINGER_MS: u64 = 250;
/// Time between two looks at all ports.
const SWEEP_MS: u64 = 1000;

#[derive(Clone, Copy, Debug)]
struct Held {
    until_ms: u64,
    /// Each datagram begins the time again; 0: none does.
    renewed_ms: u64,
}

/// Ports by when they may begin a session again.
#[derive(Debug)]
pub struct HeldPeers<K> {
    until: RefCell<HashMap<K, Held>>,
    swept_ms: Cell<u64>,
}

impl<K> Default for HeldPeers<K> {
    fn default() -> HeldPeers<K> {
        HeldPeers {
            until: RefCell::default(),
            swept_ms: Cell::new(0),
        }
    }
}

impl<K: Eq + Hash> HeldPeers<K> {
    /// Holds a port whose session was refused, until it has been silent for `idle_ms`.
    pub fn refuse(&self, peer: K, idle_ms: u64, now_ms: u64) {
        let held = Held {
            until_ms: now_ms.saturating_add(idle_ms),
            renewed_ms: idle_ms,
        };
        self.until.borrow_mut().insert(peer, held);
    }

    /// Holds a port whose session has ended.
    pub fn linger(&self, peer: K, now_ms: u64) {
        let held = Held {
            until_ms: now_ms.saturating_add(LINGER_MS),
            renewed_ms: 0,
        };
        self.until.borrow_mut().entry(peer).or_insert(held);
    }

    /// Returns true if a datagram of this port begins no session.
    pub fn holds(&self, peer: &K, now_ms: u64) -> bool {
        let mut until = self.until.borrow_mut();
        let is_due = now_ms.saturating_sub(self.swept_ms.get()) >= SWEEP_MS;
        if is_due && !until.is_empty() {
            self.swept_ms.set(now_ms);
            until.retain(|_, held| held.until_ms > now_ms);
        }
        match until.get_mut(peer) {
            Some(held) if held.until_ms > now_ms => {
                held.until_ms = held.until_ms.max(now_ms.saturating_add(held.renewed_ms));
                true
            }
            Some(_) => {
                until.remove(peer);
                false
            }
            None => until.len() >= HELD_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_ports_are_held_while_they_send() {
        let held = HeldPeers::default();
        held.refuse(1, 5000, 100);
        assert!(!held.holds(&2, 100));
        assert!(held.holds(&1, 5000) && held.holds(&1, 9999), "renewed");
        held.linger(1, 9999);
        assert!(held.holds(&1, 14_998));
        assert!(!held.holds(&1, 19_998));
    }

    #[test]
    fn ports_of_ended_sessions_are_held_for_a_moment() {
        let held = HeldPeers::default();
        held.linger(1, 100);
        assert!(held.holds(&1, 99 + LINGER_MS));
        assert!(!held.holds(&1, 100 + LINGER_MS), "not renewed");
    }

    #[test]
    fn ports_are_bounded_and_forgotten() {
        let held = HeldPeers::default();
        for port in 0..HELD_MAX {
            held.refuse(port, 5000, 100);
        }
        assert!(held.holds(&HELD_MAX, 200));
        assert!(!held.holds(&HELD_MAX, 5100));
        assert!(held.until.borrow().is_empty());
    }
}

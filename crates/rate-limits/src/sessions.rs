//! Sessions that are open at the same time: all of them, and those of each client.
//!
//! Called by: rules of streams, once per session.
//! Caveat: a client is an address, or a /64 of IPv6, as elsewhere; a client without sessions takes
//! no memory, so the table is as large as the number of open sessions at most.

use crate::{
    addresses::{IPV6_PREFIX, key_of},
    usage::Counted,
};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Counts of open sessions, shared by all cores.
#[derive(Debug, Default)]
pub struct SessionCounts {
    all: AtomicU64,
    /// By the part of an address that stands for a client.
    clients: Mutex<HashMap<u128, u64>>,
}

impl SessionCounts {
    /// Counts a session, unless `max` are open; 0: any number may be.
    pub fn enter(self: &Arc<Self>, max: u64) -> Option<Counted> {
        let below = |count| (max == 0 || count < max).then_some(count + 1);
        self.all.fetch_update(Relaxed, Relaxed, below).ok()?;
        let counts = Arc::clone(self);
        Some(Counted::new(move || {
            counts.all.fetch_sub(1, Relaxed);
        }))
    }

    /// Counts a session of a client, unless it has `max`.
    pub fn enter_client(self: &Arc<Self>, client: IpAddr, max: u64) -> Option<Counted> {
        let key = key_of(client, IPV6_PREFIX);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(key).or_default();
        if *count >= max {
            if *count == 0 {
                clients.remove(&key);
            }
            return None;
        }
        *count += 1;
        drop(clients);
        let counts = Arc::clone(self);
        Some(Counted::new(move || counts.leave_client(key)))
    }

    fn leave_client(&self, key: u128) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                clients.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back() {
        let counts = Arc::new(SessionCounts::default());
        let two: Vec<_> = (0..2).map(|_| counts.enter(2).unwrap()).collect();
        assert!(counts.enter(2).is_none());
        assert!(counts.enter(0).is_some(), "no limit");
        drop(two);
        assert!(counts.enter(1).is_some());
        assert_eq!(counts.all.load(Relaxed), 0);
    }

    #[test]
    fn clients_have_places_of_their_own() {
        let counts = Arc::new(SessionCounts::default());
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = counts.enter_client(address("192.0.2.1"), 1).unwrap();
        let mapped = address("::ffff:192.0.2.1");
        assert!(counts.enter_client(mapped, 1).is_none(), "the same client");
        let other = counts.enter_client(address("192.0.2.2"), 1);
        let v6 = counts.enter_client(address("2001:db8::1"), 1);
        assert!(other.is_some() && v6.is_some());
        assert!(counts.enter_client(address("2001:db8::2"), 1).is_none());
        assert!(counts.enter_client(address("2001:db8:0:1::1"), 1).is_some());
        drop(first);
        assert!(counts.enter_client(mapped, 1).is_some());
        drop((other, v6));
        assert!(counts.clients.lock().unwrap().is_empty());
    }
}

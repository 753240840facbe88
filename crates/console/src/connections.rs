//! Open connections of the console: counted in total and by network.
//!
//! Called by: `serve`.
//! Caveat: a client needs no rights to open connections and to keep them silent. Where all places are
//! taken, the oldest connection that has not passed the gate makes room, so that operators are
//! never kept out by others.

use crate::log_in::network;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    net::IpAddr,
    rc::Rc,
};
use tokio::sync::Notify;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 128;
/// Connections of a network at a time.
pub const CONNECTIONS_PER_NETWORK_MAX: usize = 24;

/// Open connections, the oldest first.
#[derive(Default)]
pub struct Connections {
    open: RefCell<BTreeMap<u64, Rc<Entry>>>,
    last: Cell<u64>,
}

struct Entry {
    network: IpAddr,
    has_passed: Cell<bool>,
    end: Notify,
}

/// The place of one connection, which is free again when this is dropped.
pub struct Place {
    connections: Rc<Connections>,
    number: u64,
    entry: Rc<Entry>,
}

impl Connections {
    /// `None`: all places are those of connections that have passed the gate.
    pub fn enter(connections: &Rc<Connections>, client: IpAddr) -> Option<Place> {
        let network = network(client);
        let mut open = connections.open.borrow_mut();
        let own = open.values().filter(|one| one.network == network).count();
        if own >= CONNECTIONS_PER_NETWORK_MAX {
            make_room(&mut open, |one| one.network == network)?;
        } else if open.len() >= CONNECTIONS_MAX {
            make_room(&mut open, |_| true)?;
        }
        let number = connections.last.get() + 1;
        connections.last.set(number);
        let entry = Rc::new(Entry {
            network,
            has_passed: Cell::new(false),
            end: Notify::new(),
        });
        open.insert(number, Rc::clone(&entry));
        Some(Place {
            connections: Rc::clone(connections),
            number,
            entry,
        })
    }
}

/// Ends the oldest connection of these that has not passed the gate.
fn make_room(open: &mut BTreeMap<u64, Rc<Entry>>, is_one: impl Fn(&Entry) -> bool) -> Option<()> {
    let mut all = open.iter();
    let (number, _) = all.find(|(_, one)| !one.has_passed.get() && is_one(one))?;
    let number = *number;
    open.remove(&number)?.end.notify_one();
    Some(())
}

impl Place {
    /// The client has rights: the connection stays.
    pub fn pass(&self) {
        self.entry.has_passed.set(true);
    }

    /// Returns when the connection has to make room.
    pub async fn ended(&self) {
        self.entry.end.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(connections: &Rc<Connections>, client: &str) -> Option<Place> {
        Connections::enter(connections, client.parse().expect("an address"))
    }

    fn is_open(connections: &Connections, place: &Place) -> bool {
        connections.open.borrow().contains_key(&place.number)
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        for network in ["2001:db8::", "127.0.0."] {
            let connections = Rc::new(Connections::default());
            let places: Vec<Place> = (0..CONNECTIONS_PER_NETWORK_MAX)
                .filter_map(|last| enter(&connections, &format!("{network}{last}")))
                .collect();
            assert_eq!(places.len(), CONNECTIONS_PER_NETWORK_MAX);
            places.iter().for_each(Place::pass);
            assert!(enter(&connections, &format!("{network}99")).is_none());
            assert!(enter(&connections, "192.0.2.1").is_some());
            drop(places);
            assert!(enter(&connections, &format!("{network}99")).is_some());
            assert!(connections.open.borrow().is_empty());
        }
    }

    #[test]
    fn silent_connections_make_room() {
        let connections = Rc::new(Connections::default());
        let client = |number: usize| format!("2001:db8:0:{number:x}::1");
        let operator = enter(&connections, "192.0.2.1").expect("a place");
        operator.pass();
        let silent: Vec<Place> = (1..CONNECTIONS_MAX)
            .filter_map(|number| enter(&connections, &client(number)))
            .collect();
        assert_eq!(silent.len(), CONNECTIONS_MAX - 1);
        let other = enter(&connections, "192.0.2.2").expect("a place");
        assert!(is_open(&connections, &operator) && is_open(&connections, &other));
        assert!(!is_open(&connections, &silent[0]) && is_open(&connections, &silent[1]));
        assert_eq!(connections.open.borrow().len(), CONNECTIONS_MAX);
        // One that had to go takes nothing with it.
        drop(silent);
        assert_eq!(connections.open.borrow().len(), 2);
    }

    #[test]
    fn a_network_makes_room_for_itself_alone() {
        let connections = Rc::new(Connections::default());
        let other = enter(&connections, "192.0.2.1").expect("a place");
        let places: Vec<Place> = (0..=CONNECTIONS_PER_NETWORK_MAX)
            .filter_map(|_| enter(&connections, "198.51.100.1"))
            .collect();
        assert!(is_open(&connections, &other));
        let left = places.iter().filter(|place| is_open(&connections, place));
        assert_eq!(left.count(), CONNECTIONS_PER_NETWORK_MAX);
        assert!(!is_open(&connections, &places[0]));
    }
}

//! Ends of connections.

use super::pair::Pair;
use crate::{Lost, Settings};
use bytes::Bytes;
use std::time::Duration;

#[test]
fn silence_ends_a_connection_and_costs_no_packet() {
    let (mut pair, id) = Pair::established(Settings {
        idle_timeout_ms: 5000,
        ..Settings::default()
    });
    let sent = pair.server_card.sent;
    pair.run(Duration::from_millis(4400));
    assert_eq!(pair.server.len(), 1);
    pair.run(Duration::from_secs(5));
    assert!(pair.server.is_empty() && pair.client.is_empty());
    assert!(
        pair.server_card.sent - sent < 5,
        "{}",
        pair.server_card.sent - sent
    );
    assert!(pair.client.connection(id, pair.now).is_none());
    assert_eq!(pair.server.next_limit(), None, "nothing is left behind");
}

#[test]
fn a_close_says_why() {
    let (mut pair, id) = Pair::established(Settings::default());
    let server = pair.server.ids().next().unwrap();
    pair.server().0.close(0x100, "bye");
    pair.server.wake(server);
    pair.run(Duration::from_millis(15));
    let lost = Lost::ClosedByPeer {
        code: 0x100,
        reason: Bytes::from_static(b"bye"),
    };
    assert_eq!(pair.client(id).1.lost(), Some(&lost));
    pair.run(Duration::from_secs(2));
    assert!(pair.server.is_empty() && pair.client.is_empty());
    assert_eq!(pair.server.counts.handshakes_failed, 0);
}

/// RFC 9000 section 10.3: after a crash of a worker, or of what it knew, clients hear so at once.
#[test]
fn who_has_been_forgotten_is_told() {
    let (mut pair, id) = Pair::established(Settings::default());
    pair.replace_server();
    pair.send(id, vec![1; 500]);
    pair.run(Duration::from_millis(100));
    assert!(pair.client.is_empty(), "a reset ends it at once");
    assert_eq!(pair.server.counts.stateless_resets, 1);
}

/// Ids that we never gave out get no answer: neither resets nor memory.
#[test]
fn strangers_ids_are_not_answered() {
    let mut pair = Pair::new(Settings::default());
    for length in [1, 9, 22, 43, 1200] {
        let bytes = vec![0x47; length];
        let peer = "203.0.113.1:5".parse().unwrap();
        let arrival = saker_net::Arrival {
            peer,
            local: None,
            ecn: 0,
            datagram_bytes: length,
            bytes: &bytes,
        };
        pair.server
            .receive(pair.now, arrival, &mut pair.door, &mut pair.server_card);
    }
    assert!(pair.server_card.queue.is_empty() && pair.server.is_empty());
}

#[test]
fn a_closed_door_keeps_who_is_inside() {
    let (mut pair, id) = Pair::established(Settings::default());
    pair.server.close_door();
    let stream = pair.send(id, "still here");
    let late = pair.connect();
    pair.run(Duration::from_millis(500));
    assert_eq!(pair.client(id).1.received[&stream], b"still here");
    assert!(pair.client(late).1.events.is_empty());
}

/// A thousand silent connections cost a turn nothing: no work, and no look into the heap.
#[test]
fn idle_connections_have_no_work() {
    let mut pair = Pair::new(Settings::default());
    for _ in 0..1000 {
        pair.connect();
        pair.run(Duration::from_millis(1));
    }
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.server.len(), 1000);
    assert!(!pair.server.has_work());
    let next = pair.server.next_limit().unwrap();
    assert!(
        next > pair.now + Duration::from_secs(1),
        "{:?}",
        next - pair.now
    );
}

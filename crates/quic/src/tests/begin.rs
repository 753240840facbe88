//! Beginnings of connections, and refusals.

use super::pair::{CLIENT, Pair, client_config};
use crate::{Event, Lost, Settings, VERSION_1, VERSION_2};
use quinn_proto::TokenMemoryCache;
use rustls::HandshakeKind;
use saker_net::{Arrival, steering};
use std::{net::SocketAddr, sync::Arc, time::Duration};

const WHILE: Duration = Duration::from_millis(500);

#[test]
fn a_handshake_tells_what_was_agreed_on() {
    let (mut pair, id) = Pair::established(Settings::default());
    let (connection, peer) = pair.server();
    assert_eq!(peer.events[..2], [Event::Hello, Event::Established]);
    let hello = connection.hello().unwrap();
    assert_eq!(hello.server_name.as_deref(), Some("example.org"));
    assert_eq!(hello.alpn.as_deref(), Some(&b"h3"[..]));
    assert_eq!(
        hello.suite,
        Some(rustls::CipherSuite::TLS13_AES_256_GCM_SHA384)
    );
    assert_eq!(
        (hello.kind, hello.quic_version),
        (Some(HandshakeKind::Full), 1)
    );
    assert_eq!(connection.peer(), CLIENT.parse::<SocketAddr>().unwrap());
    assert!(!connection.is_early());
    assert_eq!(
        (
            pair.server.counts.handshakes,
            pair.server.counts.handshakes_failed,
            pair.server.counts.retries
        ),
        (1, 0, 0)
    );
    assert!(pair.client(id).0.rtt() >= Duration::from_millis(20));
}

/// Both ends use their connection's ids, which lead to the server's worker.
#[test]
fn the_clients_packets_lead_to_the_worker() {
    let (mut pair, id) = Pair::established(Settings::default());
    pair.send(id, vec![1; 10]);
    pair.client_card.queue.clear();
    pair.run(Duration::ZERO);
    let packet = pair.client_card.queue.front().unwrap();
    assert_eq!(steering::worker(&packet.bytes, 5), Some(2));
}

#[test]
fn version_2_is_spoken_too() {
    for unproved_max in [64, 0] {
        let mut pair = Pair::new(Settings {
            handshakes_unproved_max: unproved_max,
            ..Settings::default()
        });
        pair.client_config.version(VERSION_2);
        let id = pair.connect();
        pair.run(WHILE);
        let stream = pair.send(id, vec![7; 50_000]);
        pair.run(WHILE * 4);
        let (_, peer) = pair.client(id);
        assert_eq!(peer.received[&stream], vec![7; 50_000], "{:?}", peer.events);
        assert_eq!(pair.server().0.hello().unwrap().quic_version, 2);
        assert_eq!(pair.server.counts.retries, u64::from(unproved_max == 0));
    }
}

#[test]
fn unknown_versions_are_answered_with_ours_and_small_datagrams_not_at_all() {
    let mut pair = Pair::new(Settings::default());
    let mut packet = vec![
        0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 2, 9, 9,
    ];
    packet.resize(1200, 0);
    for (length, answers) in [(1199, 0), (1200, 1)] {
        let bytes = &packet[..length];
        let arrival = Arrival {
            peer: CLIENT.parse().unwrap(),
            local: None,
            ecn: 0,
            datagram_bytes: length,
            bytes,
        };
        pair.server
            .receive(pair.now, arrival, &mut pair.door, &mut pair.server_card);
        assert_eq!(pair.server_card.queue.len(), answers);
    }
    let answer = &pair.server_card.queue[0].bytes;
    assert_eq!(answer[1..5], [0; 4], "version negotiation");
    assert_eq!(
        answer[5..17],
        [2, 9, 9, 8, 1, 2, 3, 4, 5, 6, 7, 8],
        "their ids, turned round"
    );
    let versions: Vec<u32> = answer[17..]
        .chunks(4)
        .map(|version| u32::from_be_bytes(version.try_into().unwrap()))
        .collect();
    assert!(versions.contains(&VERSION_1) && versions.contains(&VERSION_2));
    assert_eq!(pair.server.counts.version_negotiations, 1);
}

#[test]
fn addresses_are_proved_when_there_are_many_handshakes() {
    let mut pair = Pair::new(Settings {
        handshakes_unproved_max: 2,
        ..Settings::default()
    });
    let ids: Vec<_> = (0..5).map(|_| pair.connect()).collect();
    pair.run(WHILE);
    assert!(
        ids.iter()
            .all(|id| pair.client(*id).1.has(&Event::Established))
    );
    assert_eq!(pair.server.counts.retries, 3);
    let later = pair.connect();
    pair.run(WHILE);
    assert!(pair.client(later).1.has(&Event::Established));
    assert_eq!(
        pair.server.counts.retries, 3,
        "the others have come to an end"
    );
}

/// NEW_TOKEN (RFC 9000 section 8.1.3): a returning client has validated its address already.
#[test]
fn a_token_of_before_saves_the_proof() {
    let mut pair = Pair::new(Settings {
        handshakes_unproved_max: 0,
        ..Settings::default()
    });
    for retries in [1, 1] {
        let id = pair.connect();
        pair.run(WHILE);
        assert!(pair.client(id).1.has(&Event::Established));
        assert_eq!(pair.server.counts.retries, retries);
    }
    pair.client_config = client_config();
    pair.connect();
    pair.run(WHILE);
    assert_eq!(pair.server.counts.retries, 2, "a client without one");
}

#[test]
fn handshakes_at_a_time_are_bounded_and_come_later() {
    let mut pair = Pair::new(Settings {
        handshakes_max: 1,
        ..Settings::default()
    });
    let ids = [pair.connect(), pair.connect()];
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.server.counts.handshakes_refused, 1, "dropped");
    pair.run(WHILE * 4);
    assert!(
        ids.iter()
            .all(|id| pair.client(*id).1.has(&Event::Established)),
        "sent again"
    );
}

#[test]
fn the_door_may_say_no() {
    let mut pair = Pair::new(Settings::default());
    pair.door.admits = false;
    let id = pair.connect();
    pair.run(Duration::from_millis(50));
    // CONNECTION_REFUSED (RFC 9000 section 20.1).
    assert!(
        matches!(
            pair.client(id).1.lost(),
            Some(Lost::AbortedByPeer { code: 2, .. })
        ),
        "{:?}",
        pair.client(id).1.events
    );
    assert!(pair.server.is_empty());
}

/// As while another process takes over: the next packets of the client find one that lets it in.
#[test]
fn a_door_that_says_nothing_costs_no_connection() {
    let mut pair = Pair::new(Settings::default());
    (pair.door.admits, pair.door.is_silent) = (false, true);
    let id = pair.connect();
    pair.run(Duration::from_millis(50));
    assert_eq!(pair.server.counts.handshakes_refused, 1);
    assert!(pair.server.is_empty() && pair.client(id).1.lost().is_none());
    pair.door.admits = true;
    pair.run(WHILE * 4);
    assert!(pair.client(id).1.has(&Event::Established));
}

/// RFC 9000 section 8.1: three times what came, until the address is proved.
#[test]
fn nobody_is_flooded_on_behalf_of_others() {
    let mut pair = Pair::new(Settings::default());
    pair.connect();
    pair.client_card.lose_each = 0;
    pair.run(Duration::from_millis(10));
    let first: usize = pair.client_card.sent_bytes;
    // The client is never heard again.
    pair.client_card.lose_each = 1;
    pair.run(Duration::from_secs(9));
    assert!(pair.server_card.sent_bytes > 0);
    assert!(
        pair.server_card.sent_bytes <= first * 3,
        "{} for {first}",
        pair.server_card.sent_bytes
    );
}

#[test]
fn handshakes_that_lead_nowhere_are_forgotten() {
    let mut pair = Pair::new(Settings {
        handshake_timeout_ms: 2000,
        ..Settings::default()
    });
    pair.connect();
    pair.run(Duration::from_millis(10));
    pair.client_card.lose_each = 1;
    pair.run(Duration::from_millis(1900));
    assert_eq!(pair.server.len(), 1);
    pair.run(Duration::from_millis(200));
    assert_eq!(
        (pair.server.len(), pair.server.counts.handshakes_failed),
        (0, 1)
    );
}

#[test]
fn early_data_arrives_before_the_handshake_ends_and_is_known_as_such() {
    let mut pair = Pair::with_early_data(Settings::default());
    let first = pair.connect();
    pair.run(WHILE);
    let stream = pair.send(first, "late");
    pair.run(WHILE);
    assert!(pair.client(first).1.ended.contains(&stream));
    assert!(pair.server().1.early.is_empty());
    pair.client(first).0.close(0, "");
    pair.client.wake(first);
    pair.run(WHILE * 6);
    assert!(pair.server.is_empty());

    let again = pair.connect();
    let stream = pair.send(again, "early");
    pair.run(Duration::from_millis(15));
    let (connection, peer) = pair.server();
    assert!(
        connection.is_early() && peer.early.contains(&stream),
        "{:?}",
        peer.events
    );
    assert_eq!(peer.received[&stream], b"early");
    pair.run(WHILE);
    assert!(pair.client(again).0.has_early_data());
    assert_eq!(pair.client(again).1.received[&stream], b"early");
    assert_eq!(
        pair.server().0.hello().unwrap().kind,
        Some(HandshakeKind::Resumed)
    );
    assert_eq!(pair.server.counts.early_data_connections, 1);
}

/// A copy of early data's packets, sent to another worker or later, must not be believed: sessions
/// are good once.
#[test]
fn a_session_is_good_for_early_data_once() {
    let mut pair = Pair::with_early_data(Settings::default());
    let first = pair.connect();
    pair.run(WHILE);
    pair.client(first).0.close(0, "");
    pair.client.wake(first);
    pair.run(WHILE * 6);
    let again = pair.connect();
    pair.send(again, "early");
    pair.run(Duration::ZERO);
    let copies: Vec<Vec<u8>> = pair
        .client_card
        .queue
        .iter()
        .map(|packet| packet.bytes.clone())
        .collect();
    pair.run(WHILE);
    pair.replace_server();
    let thief = "203.0.113.9:1".parse().unwrap();
    for bytes in &copies {
        let arrival = Arrival {
            peer: thief,
            local: None,
            ecn: 0,
            datagram_bytes: bytes.len(),
            bytes,
        };
        pair.server
            .receive(pair.now, arrival, &mut pair.door, &mut pair.server_card);
    }
    pair.run(Duration::from_millis(15));
    assert!(pair.server().1.early.is_empty(), "replayed");
}

/// Only a token of an earlier connection proves an address before the handshake is over.
#[test]
fn early_data_of_addresses_without_proof_is_known_as_such() {
    for has_token in [true, false] {
        let mut pair = Pair::with_early_data(Settings::default());
        let first = pair.connect();
        pair.run(WHILE);
        pair.client(first).0.close(0, "");
        pair.client.wake(first);
        pair.run(WHILE * 6);
        if !has_token {
            pair.client_config
                .token_store(Arc::new(TokenMemoryCache::default()));
        }
        let again = pair.connect();
        pair.send(again, "early");
        pair.run(Duration::from_millis(15));
        let connection = pair.server().0;
        assert!(connection.is_early() && connection.has_early_data());
        assert_eq!(connection.is_unproved_early_data(), !has_token);
        pair.run(WHILE);
        assert!(!pair.server().0.is_unproved_early_data());
        assert_eq!(pair.server.counts.early_data_connections, 1);
    }
}

/// RFC 9000 section 9: a proof of one address must not let in another.
#[test]
fn clients_stay_where_they_are_during_the_handshake() {
    let mut pair = Pair::with_early_data(Settings::default());
    let first = pair.connect();
    pair.run(WHILE);
    pair.client(first).0.close(0, "");
    pair.client.wake(first);
    pair.run(WHILE * 6);
    let (own, forged) = (
        CLIENT.parse().unwrap(),
        "203.0.113.50:40000".parse().unwrap(),
    );
    let again = pair.connect();
    pair.run(Duration::ZERO);
    let begun = pair.client_card.queue.len();
    pair.send(again, vec![1; 3000]);
    pair.run(Duration::from_millis(2));
    assert!(pair.client_card.queue.len() > begun, "nothing early");
    for packet in pair.client_card.queue.iter_mut().skip(begun) {
        packet.from = forged;
    }
    pair.run(Duration::from_millis(13));
    let (connection, peer) = pair.server();
    assert!(connection.is_early() && peer.early.is_empty());
    assert_eq!(connection.peer(), own);
    pair.run(WHILE);
    let connection = pair.server().0;
    assert!(!connection.is_early());
    assert_eq!((connection.peer(), connection.first_peer()), (own, own));
    assert_eq!(pair.server.counts.migrations, 0);
}

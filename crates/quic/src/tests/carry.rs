//! Connections carry bytes whatever the network does to packets.

use super::pair::{Pair, Peer};
use crate::{Congestion, Event, Id, Read, Settings, Written};
use std::time::Duration;

const BYTES: usize = 700_000;

fn body() -> Vec<u8> {
    (0..BYTES as u32).map(|at| (at % 251) as u8).collect()
}

fn arrives(pair: &mut Pair, id: Id) {
    let stream = pair.send(id, body());
    pair.run(Duration::from_secs(20));
    let (_, peer) = pair.client(id);
    assert!(
        peer.ended.contains(&stream),
        "{} of {BYTES}",
        peer.received[&stream].len()
    );
    assert!(peer.received[&stream] == body());
}

#[test]
fn streams_both_ways() {
    let (mut pair, id) = Pair::established(Settings::default());
    arrives(&mut pair, id);
    assert!(
        pair.server_card.ecn_seen.contains(&0b10),
        "ECN is offered (RFC 9000 section 13.4)"
    );
    let figures = pair.client(id).0.figures();
    assert!(figures.bytes_in > BYTES as u64 && figures.packets_lost == 0);
}

/// RFC 8899: Ethernet's frames are filled, over either IP; shorter paths are searched for what they
/// take.
#[test]
fn the_paths_limit_is_found() {
    let (ipv4, ipv6) = (
        ("192.0.2.1:443", "198.51.100.7:50000"),
        ("[2001:db8::1]:443", "[2001:db8::7]:50000"),
    );
    for ((server, client), limit, least) in [
        (ipv4, 9000, 1472),
        (ipv4, 1464, 1455),
        (ipv4, 1392, 1370),
        (ipv6, 9000, 1452),
        (ipv6, 1200, 1200),
    ] {
        let mut pair = Pair::new(Settings::default());
        (pair.server_card.address, pair.client_card.address) =
            (server.parse().unwrap(), client.parse().unwrap());
        pair.server_card.path.datagram_bytes_max = limit;
        let id = pair.connect();
        pair.run(Duration::from_millis(500));
        arrives(&mut pair, id);
        let found = usize::from(pair.server().0.figures().datagram_bytes);
        assert!(
            (least..=limit.min(if server.starts_with('[') { 1452 } else { 1472 })).contains(&found),
            "{server}, {limit}: {found}"
        );
    }
}

#[test]
fn every_congestion_controller_survives_loss() {
    for congestion in [Congestion::Cubic, Congestion::Bbr, Congestion::NewReno] {
        let (mut pair, id) = Pair::established(Settings {
            congestion,
            ..Settings::default()
        });
        pair.server_card.lose_each = 23;
        pair.client_card.lose_each = 31;
        arrives(&mut pair, id);
        assert!(
            pair.server().0.figures().packets_lost > 10,
            "{congestion:?}"
        );
    }
}

#[test]
fn a_full_queue_loses_nothing() {
    let (mut pair, id) = Pair::established(Settings::default());
    pair.server_card.refuse = 50;
    arrives(&mut pair, id);
    assert_eq!(pair.server().0.figures().packets_lost, 0);
    assert_eq!(pair.server_card.refuse, 0);
}

#[test]
fn a_client_may_move() {
    let (mut pair, id) = Pair::established(Settings::default());
    let stream = pair.send(id, body());
    pair.run(Duration::from_millis(60));
    pair.client_card.address = "203.0.113.50:40000".parse().unwrap();
    pair.run(Duration::from_secs(20));
    assert!(pair.client(id).1.received[&stream] == body());
    assert_eq!(
        pair.server().0.peer(),
        "203.0.113.50:40000".parse().unwrap()
    );
    assert_eq!((pair.server.counts.migrations, pair.server.len()), (1, 1));
}

#[test]
fn where_moving_is_not_allowed_the_old_address_counts() {
    let (mut pair, id) = Pair::established(Settings {
        migration: false,
        ..Settings::default()
    });
    let before = pair.server().0.peer();
    pair.client_card.address = "203.0.113.50:40000".parse().unwrap();
    pair.send(id, "here");
    pair.run(Duration::from_millis(500));
    assert_eq!(pair.server().0.peer(), before);
    assert!(pair.server().1.received.is_empty());
}

#[test]
fn keys_change_while_bytes_flow() {
    let (mut pair, id) = Pair::established(Settings::default());
    for _ in 0..3 {
        pair.client(id).0.update_keys();
        arrives(&mut pair, id);
        pair.server().0.update_keys();
        arrives(&mut pair, id);
    }
}

#[test]
fn what_is_not_read_is_not_sent() {
    let windows = Settings {
        stream_window_bytes: 20_000,
        connection_window_bytes: 30_000,
        ..Settings::default()
    };
    let settings = Settings {
        connection_window_bytes_max: 30_000,
        ..windows
    };
    let (mut pair, id) = Pair::established(settings);
    pair.server().1.reads = false;
    let first = pair.send(id, vec![1; 100_000]);
    let second = pair.send(id, vec![2; 100_000]);
    pair.run(Duration::from_secs(5));
    let (connection, _) = pair.server();
    let mut counts = [0; 2];
    for (stream, count) in [first, second].into_iter().zip(&mut counts) {
        assert_eq!(
            connection.read(stream, 10, |bytes| *count += bytes.len()),
            Read::More,
            "not more than was asked for"
        );
        assert_eq!(*count, 10);
        assert_eq!(
            connection.read(stream, usize::MAX, |bytes| *count += bytes.len()),
            Read::Blocked
        );
    }
    assert!(
        counts.iter().all(|count| *count <= 20_000) && counts.iter().sum::<usize>() <= 30_000,
        "{counts:?}"
    );
    let server = pair.server.ids().next().unwrap();
    pair.server().1.reads = true;
    pair.server.wake(server);
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.server().1.received[&first].len() + counts[0], 100_000);
    assert_eq!(pair.server().1.received[&second].len() + counts[1], 100_000);
}

/// A slow reader holds no more of our memory than its path carries, and a fast one gets as much as
/// it takes.
#[test]
fn the_send_buffer_follows_the_path() {
    let (mut pair, id) = Pair::established(Settings::default());
    pair.server().1.echoes = false;
    let stream = pair.send(id, "please");
    pair.run(Duration::from_millis(100));
    let (server, _) = pair.server();
    let chunk = vec![0; 64 << 10];
    let mut held = 0;
    while let Written::Bytes(bytes) = server.write(stream, &chunk) {
        held += bytes;
    }
    assert!((100_000..200_000).contains(&held), "{held}");
    let server = pair.server.ids().next().unwrap();
    pair.server.wake(server);
    pair.run(Duration::from_secs(1));
    let (server, peer) = pair.server();
    assert!(peer.has(&Event::Writable(stream)));
    let mut held = 0;
    while let Written::Bytes(bytes) = server.write(stream, &chunk) {
        held += bytes;
    }
    assert!(held > 150_000, "{held}");
}

#[test]
fn resets_and_stops_reach_the_other_side() {
    let (mut pair, id) = Pair::established(Settings {
        connection_window_bytes: 2 << 20,
        ..Settings::default()
    });
    pair.server().1.reads = false;
    let stopped = pair.send(id, vec![1; 500_000]);
    let reset = pair.send(id, vec![1; 500_000]);
    pair.run(Duration::from_millis(100));
    pair.server().0.stop(stopped, 0x10c);
    pair.client(id).0.reset(reset, 0x10d);
    let server = pair.server.ids().next().unwrap();
    pair.server.wake(server);
    pair.client.wake(id);
    pair.run(Duration::from_millis(100));
    assert!(pair.client(id).1.has(&Event::Stopped {
        stream: stopped,
        code: 0x10c
    }));
    assert_eq!(
        pair.server().0.read(reset, usize::MAX, |_| {}),
        Read::Reset(0x10d)
    );
    assert_eq!(pair.server().0.read(reset, usize::MAX, |_| {}), Read::Gone);
    assert_eq!(pair.client(id).0.write(stopped, b"more"), Written::Gone);
}

#[test]
fn streams_that_do_not_exist_are_gone_and_no_panic() {
    let (mut pair, id) = Pair::established(Settings::default());
    let own = pair.client(id).0.open(false).unwrap();
    for stream in [own, 4000, 4001, 4003, u64::MAX] {
        let (connection, _) = pair.client(id);
        assert_eq!(connection.read(stream, 10, |_| {}), Read::Gone, "{stream}");
        if stream != own {
            assert_eq!(connection.write(stream, b"x"), Written::Gone, "{stream}");
        }
        connection.stop(stream, 1);
        connection.prioritize(stream, 1);
    }
    arrives(&mut pair, id);
}

#[test]
fn the_peer_opens_no_more_streams_than_it_may() {
    let (mut pair, id) = Pair::established(Settings {
        streams_max: 3,
        ..Settings::default()
    });
    let opened: Vec<u64> = std::iter::from_fn(|| pair.client(id).0.open(true)).collect();
    assert_eq!(opened, [0, 4, 8]);
    for stream in opened {
        let (_, peer): (_, &mut Peer) = pair.client(id);
        peer.received.insert(stream, Vec::new());
        peer.send(stream, "x");
    }
    pair.client.wake(id);
    pair.run(Duration::from_millis(500));
    assert_eq!(pair.client(id).0.open(true), Some(12), "as others end");
}

/// More arrives on one stream than all may have at first, and the application does not read it;
/// other streams still make progress.
#[test]
fn a_stream_that_nobody_reads_holds_up_no_other() {
    let (mut pair, id) = Pair::established(Settings::default());
    pair.server().1.reads = false;
    let stalled = pair.send(id, vec![1; 3 << 20]);
    pair.run(Duration::from_secs(5));
    // As a driver does: so much is taken, and the rest left.
    assert_eq!(pair.server().0.read(stalled, 64 << 10, |_| {}), Read::More);
    let server = pair.server.ids().next().unwrap();
    pair.server.wake(server);
    pair.run(Duration::from_secs(5));
    let other = pair.send(id, vec![2; 300_000]);
    pair.run(Duration::from_secs(5));
    let mut count = 0;
    assert_eq!(
        pair.server()
            .0
            .read(other, usize::MAX, |bytes| count += bytes.len()),
        Read::End
    );
    assert_eq!(count, 300_000);
}

#[test]
fn how_open_connections_stand_is_known_and_forgotten_at_their_end() {
    let (mut pair, id) = Pair::established(Settings::default());
    let established = pair.server.connection_stats;
    assert_eq!(established.by_rtt, [0, 1, 0, 0], "twice 10 ms");
    assert!(
        (20_000..40_000).contains(&established.rtt_us),
        "{}",
        established.rtt_us
    );
    assert_eq!(
        established.receive_window_bytes,
        u64::from(Settings::default().connection_window_bytes)
    );
    pair.server_card.lose_each = 23;
    arrives(&mut pair, id);
    let (grown, counts) = (pair.server.connection_stats, pair.server.counts);
    assert!(
        grown.congestion_window_bytes > 0
            && grown.congestion_window_bytes != established.congestion_window_bytes
    );
    assert!(
        counts.packets_sent > 300 && counts.packets_lost > 10 && counts.congestion_events > 0,
        "while it is open: {counts:?}"
    );
    assert_eq!(counts.ended, 0);
    pair.client(id).0.close(0, "");
    pair.client.wake(id);
    pair.run(Duration::from_secs(5));
    assert_eq!(
        pair.server.connection_stats,
        crate::ConnectionStats::default()
    );
    assert!(
        pair.server.counts.ended == 1 && pair.server.counts.ended_rtt_us > 19_000,
        "{:?}",
        pair.server.counts
    );
}

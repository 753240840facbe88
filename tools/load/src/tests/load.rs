//! The load against a small server of its own. That it gets along with real servers is for the
//! tests of those.

use super::server::{CUT, HELLO, NOT_FOUND, Server};
use saker_load::{
    counts::LoadCounts,
    load,
    plan::{End, Plan, Tickets},
};
use std::{net::UdpSocket, sync::atomic::Ordering, time::Duration};

fn passed(counts: &LoadCounts, requests: u64) {
    assert!(
        counts.errors.is_empty() && counts.requests() == requests,
        "{counts}"
    );
    assert_eq!(counts.bytes_received, requests * 5);
    assert!(counts.latencies.longest() > Duration::ZERO);
}

#[test]
fn every_request_is_made_once_and_timed() {
    let server = Server::start(HELLO);
    let counts = load(&Plan {
        connections: 5,
        streams: 4,
        end: End::Requests(203),
        ..server.plan()
    })
    .expect("ran");
    passed(&counts, 203);
    assert_eq!(
        (
            counts.handshakes,
            server.seen.requests.load(Ordering::Relaxed)
        ),
        (5, 203)
    );
}

#[test]
fn connections_end_after_so_many_requests_and_others_follow() {
    let server = Server::start(HELLO);
    let plan = Plan {
        connections: 2,
        streams: 3,
        requests_per_connection: Some(5),
        end: End::Requests(40),
        ..server.plan()
    };
    let counts = load(&plan).expect("ran");
    passed(&counts, 40);
    // The last ones share what is left.
    assert!((8..=10).contains(&counts.handshakes), "{counts}");
    assert_eq!(
        server.seen.connections.load(Ordering::Relaxed) as u64,
        counts.handshakes
    );
}

#[test]
fn content_goes_up() {
    let server = Server::start(HELLO);
    let counts = load(&Plan {
        streams: 2,
        upload_bytes: Some(300_000),
        end: End::Requests(6),
        ..server.plan()
    })
    .expect("ran");
    passed(&counts, 6);
    assert_eq!(counts.bytes_sent, 1_800_000);
    let seen = server.seen.bytes.load(Ordering::Relaxed);
    assert!((1_800_000..1_801_000).contains(&seen), "{seen}");
}

#[test]
fn tickets_are_used_for_early_data() {
    let server = Server::start(HELLO);
    let plan = Plan {
        requests_per_connection: Some(1),
        end: End::Requests(10),
        ..server.plan()
    };
    let without = load(&plan).expect("ran");
    passed(&without, 10);
    assert_eq!((without.handshakes, without.early), (10, 0));
    let with = load(&Plan {
        tickets: Tickets::EarlyData,
        ..plan
    })
    .expect("ran");
    passed(&with, 10);
    // The first had nothing to go by, and some are over before their ticket is there.
    assert!(
        with.handshakes == 10 && (2..10).contains(&with.early),
        "{with}"
    );
}

#[test]
fn a_visitor_thinks_between_requests() {
    let server = Server::start(HELLO);
    let counts = load(&Plan {
        think: Duration::from_millis(50),
        end: End::Requests(5),
        ..server.plan()
    })
    .expect("ran");
    passed(&counts, 5);
    assert!(counts.time >= Duration::from_millis(200), "{counts}");
}

#[test]
fn a_time_can_be_set_instead_of_a_number() {
    let server = Server::start(HELLO);
    let end = End::Time {
        warm_up: Duration::from_millis(100),
        counted: Duration::from_millis(300),
    };
    let counts = load(&Plan {
        streams: 2,
        end,
        ..server.plan()
    })
    .expect("ran");
    assert!(
        counts.errors.is_empty() && counts.requests() > 0 && counts.handshakes == 0,
        "{counts}"
    );
    assert!(
        counts.time >= Duration::from_millis(300) && counts.time < Duration::from_secs(3),
        "{counts}"
    );
    let in_all = server.seen.requests.load(Ordering::Relaxed) as u64;
    assert!(in_all > counts.requests(), "the warm-up is not counted");
}

#[test]
fn idle_connections_stay_and_answer_again() {
    let server = Server::start(HELLO);
    let look = || server.seen.requests.load(Ordering::Relaxed);
    let (asked, errors) = saker_load::idle(
        server.address,
        "/",
        &server.chain,
        30,
        Duration::from_millis(100),
        10,
        look,
    )
    .expect("ran");
    assert_eq!(
        (asked, errors, server.seen.requests.load(Ordering::Relaxed)),
        (30, 0, 33)
    );
}

#[test]
fn what_goes_wrong_is_an_error_with_its_name() {
    for (answer, name) in [
        (NOT_FOUND, "status 404"),
        (CUT, "the stream ended within a frame"),
        (b"", "the stream ended without a response"),
    ] {
        let server = Server::start(answer);
        let counts = load(&Plan {
            end: End::Requests(3),
            ..server.plan()
        })
        .expect("ran");
        assert_eq!(
            (counts.requests(), counts.errors.get(name)),
            (0, Some(&3)),
            "{counts}"
        );
    }
}

#[test]
fn nobody_there_is_an_error_after_a_while() {
    let server = Server::start(HELLO);
    let silent = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let address = silent.local_addr().expect("bound");
    let counts = load(&Plan {
        address,
        patience: Duration::from_millis(200),
        ..server.plan()
    })
    .expect("ran");
    assert_eq!(
        (counts.requests(), counts.errors_in_all()),
        (0, 1),
        "{counts}"
    );
}

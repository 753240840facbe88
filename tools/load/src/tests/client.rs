//! The client of tests against a small server that answers every request with the same bytes.

use super::server::{CUT, HELLO, NOT_FOUND, Server};
use saker_load::client::{Client, Trust};
use std::sync::atomic::Ordering;

fn connect(server: &Server) -> (Client, Trust) {
    let trust = Trust::new(&server.chain).expect("a certificate");
    (
        Client::connect(server.address, &trust).expect("connected"),
        trust,
    )
}

#[test]
fn responses_are_whole_and_kept_until_they_are_asked_for() {
    let server = Server::start(HELLO);
    let (mut client, _) = connect(&server);
    let streams = [1, 2, 3].map(|_| {
        client
            .ask("GET", "/", &[("accept", "*/*")], Some(b""))
            .expect("sent")
    });
    for stream in streams.into_iter().rev() {
        let response = client.answer(stream).expect("answered");
        assert_eq!(
            (response.status, response.body.as_slice()),
            (200, &b"hello"[..])
        );
        assert_eq!(response.field("content-length"), Some("5"));
    }
    assert!(client.answer(streams[0]).is_err(), "once");
}

#[test]
fn content_goes_up_in_pieces() {
    let server = Server::start(HELLO);
    let (mut client, _) = connect(&server);
    let stream = client.ask("POST", "/", &[], None).expect("sent");
    let piece = vec![b'x'; 3_000_000];
    client.send(stream, &piece, false).expect("sent");
    client.send(stream, b"end", true).expect("sent");
    assert_eq!(client.answer(stream).expect("answered").status, 200);
    let seen = server.seen.bytes.load(Ordering::Relaxed);
    assert!((3_000_003..3_000_200).contains(&seen), "{seen}");
}

#[test]
fn a_response_can_be_read_as_it_comes() {
    let server = Server::start(HELLO);
    let (mut client, _) = connect(&server);
    let stream = client.ask("GET", "/", &[], Some(b"")).expect("sent");
    assert_eq!(client.head(stream).expect("answered").0, 200);
    assert_eq!(client.content(stream, 2).expect("there"), b"he");
    assert_eq!(client.content(stream, 100).expect("there"), b"llo");
}

#[test]
fn another_port_is_the_same_connection() {
    let server = Server::start(HELLO);
    let (mut client, _) = connect(&server);
    for _ in 0..3 {
        assert_eq!(client.get("/").expect("answered").status, 200);
        client.move_to_another_port().expect("moved");
    }
    assert_eq!(server.seen.connections.load(Ordering::Relaxed), 1);
}

#[test]
fn early_data_leaves_with_the_first_packets() {
    let server = Server::start(HELLO);
    let (mut first, trust) = connect(&server);
    assert!(!first.has_early_data());
    first.get("/").expect("answered");
    first
        .idle(std::time::Duration::from_millis(50))
        .expect("the tickets come");
    let mut second = Client::begin(server.address, &trust, Client::transport()).expect("begun");
    assert!(second.has_early_data());
    assert_eq!(second.get("/").expect("answered").status, 200);
    assert!(second.is_early_data_accepted().expect("connected"));
}

#[test]
fn what_goes_wrong_is_said() {
    let server = Server::start(NOT_FOUND);
    assert_eq!(connect(&server).0.get("/").expect("answered").status, 404);
    let server = Server::start(CUT);
    let error = connect(&server).0.get("/").expect_err("it is cut");
    assert!(
        error.contains("reset") || error.contains("broke"),
        "{error}"
    );
    let server = Server::start(b"\x04\x00");
    let error = connect(&server)
        .0
        .get("/")
        .expect_err("SETTINGS have no place there");
    assert!(error.contains("broke the protocol"), "{error}");
}

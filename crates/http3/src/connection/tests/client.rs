//! Responses as a client hears them.

use super::*;

fn get(bench: &mut Bench, stream: u64, method: &str) {
    let fields = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/"),
    ];
    let opened = bench.machine.open(stream, true, &mut bench.out, |head| {
        fields
            .iter()
            .for_each(|(name, value)| head.pseudo(name.as_bytes(), value.as_bytes()));
    });
    assert_eq!(opened, Ok(()));
}

#[test]
fn a_response_after_an_informational_one() {
    let mut bench = Bench::client(Limits::default());
    get(&mut bench, 0, "GET");
    let input = [
        headers(&[(":status", "103")]),
        headers(&[(":status", "200"), ("content-length", "4")]),
        data(4),
    ]
    .concat();
    assert_eq!(
        bench.feed(0, &input, true).unwrap(),
        ["informational 0", "head 0", "data 0 4 end"]
    );
    assert_eq!(bench.machine.open_streams(), 0);
}

/// RFC 9114 section 4.1: what a response may be.
#[test]
fn responses() {
    let ok = |more: &[(&str, &str)]| headers(&[&[(":status", "200")], more].concat());
    let push = frame(kind::PUSH_PROMISE, &[0, 0, 0]);
    type Want = Result<&'static [&'static str], Reason>;
    let rows: [(&str, &str, Vec<u8>, Want); 16] = [
        (
            "content and trailers",
            "GET",
            [ok(&[]), data(2), headers(&[("a", "b")])].concat(),
            Ok(&["head 0", "data 0 2", "trailers 0"]),
        ),
        ("nothing", "GET", vec![], Ok(&["reset 0 H3_MESSAGE_ERROR"])),
        (
            "informational only",
            "GET",
            headers(&[(":status", "100")]),
            Ok(&["informational 0", "reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "content after informational",
            "GET",
            [headers(&[(":status", "100")]), data(1)].concat(),
            Err(Reason::ContentBeforeHead),
        ),
        (
            "101",
            "GET",
            headers(&[(":status", "101")]),
            Ok(&["reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "no status",
            "GET",
            headers(&[("a", "b")]),
            Ok(&["reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "a request",
            "GET",
            headers(&GET),
            Ok(&["reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "too short",
            "GET",
            [ok(&[("content-length", "3")]), data(2)].concat(),
            Ok(&["head 0", "reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "HEAD",
            "HEAD",
            ok(&[("content-length", "3")]),
            Ok(&["head 0 end"]),
        ),
        (
            "content for HEAD",
            "HEAD",
            [ok(&[]), data(1)].concat(),
            Ok(&["head 0", "reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "said content for HEAD",
            "HEAD",
            [ok(&[("content-length", "1")]), data(1)].concat(),
            Ok(&["head 0", "reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "304",
            "GET",
            headers(&[(":status", "304"), ("content-length", "9")]),
            Ok(&["head 0 end"]),
        ),
        ("a push", "GET", push, Err(Reason::PushRefused)),
        (
            "a tunnel",
            "CONNECT",
            [ok(&[("content-length", "9")]), data(1)].concat(),
            Ok(&["head 0", "data 0 1 end"]),
        ),
        (
            "a tunnel refused",
            "CONNECT",
            [headers(&[(":status", "403")]), headers(&[])].concat(),
            Ok(&["head 0", "trailers 0"]),
        ),
        (
            "fields in a tunnel",
            "CONNECT",
            [ok(&[]), headers(&[])].concat(),
            Err(Reason::FieldsInTunnel),
        ),
    ];
    for (name, method, input, want) in rows {
        let mut bench = Bench::client(Limits::default());
        get(&mut bench, 0, method);
        match (bench.feed(0, &input, true), want) {
            (Ok(events), Ok(want)) => assert_eq!(events, want, "{name}"),
            (got, want) => assert_eq!(got.err(), want.err(), "{name}"),
        }
    }
}

#[test]
fn what_a_server_allows_is_known_when_its_settings_come() {
    let mut bench = Bench::new(Connection::client(Limits::default()));
    assert!(!bench.machine.is_peer_known() && !bench.machine.peer_allows_extended_connect());
    bench.open(3);
    bench
        .feed(
            3,
            &[&[0], &settings(&[(8, 1), (6, 1_000), (0x33, 1)])[..]].concat(),
            false,
        )
        .unwrap();
    assert!(bench.machine.peer_allows_extended_connect() && bench.machine.peer_allows_datagrams());
    assert_eq!(bench.machine.peer_field_section_bytes_max(), Some(1_000));
}

#[test]
fn informational_responses_are_counted() {
    let mut bench = Bench::client(Limits {
        empty_frames_max: 3,
        ..Limits::default()
    });
    get(&mut bench, 0, "GET");
    let early = headers(&[(":status", "103")]);
    assert!((0..3).all(|_| bench.feed(0, &early, false).is_ok()));
    assert_eq!(
        bench.feed(0, &early, false),
        Err(Reason::TooManyEmptyFrames)
    );
}

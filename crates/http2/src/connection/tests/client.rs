//! The role of the client.

use super::*;

fn response(stream: u32, fields: &[(&str, &str)], end: bool) -> Vec<u8> {
    headers(stream, fields, end)
}

#[test]
fn a_request_and_its_answer() {
    let mut bench = Bench::client(Limits::default());
    assert_eq!(
        (bench.open("GET", true), bench.open("POST", false)),
        (Ok(1), Ok(3))
    );
    assert_eq!(bench.data(3, 4, true), 4);
    assert_eq!(bench.sent(), ["HEADERS 1 end", "HEADERS 3", "DATA 3 4 end"]);
    let input = [
        response(3, &[(":status", "103"), ("link", "x")], false),
        response(1, &[(":status", "200"), ("content-length", "5")], false),
        data(1, 5, true),
        response(3, &[(":status", "404")], false),
        data(3, 1, false),
        response(3, &[("x-sum", "1")], true),
    ];
    let events = bench.events(&input.concat());
    assert_eq!(
        events,
        [
            "informational 3",
            "head 1",
            "data 1 5/5 end",
            "head 3",
            "data 3 1/1",
            "trailers 3"
        ]
    );
    assert_eq!(bench.machine.open_streams(), 0);
}

#[test]
fn the_head_store_has_the_status() {
    let mut bench = Bench::client(Limits::default());
    bench.open("GET", true).unwrap();
    bench.events(&response(1, &[(":status", "418"), ("a", "b")], true));
    assert_eq!(bench.head.status().0, 418);
    assert_eq!(
        bench.head.view().fields().collect::<Vec<_>>(),
        [(&b"a"[..], &b"b"[..])]
    );
}

#[test]
fn content_length_counts_where_there_is_content() {
    let rows: [(&str, &str, &str, usize, &str); 9] = [
        ("GET", "200", "5", 5, "data 1 5/5 end"),
        ("GET", "200", "5", 4, "reset 1 PROTOCOL_ERROR"),
        ("GET", "200", "5", 6, "reset 1 PROTOCOL_ERROR"),
        ("HEAD", "200", "5", 0, "data 1 0/0 end"),
        ("HEAD", "200", "5", 1, "reset 1 PROTOCOL_ERROR"),
        ("GET", "304", "5", 0, "data 1 0/0 end"),
        ("GET", "304", "5", 5, "reset 1 PROTOCOL_ERROR"),
        ("GET", "204", "0", 1, "reset 1 PROTOCOL_ERROR"),
        ("CONNECT", "200", "5", 7, "data 1 7/7 end"),
    ];
    for (method, status, length, bytes, want) in rows {
        let mut bench = Bench::client(Limits::default());
        bench.open(method, method != "CONNECT").unwrap();
        let fields = [(":status", status), ("content-length", length)];
        assert_eq!(
            bench.events(&[response(1, &fields, false), data(1, bytes, true)].concat()),
            ["head 1", want],
            "{method} {status} {length} {bytes}"
        );
    }
}

/// Name, input, events or the fault.
type Row = (
    &'static str,
    Vec<u8>,
    Result<&'static [&'static str], Reason>,
);

#[test]
fn answers_that_break_a_rule() {
    let rows: [Row; 10] = [
        (
            "content before the head",
            data(1, 5, false),
            Ok(&["reset 1 PROTOCOL_ERROR"]),
        ),
        (
            "1xx that ends",
            response(1, &[(":status", "103")], true),
            Ok(&["reset 1 PROTOCOL_ERROR"]),
        ),
        (
            "no status",
            response(1, &[("a", "b")], true),
            Ok(&["reset 1 PROTOCOL_ERROR"]),
        ),
        (
            "on a stream we have not opened",
            response(5, &[(":status", "200")], true),
            Err(Reason::BadStreamId),
        ),
        (
            "pushed",
            response(2, &[(":status", "200")], true),
            Err(Reason::BadStreamId),
        ),
        (
            "PUSH_PROMISE",
            frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2]),
            Err(Reason::PushRefused),
        ),
        ("ENABLE_PUSH", settings(&[(2, 1)]), Err(Reason::BadSetting)),
        (
            "PRIORITY_UPDATE",
            frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]),
            Err(Reason::BadStreamId),
        ),
        (
            "twice",
            [
                response(1, &[(":status", "200")], true),
                response(1, &[(":status", "200")], true),
            ]
            .concat(),
            Err(Reason::FrameOnClosedStream),
        ),
        (
            "RST_STREAM",
            rst(1, ErrorCode::RefusedStream),
            Ok(&["reset 1 REFUSED_STREAM"]),
        ),
    ];
    for (name, input, want) in rows {
        let mut bench = Bench::client(Limits::default());
        bench.open("GET", true).unwrap();
        assert_eq!(
            bench.feed(&input),
            want.map(|events| events.iter().map(|event| (*event).to_owned()).collect()),
            "{name}"
        );
    }
}

#[test]
fn an_answer_that_is_early_leaves_the_request_to_its_end() {
    let mut bench = Bench::client(Limits::default());
    bench.open("POST", false).unwrap();
    let early = [
        response(1, &[(":status", "413")], true),
        rst(1, ErrorCode::NoError),
    ]
    .concat();
    assert_eq!(bench.events(&early), ["head 1 end", "reset 1 NO_ERROR"]);
    assert_eq!(bench.data(1, 5, true), 0);
    bench.open("POST", false).unwrap();
    assert_eq!(
        bench.events(&response(3, &[(":status", "200")], true)),
        ["head 3 end"]
    );
    assert_eq!(
        (bench.data(3, 5, true), bench.machine.open_streams()),
        (5, 0)
    );
}

#[test]
fn what_comes_for_a_stream_that_we_reset_is_ignored() {
    let mut bench = Bench::client(Limits::default());
    bench.open("GET", true).unwrap();
    bench
        .machine
        .send_reset(StreamId(1), ErrorCode::Cancel, &mut bench.out);
    let late = [
        response(1, &[(":status", "200")], false),
        data(1, 10, true),
        rst(1, ErrorCode::NoError),
        window_update(1, 5),
    ]
    .concat();
    assert!(bench.events(&late).is_empty());
}

#[test]
fn no_more_streams_than_the_server_allows() {
    let mut bench = Bench::new(Connection::client(Limits::default()));
    assert_eq!(
        (0..200).filter(|_| bench.open("GET", true).is_ok()).count(),
        100
    );
    assert_eq!(bench.open("GET", true), Err(OpenError::TooMany));
    let mut bench = Bench::client(Limits::default());
    assert_eq!(
        (0..200).filter(|_| bench.open("GET", true).is_ok()).count(),
        200
    );
    bench.events(&settings(&[(3, 200)]));
    assert_eq!(bench.open("GET", true), Err(OpenError::TooMany));
    bench.events(&response(7, &[(":status", "204")], true));
    assert_eq!(
        (bench.open("GET", true), bench.open("GET", true)),
        (Ok(401), Err(OpenError::TooMany))
    );
}

#[test]
fn goaway_takes_the_streams_above_and_forbids_new_ones() {
    let mut bench = Bench::client(Limits::default());
    (0..3).for_each(|_| assert!(bench.open("GET", true).is_ok()));
    assert_eq!(
        bench.events(&frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0])),
        ["goaway 3 NO_ERROR"]
    );
    assert_eq!(
        (bench.machine.open_streams(), bench.open("GET", true)),
        (2, Err(OpenError::GoingAway))
    );
    assert_eq!(
        bench
            .events(
                &[
                    response(1, &[(":status", "200")], true),
                    response(3, &[(":status", "200")], true)
                ]
                .concat()
            )
            .len(),
        2
    );
    assert!(bench.machine.is_finished());
    bench.machine.shut_down(&mut bench.out);
    assert_eq!(bench.sent().last().unwrap(), "GOAWAY 0 NO_ERROR");
}

#[test]
fn extended_connect_is_allowed_when_the_server_says_so() {
    let mut bench = Bench::client(Limits::default());
    assert!(!bench.machine.peer_allows_extended_connect());
    bench.events(&settings(&[(8, 1), (6, 77)]));
    assert!(bench.machine.peer_allows_extended_connect());
    assert_eq!(bench.machine.peer_header_list_bytes_max(), Some(77));
}

#[test]
fn a_server_opens_nothing() {
    assert_eq!(
        Bench::server(Limits::default()).open("GET", true),
        Err(OpenError::GoingAway)
    );
}

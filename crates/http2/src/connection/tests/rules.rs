//! One row per rule of RFC 9113 about frames: what ends a stream, what ends the connection, what is
//! ignored.

use super::*;

/// Expectation of one row.
enum Want {
    /// The connection ends.
    Fault(Reason),
    /// Events, and frames sent.
    Goes(&'static [&'static str], &'static [&'static str]),
}

use Want::{Fault, Goes};

fn check(name: &str, mut bench: Bench, input: &[u8], want: &Want) {
    match (bench.feed(input), want) {
        (Err(reason), Fault(wanted)) => assert_eq!(reason, *wanted, "{name}"),
        (Ok(events), Goes(wanted, frames)) => {
            assert_eq!(events, *wanted, "{name}");
            assert_eq!(bench.sent(), *frames, "{name}");
        }
        (got, _) => panic!("{name}: {got:?}"),
    }
}

/// Rows on a server with stream 1 half-closed (remote), 3 open, 5 reset by us, 7 reset by the
/// client, 9 answered and closed.
fn server() -> Bench {
    let mut bench = Bench::server(Limits::default());
    bench.events(
        &[
            get(1),
            post(3),
            post(5),
            post(7),
            rst(7, ErrorCode::Cancel),
            get(9),
        ]
        .concat(),
    );
    bench
        .machine
        .send_reset(StreamId(5), ErrorCode::Cancel, &mut bench.out);
    bench
        .machine
        .send_head(StreamId(9), true, &mut bench.out, |head| head.status(204));
    bench.out.clear();
    bench
}

fn run(rows: &[(&str, Vec<u8>, Want)]) {
    for (name, input, want) in rows {
        check(name, server(), input, want);
    }
}

const END_HEADERS: u8 = flag::END_HEADERS;

#[test]
fn frames_by_state_of_the_stream() {
    run(&[
        (
            "DATA on an open stream",
            data(3, 5, true),
            Goes(&["data 3 5/5 end"], &[]),
        ),
        (
            "DATA on idle",
            data(11, 5, true),
            Fault(Reason::FrameOnIdleStream),
        ),
        (
            "DATA on an idle stream of the server's",
            data(2, 5, true),
            Fault(Reason::FrameOnIdleStream),
        ),
        (
            "DATA on half-closed (remote)",
            data(1, 5, true),
            Goes(&["reset 1 STREAM_CLOSED"], &["RST_STREAM 1 STREAM_CLOSED"]),
        ),
        ("DATA on reset by us", data(5, 5, true), Goes(&[], &[])),
        (
            "DATA on reset by the client",
            data(7, 5, true),
            Fault(Reason::FrameOnClosedStream),
        ),
        (
            "DATA on closed",
            data(9, 5, true),
            Fault(Reason::FrameOnClosedStream),
        ),
        (
            "DATA on stream 0",
            data(0, 5, true),
            Fault(Reason::FrameOnConnection),
        ),
        (
            "HEADERS on stream 0",
            get(0),
            Fault(Reason::FrameOnConnection),
        ),
        (
            "HEADERS on a stream of the server's",
            get(2),
            Fault(Reason::BadStreamId),
        ),
        (
            "HEADERS on half-closed (remote)",
            get(1),
            Goes(&["reset 1 STREAM_CLOSED"], &["RST_STREAM 1 STREAM_CLOSED"]),
        ),
        (
            "trailers on reset by us",
            headers(5, &[("a", "b")], true),
            Goes(&[], &[]),
        ),
        (
            "HEADERS on reset by the client",
            get(7),
            Fault(Reason::FrameOnClosedStream),
        ),
        (
            "HEADERS on closed",
            get(9),
            Fault(Reason::FrameOnClosedStream),
        ),
        (
            "HEADERS on a skipped identifier",
            [get(15), get(13)].concat(),
            Fault(Reason::BadStreamId),
        ),
        (
            "trailers without END_STREAM",
            headers(3, &[("a", "b")], false),
            Goes(
                &["reset 3 PROTOCOL_ERROR"],
                &["RST_STREAM 3 PROTOCOL_ERROR"],
            ),
        ),
        (
            "trailers",
            headers(3, &[("a", "b")], true),
            Goes(&["trailers 3"], &[]),
        ),
        (
            "RST_STREAM on idle",
            rst(11, ErrorCode::Cancel),
            Fault(Reason::FrameOnIdleStream),
        ),
        (
            "RST_STREAM on open",
            rst(3, ErrorCode::NoError),
            Goes(&["reset 3 NO_ERROR"], &[]),
        ),
        (
            "RST_STREAM on closed",
            rst(9, ErrorCode::Cancel),
            Goes(&[], &[]),
        ),
        (
            "RST_STREAM on stream 0",
            rst(0, ErrorCode::Cancel),
            Fault(Reason::FrameOnConnection),
        ),
        (
            "RST_STREAM of another size",
            frame(kind::RST_STREAM, 0, 3, &[0; 3]),
            Fault(Reason::BadFrameSize),
        ),
        (
            "WINDOW_UPDATE on idle",
            window_update(11, 1),
            Fault(Reason::FrameOnIdleStream),
        ),
        (
            "WINDOW_UPDATE on closed",
            window_update(9, 1),
            Goes(&[], &[]),
        ),
        (
            "WINDOW_UPDATE on half-closed (remote)",
            window_update(1, 1),
            Goes(&[], &[]),
        ),
        (
            "PRIORITY on idle",
            frame(kind::PRIORITY, 0, 11, &[0, 0, 0, 3, 1]),
            Goes(&[], &[]),
        ),
        (
            "CONTINUATION by itself",
            frame(kind::CONTINUATION, END_HEADERS, 3, &[]),
            Fault(Reason::UnexpectedContinuation),
        ),
        (
            "PUSH_PROMISE",
            frame(kind::PUSH_PROMISE, END_HEADERS, 3, &[0, 0, 0, 2]),
            Fault(Reason::PushRefused),
        ),
    ]);
}

#[test]
fn sizes_padding_and_streams_of_frames() {
    let large = vec![0; 16_385];
    run(&[
        (
            "DATA as large as may be",
            data(3, 16_384, false),
            Goes(&["data 3 16384/16384"], &[]),
        ),
        (
            "DATA too large",
            frame(kind::DATA, 0, 3, &large),
            Fault(Reason::FrameTooLarge),
        ),
        (
            "HEADERS too large",
            frame(kind::HEADERS, 0, 11, &large),
            Fault(Reason::FrameTooLarge),
        ),
        (
            "unknown type too large",
            frame(0xfe, 0, 11, &large),
            Fault(Reason::FrameTooLarge),
        ),
        (
            "padding",
            frame(kind::DATA, flag::PADDED, 3, b"\x02abc\0\0"),
            Goes(&["data 3 3/6"], &[]),
        ),
        (
            "nothing but padding",
            frame(kind::DATA, flag::PADDED | 1, 3, b"\x02\0\0"),
            Goes(&["data 3 0/3 end"], &[]),
        ),
        (
            "padding longer than the frame",
            frame(kind::DATA, flag::PADDED, 3, b"\x03\0\0"),
            Fault(Reason::BadPadding),
        ),
        (
            "padding of nothing",
            frame(kind::DATA, flag::PADDED, 3, b""),
            Fault(Reason::BadFrameSize),
        ),
        (
            "padding of HEADERS too long",
            frame(kind::HEADERS, flag::PADDED | 5, 11, b"\x05\x82"),
            Fault(Reason::BadPadding),
        ),
        (
            "HEADERS without room for a priority",
            frame(kind::HEADERS, flag::PRIORITY | 5, 11, &[0; 4]),
            Fault(Reason::BadFrameSize),
        ),
        (
            "PING of another size",
            frame(kind::PING, 0, 0, &[0; 7]),
            Fault(Reason::BadFrameSize),
        ),
        (
            "PING on a stream",
            frame(kind::PING, 0, 3, &[0; 8]),
            Fault(Reason::FrameOnStream),
        ),
        ("PING", ping(b"12345678"), Goes(&[], &["PING ack"])),
        (
            "PING acknowledged",
            frame(kind::PING, flag::ACK, 0, &[0; 8]),
            Goes(&[], &[]),
        ),
        (
            "SETTINGS on a stream",
            frame(kind::SETTINGS, 0, 3, &[]),
            Fault(Reason::FrameOnStream),
        ),
        (
            "SETTINGS of another size",
            frame(kind::SETTINGS, 0, 0, &[0; 5]),
            Fault(Reason::BadFrameSize),
        ),
        (
            "SETTINGS acknowledged with a payload",
            frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
            Fault(Reason::SettingsAckWithPayload),
        ),
        (
            "SETTINGS",
            settings(&[(0x99, 1)]),
            Goes(&[], &["SETTINGS ack"]),
        ),
        (
            "SETTINGS out of range",
            settings(&[(2, 2)]),
            Fault(Reason::BadSetting),
        ),
        (
            "GOAWAY on a stream",
            frame(kind::GOAWAY, 0, 3, &[0; 8]),
            Fault(Reason::FrameOnStream),
        ),
        (
            "GOAWAY of another size",
            frame(kind::GOAWAY, 0, 0, &[0; 7]),
            Fault(Reason::BadFrameSize),
        ),
        (
            "GOAWAY",
            frame(kind::GOAWAY, 0, 0, b"\0\0\0\x02\0\0\0\x0bwhy"),
            Goes(&["goaway 2 ENHANCE_YOUR_CALM"], &[]),
        ),
        (
            "WINDOW_UPDATE of another size",
            frame(kind::WINDOW_UPDATE, 0, 3, &[0; 5]),
            Fault(Reason::BadFrameSize),
        ),
        (
            "WINDOW_UPDATE by 0",
            window_update(3, 0),
            Goes(
                &["reset 3 PROTOCOL_ERROR"],
                &["RST_STREAM 3 PROTOCOL_ERROR"],
            ),
        ),
        (
            "WINDOW_UPDATE by 0 of the connection",
            window_update(0, 0),
            Fault(Reason::ZeroIncrement),
        ),
        (
            "the reserved bit",
            window_update(3, 0x8000_0001),
            Goes(&[], &[]),
        ),
        (
            "an unknown type",
            frame(0xfe, 0xff, 77, b"abc"),
            Goes(&[], &[]),
        ),
        (
            "unknown flags",
            frame(kind::PING, 0xf6, 0, &[0; 8]),
            Goes(&[], &["PING ack"]),
        ),
        (
            "PRIORITY on stream 0",
            frame(kind::PRIORITY, 0, 0, &[0; 5]),
            Fault(Reason::FrameOnConnection),
        ),
        (
            "PRIORITY of another size",
            frame(kind::PRIORITY, 0, 3, &[0; 4]),
            Goes(
                &["reset 3 FRAME_SIZE_ERROR"],
                &["RST_STREAM 3 FRAME_SIZE_ERROR"],
            ),
        ),
        (
            "PRIORITY on itself",
            frame(kind::PRIORITY, 0, 3, &[0x80, 0, 0, 3, 9]),
            Goes(
                &["reset 3 PROTOCOL_ERROR"],
                &["RST_STREAM 3 PROTOCOL_ERROR"],
            ),
        ),
        (
            "PRIORITY on itself, closed",
            frame(kind::PRIORITY, 0, 9, &[0, 0, 0, 9, 9]),
            Goes(&[], &["RST_STREAM 9 PROTOCOL_ERROR"]),
        ),
        (
            "PRIORITY_UPDATE on a stream",
            frame(kind::PRIORITY_UPDATE, 0, 3, &[0, 0, 0, 3]),
            Fault(Reason::FrameOnStream),
        ),
        (
            "PRIORITY_UPDATE of another size",
            frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 3]),
            Fault(Reason::BadFrameSize),
        ),
        (
            "PRIORITY_UPDATE of stream 0",
            frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 4]),
            Fault(Reason::BadStreamId),
        ),
        (
            "PRIORITY_UPDATE of a pushed stream",
            frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 2]),
            Fault(Reason::BadStreamId),
        ),
    ]);
}

#[test]
fn field_blocks() {
    let whole = block(&GET);
    let (first, second) = whole.split_at(4);
    let dependent = [&[0, 0, 0, 11, 5], &whole[..]].concat();
    let padded = [&[2, 0, 0, 0, 1, 5], &whole[..], &[0, 0]].concat();
    let begun = |flags| frame(kind::HEADERS, flags, 11, first);
    let rest = |stream| frame(kind::CONTINUATION, END_HEADERS, stream, second);
    run(&[
        (
            "CONTINUATION",
            [begun(1), rest(11)].concat(),
            Goes(&["head 11 end"], &[]),
        ),
        (
            "CONTINUATION by bytes",
            by_bytes(11, &whole[..4]),
            Goes(&["head 11"], &[]),
        ),
        (
            "CONTINUATION of another stream",
            [begun(1), rest(3)].concat(),
            Fault(Reason::ContinuationExpected),
        ),
        (
            "another frame between",
            [begun(1), ping(b"12345678"), rest(11)].concat(),
            Fault(Reason::ContinuationExpected),
        ),
        (
            "an unknown frame between",
            [begun(1), frame(0xfe, 0, 0, &[]), rest(11)].concat(),
            Fault(Reason::ContinuationExpected),
        ),
        (
            "padding and priority",
            frame(
                kind::HEADERS,
                flag::PADDED | flag::PRIORITY | 5,
                11,
                &padded,
            ),
            Goes(&["head 11 end"], &[]),
        ),
        (
            "a stream that depends on itself",
            frame(kind::HEADERS, flag::PRIORITY | 5, 11, &dependent),
            Goes(&[], &["RST_STREAM 11 PROTOCOL_ERROR"]),
        ),
        (
            "a block that can't be decoded",
            frame(kind::HEADERS, 5, 11, &[0x80]),
            Fault(Reason::BadFieldBlock),
        ),
        (
            "the same on a stream reset by us",
            frame(kind::HEADERS, 5, 5, &[0x80]),
            Fault(Reason::BadFieldBlock),
        ),
        (
            "malformed",
            headers(11, &[(":method", "GET")], true),
            Goes(&[], &["RST_STREAM 11 PROTOCOL_ERROR"]),
        ),
        (
            "malformed trailers",
            headers(3, &[(":method", "GET")], true),
            Goes(
                &["reset 3 PROTOCOL_ERROR"],
                &["RST_STREAM 3 PROTOCOL_ERROR"],
            ),
        ),
        (
            "content after a malformed head",
            [headers(11, &[("a", "b")], false), data(11, 9, true)].concat(),
            Goes(&[], &["RST_STREAM 11 PROTOCOL_ERROR"]),
        ),
    ]);
}

/// HEADERS and CONTINUATION of one byte each, ended by a frame with the rest of a request.
fn by_bytes(stream: u32, some: &[u8]) -> Vec<u8> {
    let whole = block(&GET);
    let mut frames = frame(kind::HEADERS, 0, stream, &some[..1]);
    some[1..]
        .iter()
        .for_each(|byte| frames.extend(frame(kind::CONTINUATION, 0, stream, &[*byte])));
    frames.extend(frame(
        kind::CONTINUATION,
        END_HEADERS,
        stream,
        &whole[some.len()..],
    ));
    frames
}

#[test]
fn content_must_be_as_long_as_content_length_says() {
    let post = |length: &'static str| {
        headers(
            11,
            &[&POST[..], &[("content-length", length)]].concat(),
            false,
        )
    };
    let ended = |length: &'static str| {
        headers(
            11,
            &[&POST[..], &[("content-length", length)]].concat(),
            true,
        )
    };
    let reset: &[&str] = &["RST_STREAM 11 PROTOCOL_ERROR"];
    run(&[
        (
            "exact",
            [post("5"), data(11, 2, false), data(11, 3, true)].concat(),
            Goes(&["head 11", "data 11 2/2", "data 11 3/3 end"], &[]),
        ),
        (
            "too short",
            [post("5"), data(11, 4, true)].concat(),
            Goes(&["head 11", "reset 11 PROTOCOL_ERROR"], reset),
        ),
        (
            "too long",
            [post("5"), data(11, 6, false)].concat(),
            Goes(&["head 11", "reset 11 PROTOCOL_ERROR"], reset),
        ),
        ("none at all", ended("5"), Goes(&[], reset)),
        ("none wanted", ended("0"), Goes(&["head 11 end"], &[])),
        (
            "cut short by trailers",
            [post("5"), data(11, 4, false), headers(11, &[], true)].concat(),
            Goes(
                &["head 11", "data 11 4/4", "reset 11 PROTOCOL_ERROR"],
                reset,
            ),
        ),
        (
            "before trailers",
            [post("4"), data(11, 4, false), headers(11, &[], true)].concat(),
            Goes(&["head 11", "data 11 4/4", "trailers 11"], &[]),
        ),
    ]);
}

#[test]
fn the_beginning() {
    let fresh = || Bench::new(Connection::server(Limits::default(), false));
    let rows: [(&str, Vec<u8>, Want); 7] = [
        (
            "all of it",
            [PREFACE, &settings(&[])[..], &get(1)].concat(),
            Goes(&["head 1 end"], &["SETTINGS ack"]),
        ),
        (
            "HTTP/1",
            b"GET / HTTP/1.1\r\n".to_vec(),
            Fault(Reason::BadPreface),
        ),
        (
            "one byte is wrong",
            [&PREFACE[..23], b"x"].concat(),
            Fault(Reason::BadPreface),
        ),
        (
            "another frame first",
            [PREFACE, &ping(b"12345678")[..]].concat(),
            Fault(Reason::NoSettings),
        ),
        (
            "a request first",
            [PREFACE, &get(1)[..]].concat(),
            Fault(Reason::NoSettings),
        ),
        (
            "an acknowledgement first",
            [PREFACE, &settings_ack()[..]].concat(),
            Fault(Reason::NoSettings),
        ),
        (
            "a large frame first",
            [&PREFACE[..], &[1, 0, 0, 4, 0, 0, 0, 0, 0]].concat(),
            Fault(Reason::FrameTooLarge),
        ),
    ];
    for (name, input, want) in &rows {
        check(name, fresh(), input, want);
    }
    assert_eq!(
        sent(&begun(Connection::server(Limits::default(), false))),
        ["SETTINGS", "WINDOW_UPDATE 0 983041"]
    );
    let client = begun(Connection::client(Limits::default()));
    assert!(client.starts_with(PREFACE));
    assert_eq!(sent(&client), ["SETTINGS", "WINDOW_UPDATE 0 983041"]);
}

fn begun(mut machine: Connection) -> Vec<u8> {
    let mut out = Vec::new();
    machine.begin(&mut out);
    out
}

#[test]
fn after_a_fault_nothing_is_read() {
    let mut bench = server();
    assert_eq!(
        bench.feed(&data(0, 1, false)),
        Err(Reason::FrameOnConnection)
    );
    let length = bench.out.len();
    assert_eq!(bench.feed(&get(11)), Err(Reason::FrameOnConnection));
    assert_eq!(bench.out.len(), length);
}

//! One row per rule of RFC 9114, RFC 9204 and their companions about frames and streams that a
//! receiver can check: what ends a stream, what ends the connection, what is ignored.

use super::*;
use crate::frame::kind::*;

/// Expectation of one row: the connection's end, or events.
type Want = Result<&'static [&'static str], Reason>;

#[track_caller]
fn check(name: &str, got: Result<Vec<String>, Reason>, want: Want) {
    match (got, want) {
        (Ok(events), Ok(wanted)) => assert_eq!(events, wanted, "{name}"),
        (got, want) => assert_eq!(got.err(), want.err(), "{name}"),
    }
}

fn number(kind: u64, value: u64) -> Vec<u8> {
    frame(kind, &integers(&[value]))
}

/// RFC 9114 section 4.1: frames of a request, with the end of the stream behind them.
#[test]
fn request_streams() {
    let (get, post, trailers) = (headers(&GET), headers(&POST), headers(&[("a", "b")]));
    let connect = headers(&[(":method", "CONNECT"), (":authority", "a:1")]);
    let with_length = headers(&[&POST[..], &[("content-length", "3")]].concat());
    let upper_case = frame(HEADERS, &[&section(&GET)[..], b"\x21X\x01y"].concat());
    let rows: [(&str, Vec<u8>, Want); 45] = [
        ("a request", get.clone(), Ok(&["head 0 end"])),
        (
            "content",
            [post.clone(), data(3), data(2)].concat(),
            Ok(&["head 0", "data 0 3", "data 0 2 end"]),
        ),
        (
            "trailers",
            [post.clone(), data(3), trailers.clone()].concat(),
            Ok(&["head 0", "data 0 3", "trailers 0"]),
        ),
        (
            "trailers without content",
            [post.clone(), trailers.clone()].concat(),
            Ok(&["head 0", "trailers 0"]),
        ),
        (
            "empty content",
            [post.clone(), data(0)].concat(),
            Ok(&["head 0", "data 0 0 end"]),
        ),
        ("nothing", vec![], Ok(&["reset 0 H3_REQUEST_INCOMPLETE"])),
        (
            "an unknown frame only",
            frame(0x21, b"abc"),
            Ok(&["reset 0 H3_REQUEST_INCOMPLETE"]),
        ),
        (
            "unknown frames around",
            [frame(0x21, b""), get.clone(), frame(0x40, &[0; 70])].concat(),
            Ok(&["head 0", "data 0 0 end"]),
        ),
        (
            "an unknown frame after trailers",
            [post.clone(), trailers.clone(), frame(0x21, b"x")].concat(),
            Ok(&["head 0", "trailers 0"]),
        ),
        ("content first", data(1), Err(Reason::ContentBeforeHead)),
        (
            "empty content first",
            data(0),
            Err(Reason::ContentBeforeHead),
        ),
        (
            "content after trailers",
            [post.clone(), trailers.clone(), data(1)].concat(),
            Err(Reason::FrameAfterTrailers),
        ),
        (
            "trailers twice",
            [post.clone(), trailers.clone(), trailers.clone()].concat(),
            Err(Reason::FrameAfterTrailers),
        ),
        (
            "a head for trailers",
            [post.clone(), get.clone()].concat(),
            Ok(&["head 0", "reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "a tunnel",
            [connect.clone(), data(1)].concat(),
            Ok(&["head 0", "data 0 1 end"]),
        ),
        (
            "fields in a tunnel",
            [connect.clone(), data(1), trailers.clone()].concat(),
            Err(Reason::FieldsInTunnel),
        ),
        (
            "unknown frames in a tunnel",
            [connect, frame(0x21, b"x")].concat(),
            Ok(&["head 0", "data 0 0 end"]),
        ),
        (
            "CANCEL_PUSH",
            number(CANCEL_PUSH, 0),
            Err(Reason::FrameOnRequestStream),
        ),
        ("SETTINGS", settings(&[]), Err(Reason::FrameOnRequestStream)),
        (
            "GOAWAY",
            number(GOAWAY, 0),
            Err(Reason::FrameOnRequestStream),
        ),
        (
            "MAX_PUSH_ID",
            number(MAX_PUSH_ID, 0),
            Err(Reason::FrameOnRequestStream),
        ),
        (
            "PRIORITY_UPDATE",
            number(PRIORITY_UPDATE, 0),
            Err(Reason::FrameOnRequestStream),
        ),
        (
            "PRIORITY_UPDATE of a push",
            number(PRIORITY_UPDATE_OF_PUSH, 0),
            Err(Reason::FrameOnRequestStream),
        ),
        (
            "PUSH_PROMISE",
            frame(PUSH_PROMISE, &[0, 0, 0]),
            Err(Reason::PushFromClient),
        ),
        (
            "PRIORITY of HTTP/2",
            frame(0x02, &[]),
            Err(Reason::FrameOfHttp2),
        ),
        (
            "PING of HTTP/2",
            frame(0x06, &[]),
            Err(Reason::FrameOfHttp2),
        ),
        (
            "WINDOW_UPDATE of HTTP/2",
            frame(0x08, &[]),
            Err(Reason::FrameOfHttp2),
        ),
        (
            "CONTINUATION of HTTP/2",
            frame(0x09, &[]),
            Err(Reason::FrameOfHttp2),
        ),
        (
            "a frame header cut off",
            [get.clone(), vec![0x40]].concat(),
            Err(Reason::FrameTruncated),
        ),
        (
            "a type without a length",
            [get.clone(), vec![0x21]].concat(),
            Err(Reason::FrameTruncated),
        ),
        (
            "a section cut off",
            get[..get.len() - 1].to_vec(),
            Err(Reason::FrameTruncated),
        ),
        (
            "content cut off",
            [post.clone(), data(3)[..4].to_vec()].concat(),
            Err(Reason::FrameTruncated),
        ),
        (
            "content announced only",
            [post.clone(), data(3)[..2].to_vec()].concat(),
            Err(Reason::FrameTruncated),
        ),
        (
            "an unknown frame cut off",
            [get.clone(), vec![0x21, 2, 0]].concat(),
            Err(Reason::FrameTruncated),
        ),
        (
            "an empty section",
            frame(HEADERS, &[]),
            Err(Reason::BadFieldSection),
        ),
        (
            "a section of nothing",
            frame(HEADERS, &[0, 0]),
            Ok(&["reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "an index beyond the table",
            frame(HEADERS, &[0, 0, 0xff, 0x24]),
            Err(Reason::BadFieldSection),
        ),
        (
            "an impossible count",
            frame(HEADERS, &[0xff, 0xff, 0xff, 0]),
            Err(Reason::BadFieldSection),
        ),
        (
            "a reference into nothing",
            frame(HEADERS, &[0, 0, 0x80]),
            Err(Reason::BadFieldSection),
        ),
        (
            "content as long as said",
            [with_length.clone(), data(2), data(1)].concat(),
            Ok(&["head 0", "data 0 2", "data 0 1 end"]),
        ),
        (
            "content too long",
            [with_length.clone(), data(4)].concat(),
            Ok(&["head 0", "reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "content too long, cut off",
            [with_length.clone(), data(9)[..4].to_vec()].concat(),
            Ok(&["head 0", "reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "content too short",
            [with_length.clone(), data(2)].concat(),
            Ok(&["head 0", "reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "no content though said",
            with_length,
            Ok(&["reset 0 H3_MESSAGE_ERROR"]),
        ),
        (
            "a malformed head",
            upper_case,
            Ok(&["reset 0 H3_MESSAGE_ERROR"]),
        ),
    ];
    for (name, input, want) in rows {
        check(
            name,
            Bench::server(Limits::default()).request(0, &input, true),
            want,
        );
        // In parts the events may be cut differently, but the end is the same.
        let mut bench = Bench::server(Limits::default());
        bench.open(0);
        let parts: Result<Vec<Vec<String>>, Reason> = input
            .iter()
            .map(|byte| bench.feed(0, &[*byte], false))
            .collect();
        let got =
            parts.and_then(|events| Ok([events.concat(), bench.feed(0, &[], true)?].concat()));
        assert_eq!(got.as_ref().err(), want.err().as_ref(), "{name}, in parts");
        let is_reset = |event: Option<&str>| event.is_some_and(|event| event.starts_with("reset"));
        let last = got.ok().and_then(|events| events.last().cloned());
        assert_eq!(
            is_reset(last.as_deref()),
            is_reset(want.unwrap_or_default().last().copied()),
            "{name}, in parts"
        );
    }
}

/// RFC 9114 sections 6.2.1 and 7.2: frames behind SETTINGS on the control stream of a client.
#[test]
fn the_control_stream_of_a_client() {
    let priority =
        |id: u64, value: &[u8]| frame(PRIORITY_UPDATE, &[&integers(&[id])[..], value].concat());
    let far = 4 * 2 * 128;
    let rows: [(&str, Vec<u8>, Want); 33] = [
        ("SETTINGS again", settings(&[]), Err(Reason::SecondSettings)),
        ("DATA", data(0), Err(Reason::FrameOnControlStream)),
        ("HEADERS", headers(&GET), Err(Reason::FrameOnControlStream)),
        (
            "PUSH_PROMISE",
            frame(PUSH_PROMISE, &[0, 0, 0]),
            Err(Reason::FrameOnControlStream),
        ),
        (
            "PRIORITY of HTTP/2",
            frame(0x02, &[]),
            Err(Reason::FrameOfHttp2),
        ),
        (
            "PING of HTTP/2",
            frame(0x06, &[]),
            Err(Reason::FrameOfHttp2),
        ),
        (
            "WINDOW_UPDATE of HTTP/2",
            frame(0x08, &[]),
            Err(Reason::FrameOfHttp2),
        ),
        (
            "CONTINUATION of HTTP/2",
            frame(0x09, &[]),
            Err(Reason::FrameOfHttp2),
        ),
        (
            "unknown types",
            [
                frame(0x21, &[0; 100]),
                frame(0x7fff, b""),
                number(GOAWAY, 1),
            ]
            .concat(),
            Ok(&["goaway 1"]),
        ),
        ("GOAWAY", number(GOAWAY, 7), Ok(&["goaway 7"])),
        (
            "GOAWAY twice",
            [number(GOAWAY, 7), number(GOAWAY, 7)].concat(),
            Ok(&["goaway 7", "goaway 7"]),
        ),
        (
            "GOAWAY raised",
            [number(GOAWAY, 7), number(GOAWAY, 8)].concat(),
            Err(Reason::GoAwayRaised),
        ),
        (
            "GOAWAY of nothing",
            frame(GOAWAY, &[]),
            Err(Reason::BadFrameSize),
        ),
        (
            "GOAWAY with more",
            frame(GOAWAY, &[0, 0]),
            Err(Reason::BadFrameSize),
        ),
        (
            "GOAWAY with half an integer",
            frame(GOAWAY, &[0x40]),
            Err(Reason::BadFrameSize),
        ),
        (
            "MAX_PUSH_ID",
            [
                number(MAX_PUSH_ID, 0),
                number(MAX_PUSH_ID, 0),
                number(MAX_PUSH_ID, 9),
            ]
            .concat(),
            Ok(&[]),
        ),
        (
            "MAX_PUSH_ID reduced",
            [number(MAX_PUSH_ID, 9), number(MAX_PUSH_ID, 8)].concat(),
            Err(Reason::MaxPushIdReduced),
        ),
        (
            "MAX_PUSH_ID of nothing",
            frame(MAX_PUSH_ID, &[]),
            Err(Reason::BadFrameSize),
        ),
        (
            "CANCEL_PUSH of no push",
            number(CANCEL_PUSH, 0),
            Err(Reason::NoSuchPush),
        ),
        (
            "CANCEL_PUSH of nothing",
            frame(CANCEL_PUSH, &[]),
            Err(Reason::BadFrameSize),
        ),
        (
            "CANCEL_PUSH with more",
            frame(CANCEL_PUSH, &[0, 0]),
            Err(Reason::BadFrameSize),
        ),
        ("PRIORITY_UPDATE", priority(0, b"u=1"), Ok(&[])),
        ("PRIORITY_UPDATE without a value", priority(4, b""), Ok(&[])),
        (
            "PRIORITY_UPDATE that says nothing",
            priority(4, b"\xff\xff"),
            Ok(&[]),
        ),
        (
            "PRIORITY_UPDATE of nothing",
            frame(PRIORITY_UPDATE, &[]),
            Err(Reason::BadFrameSize),
        ),
        (
            "PRIORITY_UPDATE of a server's stream",
            priority(1, b"u=1"),
            Err(Reason::BadPriorityStream),
        ),
        (
            "PRIORITY_UPDATE of a control stream",
            priority(2, b"u=1"),
            Err(Reason::BadPriorityStream),
        ),
        (
            "PRIORITY_UPDATE of the last stream",
            priority(far - 4, b"u=1"),
            Ok(&[]),
        ),
        (
            "PRIORITY_UPDATE beyond the limit",
            priority(far, b"u=1"),
            Err(Reason::BadPriorityStream),
        ),
        (
            "PRIORITY_UPDATE of a push",
            number(PRIORITY_UPDATE_OF_PUSH, 0),
            Err(Reason::NoSuchPush),
        ),
        ("the largest frame", priority(0, &[b' '; 1_023]), Ok(&[])),
        (
            "a larger one",
            priority(0, &[b' '; 1_024]),
            Err(Reason::ControlFrameTooLarge),
        ),
        (
            "a large integer",
            frame(GOAWAY, &[0; 1_025]),
            Err(Reason::BadFrameSize),
        ),
    ];
    for (name, input, want) in rows {
        check(
            name,
            Bench::server(Limits::default()).feed(CONTROL, &input, false),
            want,
        );
        let mut bench = Bench::server(Limits::default());
        let parts: Result<Vec<Vec<String>>, Reason> = input
            .iter()
            .map(|byte| bench.feed(CONTROL, &[*byte], false))
            .collect();
        check(
            &format!("{name}, in parts"),
            parts.map(|events| events.concat()),
            want,
        );
    }
}

/// The same for those of a server, whose streams are one higher.
#[test]
fn the_control_stream_of_a_server() {
    let rows: [(&str, Vec<u8>, Want); 7] = [
        ("GOAWAY", number(GOAWAY, 8), Ok(&["goaway 8"])),
        (
            "GOAWAY of a push",
            number(GOAWAY, 7),
            Err(Reason::BadGoAway),
        ),
        (
            "GOAWAY raised",
            [number(GOAWAY, 8), number(GOAWAY, 12)].concat(),
            Err(Reason::GoAwayRaised),
        ),
        (
            "MAX_PUSH_ID",
            number(MAX_PUSH_ID, 0),
            Err(Reason::MaxPushIdFromServer),
        ),
        (
            "CANCEL_PUSH",
            number(CANCEL_PUSH, 0),
            Err(Reason::NoSuchPush),
        ),
        (
            "PRIORITY_UPDATE",
            number(PRIORITY_UPDATE, 0),
            Err(Reason::PriorityUpdateFromServer),
        ),
        (
            "PRIORITY_UPDATE of a push",
            number(PRIORITY_UPDATE_OF_PUSH, 0),
            Err(Reason::PriorityUpdateFromServer),
        ),
    ];
    for (name, input, want) in rows {
        check(
            name,
            Bench::client(Limits::default()).feed(CONTROL + 1, &input, false),
            want,
        );
    }
}

/// RFC 9114 section 6.2.1.
#[test]
fn settings_come_first_and_are_checked() {
    let large = settings(&(0..600).map(|at| (100 + at, 0)).collect::<Vec<_>>());
    let rows: [(&str, Vec<u8>, Want); 10] = [
        ("SETTINGS", settings(&[]), Ok(&[])),
        (
            "an unknown frame",
            frame(0x21, &[]),
            Err(Reason::NoSettings),
        ),
        ("GOAWAY", number(GOAWAY, 0), Err(Reason::NoSettings)),
        ("DATA", data(0), Err(Reason::NoSettings)),
        (
            "a setting of HTTP/2",
            settings(&[(4, 65_535)]),
            Err(Reason::SettingOfHttp2),
        ),
        (
            "a setting twice",
            settings(&[(6, 1), (6, 1)]),
            Err(Reason::SettingTwice),
        ),
        (
            "extended CONNECT out of range",
            settings(&[(8, 2)]),
            Err(Reason::BadSetting),
        ),
        (
            "datagrams out of range",
            settings(&[(0x33, 2)]),
            Err(Reason::BadSetting),
        ),
        (
            "half a setting",
            frame(SETTINGS, &[6]),
            Err(Reason::BadFrameSize),
        ),
        ("too many", large, Err(Reason::SettingsTooLarge)),
    ];
    for (name, input, want) in rows {
        let mut bench = Bench::new(Connection::server(Limits::default(), true));
        bench.open(CONTROL);
        check(
            name,
            bench.feed(CONTROL, &[&[0], &input[..]].concat(), false),
            want,
        );
        assert_eq!(bench.machine.is_peer_known(), want.is_ok());
    }
}

/// RFC 9114 sections 6.2 and 6.2.2, RFC 9204 section 4.2: the beginning of one more stream of a
/// client.
#[test]
fn types_of_unidirectional_streams() {
    let stop: &[&str] = &["stop 14 H3_STREAM_CREATION_ERROR"];
    let rows: [(&str, &[u8], bool, Want); 14] = [
        (
            "a second control stream",
            &[0],
            false,
            Err(Reason::SecondStreamOfType),
        ),
        (
            "a second encoder stream",
            &[2],
            false,
            Err(Reason::SecondStreamOfType),
        ),
        (
            "a second decoder stream",
            &[3],
            false,
            Err(Reason::SecondStreamOfType),
        ),
        (
            "a push stream",
            &[1, 0],
            false,
            Err(Reason::ClientPushStream),
        ),
        ("an unknown type", &[0x21, 1, 2, 3], false, Ok(stop)),
        (
            "an unknown type of two bytes",
            &[0x40, 0x54, 1],
            false,
            Ok(stop),
        ),
        ("an unknown type of eight bytes", &[0xff; 9], true, Ok(stop)),
        ("half a type", &[0xc0, 0, 0], false, Ok(&[])),
        ("half a type, and the end", &[0xc0, 0, 0], true, Ok(&[])),
        ("nothing", &[], true, Ok(&[])),
        (
            "a type in a longer form",
            &[0x40, 0x00],
            false,
            Err(Reason::SecondStreamOfType),
        ),
        (
            "a longer one",
            &[0xc0, 0, 0, 0, 0, 0, 0, 1],
            false,
            Err(Reason::ClientPushStream),
        ),
        ("reserved", &[0x40, 0x40], false, Ok(stop)),
        ("WebTransport", &[0x40, 0x54], false, Ok(stop)),
    ];
    for (name, input, fin, want) in rows {
        let mut bench = Bench::server(Limits::default());
        for (stream, kind) in [(ENCODER, 2), (DECODER, 3)] {
            bench.open(stream);
            bench.feed(stream, &[kind], false).unwrap();
        }
        bench.open(14);
        check(name, bench.feed(14, input, fin), want);
    }
}

/// RFC 9114 section 6.2.1, RFC 9204 section 4.2: none of these may end, whichever way.
#[test]
fn critical_streams_stay_open() {
    let bench = || {
        let mut bench = Bench::server(Limits::default());
        for (stream, kind) in [(ENCODER, 2), (DECODER, 3), (14, 0x21)] {
            bench.open(stream);
            bench.feed(stream, &[kind], false).unwrap();
        }
        bench.open(18);
        bench
    };
    let closed = Some(ErrorCode::ClosedCriticalStream);
    for stream in [CONTROL, ENCODER, DECODER] {
        assert_eq!(
            bench().feed(stream, &[], true),
            Err(Reason::CriticalStreamClosed)
        );
        assert_eq!(
            bench()
                .machine
                .stream_reset(stream, 0)
                .err()
                .map(|fault| fault.code),
            closed
        );
    }
    assert_eq!(
        bench().feed(CONTROL, &number(GOAWAY, 1), true),
        Err(Reason::CriticalStreamClosed)
    );
    for stream in [14, 18] {
        assert_eq!(bench().feed(stream, &[], true), Ok(vec![]));
        assert_eq!(bench().machine.stream_reset(stream, 0), Ok(false));
    }
    // STOP_SENDING for one of ours.
    assert_eq!(
        bench()
            .machine
            .stream_stopped(3, 0)
            .err()
            .map(|fault| fault.code),
        closed
    );
}

/// RFC 9204 section 6.
#[test]
fn streams_of_qpack() {
    let rows: [(&str, u64, &[u8], Want); 9] = [
        ("a capacity", ENCODER, &[2, 0x3f, 0xe1, 0x1f], Ok(&[])),
        (
            "a capacity too large",
            ENCODER,
            &[2, 0x3f, 0xe2, 0x1f],
            Err(Reason::BadEncoderStream),
        ),
        (
            "an insertion without capacity",
            ENCODER,
            b"\x02\x41a\x01b",
            Err(Reason::BadEncoderStream),
        ),
        (
            "a duplicate of nothing",
            ENCODER,
            &[2, 0],
            Err(Reason::BadEncoderStream),
        ),
        (
            "a name beyond the static table",
            ENCODER,
            &[2, 0xff, 0x24, 0],
            Err(Reason::BadEncoderStream),
        ),
        (
            "an acknowledgement of nothing",
            DECODER,
            &[3, 0x80],
            Err(Reason::BadDecoderStream),
        ),
        (
            "an increment of nothing",
            DECODER,
            &[3, 0],
            Err(Reason::BadDecoderStream),
        ),
        (
            "an increment beyond what is there",
            DECODER,
            &[3, 1],
            Err(Reason::BadDecoderStream),
        ),
        ("a cancellation", DECODER, &[3, 0x40], Ok(&[])),
    ];
    for (name, stream, input, want) in rows {
        let mut bench = Bench::server(Limits::default());
        bench.open(stream);
        check(name, bench.feed(stream, input, false), want);
    }
}

/// RFC 9114 section 6.1.
#[test]
fn streams_that_may_not_be_opened() {
    let mut client = Bench::client(Limits::default());
    assert_eq!(
        client.machine.opened(1).err().map(|fault| fault.code),
        Some(ErrorCode::StreamCreationError)
    );
    assert_eq!(
        client.feed(1, &[], true),
        Err(Reason::ServerOpenedStream),
        "nothing is read after a fault"
    );
    let mut client = Bench::client(Limits::default());
    client.open(7);
    assert_eq!(client.feed(7, &[1, 0], false), Err(Reason::PushRefused));
}

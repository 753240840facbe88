//! Requests and their answers as a driver sees them.

use super::*;
use crate::hpack::{Decoder, FieldSink, NameKind};

struct Fields(Vec<String>);

impl FieldSink for Fields {
    fn field(&mut self, _kind: NameKind, name: &[u8], value: &[u8], _never: bool) -> bool {
        self.0.push(format!(
            "{}={}",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value)
        ));
        true
    }
}

/// The fields of all HEADERS frames in `out`, CONTINUATION joined.
fn fields(mut out: &[u8], decoder: &mut Decoder) -> Vec<Vec<String>> {
    let (mut heads, mut block) = (Vec::new(), Vec::new());
    while let Some(header) = FrameHeader::parse(out) {
        let end = HEADER_BYTES + header.length as usize;
        if matches!(header.kind, kind::HEADERS | kind::CONTINUATION) {
            block.extend_from_slice(&out[HEADER_BYTES..end]);
            if header.has(flag::END_HEADERS) {
                let mut sink = Fields(Vec::new());
                decoder
                    .decode(&std::mem::take(&mut block), &mut sink)
                    .unwrap();
                heads.push(sink.0);
            }
        }
        out = &out[end..];
    }
    heads
}

#[test]
fn a_request_and_its_answer() {
    let mut bench = Bench::server(Limits::default());
    assert_eq!(bench.events(&get(1)), ["head 1 end"]);
    assert_eq!(bench.head.view().start_line(), b"GET / HTTP/2.0");
    let informed = bench
        .machine
        .send_informational(StreamId(1), &mut bench.out, |head| head.status(103));
    let sent_head = bench
        .machine
        .send_head(StreamId(1), false, &mut bench.out, |head| {
            head.status(200);
            head.field(b"Server", b"saker", Indexing::Add);
            head.raw(&block(&[("content-length", "5")]));
        });
    assert!(informed && sent_head);
    assert_eq!(bench.data(1, 5, true), 5);
    let heads = fields(&bench.out, &mut Decoder::new(4096));
    assert_eq!(
        heads,
        [
            &[":status=103"][..],
            &[":status=200", "server=saker", "content-length=5"]
        ]
    );
    assert_eq!(bench.sent(), ["HEADERS 1", "HEADERS 1", "DATA 1 5 end"]);
    assert_eq!(bench.machine.open_streams(), 0);
}

#[test]
fn verbs_for_a_stream_that_is_gone_do_nothing_and_keep_the_encoder_in_step() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&[get(1), rst(1, ErrorCode::Cancel)].concat());
    let gone = StreamId(1);
    let never = |_: &mut HeadEncoder<'_>| panic!("nothing to encode");
    assert!(!bench.machine.send_head(gone, true, &mut bench.out, never));
    assert!(
        !bench
            .machine
            .send_informational(gone, &mut bench.out, never)
    );
    assert!(!bench.machine.send_trailers(gone, &mut bench.out, never));
    assert_eq!(bench.machine.begin_data(gone, 10, true, &mut bench.out), 0);
    bench
        .machine
        .send_reset(gone, ErrorCode::Cancel, &mut bench.out);
    bench.machine.set_ready(gone, true);
    bench.machine.set_priority(gone, Priority::default());
    assert_eq!(
        (
            bench.machine.next_ready(),
            bench.machine.send_capacity(gone),
            bench.machine.is_open(gone)
        ),
        (None, 0, false)
    );
    assert!(bench.out.is_empty());
}

#[test]
fn trailers_end_an_answer() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&get(1));
    assert!(
        !bench
            .machine
            .send_trailers(StreamId(1), &mut bench.out, |_| ()),
        "not before the head"
    );
    bench.answer(1);
    bench.data(1, 3, false);
    assert!(
        bench
            .machine
            .send_trailers(StreamId(1), &mut bench.out, |head| head.field(
                b"x-sum",
                b"1",
                Indexing::Without
            ))
    );
    assert_eq!(bench.sent(), ["HEADERS 1", "DATA 1 3", "HEADERS 1 end"]);
    assert_eq!(bench.machine.open_streams(), 0);
}

#[test]
fn a_head_beyond_a_frame_goes_on_in_continuation() {
    for (bytes, want) in [
        (16_000, &["HEADERS 1 end"][..]),
        (
            40_000,
            &[
                "HEADERS 1 end more",
                "CONTINUATION 1 more",
                "CONTINUATION 1",
            ],
        ),
    ] {
        let mut bench = Bench::server(Limits::default());
        bench.events(&get(1));
        // Bytes that the Huffman code would make longer.
        let value = vec![b'|'; bytes];
        bench
            .machine
            .send_head(StreamId(1), true, &mut bench.out, |head| {
                head.status(200);
                head.field(b"x-large", &value, Indexing::Without);
            });
        let head = &fields(&bench.out, &mut Decoder::new(4096))[0];
        assert_eq!(head[1].len(), "x-large=".len() + bytes);
        assert_eq!(bench.sent(), want);
    }
}

#[test]
fn a_block_of_exactly_one_frame_has_no_continuation() {
    for (bytes, want) in [
        (16_384, &["HEADERS 1"][..]),
        (16_385, &["HEADERS 1 more", "CONTINUATION 1"]),
    ] {
        let mut bench = Bench::server(Limits::default());
        bench.events(&get(1));
        bench
            .machine
            .send_head(StreamId(1), false, &mut bench.out, |head| {
                head.raw(&vec![0x88; bytes])
            });
        assert_eq!(bench.sent(), want);
    }
}

#[test]
fn an_answer_before_the_end_of_the_request_is_followed_by_silence() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&post(1));
    bench
        .machine
        .send_head(StreamId(1), true, &mut bench.out, |head| head.status(413));
    assert_eq!(
        (
            bench.machine.open_streams(),
            bench.machine.is_open(StreamId(1))
        ),
        (1, false)
    );
    // Further input is ignored, whatever it is.
    assert!(
        bench
            .events(&[data(1, 10, false), window_update(1, 5)].concat())
            .is_empty()
    );
    bench
        .machine
        .send_reset(StreamId(1), ErrorCode::NoError, &mut bench.out);
    assert!(
        bench
            .events(&[data(1, 10, true), rst(1, ErrorCode::Cancel)].concat())
            .is_empty()
    );
    assert_eq!(
        sent(&bench.out),
        ["HEADERS 1 end"],
        "the reset comes by itself"
    );
    assert_eq!(bench.sent(), ["HEADERS 1 end", "RST_STREAM 1 NO_ERROR"]);
    // The same without a reset: the client's end closes the stream.
    bench.events(&post(3));
    bench
        .machine
        .send_head(StreamId(3), true, &mut bench.out, |head| head.status(413));
    assert!(bench.events(&data(3, 10, true)).is_empty());
    assert_eq!(bench.machine.open_streams(), 0);
}

#[test]
fn a_tunnel_talks_on_after_one_side_has_ended() {
    let mut bench = Bench::server(Limits::default());
    let connect = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/chat"),
    ];
    assert_eq!(bench.events(&headers(1, &connect, false)), ["head 1"]);
    assert_eq!(bench.head.protocol(), Some(&b"websocket"[..]));
    bench.answer(1);
    bench.data(1, 3, true);
    assert_eq!(bench.events(&data(1, 10, false)), ["data 1 10/10"]);
    assert_eq!(bench.events(&data(1, 4, true)), ["data 1 4/4 end"]);
    assert_eq!(bench.machine.open_streams(), 0);
}

#[test]
fn an_upgraded_connection_owes_the_answer_to_stream_1() {
    let payload = [0, 4, 0, 0, 0, 7];
    let mut bench = Bench::new(Connection::server_upgraded(Limits::default(), &payload).unwrap());
    bench.machine.begin(&mut bench.out);
    bench.answer(1);
    assert_eq!(bench.data(1, 10, true), 7);
    bench.out.clear();
    let more = [PREFACE, &settings(&[])[..], &window_update(1, 3), &get(3)].concat();
    assert_eq!(bench.events(&more), ["window", "head 3 end"]);
    assert_eq!(bench.data(1, 3, true), 3);
    assert_eq!(bench.sent(), ["SETTINGS ack", "DATA 1 3 end"]);
    assert!(bench.machine.is_open(StreamId(3)) && !bench.machine.is_open(StreamId(1)));
    let bad = Connection::server_upgraded(Limits::default(), &[0, 4, 0xff, 0, 0, 0]).err();
    assert_eq!(bad, Some(Reason::WindowSettingTooLarge));
    assert_eq!(
        Connection::server_upgraded(Limits::default(), &[0; 5]).err(),
        Some(Reason::BadFrameSize)
    );
}

#[test]
fn the_encoder_keeps_to_the_table_that_the_client_wants() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&[settings(&[(1, 0)]), get(1), get(3)].concat());
    bench.out.clear();
    for stream in [1, 3] {
        bench
            .machine
            .send_head(StreamId(stream), true, &mut bench.out, |head| {
                head.field(b"a", b"b", Indexing::Add)
            });
    }
    let mut decoder = Decoder::new(0);
    decoder.settings_acknowledged();
    assert_eq!(fields(&bench.out, &mut decoder), [["a=b"], ["a=b"]]);
}

#[test]
fn priorities_come_from_the_request_from_frames_and_from_the_driver() {
    let mut bench = Bench::server(Limits::default());
    let update = |stream: u32, value: &str| {
        frame(
            kind::PRIORITY_UPDATE,
            0,
            0,
            &[&stream.to_be_bytes()[..], value.as_bytes()].concat(),
        )
    };
    let with = |stream, value| headers(stream, &[&GET[..], &[("priority", value)]].concat(), true);
    let priority = |bench: &Bench, stream| {
        bench
            .machine
            .priority(StreamId(stream))
            .map(|found| (found.urgency, found.incremental))
    };
    bench.events(
        &[
            update(5, "u=1"),
            update(3, "i"),
            with(3, "u=7"),
            get(5),
            with(7, "u=2, i"),
            get(9),
        ]
        .concat(),
    );
    let all: Vec<_> = [1, 3, 5, 7, 9]
        .iter()
        .map(|stream| priority(&bench, *stream))
        .collect();
    assert_eq!(
        all,
        [
            None,
            Some((3, true)),
            Some((1, false)),
            Some((2, true)),
            Some((3, false))
        ]
    );
    for stream in [3, 5, 7, 9] {
        bench.answer(stream);
        bench.machine.set_ready(StreamId(stream), true);
    }
    assert_eq!(bench.machine.next_ready(), Some(StreamId(5)));
    bench.events(&update(9, "u=0"));
    assert_eq!(bench.machine.next_ready(), Some(StreamId(9)));
    bench.machine.set_priority(
        StreamId(9),
        Priority {
            urgency: 7,
            incremental: false,
        },
    );
    assert_eq!(bench.machine.next_ready(), Some(StreamId(5)));
    bench.data(5, 1, true);
    assert_eq!(bench.machine.next_ready(), Some(StreamId(7)));
}

#[test]
fn only_so_many_idle_priorities_are_kept() {
    let mut bench = Bench::server(Limits::default());
    for stream in 0..40u32 {
        let payload = [&(2 * stream + 101).to_be_bytes()[..], b"u=0"].concat();
        bench.events(&frame(kind::PRIORITY_UPDATE, 0, 0, &payload));
    }
    assert_eq!(bench.machine.idle_priorities.len(), 16);
    bench.events(&get(177));
    assert_eq!(
        bench
            .machine
            .priority(StreamId(177))
            .map(|found| found.urgency),
        Some(0)
    );
    assert_eq!(bench.machine.idle_priorities.len(), 1);
}

#[test]
fn slots_are_reused_and_given_back() {
    let mut bench = Bench::server(Limits::default());
    for at in 0..1_000 {
        let streams = [8 * at + 1, 8 * at + 3, 8 * at + 5, 8 * at + 7];
        bench.events(&streams.map(get).concat());
        for stream in streams {
            bench
                .machine
                .send_head(StreamId(stream), true, &mut bench.out, |head| {
                    head.status(204)
                });
        }
        assert_eq!(bench.machine.open_streams(), 0);
        bench.out.clear();
    }
    assert_eq!(bench.machine.streams.slot_count(), 4);
    bench.machine.trim();
    assert_eq!(bench.machine.streams.slot_count(), 0);
    assert_eq!(bench.events(&get(8_001)), ["head 8001 end"]);
    bench.machine.check_invariants();
}

#[test]
fn connections_are_small() {
    assert!(
        size_of::<Connection>() < 2048,
        "{}",
        size_of::<Connection>()
    );
    assert!(size_of::<Stream>() <= 72, "{}", size_of::<Stream>());
}

/// Limits of a server that answers malformed requests (nginx's).
fn answering() -> Limits {
    Limits {
        answers_malformed: true,
        ends_large_heads: true,
        field_bytes_max: 100,
        ..Limits::default()
    }
}

#[test]
fn malformed_requests_may_be_answered() {
    let post = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
    ];
    let with = |length: &'static str| [&post[..], &[("content-length", length)]].concat();
    let mut bench = Bench::server(answering());
    assert_eq!(
        bench.events(&headers(1, &post[1..], true)),
        ["too large 1 end"]
    );
    assert_eq!(
        bench.events(&headers(3, &with("x"), false)),
        ["too large 3"]
    );
    assert_eq!(bench.events(&data(3, 2, true)), ["data 3 2/2 end"]);
    // No content, where the head announces some.
    assert_eq!(
        bench.events(&headers(5, &with("2"), true)),
        ["too large 5 end"]
    );
    // Too little, and too much.
    bench.events(&headers(7, &with("2"), false));
    assert_eq!(bench.events(&data(7, 1, true)), ["content refused 7 true"]);
    bench.events(&headers(9, &with("2"), false));
    assert_eq!(
        bench.events(&[data(9, 3, false), data(9, 3, true)].concat()),
        ["content refused 9 false", "data 9 3/3 end"]
    );
    assert!(!bench.sent().iter().any(|frame| frame.starts_with("RST")));
    // What is no field at all ends its stream, and a large head the connection.
    let torn = [&post[..], &[("x", "a\nb")]].concat();
    assert_eq!(bench.events(&headers(11, &torn, true)), [""; 0]);
    assert!(bench.sent().iter().any(|frame| frame.starts_with("RST")));
    let long = "l".repeat(100);
    let large = [&post[..], &[("x", long.as_str())]].concat();
    assert_eq!(
        bench.feed(&headers(13, &large, true)),
        Err(Reason::HeadTooLarge)
    );
}

//! Both sides of the edge of every limit, and how buckets leak.

use super::*;
use crate::hpack::FieldEncoder;

/// Feeds what `make` gives for 0, 1, 2… until a fault; how many went well.
fn count_until_fault(
    bench: &mut Bench,
    most: u32,
    make: impl Fn(u32) -> Vec<u8>,
) -> (u32, Option<Reason>) {
    for at in 0..most {
        if let Err(reason) = bench.feed(&make(at)) {
            return (at, Some(reason));
        }
        bench.out.clear();
    }
    (most, None)
}

fn quiet() -> Limits {
    Limits {
        resets_max: 5,
        resets_per_second: 2,
        pings_max: 5,
        pings_per_second: 2,
        settings_max: 5,
        settings_per_second: 2,
        window_updates_max: 5,
        window_updates_per_second: 2,
        priority_updates_max: 5,
        priority_updates_per_second: 2,
        empty_frames_max: 5,
        empty_frames_per_second: 2,
        ..Limits::default()
    }
}

/// A server with stream 1 open and the bucket of SETTINGS empty.
fn server() -> Bench {
    let mut bench = Bench::server(quiet());
    bench.events(&post(1));
    bench.now_ms = 10_000;
    bench
}

type Row = (&'static str, fn(u32) -> Vec<u8>, Reason);

const FLOODS: [Row; 13] = [
    ("PING", |_| ping(b"12345678"), Reason::TooManyPings),
    (
        "PING acknowledged",
        |_| frame(kind::PING, flag::ACK, 0, &[0; 8]),
        Reason::TooManyPings,
    ),
    ("SETTINGS", |_| settings(&[]), Reason::TooManySettings),
    (
        "SETTINGS acknowledged",
        |_| settings_ack(),
        Reason::TooManyEmptyFrames,
    ),
    (
        "WINDOW_UPDATE",
        |at| window_update(at % 2, 1),
        Reason::TooManyWindowUpdates,
    ),
    (
        "PRIORITY",
        |_| frame(kind::PRIORITY, 0, 3, &[0; 5]),
        Reason::TooManyPriorityUpdates,
    ),
    (
        "PRIORITY_UPDATE",
        |at| frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 1, at as u8 * 2 + 1]),
        Reason::TooManyPriorityUpdates,
    ),
    (
        "empty DATA",
        |_| data(1, 0, false),
        Reason::TooManyEmptyFrames,
    ),
    (
        "padding only",
        |_| frame(kind::DATA, flag::PADDED, 1, &[1, 0]),
        Reason::TooManyEmptyFrames,
    ),
    (
        "unknown frames",
        |_| frame(0xaa, 0, 0, &[]),
        Reason::TooManyEmptyFrames,
    ),
    (
        "GOAWAY",
        |_| frame(kind::GOAWAY, 0, 0, &[0; 8]),
        Reason::TooManyEmptyFrames,
    ),
    (
        "rapid reset",
        |at| [get(2 * at + 3), rst(2 * at + 3, ErrorCode::Cancel)].concat(),
        Reason::TooManyResets,
    ),
    (
        "malformed requests",
        |at| headers(2 * at + 3, &[("a", "b")], true),
        Reason::TooManyResets,
    ),
];

#[test]
fn five_are_let_pass_the_sixth_is_a_flood() {
    for (name, make, want) in FLOODS {
        let mut bench = server();
        assert_eq!(
            count_until_fault(&mut bench, 100, make),
            (5, Some(want)),
            "{name}"
        );
        assert_eq!(want.code(), ErrorCode::EnhanceYourCalm);
        assert_eq!(
            bench.sent().last().map(String::as_str),
            Some(if name.starts_with("rapid") {
                "GOAWAY 13 ENHANCE_YOUR_CALM"
            } else {
                "GOAWAY 1 ENHANCE_YOUR_CALM"
            })
        );
    }
}

#[test]
fn at_the_steady_rate_it_goes_on_for_ever() {
    for (name, make, want) in FLOODS {
        let mut bench = server();
        let mut at = 0;
        while at < 120 {
            bench
                .feed(&make(at))
                .unwrap_or_else(|reason| panic!("{name}: {reason:?} at {at}"));
            bench.out.clear();
            bench.now_ms += 500;
            at += 1;
        }
        // Five at once more than the rate, and no sixth.
        let rest = count_until_fault(&mut bench, 100, |more| make(at + more));
        assert_eq!(rest, (5, Some(want)), "{name}");
    }
}

#[test]
fn what_we_send_makes_room_for_what_it_calls_for() {
    let mut bench = server();
    bench.answer(1);
    for _ in 0..100 {
        bench.data(1, 10, false);
        bench.events(
            &[
                window_update(1, 10),
                window_update(0, 10),
                ping(b"12345678"),
            ]
            .concat(),
        );
        bench.out.clear();
    }
    let mut bench = server();
    for at in 0..100 {
        let stream = 2 * at + 3;
        let updates = [
            frame(kind::PRIORITY, 0, stream, &[0; 5]),
            frame(kind::PRIORITY, 0, stream, &[0; 5]),
        ]
        .concat();
        bench.events(&[updates, get(stream)].concat());
        bench
            .machine
            .send_head(StreamId(stream), true, &mut bench.out, |head| {
                head.status(204)
            });
        bench.out.clear();
    }
}

#[test]
fn resets_after_the_answer_do_not_count() {
    let mut bench = server();
    for at in 0..100 {
        let stream = 2 * at + 3;
        bench.events(&post(stream));
        bench
            .machine
            .send_head(StreamId(stream), true, &mut bench.out, |head| {
                head.status(200)
            });
        bench.events(&rst(stream, ErrorCode::NoError));
        bench.out.clear();
    }
    // Of streams that are gone altogether they are frames without effect.
    assert_eq!(
        count_until_fault(&mut bench, 100, |_| rst(3, ErrorCode::Cancel)),
        (5, Some(Reason::TooManyEmptyFrames))
    );
}

#[test]
fn streams_over_the_limit_are_refused_and_counted() {
    let mut bench = Bench::server(Limits {
        concurrent_streams_max: 3,
        ..quiet()
    });
    assert_eq!(bench.events(&[get(1), get(3), get(5)].concat()).len(), 3);
    assert!(bench.events(&get(7)).is_empty());
    assert_eq!(bench.sent(), ["RST_STREAM 7 REFUSED_STREAM"]);
    bench
        .machine
        .send_head(StreamId(3), true, &mut bench.out, |head| head.status(204));
    assert_eq!(bench.events(&get(9)), ["head 9 end"]);
    assert_eq!(
        count_until_fault(&mut bench, 100, |at| get(2 * at + 11)),
        (4, Some(Reason::TooManyResets))
    );
}

#[test]
fn continuation_frames_have_a_limit() {
    for (count, want) in [
        (3, Ok(vec!["head 1 end".to_owned()])),
        (4, Err(Reason::TooManyContinuations)),
    ] {
        let mut bench = Bench::server(Limits {
            continuation_frames_max: 3,
            ..Limits::default()
        });
        let mut frames = frame(kind::HEADERS, 1, 1, &block(&GET));
        (1..count).for_each(|_| frames.extend(frame(kind::CONTINUATION, 0, 1, &[])));
        frames.extend(frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[]));
        assert_eq!(bench.feed(&frames), want);
    }
}

/// The memory held until the end of a field block is bounded by the number and size of frames, not
/// a byte more.
#[test]
fn field_blocks_have_a_size_limit_by_their_frames() {
    let limits = Limits {
        continuation_frames_max: 3,
        header_list_bytes_max: 1 << 20,
        ..Limits::default()
    };
    let full = vec![0x82; 16_384];
    let more = |bytes: usize, flags: u8| frame(kind::CONTINUATION, flags, 1, &vec![0x82; bytes]);
    let begun = [
        frame(kind::HEADERS, 1, 1, &full),
        more(16_384, 0),
        more(16_384, 0),
    ]
    .concat();
    let mut bench = Bench::server(limits);
    assert_eq!(bench.events(&begun), [""; 0]);
    // Doubled pseudo-fields are malformed, but the block was taken whole.
    assert_eq!(
        bench
            .feed(&more(16_384, flag::END_HEADERS))
            .map(|events| events.len()),
        Ok(0)
    );
    assert_eq!(bench.sent(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
    let mut bench = Bench::server(limits);
    bench.events(&begun);
    // A byte more is refused by the header alone.
    assert_eq!(
        bench.feed(&more(16_385, flag::END_HEADERS)[..9]),
        Err(Reason::FrameTooLarge)
    );
    let mut bench = Bench::server(limits);
    bench.events(&[begun, more(16_384, 0)].concat());
    assert_eq!(
        bench.feed(&more(0, flag::END_HEADERS)),
        Err(Reason::TooManyContinuations)
    );
}

#[test]
fn a_head_that_is_too_large_is_an_event_and_the_table_goes_on() {
    let mut bench = Bench::server(Limits {
        header_list_bytes_max: 300,
        ..Limits::default()
    });
    let large = "v".repeat(300);
    // The large field is put in the table, so that the next request can point at it, and at "b"
    // after it.
    let mut encoder = Encoder::new();
    let mut request = |stream: u32, fields: &[(&str, &str)]| {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        for (name, value) in GET.iter().chain(fields) {
            encoder.field(
                name.as_bytes(),
                value.as_bytes(),
                crate::hpack::Indexing::Add,
                &mut block,
            );
        }
        frame(kind::HEADERS, 5, stream, &block)
    };
    assert_eq!(
        bench.events(&request(1, &[("a", "1"), ("large", &large), ("b", "2")])),
        ["too large 1 end"]
    );
    assert_eq!(bench.head.view().first("a"), Some(&b"1"[..]));
    assert_eq!(bench.events(&request(3, &[("b", "2")])), ["head 3 end"]);
    assert_eq!(bench.head.view().first("b"), Some(&b"2"[..]));
    assert!(
        bench
            .machine
            .send_head(StreamId(1), true, &mut bench.out, |head| head.status(431))
    );
}

#[test]
fn trailers_over_the_limit_reset_the_stream() {
    let mut bench = Bench::server(Limits {
        header_list_bytes_max: 300,
        ..Limits::default()
    });
    bench.events(&post(1));
    let large = "v".repeat(300);
    assert_eq!(
        bench.events(&headers(1, &[("large", &large)], true)),
        ["reset 1 ENHANCE_YOUR_CALM"]
    );
    assert_eq!(
        bench.machine.stream_fault(),
        Some((StreamId(1), Reason::TrailersTooLarge))
    );
}

/// A bomb of RFC 7541: one large entry, and thousands of references to it, a byte each.
#[test]
fn references_to_a_large_entry_cost_no_memory() {
    let mut bench = Bench::server(Limits::default());
    let mut block = block(&GET);
    block.extend_from_slice(&[0x40, 1, b'a', 0x7f, 0xb0, 0x1d]);
    block.extend_from_slice(&vec![b'v'; 127 + 0x30 + (0x1d << 7)]);
    block.resize(16_384, 0xbe);
    assert_eq!(
        bench.events(&frame(kind::HEADERS, 5, 1, &block)),
        ["too large 1 end"]
    );
    assert!(
        bench.head.bytes.capacity() <= 128 * 1024,
        "{}",
        bench.head.bytes.capacity()
    );
}

#[test]
fn replies_that_nobody_reads_have_a_limit() {
    let limits = Limits {
        control_bytes_max: 17 * 10,
        pings_max: 1_000,
        ..Limits::default()
    };
    let mut bench = Bench::server(limits);
    bench.events(&ping(b"12345678").repeat(10));
    assert_eq!(bench.feed(&ping(b"12345678")), Err(Reason::RepliesUnread));
    // What has been written does not count: the output is empty, or the driver says so.
    let mut bench = Bench::server(limits);
    for _ in 0..10 {
        bench.events(&ping(b"12345678").repeat(10));
        bench.out.clear();
        bench.events(&ping(b"12345678").repeat(10));
        bench.machine.flushed();
    }
}

//! Each limit on both sides of its edge.

use super::*;
use crate::frame::kind::*;

fn limited(change: impl Fn(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

/// Number of times something can be done before the connection ends, and with which reason; at most
/// 10,000.
fn count(
    mut bench: Bench,
    mut again: impl FnMut(&mut Bench, u64) -> Result<(), Reason>,
) -> (u64, Option<Reason>) {
    for turn in 0..10_000 {
        if let Err(reason) = again(&mut bench, turn) {
            return (turn, Some(reason));
        }
    }
    (10_000, None)
}

fn fault(outcome: Result<bool, ConnectionError>) -> Result<(), Reason> {
    outcome.map(drop).map_err(|fault| fault.reason)
}

/// A request with a field of so many bytes, and what it counts.
fn sized(value_bytes: usize) -> (Vec<u8>, u32) {
    let value = "~".repeat(value_bytes);
    let fields = [&GET[..], &[("x", &value)]].concat();
    let size = fields
        .iter()
        .map(|field| (field.0.len() + field.1.len() + 32) as u32)
        .sum();
    (headers(&fields), size)
}

#[test]
fn sizes_of_heads() {
    let (request, size) = sized(100);
    for (less, want) in [(0, "head 0 end"), (1, "too large 0 Fields end")] {
        let mut bench = Bench::server(limited(|limits| limits.header_list_bytes_max = size - less));
        assert_eq!(bench.request(0, &request, true).unwrap(), [want]);
        assert_eq!(bench.head.view().start_line(), b"GET / HTTP/3.0");
    }
    for (fields, want) in [(5, "head 0 end"), (4, "too large 0 Fields end")] {
        let mut bench = Bench::server(limited(|limits| limits.header_count_max = fields));
        assert_eq!(bench.request(0, &request, true).unwrap(), [want]);
    }
    for (bytes, want) in [(1, "head 0 end"), (0, "too large 0 Target end")] {
        let mut bench = Bench::server(limited(|limits| limits.target_bytes_max = bytes));
        assert_eq!(bench.request(0, &request, true).unwrap(), [want]);
    }
    // As HTTP/1 would write it: "x: ~~~".
    for (bytes, want) in [(103, "head 0 end"), (102, "too large 0 Fields end")] {
        let mut bench = Bench::server(limited(|limits| limits.field_bytes_max = bytes));
        assert_eq!(bench.request(0, &request, true).unwrap(), [want]);
    }
}

/// A section that is not even gathered: an answer all the same, and the rest of the stream is of no
/// interest.
#[test]
fn a_section_as_it_comes() {
    let (request, _) = sized(100);
    let bytes = request.len() as u32 - 3;
    for (less, want) in [
        (0, vec!["head 0", "data 0 3"]),
        (1, vec!["too large 0 Fields"]),
    ] {
        let mut bench = Bench::server(limited(|limits| {
            limits.field_section_bytes_max = bytes - less
        }));
        assert_eq!(
            bench
                .request(0, &[&request[..], &data(3)].concat(), false)
                .unwrap(),
            want
        );
        assert!(bench.answer(0));
        assert_eq!(bench.feed(0, &data(7), true).unwrap().len(), 1, "the end");
    }
    let mut bench = Bench::server(limited(|limits| limits.field_section_bytes_max = 20));
    assert_eq!(
        bench
            .request(0, &[headers(&POST), request].concat(), false)
            .unwrap(),
        ["head 0", "reset 0 H3_EXCESSIVE_LOAD"]
    );
}

#[test]
fn trailers_over_a_limit() {
    let trailers = headers(&[("a", "b"), ("c", "d")]);
    let mut bench = Bench::server(limited(|limits| limits.header_count_max = 4));
    assert_eq!(
        bench
            .request(0, &[headers(&POST), trailers].concat(), true)
            .unwrap(),
        ["head 0", "trailers 0"]
    );
    let trailers = headers(&[("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"), ("i", "j")]);
    assert_eq!(
        bench
            .request(4, &[headers(&POST), trailers].concat(), true)
            .unwrap(),
        ["head 4", "reset 4 H3_EXCESSIVE_LOAD"]
    );
    assert_eq!(
        bench.machine.stream_fault(),
        Some((4, Reason::TrailersTooLarge))
    );
}

/// Sections that never end, of all streams together.
#[test]
fn bytes_of_unfinished_sections() {
    let mut bench = Bench::server(limited(|limits| limits.waiting_section_bytes_max = 100));
    let begun = [&[1, 0x40, 0x80], &[0; 60][..]].concat();
    assert_eq!(bench.request(0, &begun, false), Ok(vec![]));
    assert_eq!(
        bench.request(4, &begun, false),
        Ok(vec!["reset 4 H3_REQUEST_REJECTED".into()])
    );
    assert_eq!(bench.feed(0, &[0; 40], false), Ok(vec![]));
    assert_eq!(
        bench.feed(0, &[0], false),
        Ok(vec!["reset 0 H3_REQUEST_REJECTED".into()])
    );
    assert_eq!(bench.request(8, &begun, false), Ok(vec![]));
}

#[test]
fn streams_that_wait_for_the_table() {
    let waiting = frame(HEADERS, &[2, 0, 0x80]);
    let mut bench = Bench::server(limited(|limits| limits.blocked_streams_max = 2));
    for stream in [0, 4] {
        bench.open(stream);
        assert_eq!(
            bench.feed_some(stream, &waiting, true),
            Ok((vec![], waiting.len()))
        );
    }
    bench.open(8);
    assert_eq!(
        bench.feed_some(8, &waiting, true),
        Err(Reason::TooManyBlocked)
    );
    let mut bench = Bench::server(limited(|limits| {
        (limits.blocked_streams_max, limits.waiting_section_bytes_max) = (2, 2)
    }));
    bench.open(0);
    assert_eq!(
        bench.feed_some(0, &waiting, true),
        Ok((vec!["reset 0 H3_REQUEST_REJECTED".into()], waiting.len()))
    );
}

#[test]
fn requests_at_once() {
    let mut bench = Bench::server(limited(|limits| limits.concurrent_streams_max = 2));
    bench.open(0);
    bench.open(4);
    assert_eq!(
        bench.machine.opened(8),
        Ok(Some(ErrorCode::RequestRejected))
    );
    bench.machine.abandon(4);
    bench.open(12);
}

#[test]
fn floods() {
    let limits = limited(|limits| {
        (
            limits.resets_max,
            limits.priority_updates_max,
            limits.empty_frames_max,
            limits.table_updates_max,
        ) = (5, 6, 7, 8);
    });
    let server = || Bench::server(limits);
    let reset = |bench: &mut Bench, turn: u64| {
        bench.request(4 * turn, &headers(&GET), true)?;
        fault(bench.machine.stream_reset(4 * turn, 0))
    };
    assert_eq!(count(server(), reset), (5, Some(Reason::TooManyResets)));
    let stopped = |bench: &mut Bench, turn: u64| {
        bench.request(4 * turn, &headers(&GET), true)?;
        fault(bench.machine.stream_stopped(4 * turn, 0))
    };
    assert_eq!(count(server(), stopped), (5, Some(Reason::TooManyResets)));
    let malformed =
        |bench: &mut Bench, turn: u64| bench.request(4 * turn, &headers(&[]), true).map(drop);
    assert_eq!(count(server(), malformed), (5, Some(Reason::TooManyResets)));
    let answered = |bench: &mut Bench, turn: u64| {
        bench.request(4 * turn, &headers(&POST), false)?;
        bench
            .machine
            .send_head(4 * turn, true, &mut bench.out, |head| head.status(200));
        bench.out.clear();
        let outcome = fault(bench.machine.stream_reset(4 * turn, 0));
        bench.take(Outgoing::Decoder);
        outcome
    };
    assert_eq!(count(server(), answered), (10_000, None));
    let priority = |bench: &mut Bench, _| {
        bench
            .feed(CONTROL, &frame(PRIORITY_UPDATE, b"\0u=1"), false)
            .map(drop)
    };
    assert_eq!(
        count(server(), priority),
        (6, Some(Reason::TooManyPriorityUpdates))
    );
    let insertion = |bench: &mut Bench, turn: u64| {
        if turn == 0 {
            bench.open(ENCODER);
            bench.feed(ENCODER, &[2], false)?;
        }
        bench.feed(ENCODER, &[0x20], false).map(drop)
    };
    assert_eq!(
        count(server(), insertion),
        (8, Some(Reason::TooManyTableUpdates))
    );
}

#[test]
fn what_has_no_effect() {
    let server = || Bench::server(limited(|limits| limits.empty_frames_max = 7));
    let on_request = |input: Vec<u8>| {
        move |bench: &mut Bench, turn: u64| {
            if turn == 0 {
                bench.request(0, &headers(&POST), false)?;
            }
            bench.feed(0, &input, false).map(drop)
        }
    };
    let too_many = Some(Reason::TooManyEmptyFrames);
    assert_eq!(count(server(), on_request(data(0))), (7, too_many));
    assert_eq!(
        count(server(), on_request(frame(0x21, b"x"))),
        (7, too_many)
    );
    assert_eq!(
        count(server(), on_request(frame(0x21, &[0; 3_000]))),
        (2, too_many),
        "two for 2 KiB, one for the frame"
    );
    assert_eq!(
        count(server(), |bench, _| bench
            .feed(CONTROL, &frame(0x21, b"x"), false)
            .map(drop)),
        (7, too_many)
    );
    assert_eq!(
        count(server(), |bench, _| bench
            .feed(CONTROL, &frame(GOAWAY, b"\0"), false)
            .map(drop)),
        (7, too_many)
    );
    assert_eq!(
        count(server(), |bench, _| bench
            .feed(CONTROL, &frame(MAX_PUSH_ID, b"\0"), false)
            .map(drop)),
        (7, too_many)
    );
    let stream = |bench: &mut Bench, turn: u64| {
        bench.open(14 + 4 * turn);
        bench.feed(14 + 4 * turn, &[0x21], false).map(drop)
    };
    assert_eq!(count(server(), stream), (7, too_many));
    assert_eq!(
        server().feed(CONTROL, &frame(0x21, &[0; 100_000]), false),
        Err(Reason::TooManyEmptyFrames)
    );
}

/// Streams that are given up are told on our decoder stream, which the client does not read.
#[test]
fn replies_that_are_not_taken() {
    let limits = limited(|limits| (limits.control_bytes_max, limits.resets_max) = (50, 10_000));
    let reset = |bench: &mut Bench, turn: u64| {
        bench.request(4 * turn, &headers(&POST), false)?;
        fault(bench.machine.stream_reset(4 * turn, 0))
    };
    let (turns, reason) = count(Bench::server(limits), reset);
    assert!(
        (15..40).contains(&turns) && reason == Some(Reason::RepliesUnread),
        "{turns} {reason:?}"
    );
}

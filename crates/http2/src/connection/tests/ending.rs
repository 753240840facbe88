//! GOAWAY in both directions (RFC 9113 section 6.8).

use super::*;

#[test]
fn a_graceful_end_has_two_steps() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&get(1));
    bench.machine.shut_down(&mut bench.out);
    assert_eq!(sent(&bench.out), ["GOAWAY 2147483647 NO_ERROR", "PING"]);
    let ours: [u8; 8] = bench.out[bench.out.len() - 8..].try_into().unwrap();
    bench.out.clear();
    // What was under way is still answered, and other pings mean nothing.
    assert_eq!(
        bench.events(&[get(3), frame(kind::PING, flag::ACK, 0, b"whatever")].concat()),
        ["head 3 end"]
    );
    assert!(bench.sent().is_empty());
    bench.events(&frame(kind::PING, flag::ACK, 0, &ours));
    assert_eq!(bench.sent(), ["GOAWAY 3 NO_ERROR"]);
    assert!(
        bench
            .events(&[post(5), data(5, 10, true)].concat())
            .is_empty()
    );
    assert_eq!(bench.sent(), ["RST_STREAM 5 REFUSED_STREAM"]);
    for stream in [1, 3] {
        assert!(!bench.machine.is_finished());
        bench
            .machine
            .send_head(StreamId(stream), true, &mut bench.out, |head| {
                head.status(204)
            });
    }
    assert!(bench.machine.is_finished());
}

#[test]
fn a_second_call_does_not_wait_and_a_third_does_nothing() {
    let mut bench = Bench::server(Limits::default());
    (0..3).for_each(|_| bench.machine.shut_down(&mut bench.out));
    assert_eq!(
        bench.sent(),
        ["GOAWAY 2147483647 NO_ERROR", "PING", "GOAWAY 0 NO_ERROR"]
    );
    assert!(bench.machine.is_finished());
}

#[test]
fn refusals_while_shutting_down_are_no_flood() {
    let mut bench = Bench::server(Limits {
        resets_max: 2,
        resets_per_second: 0,
        ..Limits::default()
    });
    bench.machine.go_away(ErrorCode::NoError, &mut bench.out);
    (0..50).for_each(|at| assert!(bench.events(&get(2 * at + 1)).is_empty()));
}

#[test]
fn a_peer_that_goes_away_is_finished_when_its_streams_are() {
    let mut bench = Bench::server(Limits::default());
    let goaway = frame(kind::GOAWAY, 0, 0, &[0; 8]);
    assert_eq!(
        bench.events(&[get(1), goaway].concat()),
        ["head 1 end", "goaway 0 NO_ERROR"]
    );
    assert!(bench.machine.peer_is_going_away() && !bench.machine.is_finished());
    bench
        .machine
        .send_head(StreamId(1), true, &mut bench.out, |head| head.status(204));
    assert!(bench.machine.is_finished());
}

#[test]
fn the_last_stream_named_is_one_that_was_taken() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&[get(1), get(3), headers(5, &[("a", "b")], true)].concat());
    bench.out.clear();
    bench
        .machine
        .go_away(ErrorCode::InternalError, &mut bench.out);
    assert_eq!(bench.sent(), ["GOAWAY 3 INTERNAL_ERROR"]);
}

#[test]
fn a_fault_says_why() {
    let mut bench = Bench::server(Limits::default());
    assert_eq!(
        bench.feed(&data(0, 1, true)),
        Err(Reason::FrameOnConnection)
    );
    assert!(
        bench
            .out
            .ends_with(Reason::FrameOnConnection.as_str().as_bytes())
    );
    assert!(bench.machine.is_finished());
}

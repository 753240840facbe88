//! Flow control, both ways (RFC 9113 sections 5.2 and 6.9), and the schedule that depends on it.

use super::*;

fn small() -> Limits {
    Limits {
        stream_window_bytes: 1_000,
        connection_window_bytes: 70_000,
        ..Limits::default()
    }
}

#[test]
fn content_fills_a_stream_window_and_no_more() {
    let mut bench = Bench::server(small());
    bench.events(&post(1));
    assert_eq!(bench.events(&data(1, 1_000, false)), ["data 1 1000/1000"]);
    assert_eq!(
        bench.events(&data(1, 1, false)),
        ["reset 1 FLOW_CONTROL_ERROR"]
    );
    assert_eq!(bench.sent(), ["RST_STREAM 1 FLOW_CONTROL_ERROR"]);
    // An empty frame needs no window.
    bench.events(&[post(3), data(3, 1_000, false)].concat());
    assert_eq!(bench.events(&data(3, 0, true)), ["data 3 0/0 end"]);
}

#[test]
fn content_of_all_streams_fills_the_window_of_the_connection_and_no_more() {
    let mut bench = Bench::server(Limits {
        stream_window_bytes: 16_000,
        ..small()
    });
    (0..4).for_each(|at| {
        assert_eq!(
            bench
                .events(&[post(2 * at + 1), data(2 * at + 1, 16_000, false)].concat())
                .len(),
            2
        )
    });
    bench.events(&[post(9), data(9, 6_000, false)].concat());
    assert!(bench.sent().is_empty());
    assert_eq!(bench.feed(&data(9, 1, false)), Err(Reason::WindowExceeded));
}

#[test]
fn windows_open_when_half_is_used_up() {
    let mut bench = Bench::server(Limits {
        stream_window_bytes: 50_000,
        ..small()
    });
    bench.events(
        &[
            post(1),
            data(1, 16_000, false),
            data(1, 16_000, false),
            data(1, 16_000, false),
        ]
        .concat(),
    );
    bench.machine.release(StreamId(1), 24_999, &mut bench.out);
    assert!(bench.sent().is_empty());
    bench.machine.release(StreamId(1), 1, &mut bench.out);
    assert_eq!(bench.sent(), ["WINDOW_UPDATE 1 25000"]);
    bench.machine.release(StreamId(1), 10_000, &mut bench.out);
    assert_eq!(bench.sent(), ["WINDOW_UPDATE 0 35000"]);
    // A stream that will send no more needs no window.
    bench.events(&data(1, 16_000, true));
    bench.machine.release(StreamId(1), 29_000, &mut bench.out);
    assert!(bench.sent().is_empty());
}

#[test]
fn content_that_nobody_wants_is_released_at_once() {
    let mut bench = Bench::server(small());
    bench.events(&[post(1), post(3)].concat());
    bench
        .machine
        .send_reset(StreamId(1), ErrorCode::Cancel, &mut bench.out);
    bench
        .machine
        .send_head(StreamId(3), true, &mut bench.out, |head| head.status(413));
    bench.out.clear();
    (0..35).for_each(|_| assert!(bench.events(&data(1, 1_000, false)).is_empty()));
    assert_eq!(bench.sent(), ["WINDOW_UPDATE 0 35000"]);
    // Still within its own window.
    assert!(bench.events(&data(3, 1_001, false)).is_empty());
    assert_eq!(bench.sent(), ["RST_STREAM 3 FLOW_CONTROL_ERROR"]);
}

/// A client that has the whole response may go on sending until its stream's window, which is not
/// opened again, is nearly used up.
#[test]
fn content_after_the_response_is_stopped_before_the_client_has_to_wait() {
    let answered = || {
        let mut bench = Bench::server(small());
        bench.events(&post(1));
        bench
            .machine
            .send_head(StreamId(1), true, &mut bench.out, |head| head.status(405));
        assert!(bench.events(&data(1, 875, false)).is_empty());
        assert_eq!(bench.sent(), ["HEADERS 1 end"]);
        bench
    };
    let mut bench = answered();
    assert!(bench.events(&data(1, 1, false)).is_empty());
    assert_eq!(bench.sent(), ["RST_STREAM 1 NO_ERROR"]);
    // What was under way is no fault of the client's.
    assert!(
        bench
            .events(&[data(1, 5_000, false), data(1, 0, true)].concat())
            .is_empty()
    );
    assert!(bench.sent().is_empty());
    // An end in time needs no reset.
    let mut bench = answered();
    assert!(bench.events(&data(1, 125, true)).is_empty());
    assert!(bench.sent().is_empty());
    assert_eq!(bench.machine.open_streams(), 0);
}

#[test]
fn what_was_taken_after_a_stream_has_gone_opens_the_connection() {
    let mut bench = Bench::server(Limits {
        stream_window_bytes: 50_000,
        ..small()
    });
    bench.events(
        &[
            post(1),
            data(1, 16_000, false),
            data(1, 16_000, false),
            data(1, 10_000, false),
            rst(1, ErrorCode::Cancel),
        ]
        .concat(),
    );
    bench.machine.release(StreamId(1), 42_000, &mut bench.out);
    assert_eq!(bench.sent(), ["WINDOW_UPDATE 0 42000"]);
}

#[test]
fn until_our_settings_are_known_the_window_is_that_of_the_standard() {
    let begin = [PREFACE, &settings(&[])[..]].concat();
    let mut bench = Bench::new(Connection::server(small(), false));
    bench.events(&begin);
    let content = (0..4)
        .flat_map(|_| data(1, 16_000, false))
        .collect::<Vec<_>>();
    assert_eq!(
        bench
            .events(&[post(1), content, data(1, 1_535, false)].concat())
            .len(),
        6
    );
    assert_eq!(
        bench.events(&data(1, 1, false)),
        ["reset 1 FLOW_CONTROL_ERROR"]
    );
    // What was used is given back, and no more than our own window remains.
    let mut bench = Bench::new(Connection::server(small(), false));
    bench.events(&[begin, post(1), data(1, 5_000, false), settings_ack()].concat());
    bench.out.clear();
    bench.machine.release(StreamId(1), 5_000, &mut bench.out);
    assert_eq!(bench.sent(), ["WINDOW_UPDATE 1 5000"]);
    assert_eq!(
        bench.events(&[data(1, 1_000, false), data(1, 1, false)].concat()),
        ["data 1 1000/1000", "reset 1 FLOW_CONTROL_ERROR"]
    );
}

#[test]
fn we_send_what_both_windows_allow() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&[settings(&[(4, 20_000)]), get(1)].concat());
    bench.answer(1);
    bench.out.clear();
    assert_eq!(bench.machine.send_capacity(StreamId(1)), 20_000);
    assert_eq!(bench.data(1, 100_000, true), 16_375);
    assert_eq!(bench.data(1, 100_000, true), 3_625);
    assert_eq!(
        (
            bench.data(1, 1, true),
            bench.machine.send_capacity(StreamId(1))
        ),
        (0, 0)
    );
    assert_eq!(bench.sent(), ["DATA 1 16375", "DATA 1 3625"]);
    assert_eq!(bench.events(&window_update(1, 100_000)), ["window"]);
    assert_eq!(bench.machine.send_capacity(StreamId(1)), 45_535);
    (0..2).for_each(|_| assert_eq!(bench.data(1, 16_375, false), 16_375));
    assert_eq!(bench.data(1, 16_375, true), 12_785);
    assert_eq!(bench.data(1, 16_375, true), 0);
    assert_eq!(bench.events(&window_update(0, 10)), ["window"]);
    assert_eq!(bench.data(1, 10, true), 10);
    assert_eq!(bench.sent().last().unwrap(), "DATA 1 10 end");
    assert_eq!(bench.machine.open_streams(), 0);
}

#[test]
fn the_end_needs_no_window() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&[settings(&[(4, 0)]), get(1)].concat());
    bench.answer(1);
    bench.out.clear();
    assert_eq!((bench.data(1, 0, false), bench.data(1, 5, true)), (0, 0));
    assert!(bench.sent().is_empty());
    bench.data(1, 0, true);
    assert_eq!(bench.sent(), ["DATA 1 0 end"]);
}

#[test]
fn windows_above_two_to_the_31_less_one() {
    let most = i32::MAX as u32;
    let mut bench = Bench::server(Limits::default());
    bench.events(&get(1));
    assert!(
        bench
            .events(
                &[
                    window_update(1, most - 65_535),
                    window_update(0, most - 65_535)
                ]
                .concat()
            )
            .is_empty()
    );
    assert_eq!(
        bench.events(&window_update(1, 1)),
        ["reset 1 FLOW_CONTROL_ERROR"]
    );
    assert_eq!(
        bench.feed(&window_update(0, 1)),
        Err(Reason::WindowOverflow)
    );
    let mut bench = Bench::server(Limits::default());
    bench.events(&[get(1), window_update(1, 1), settings(&[(4, most - 1)])].concat());
    assert_eq!(
        bench.feed(&settings(&[(4, most)])),
        Err(Reason::WindowOverflow)
    );
}

#[test]
fn a_change_of_the_initial_window_moves_open_streams_below_zero_and_back() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&[settings(&[(4, 100)]), get(1), get(3)].concat());
    bench.answer(1);
    bench.answer(3);
    bench.machine.set_ready(StreamId(1), true);
    assert_eq!(bench.data(1, 80, false), 80);
    assert!(bench.events(&settings(&[(4, 50)])).is_empty());
    assert_eq!(
        (
            bench.machine.send_capacity(StreamId(1)),
            bench.machine.send_capacity(StreamId(3))
        ),
        (0, 50)
    );
    assert_eq!(bench.machine.next_ready(), None);
    assert!(bench.events(&window_update(1, 30)).is_empty());
    assert_eq!(bench.events(&window_update(1, 1)), ["window"]);
    assert_eq!(bench.machine.next_ready(), Some(StreamId(1)));
    assert_eq!(bench.data(1, 10, false), 1);
    assert_eq!(bench.events(&settings(&[(4, 60)])), ["window"]);
    assert_eq!(bench.machine.send_capacity(StreamId(1)), 10);
    bench.events(&get(5));
    assert_eq!(bench.machine.send_capacity(StreamId(5)), 60);
}

#[test]
fn only_streams_that_can_send_have_turns() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&[settings(&[(4, 10)]), get(1), get(3), get(5)].concat());
    for stream in [5, 3, 1] {
        bench.answer(stream);
        bench.machine.set_ready(StreamId(stream), true);
    }
    assert_eq!(bench.machine.next_ready(), Some(StreamId(1)));
    assert_eq!(bench.data(1, 20, true), 10);
    assert_eq!(bench.machine.next_ready(), Some(StreamId(3)));
    bench.machine.set_ready(StreamId(3), false);
    assert_eq!(bench.machine.next_ready(), Some(StreamId(5)));
    bench.events(&rst(5, ErrorCode::Cancel));
    assert_eq!(bench.machine.next_ready(), None);
    assert_eq!(bench.events(&window_update(1, 10)), ["window"]);
    assert_eq!(bench.machine.next_ready(), Some(StreamId(1)));
    assert_eq!(bench.data(1, 10, true), 10);
    assert_eq!(bench.machine.next_ready(), None);
}

#[test]
fn nobody_has_a_turn_while_the_window_of_the_connection_is_closed() {
    let mut bench = Bench::server(Limits::default());
    bench.events(&[settings(&[(4, 1_000_000)]), get(1), get(3)].concat());
    bench.answer(1);
    bench.answer(3);
    bench.machine.set_ready(StreamId(3), true);
    while bench.data(1, 100_000, false) > 0 {}
    assert_eq!(bench.machine.next_ready(), None);
    // A stream's own window is no news now.
    assert!(bench.events(&window_update(3, 10)).is_empty());
    assert_eq!(bench.events(&window_update(0, 10)), ["window"]);
    assert_eq!(bench.machine.next_ready(), Some(StreamId(3)));
}

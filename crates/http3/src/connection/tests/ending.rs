//! GOAWAY, streams that end before their time, priorities, and what is left behind.

use super::*;
use crate::frame::kind::*;
use saker_http_mux::Priority;

fn taken(bench: &mut Bench) -> Vec<u8> {
    bench.take(Outgoing::Control)
}

#[test]
fn a_server_shuts_down_in_two_steps() {
    let mut bench = Bench::server(Limits::default());
    assert_eq!(taken(&mut bench)[..2], [0, 4], "the type, and SETTINGS");
    bench.request(0, &headers(&POST), false).unwrap();
    bench.machine.shut_down();
    assert_eq!(
        taken(&mut bench),
        [7, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]
    );
    assert!(bench.machine.is_announced() && !bench.machine.is_finished());
    assert_eq!(
        bench.request(4, &headers(&GET), true),
        Ok(vec!["head 4 end".into()])
    );
    bench.machine.shut_down();
    bench.machine.shut_down();
    assert_eq!(taken(&mut bench), [7, 1, 8]);
    assert_eq!(
        bench.machine.opened(8),
        Ok(Some(ErrorCode::RequestRejected))
    );
    assert_eq!(bench.feed(8, &headers(&GET), true), Ok(vec![]));
    bench
        .machine
        .send_head(4, true, &mut bench.out, |head| head.status(200));
    assert!(!bench.machine.is_finished());
    bench
        .machine
        .send_head(0, true, &mut bench.out, |head| head.status(200));
    assert_eq!(bench.feed(0, &[], true), Ok(vec![]));
    assert!(bench.machine.is_finished());
}

#[test]
fn a_client_hears_of_the_end() {
    let mut bench = Bench::client(Limits::default());
    for stream in [0, 4, 8] {
        bench
            .machine
            .open(stream, true, &mut bench.out, |head| {
                head.pseudo(b":method", b"GET")
            })
            .unwrap();
    }
    assert_eq!(
        bench.feed(CONTROL + 1, &frame(GOAWAY, &integers(&[4])), false),
        Ok(vec!["goaway 4".into()])
    );
    assert_eq!(
        (
            bench.machine.open_streams(),
            bench.machine.peer_is_going_away()
        ),
        (1, true)
    );
    assert_eq!(
        bench.machine.open(12, true, &mut bench.out, |_| {}),
        Err(OpenError::GoingAway)
    );
    assert_eq!(
        bench.feed(4, &headers(&[(":status", "200")]), true),
        Ok(vec![])
    );
    assert_eq!(
        bench.feed(0, &headers(&[(":status", "200")]), true),
        Ok(vec!["head 0 end".into()])
    );
    assert!(bench.machine.is_finished());
}

#[test]
fn a_client_goes_away() {
    let mut bench = Bench::client(Limits::default());
    taken(&mut bench);
    bench.machine.shut_down();
    assert_eq!(taken(&mut bench), [7, 1, 0]);
}

#[test]
fn streams_that_are_given_up() {
    let mut bench = Bench::server(Limits::default());
    bench.request(0, &headers(&POST), false).unwrap();
    assert_eq!(bench.machine.stream_reset(0, 0), Ok(true));
    assert_eq!(bench.machine.stream_reset(0, 0), Ok(false));
    assert!(
        !bench.answer(0)
            && !bench.machine.begin_data(0, 5, true, &mut bench.out)
            && bench.out.is_empty()
    );
    bench.request(4, &headers(&POST), false).unwrap();
    bench
        .machine
        .send_head(4, true, &mut bench.out, |head| head.status(200));
    assert_eq!(
        bench.machine.stream_reset(4, 0),
        Ok(false),
        "it was answered"
    );
    bench.request(8, &headers(&POST), false).unwrap();
    bench.machine.abandon(8);
    assert_eq!(bench.feed(8, &data(5), true), Ok(vec![]));
    assert_eq!(bench.machine.open_streams(), 0);
    assert_eq!(bench.take(Outgoing::Decoder), [3, 0x40, 0x44, 0x48]);
}

/// A stream that both sides have ended has nothing to be cancelled.
#[test]
fn nothing_is_said_of_streams_that_ended_well() {
    let mut bench = Bench::server(Limits::default());
    bench.request(0, &headers(&GET), true).unwrap();
    assert_eq!(bench.machine.stream_stopped(0, 0), Ok(true));
    bench.request(4, &headers(&GET), true).unwrap();
    bench
        .machine
        .send_head(4, true, &mut bench.out, |head| head.status(200));
    assert_eq!(bench.take(Outgoing::Decoder), b"");
}

#[test]
fn priorities_of_heads_and_updates() {
    let mut bench = Bench::server(Limits::default());
    let update = |stream: u64, value: &str| {
        frame(
            PRIORITY_UPDATE,
            &[&integers(&[stream])[..], value.as_bytes()].concat(),
        )
    };
    let with = |value| headers(&[&GET[..], &[("priority", value)]].concat());
    bench.feed(CONTROL, &update(4, "u=1"), false).unwrap();
    bench.request(0, &with("u=5, i"), true).unwrap();
    bench.request(4, &with("u=6"), true).unwrap();
    bench.open(8);
    bench.feed(CONTROL, &update(8, "u=0"), false).unwrap();
    bench.feed(8, &with("u=7"), true).unwrap();
    let urgency = |bench: &Bench, stream| {
        bench
            .machine
            .priority(stream)
            .map(|priority| priority.urgency)
    };
    assert_eq!(
        [0, 4, 8].map(|stream| urgency(&bench, stream)),
        [Some(5), Some(1), Some(0)]
    );
    for stream in [0, 4, 8] {
        bench.answer(stream);
        bench.machine.set_ready(stream, true);
    }
    assert_eq!(bench.machine.next_ready(), Some(8));
    bench.machine.set_ready(8, false);
    assert_eq!(bench.machine.next_ready(), Some(4));
    bench.feed(CONTROL, &update(0, "u=0"), false).unwrap();
    assert_eq!(bench.machine.next_ready(), Some(0));
    bench.machine.set_priority(
        0,
        Priority {
            urgency: 7,
            incremental: false,
        },
    );
    assert!(bench.machine.begin_data(4, 1, true, &mut bench.out));
    assert_eq!(bench.machine.next_ready(), Some(0));
    bench.machine.end(0);
    assert_eq!(bench.machine.next_ready(), None);
}

/// A head that does not fit the short length, and one that just does.
#[test]
fn large_heads_are_framed() {
    for value_bytes in [16_370, 16_371, 16_372, 16_373, 16_374, 16_375, 20_000] {
        let mut bench = Bench::server(Limits::default());
        bench.request(0, &headers(&GET), true).unwrap();
        bench.out.extend_from_slice(b"before");
        let value = vec![b'~'; value_bytes];
        bench.machine.send_head(0, true, &mut bench.out, |head| {
            head.status(200);
            head.field(b"etag", &value, Indexing::Without);
        });
        let mut client = Bench::client(Limits::default());
        client
            .machine
            .open(0, true, &mut client.out, |head| {
                head.pseudo(b":method", b"GET")
            })
            .unwrap();
        assert_eq!(
            client.feed(0, &bench.out[6..], true),
            Ok(vec!["head 0 end".into()])
        );
        assert_eq!(client.head.view().first("etag"), Some(&value[..]));
    }
}

#[test]
fn an_idle_connection_holds_little() {
    let mut bench = Bench::server(Limits::default());
    for stream in 0..100 {
        bench.request(4 * stream, &headers(&GET), true).unwrap();
        bench
            .machine
            .send_head(4 * stream, true, &mut bench.out, |head| head.status(200));
    }
    taken(&mut bench);
    bench.machine.trim();
    assert_eq!(bench.machine.streams.slot_count(), 0);
    assert!(
        size_of::<Connection>() < 2_000,
        "{}",
        size_of::<Connection>()
    );
    assert_eq!(
        bench.request(400, &headers(&GET), true),
        Ok(vec!["head 400 end".into()])
    );
}

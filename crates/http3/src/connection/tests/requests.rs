//! Requests as a server hears and answers them.

use super::*;

#[test]
fn a_request_and_its_response() {
    let mut bench = Bench::server(Limits::default());
    assert_eq!(
        bench.request(0, &headers(&GET), true),
        Ok(vec!["head 0 end".into()])
    );
    assert_eq!(bench.head.view().start_line(), b"GET / HTTP/3.0");
    assert_eq!(
        (bench.machine.open_streams(), bench.machine.is_open(0)),
        (1, true)
    );
    assert!(bench.machine.send_head(0, false, &mut bench.out, |head| {
        head.status(200);
        head.field(b"content-length", b"2", Indexing::Without);
    }));
    assert!(bench.machine.begin_data(0, 2, true, &mut bench.out));
    bench.out.extend_from_slice(b"ok");
    assert_eq!(bench.out, b"\x01\x40\x06\0\0\xd9\x54\x012\0\x02ok");
    assert_eq!(
        (bench.machine.open_streams(), bench.machine.is_open(0)),
        (0, false)
    );
}

/// The same events for a request that comes byte by byte, but for how content is cut.
#[test]
fn a_request_in_parts() {
    let input = [
        headers(&[&POST[..], &[("content-length", "3")]].concat()),
        frame(0x21, b"grease"),
        data(3),
        headers(&[("a", "b")]),
    ]
    .concat();
    let mut bench = Bench::server(Limits::default());
    bench.open(0);
    let mut events = Vec::new();
    for byte in &input {
        events.extend(bench.feed(0, &[*byte], false).unwrap());
    }
    assert_eq!(
        events,
        ["head 0", "data 0 1", "data 0 1", "data 0 1", "trailers 0"]
    );
    assert_eq!(bench.feed(0, &[], true), Ok(vec![]));
    assert_eq!(
        bench.request(4, &input, true).unwrap(),
        ["head 4", "data 4 3", "trailers 4"]
    );
    assert_eq!(bench.head.view().first("a"), Some(&b"b"[..]));
}

#[test]
fn the_end_may_come_by_itself() {
    let mut bench = Bench::server(Limits::default());
    assert_eq!(
        bench.request(0, &headers(&POST), false),
        Ok(vec!["head 0".into()])
    );
    assert_eq!(bench.feed(0, &data(5), false), Ok(vec!["data 0 5".into()]));
    assert_eq!(bench.feed(0, &[], true), Ok(vec!["data 0 0 end".into()]));
    assert_eq!(bench.feed(0, &[], true), Ok(vec![]));
}

/// After the whole response, the rest of the request is ignored.
#[test]
fn an_answered_request_is_not_listened_to() {
    let mut bench = Bench::server(Limits::default());
    bench.request(0, &headers(&POST), false).unwrap();
    bench
        .machine
        .send_head(0, true, &mut bench.out, |head| head.status(403));
    assert_eq!(bench.feed(0, &data(5), false), Ok(vec![]));
    assert_eq!(bench.machine.open_streams(), 1);
    assert_eq!(bench.feed(0, &[], true), Ok(vec![]));
    assert_eq!(bench.machine.open_streams(), 0);
}

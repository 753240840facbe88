//! Heads that refer to the dynamic table, and streams that wait for it (RFC 9204 section 2.2).

use super::*;

/// Encoder stream of a client for a table with one entry, `x: y`.
const ONE_ENTRY: &[u8] = b"\x02\x3f\xe1\x1f\x41x\x01y";

/// GET with the field of that entry: Required Insert Count 1, Base 1.
fn get_with_entry() -> Vec<u8> {
    let section = [&[2, 0], &section(&GET)[2..], &[0x80]].concat();
    frame(kind::HEADERS, &section)
}

#[test]
fn a_section_waits_for_its_entries() {
    let mut bench = Bench::server(Limits::default());
    bench.open(0);
    let input = [get_with_entry(), data(3)].concat();
    let used = get_with_entry().len();
    assert_eq!(bench.feed_some(0, &input, true), Ok((vec![], used)));
    assert_eq!(bench.feed_some(0, &input[used..], true), Ok((vec![], 0)));
    bench.open(ENCODER);
    assert_eq!(
        bench.feed(ENCODER, ONE_ENTRY, false),
        Ok(vec!["unblocked 0".into()])
    );
    assert_eq!(
        bench.feed(0, &input[used..], true).unwrap(),
        ["head 0", "data 0 3 end"]
    );
    assert_eq!(bench.head.view().first("x"), Some(&b"y"[..]));
    assert_eq!(
        bench.take(Outgoing::Decoder),
        [3, 0x80],
        "the section says all that there is to acknowledge"
    );
    assert!(bench.answer(0));
}

#[test]
fn an_insertion_is_acknowledged_by_itself() {
    let mut bench = Bench::server(Limits::default());
    bench.open(ENCODER);
    assert_eq!(bench.feed(ENCODER, ONE_ENTRY, false), Ok(vec![]));
    assert_eq!(bench.take(Outgoing::Decoder), [3, 1]);
    assert_eq!(
        bench.request(0, &get_with_entry(), true),
        Ok(vec!["head 0 end".into()])
    );
    assert_eq!(bench.take(Outgoing::Decoder), [0x80]);
    assert!(!bench.machine.has_outgoing() || !bench.take(Outgoing::Control).is_empty());
}

#[test]
fn a_stream_that_is_given_up_is_cancelled() {
    let mut bench = Bench::server(Limits::default());
    bench.open(0);
    bench.feed_some(0, &get_with_entry(), true).unwrap();
    assert_eq!(bench.machine.stream_reset(0, 0), Ok(true));
    assert_eq!(bench.take(Outgoing::Decoder), [3, 0x40]);
    bench.open(ENCODER);
    assert_eq!(bench.feed(ENCODER, ONE_ENTRY, false), Ok(vec![]));
}

/// Repeated fields become references once the client has acknowledged the entry.
#[test]
fn our_heads_refer_to_what_was_acknowledged() {
    let mut bench = Bench::server(Limits::default());
    let answer = |bench: &mut Bench, stream: u64| {
        bench.request(stream, &headers(&GET), true).unwrap();
        bench.out.clear();
        bench
            .machine
            .send_head(stream, true, &mut bench.out, |head| {
                head.status(200);
                head.field(b"x", b"&", Indexing::Add);
            });
        bench.out.clone()
    };
    let literal = b"\x01\x40\x07\0\0\xd9\x21x\x01&";
    assert_eq!(answer(&mut bench, 0), literal);
    assert_eq!(bench.take(Outgoing::Encoder), b"\x02\x3f\xe1\x1f\x41x\x01&");
    assert_eq!(answer(&mut bench, 4), literal);
    bench.open(DECODER);
    bench.feed(DECODER, &[3, 1], false).unwrap();
    assert_eq!(answer(&mut bench, 8), b"\x01\x40\x04\x02\0\xd9\x80");
    assert_eq!(bench.take(Outgoing::Encoder), b"");
    assert_eq!(bench.feed(DECODER, &[0x88], false), Ok(vec![]));
    assert_eq!(
        bench.feed(DECODER, &[0x88], false),
        Err(Reason::BadDecoderStream)
    );
}

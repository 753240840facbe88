//! Properties of parsing all bytes: cutting changes nothing, nothing panics, encoded messages are
//! read back.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use proptest::collection::vec;
use proptest::prelude::*;
use saker_http::{Fields, HeadIndex, HeadView, Method, Status, field_name::NameSet};
use saker_http1::client::{
    ClientConnection, LeftOut, ParsedResponse, RequestLine, ResponseIndex, ResponseLimits,
    ResponseView, encode_forwarded_head, encode_request_head, parse_response, response_framing,
};
use saker_http1::{
    BodyFraming, CHUNK_END, Connection, HeadExtra, Parsed, RequestLimits, ResponseFraming,
    check_request, encode_chunk_head, encode_head, encode_last_chunk, parse_request,
};

use super::machine::{Outcome, run, run_pieces};

/// Parts that requests are made of, good and bad, so that random strings of them reach deep.
const PARTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\n",
    b"POST /a HTTP/1.1\r\n",
    b"GET / HTTP/1.0\r\n",
    b"GET /\xe9 HTTP/1.2\r\n",
    b"Host: a\r\n",
    b"Host: a\n",
    b"A: b\r\n",
    b"A:\r\n",
    b" c\r\n",
    b"A : b\r\n",
    b"Connection: close\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b"5\r\nhello\r\n",
    b"5;a=\"b\"\r\nhello\r\n",
    b"hello",
    b"0\r\n",
    b"0\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"GET ",
    b"/",
    b" HTTP/1.1",
    b"PRI * HTTP/2.0\r\n",
    b"\x16\x03\x01",
];

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![30 => (0..PARTS.len()).prop_map(|at| PARTS[at].to_vec()), 1 => vec(any::<u8>(), 0..4)];
    vec(part, 0..16).prop_map(|parts| parts.concat())
}

/// A good request with some content and pipelined copies, sometimes with one byte changed.
fn good_stream() -> impl Strategy<Value = Vec<u8>> {
    let request = prop_oneof![
        Just(&b"GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"[..]),
        Just(&b"POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"[..]),
        Just(&b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n3\r\nabc\r\n0\r\nT: u\r\n\r\n"[..]),
        Just(&b"\r\nHEAD /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"[..]),
    ];
    (
        vec(request, 1..5),
        any::<proptest::sample::Index>(),
        proptest::option::weighted(0.7, any::<u8>()),
    )
        .prop_map(|(requests, at, byte)| {
            let mut bytes = requests.concat();
            if let Some(byte) = byte {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        })
}

fn cut<'a>(bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let (mut rest, mut pieces) = (bytes, Vec::new());
    for size in sizes {
        let (piece, next) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece);
        rest = next;
    }
    pieces.push(rest);
    pieces
}

/// `a-z0-9` names and visible values, such as any encoder may be given.
fn lines() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let name = vec(proptest::sample::select(b"abcxyz059-".to_vec()), 1..8)
        .prop_map(|name| format!("x{}", String::from_utf8_lossy(&name)));
    vec((name, vec(any::<u8>(), 0..12)), 0..80)
}

/// A value after it was sent: no controls, no white space around.
fn as_sent(value: &[u8]) -> Vec<u8> {
    let clean: Vec<u8> = value
        .iter()
        .map(|byte| {
            if (*byte < b' ' && *byte != b'\t') || *byte == 0x7f {
                b' '
            } else {
                *byte
            }
        })
        .collect();
    let start = clean
        .iter()
        .position(|byte| !b" \t".contains(byte))
        .unwrap_or(clean.len());
    let end = clean
        .iter()
        .rposition(|byte| !b" \t".contains(byte))
        .map_or(start, |at| at + 1);
    clean[start..end].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cutting_a_stream_changes_nothing(
        bytes in prop_oneof![stream(), good_stream(), vec(any::<u8>(), 0..64)],
        sizes in vec(0..20usize, 0..20),
    ) {
        let whole = run(&bytes, bytes.len());
        prop_assert_eq!(&run(&bytes, 1), &whole);
        prop_assert_eq!(&run_pieces(cut(&bytes, &sizes)), &whole);
    }

    #[test]
    fn an_accepted_head_keeps_the_rules(bytes in prop_oneof![stream(), good_stream()]) {
        let mut index = HeadIndex::default();
        if let Ok(Parsed::Complete { head_bytes }) = parse_request(&bytes, &RequestLimits::default(), &mut index) {
            let head = bytes[..head_bytes].strip_prefix(b"\r\n").unwrap_or(&bytes[..head_bytes]);
            prop_assert!(head.ends_with(b"\r\n\r\n"));
            for (at, byte) in head.iter().enumerate() {
                prop_assert!(*byte != b'\n' || head[at - 1] == b'\r');
                prop_assert!(*byte != b'\r' || head[at + 1] == b'\n');
                prop_assert!(*byte >= b' ' || b"\r\n\t".contains(byte));
            }
            let lines = head.split(|byte| *byte == b'\n').count() - 3;
            prop_assert_eq!(index.field_count(), lines);
        }
    }

    #[test]
    fn any_response_bytes_are_taken_without_panic(bytes in vec(any::<u8>(), 0..64), prefix in any::<bool>()) {
        let bytes = if prefix { [b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat() } else { bytes };
        let mut index = ResponseIndex::default();
        if let Ok(ParsedResponse::Complete { .. }) = parse_response(&bytes, &ResponseLimits::default(), &mut index) {
            let _ = response_framing(Method::Get, ResponseView::new(&bytes, &index));
        }
    }

    #[test]
    fn responses_are_read_as_they_were_written(lines in lines(), status in 200..600u16, length in any::<u64>()) {
        let mut fields = Fields::new();
        for (name, value) in &lines {
            fields.append(name.clone(), value.clone());
        }
        let extra = HeadExtra { date: None, connection: Connection::KeepAlive, framing: ResponseFraming::Length(length), reason: None };
        let mut out = Vec::new();
        encode_head(Status(status), &fields, extra, &mut out);
        let mut index = ResponseIndex::default();
        let limits = ResponseLimits::default();
        prop_assert_eq!(parse_response(&out, &limits, &mut index), Ok(ParsedResponse::Complete { head_bytes: out.len() }));
        let head = ResponseView::new(&out, &index);
        prop_assert_eq!(head.status(), Status(status));
        let read: Vec<_> = head.fields().filter(|line| line.0 != b"Content-Length").collect();
        prop_assert_eq!(read.len(), lines.len());
        for (line, (name, value)) in read.iter().zip(&lines) {
            prop_assert_eq!(line.0, name.as_bytes());
            prop_assert_eq!(line.1, as_sent(value));
        }
    }

    /// However its lines are written, and whichever of them are left out.
    #[test]
    fn a_head_is_forwarded_as_if_its_fields_were_written_anew(
        lines in lines(),
        gaps in vec(0..3usize, 80),
        kept in vec(any::<bool>(), 80),
        upgrades in any::<bool>(),
    ) {
        let gaps: Vec<&str> = gaps.into_iter().map(|gap| [": ", ":", ": \t "][gap]).collect();
        let mut received = b"GET /a HTTP/1.1\r\nHost: a.example\r\nTE: trailers\r\n".to_vec();
        for ((name, value), gap) in lines.iter().zip(&gaps) {
            received.extend_from_slice([name.as_bytes(), gap.as_bytes(), &as_sent(value), b"\r\n"].concat().as_slice());
        }
        received.extend_from_slice(b"Connection: upgrade\r\nUpgrade: x\r\n\r\n");
        let mut index = HeadIndex::default();
        let parsed = parse_request(&received, &RequestLimits::default(), &mut index);
        prop_assert_eq!(parsed, Ok(Parsed::Complete { head_bytes: received.len() }));
        let head = HeadView::new(&received, &index);
        let left: Vec<&[u8]> = lines.iter().zip(&kept).filter(|line| !line.1).map(|((name, _), _)| name.as_bytes()).collect();
        let mut names = NameSet::default();
        left.iter().for_each(|name| names.insert(name));
        let is_left_out = |name: &[u8]| left.contains(&name);
        let line = RequestLine { method: b"GET", target: b"/b", host: b"b.example" };
        let more = [("x-more", &b"1"[..])];
        let connection = if upgrades { ClientConnection::Upgrade } else { ClientConnection::KeepAlive };
        let (mut forwarded, mut anew) = (Vec::new(), Vec::new());
        let (framing, left_out) = (BodyFraming::None, LeftOut { names, is_left_out });
        encode_forwarded_head(line, head, left_out, more, (framing, connection), &mut forwarded).unwrap();
        let fields = head.fields().filter(|(name, _)| !is_left_out(name)).chain(more.map(|(name, value)| (name.as_bytes(), value)));
        encode_request_head(line, fields, framing, connection, &mut anew).unwrap();
        prop_assert_eq!(forwarded, anew);
    }

    /// Lines that stay in one piece go out as those that are copied one by one, whatever is set and
    /// removed between.
    #[test]
    fn received_fields_are_the_copied_ones(
        lines in lines(),
        gaps in vec(0..3usize, 80),
        edits in vec((0..3usize, any::<proptest::sample::Index>()), 0..6),
        date in any::<bool>(),
    ) {
        let gaps = gaps.into_iter().map(|gap| [": ", ":", ": \t "][gap]);
        let mut received = b"HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 1\r\n".to_vec();
        for ((name, value), gap) in lines.iter().zip(gaps) {
            received.extend_from_slice([name.as_bytes(), gap.as_bytes(), &as_sent(value), b"\r\n"].concat().as_slice());
        }
        received.extend_from_slice(b"Connection: keep-alive\r\nServer: s\r\n\r\n");
        let mut index = ResponseIndex::default();
        let limits = ResponseLimits::default();
        let parsed = parse_response(&received, &limits, &mut index);
        prop_assert_eq!(parsed, Ok(ParsedResponse::Complete { head_bytes: received.len() }));
        let head = ResponseView::new(&received, &index);
        let (mut whole, mut copied) = (Fields::new(), Fields::new());
        whole.append_received(head.bytes(), head.spans().iter().copied());
        head.fields().for_each(|(name, value)| copied.append_token(name, value));
        for (edit, at) in edits {
            let names: Vec<String> = whole.iter().map(|line| line.0.to_owned()).collect();
            let Some(name) = names.get(at.index(names.len().max(1))) else { continue };
            for fields in [&mut whole, &mut copied] {
                match edit {
                    0 => drop(fields.remove(name)),
                    1 => fields.set(name.clone(), b"new".to_vec()),
                    _ => fields.append_copy("x-more", b"more"),
                }
            }
        }
        prop_assert_eq!(&whole, &copied);
        let encoded = |fields: &Fields| {
            let extra = HeadExtra {
                date: date.then_some(b"Sun, 06 Nov 1994 08:49:37 GMT"),
                connection: Connection::KeepAlive,
                framing: ResponseFraming::Length(1),
                reason: None,
            };
            let mut out = Vec::new();
            encode_head(Status::OK, fields, extra, &mut out);
            out
        };
        prop_assert_eq!(encoded(&whole), encoded(&copied));
        prop_assert_eq!(encoded(&whole.clone()), encoded(&copied));
    }

    #[test]
    fn requests_are_read_as_they_were_written(lines in lines(), length in proptest::option::of(any::<u64>())) {
        let line = RequestLine { method: b"PUT", target: b"/a?b", host: b"a.example" };
        let framing = length.map_or(BodyFraming::Chunked, BodyFraming::Length);
        let mut out = Vec::new();
        let fields = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_slice()));
        encode_request_head(line, fields, framing, ClientConnection::KeepAlive, &mut out).unwrap();
        let mut index = HeadIndex::default();
        let parsed = parse_request(&out, &RequestLimits::default(), &mut index);
        prop_assert_eq!(parsed, Ok(Parsed::Complete { head_bytes: out.len() }));
        let head = HeadView::new(&out, &index);
        prop_assert_eq!(check_request(head), Ok(framing));
        prop_assert_eq!((head.method(), head.target()), (Method::Put, &b"/a?b"[..]));
        for (read, (name, value)) in head.fields().filter(|line| line.0.starts_with(b"x")).zip(&lines) {
            prop_assert_eq!(read.0, name.as_bytes());
            prop_assert_eq!(read.1, as_sent(value));
        }
    }

    #[test]
    fn chunked_content_is_read_as_it_was_written(
        chunks in vec(vec(any::<u8>(), 0..300), 0..6),
        trailer in vec(any::<u8>(), 0..10),
        sizes in vec(0..40usize, 0..20),
    ) {
        let mut bytes = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
            encode_chunk_head(chunk.len(), &mut bytes);
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(CHUNK_END);
        }
        let mut trailers = Fields::new();
        trailers.append("x-sum", trailer);
        encode_last_chunk(Some(&trailers), &mut bytes);
        let expected = Outcome::Accept { method: b"PUT".to_vec(), target: b"/".to_vec(), body: chunks.concat(), trailers: 1, close: false };
        prop_assert_eq!(run_pieces(cut(&bytes, &sizes)), vec![expected]);
    }
}

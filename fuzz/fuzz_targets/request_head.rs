//! A head means the same however it arrives; what is accepted can be read in one way only, and says
//! the same when it is sent on.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::{Input, cut, plain_field_lines};
use saker_http::{HeadIndex, HeadView, Version};
use saker_http1::client::{ClientConnection, RequestLine, encode_request_head};
use saker_http1::{
    BodyFraming, HeadScanner, Parsed, Reject, RequestLimits, check_request, keep_alive,
    parse_request,
};

/// Small enough that inputs of some hundred bytes reach them.
const TIGHT: RequestLimits = RequestLimits {
    head_bytes_max: 256,
    header_count_max: 6,
    target_bytes_max: 64,
    field_bytes_max: usize::MAX,
};
/// For what was accepted once: sending it on adds a space after each colon.
const WIDE: RequestLimits = RequestLimits {
    head_bytes_max: 1 << 20,
    header_count_max: 200,
    target_bytes_max: 8192,
    field_bytes_max: usize::MAX,
};

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(knob), Some(tight)) = (input.u16(), input.byte()) else {
        return;
    };
    let bytes = input.rest();
    let limits = if tight & 1 == 1 {
        TIGHT
    } else {
        RequestLimits::default()
    };
    let mut index = HeadIndex::default();
    let whole = parse_request(bytes, &limits, &mut index);
    assert_eq!(in_pieces(bytes, knob, &limits), whole, "cut by {knob}");
    if let Ok(Parsed::Complete { head_bytes }) = whole {
        accepted(&bytes[..head_bytes], &index, &limits);
    }
});

/// As the driver does it: the scanner says when to parse; what it has put off is parsed when no
/// more bytes come.
fn in_pieces(bytes: &[u8], knob: u16, limits: &RequestLimits) -> Result<Parsed, Reject> {
    let (mut scanner, mut index, mut end) = (HeadScanner::default(), HeadIndex::default(), 0);
    for piece in cut(bytes, knob) {
        end += piece.len();
        if scanner.worth_parsing(&bytes[..end], limits) {
            let outcome = parse_request(&bytes[..end], limits, &mut index);
            if outcome != Ok(Parsed::Partial) {
                return outcome;
            }
        }
    }
    parse_request(bytes, limits, &mut index)
}

fn accepted(bytes: &[u8], index: &HeadIndex, limits: &RequestLimits) {
    let head = HeadView::new(bytes, index);
    assert!(bytes.len() <= limits.head_bytes_max && head.target().len() <= limits.target_bytes_max);
    assert!(index.field_count() <= limits.header_count_max);
    line_ends_and_controls(bytes.strip_prefix(b"\r\n").unwrap_or(bytes));
    let mut lines = plain_field_lines(bytes);
    let read: Vec<_> = head
        .fields()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()))
        .collect();
    // Those that Connection nominates are gone, all of a name or none.
    let options: Vec<Vec<u8>> = lines
        .iter()
        .filter(|line| line.0 == b"connection")
        .flat_map(|line| members(&line.1))
        .collect();
    lines.retain(|line| !options.contains(&line.0) || read.iter().any(|kept| kept.0 == line.0));
    assert_eq!(read, lines);
    if let Ok(framing) = check_request(head) {
        unambiguous(head, framing, &lines);
        sent_on(head, framing);
    }
}

fn members(list: &[u8]) -> Vec<Vec<u8>> {
    list.split(|byte| *byte == b',')
        .map(|member| member.trim_ascii().to_ascii_lowercase())
        .collect()
}

/// No line can be seen to end elsewhere by a reader who takes a bare CR, a bare LF or a NUL for
/// something.
fn line_ends_and_controls(head: &[u8]) {
    assert!(head.ends_with(b"\r\n\r\n"));
    for (at, byte) in head.iter().enumerate() {
        match byte {
            b'\n' => assert_eq!(head[at - 1], b'\r'),
            b'\r' => assert_eq!(head[at + 1], b'\n'),
            byte => assert!(*byte == b'\t' || (*byte >= b' ' && *byte != 0x7f)),
        }
    }
    let folded = head
        .windows(3)
        .any(|three| three.starts_with(b"\r\n") && matches!(three[2], b' ' | b'\t'));
    assert!(!folded);
}

/// RFC 9112 section 6.3, judged by the lines alone.
fn unambiguous(head: HeadView<'_>, framing: BodyFraming, lines: &[(Vec<u8>, Vec<u8>)]) {
    let values = |name: &[u8]| -> Vec<&[u8]> {
        lines
            .iter()
            .filter(|line| line.0 == name)
            .map(|line| line.1.as_slice())
            .collect()
    };
    let (lengths, codings) = (values(b"content-length"), values(b"transfer-encoding"));
    match framing {
        BodyFraming::None => assert!(lengths.is_empty() && codings.is_empty()),
        BodyFraming::Length(length) => {
            assert!(lengths.len() == 1 && codings.is_empty());
            let digits = std::str::from_utf8(lengths[0]).expect("digits");
            assert!(digits.bytes().all(|byte| byte.is_ascii_digit()));
            assert_eq!(digits.parse(), Ok(length));
        }
        BodyFraming::Chunked => {
            assert!(
                lengths.is_empty()
                    && codings.len() == 1
                    && codings[0].eq_ignore_ascii_case(b"chunked")
            );
            assert_eq!(head.version(), Version::Http11);
        }
    }
    let hosts = values(b"host").len();
    assert!(hosts == 1 || (hosts == 0 && head.version() == Version::Http10));
}

fn sent_on(head: HeadView<'_>, framing: BodyFraming) {
    let line = RequestLine {
        method: head.method_token(),
        target: head.target(),
        host: head.first("host").unwrap_or_default(),
    };
    for connection in [ClientConnection::KeepAlive, ClientConnection::Close] {
        let mut out = Vec::new();
        encode_request_head(line, head.fields(), framing, connection, &mut out)
            .expect("an accepted request line can be sent");
        let mut index = HeadIndex::default();
        assert_eq!(
            parse_request(&out, &WIDE, &mut index),
            Ok(Parsed::Complete {
                head_bytes: out.len()
            })
        );
        let again = HeadView::new(&out, &index);
        assert_eq!(
            (again.method_token(), again.target(), again.first("host")),
            (line.method, line.target, Some(line.host))
        );
        assert_eq!(check_request(again), Ok(framing));
        assert_eq!(keep_alive(again), connection == ClientConnection::KeepAlive);
        assert!(end_to_end(head).eq(end_to_end(again)));
    }
}

/// Fields that no connection has a say in.
fn end_to_end(head: HeadView<'_>) -> impl Iterator<Item = (&[u8], &[u8])> {
    const OF_THE_CONNECTION: [&str; 8] = [
        "host",
        "te",
        "upgrade",
        "connection",
        "keep-alive",
        "proxy-connection",
        "content-length",
        "transfer-encoding",
    ];
    head.fields().filter(|(name, _)| {
        !OF_THE_CONNECTION
            .iter()
            .any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    })
}

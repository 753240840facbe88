use proptest::collection::vec;
use proptest::prelude::*;
use saker_http::{FieldSpan, HeadIndex, HeadView, Method, Span, Version};

use super::*;
use crate::reject::RejectReason;

const LIMITS: RequestLimits = RequestLimits {
    head_bytes_max: 100,
    header_count_max: 3,
    target_bytes_max: 10,
    field_bytes_max: usize::MAX,
};

fn parsed(bytes: &[u8]) -> Result<Parsed, RejectReason> {
    parse_request(bytes, &LIMITS, &mut HeadIndex::default()).map_err(|reject| reject.reason)
}

fn head_of(length: usize) -> Vec<u8> {
    let frame = b"GET / HTTP/1.1\r\nA: \r\n\r\n".len();
    [
        &b"GET / HTTP/1.1\r\nA: "[..],
        &vec![b'a'; length - frame],
        b"\r\n\r\n",
    ]
    .concat()
}

#[test]
fn spans_show_method_target_and_fields() {
    let bytes = b"\r\nPOST /a?b HTTP/1.0\r\nHost:a \r\nX-Empty:  \r\n\r\nrest";
    let mut index = HeadIndex::default();
    assert_eq!(
        parse_request(bytes, &LIMITS, &mut index),
        Ok(Parsed::Complete {
            head_bytes: bytes.len() - 4
        })
    );
    let head = HeadView::new(bytes, &index);
    assert_eq!(
        (head.method(), head.version()),
        (Method::Post, Version::Http10)
    );
    assert_eq!(
        (head.method_token(), head.target()),
        (&b"POST"[..], &b"/a?b"[..])
    );
    assert_eq!(
        head.fields().collect::<Vec<_>>(),
        [(&b"Host"[..], &b"a"[..]), (b"X-Empty", b"")]
    );
}

#[test]
fn an_index_is_used_again_without_traces() {
    let mut index = HeadIndex::default();
    parse_request(
        b"GET / HTTP/1.1\r\nHost: a\r\nRange: b\r\n\r\n",
        &LIMITS,
        &mut index,
    )
    .unwrap();
    parse_request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &LIMITS, &mut index).unwrap();
    assert_eq!(index.field_count(), 1);
    assert!(!index.has(saker_http::KnownField::Range));
}

#[test]
fn head_size_limit_has_two_sides() {
    assert_eq!(
        parsed(&head_of(100)),
        Ok(Parsed::Complete { head_bytes: 100 })
    );
    assert_eq!(parsed(&head_of(101)), Err(RejectReason::HeadTooLarge));
    assert_eq!(parsed(&head_of(101)[..100]), Ok(Parsed::Partial));
    assert_eq!(
        parsed(&[head_of(100), vec![b'x'; 500]].concat()),
        Ok(Parsed::Complete { head_bytes: 100 })
    );
}

#[test]
fn target_limit_has_two_sides() {
    assert!(matches!(
        parsed(b"GET /234567890 HTTP/1.1\r\n\r\n"),
        Ok(Parsed::Complete { .. })
    ));
    assert_eq!(
        parsed(b"GET /2345678901 HTTP/1.1\r\n\r\n"),
        Err(RejectReason::TargetTooLong)
    );
    assert_eq!(parsed(b"GET /2345678901"), Err(RejectReason::TargetTooLong));
    assert_eq!(parsed(b"GET /234567890"), Ok(Parsed::Partial));
}

#[test]
fn field_count_limit_has_two_sides() {
    assert!(matches!(
        parsed(b"GET / HTTP/1.1\r\nA:\r\nB:\r\nC:\r\n\r\n"),
        Ok(Parsed::Complete { .. })
    ));
    assert_eq!(
        parsed(b"GET / HTTP/1.1\r\nA:\r\nB:\r\nC:\r\nD:\r\n\r\n"),
        Err(RejectReason::TooManyFields)
    );
}

#[test]
fn lines_of_one_name_have_the_limit_of_one_together() {
    let limits = RequestLimits {
        field_bytes_max: 21,
        header_count_max: 10,
        ..LIMITS
    };
    let parsed = |lines: &str| {
        let head = format!("GET / HTTP/1.1\r\n{lines}\r\n");
        parse_request(head.as_bytes(), &limits, &mut HeadIndex::default())
            .map_err(|reject| reject.reason)
    };
    let is_whole = |lines: &str| matches!(parsed(lines), Ok(Parsed::Complete { .. }));
    assert!(
        is_whole("A: 234567890\r\nB: 1\r\na: 234567890\r\n"),
        "20 with what joins them"
    );
    assert_eq!(
        parsed("A: 234567890\r\nB: 1\r\na: 2345678901\r\n"),
        Err(RejectReason::FieldTooLong)
    );
    assert!(
        is_whole("A: 234567890\r\nB: 2345678901\r\n"),
        "two names are two values"
    );
    assert!(
        is_whole("A-B: 234567890\r\nA_B: 2345678901\r\n"),
        "names are compared as HTTP compares them"
    );
}

#[test]
fn a_request_line_beyond_the_head_limit_is_too_long() {
    let limits = RequestLimits {
        head_bytes_max: 12,
        ..LIMITS
    };
    let outcome = parse_request(
        b"GET /2345678 HTTP/1.1\r\n\r\n",
        &limits,
        &mut HeadIndex::default(),
    );
    assert_eq!(outcome, Err(RejectReason::RequestLineTooLong.into()));
}

#[test]
fn every_control_is_refused_at_every_place_of_a_vector() {
    for byte in (0..32u8).chain([127]).filter(|byte| *byte != b'\t') {
        for at in 0..70 {
            let mut value = vec![b'a'; 70];
            value[at] = byte;
            let head = [
                &b"GET / HTTP/1.1\r\nHost: a\r\nA: "[..],
                &value,
                b"\r\n\r\n",
            ]
            .concat();
            let outcome =
                parse_request(&head, &RequestLimits::default(), &mut HeadIndex::default());
            assert!(outcome.is_err(), "{byte:#x} at {at}");
        }
    }
}

#[test]
fn a_partial_preface_of_http2_is_not_yet_a_fault() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for end in 0..16 {
        assert_eq!(parsed(&preface[..end]), Ok(Parsed::Partial), "{end}");
    }
    assert_eq!(parsed(preface), Err(RejectReason::Http2Preface));
}

#[test]
fn limits_without_bound_do_no_harm() {
    let limits = RequestLimits {
        head_bytes_max: usize::MAX,
        header_count_max: usize::MAX,
        target_bytes_max: usize::MAX,
        field_bytes_max: usize::MAX,
    };
    let head = [
        &b"GET / HTTP/1.1\r\n"[..],
        &b"A: b\r\n".repeat(70_000),
        b"\r\n",
    ]
    .concat();
    let outcome = parse_request(&head, &limits, &mut HeadIndex::default());
    assert_eq!(outcome, Err(RejectReason::TooManyFields.into()));
}

#[test]
fn an_ordinary_request_takes_the_fast_way() {
    let head = b"GET /a?b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nX:\r\n\r\n";
    assert_eq!(
        plain::parse(head, &LIMITS, &mut HeadIndex::default()),
        Some(head.len())
    );
}

#[test]
fn nominated_fields_are_not_in_the_index_either_way() {
    for head in [
        "GET / HTTP/1.1\r\nHost: a\r\nB: 1\r\nConnection: b\r\n\r\n",
        "\r\nGET / HTTP/1.0\r\nConnection: close\r\nB: 1\r\nHost: a\r\nConnection: x, B\r\n\r\n",
    ] {
        let mut index = HeadIndex::default();
        parse_request(head.as_bytes(), &RequestLimits::default(), &mut index).unwrap();
        let view = HeadView::new(head.as_bytes(), &index);
        assert_eq!(
            (view.first("b"), view.first("host")),
            (None, Some(&b"a"[..])),
            "{head}"
        );
    }
}

#[test]
fn odd_names_are_known_either_way_and_forgotten() {
    let mut index = HeadIndex::default();
    for (head, are_plain) in [
        ("GET / HTTP/1.1\r\nHost: a_b\r\nX-Plain-9: 1\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: a\r\nX_User: 1\r\n\r\n", false),
        ("M_X / HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nA.: 1\r\nHost: a\r\n\r\n", false),
        ("\r\nGET / HTTP/1.1\r\nAbcdefgh~: 1\r\n\r\n", false),
        ("\r\nGET / HTTP/1.1\r\nAbcdefgh: 1\r\n\r\n", true),
        // What is nominated goes, and the rest is looked at anew.
        ("GET / HTTP/1.1\r\nX_A: 1\r\nConnection: x_a\r\n\r\n", true),
        (
            "GET / HTTP/1.1\r\nX_A: 1\r\nB: 1\r\nConnection: b\r\n\r\n",
            false,
        ),
    ] {
        parse_request(head.as_bytes(), &RequestLimits::default(), &mut index).unwrap();
        let view = HeadView::new(head.as_bytes(), &index);
        assert_eq!(view.names_are_plain(), are_plain, "{head}");
    }
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nX_A1";
    parse_request(head, &RequestLimits::default(), &mut index).unwrap();
    let span = |start, len| Span { start, len };
    let late = FieldSpan {
        name: span(27, 3),
        value: span(30, 1),
    };
    index.push(head, late);
    let view = HeadView::new(head, &index);
    assert_eq!(view.first("x_a"), Some(&b"1"[..]));
    assert!(!view.names_are_plain(), "added behind the others");
}

/// Lines that heads are made of; the last ones are faulty, or fine for one of the two ways only.
const LINES: &[&str] = &[
    "Host: a\r\n",
    "A: \t b c \t\r\n",
    "B:\r\n",
    "C: caf\u{e9} \r\n",
    "X_odd.name~1: f\r\n",
    "E: long enough for two words \t\u{7f}\r\n",
    "D: e\n",
    "F:\n",
    "G\r\n",
    "H : i\r\n",
    " j\r\n",
    "\n",
    "\r\n",
    "\0",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The fast way accepts nothing that the thorough one does not, and understands the same by it.
    #[test]
    fn both_ways_agree(
        empty in 0..2usize,
        first in proptest::sample::select(vec!["GET / HTTP/1.1\r\n", "P /\u{e9} HTTP/1.0\r\n", "GET / HTTP/1.1\n", "GET  / HTTP/1.1\r\n"]),
        lines in vec(prop_oneof![4 => 0..5usize, 1 => 0..LINES.len()], 0..4),
        rest in "[ -~]{0,8}",
    ) {
        let lines: String = lines.iter().map(|at| LINES[*at]).collect();
        let head = format!("{}{first}{lines}\r\n{rest}", "\r\n".repeat(empty));
        let limits = RequestLimits::default();
        let (mut fast, mut thorough) = (HeadIndex::default(), HeadIndex::default());
        let outcome = strict::parse(head.as_bytes(), &limits, &mut thorough);
        match plain::parse(head.as_bytes(), &limits, &mut fast) {
            Some(head_bytes) => {
                prop_assert_eq!(outcome, Ok(Parsed::Complete { head_bytes }));
                let are_plain = |index| HeadView::new(head.as_bytes(), index).names_are_plain();
                prop_assert_eq!(are_plain(&fast), are_plain(&thorough));
                // The thorough way leaves that look to others.
                if are_plain(&thorough) {
                    fast.mark_names_plain();
                    thorough.mark_names_plain();
                }
                prop_assert_eq!(format!("{fast:?}"), format!("{thorough:?}"));
            }
            // What is left to the thorough way and good after all begins with an empty line.
            None => prop_assert!(outcome.is_err() || outcome == Ok(Parsed::Partial) || empty == 1),
        }
    }
}

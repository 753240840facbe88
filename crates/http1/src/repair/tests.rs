//! Heads and what becomes of them.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use super::*;
use crate::{BodyFraming, Parsed, RequestLimits, checked, parse_request};
use proptest::prelude::*;
use saker_http::{HeadIndex, HeadView};

fn repaired(text: &[u8]) -> Repaired {
    repair(text, 1000, Repair::Unsafe)
}

fn head(text: &str) -> String {
    match repaired(text.as_bytes()) {
        Repaired::Head { head, consumed, .. } => {
            assert_eq!(consumed, text.len(), "{text}");
            String::from_utf8(head).unwrap()
        }
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn what_is_removed() {
    let rows = [
        ("GET / HTTP/1.0\n\n", "GET / HTTP/1.0\r\n\r\n"),
        (
            "GET / HTTP/1.0  \r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
        ),
        (
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        (
            "GET / HTTP/1.0\r\nA: b\x01\x7fc\td\r\n\r\n",
            "GET / HTTP/1.0\r\nA: b  c\td\r\n\r\n",
        ),
        (
            "GET / HTTP/1.0\r\nF\x01o: b\r\nA:b\r\n\r\n",
            "GET / HTTP/1.0\r\nA: b\r\n\r\n",
        ),
        (
            "GET / HTTP/1.0\r\nHost: a:80\r\nA: b\r\nHost:a:80\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a:80\r\nA: b\r\n\r\n",
        ),
        (
            "GET / HTTP/1.1\r\nHost: 4714::abcd:8001\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: \r\n\r\n",
        ),
        (
            "GET / HTTP/1.0\r\nHost: abc\u{e9}\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
        ),
        (
            "GET http://0x7f.1/a?b HTTP/1.0\r\nHost: c\r\n\r\n",
            "GET /a?b HTTP/1.0\r\n\r\n",
        ),
        (
            "GET http://%3127.0.0.1 HTTP/1.1\r\nHost: c\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: \r\n\r\n",
        ),
        (
            "GET HTTP://u:p@a:80?q HTTP/1.0\r\n\r\n",
            "GET http://a:80/?q HTTP/1.0\r\n\r\n",
        ),
    ];
    for (text, want) in rows {
        assert_eq!(head(text), want, "{text:?}");
    }
}

#[test]
fn what_stays_refused() {
    let with_field = |field: &str| format!("GET / HTTP/1.1\nHost: a\n{field}\n\n");
    for field in [
        "Content-Length: 1",
        "Content-Length: 0",
        "Transfer-Encoding: chunked",
        "Upgrade: h2c",
        "Expect: 100-continue",
        "Host: b",
        " A: b",
        "A",
        "A b: c",
        "A : b",
        ": b",
        "A\tb: c",
        "A\0b: c",
        "A: b\0",
        "A: b\rc",
        "Host: a\r\nHost: a b",
    ] {
        assert_eq!(
            repaired(with_field(field).as_bytes()),
            Repaired::Refused(None),
            "{field:?}"
        );
    }
    for line in [
        "GET /",
        "GET  / HTTP/1.0",
        "GET / HTTP/1.0 x",
        "GET / HTTP/0.9",
        "GET / HTTP/1.11",
        "GET / HTTP/10.0",
        "GET / http/1.0",
        "G\0ET / HTTP/1.0",
        "CONNECT a:1 HTTP/1.0",
        "",
        "GET http://a:80x/ HTTP/1.0",
        "GET http://a::80/ HTTP/1.0",
        "GET http:/// HTTP/1.0",
        "GET http://[4712::abcd::]/ HTTP/1.0",
        "GET http://a\u{e9}/ HTTP/1.0",
    ] {
        let text = format!("{line}\nHost: a\n\n");
        assert_eq!(
            repaired(text.as_bytes()),
            Repaired::Refused(None),
            "{line:?}"
        );
    }
    let slash = repaired(b"G/T / HTTP/1.0\r\n\r\n");
    assert_eq!(slash, Repaired::Refused(Some(Status::NOT_IMPLEMENTED)));
}

#[test]
fn folded_lines_are_joined() {
    let line = "GET / HTTP/1.0\r\n";
    let rows = [
        ("A: b\r\n c\r\n", Some("A: b c\r\n")),
        (
            "A: b \t \r\n \t c \r\n\td\r\nE: f\r\n",
            Some("A: b c d\r\nE: f\r\n"),
        ),
        ("A:\r\n b\r\n", Some("A: b\r\n")),
        (" A: b\r\n", None),
        ("Content-Length: 1\r\n 2\r\n", None),
        ("A: b\r\n c\r\nTransfer-Encoding: chunked\r\n", None),
        ("A: b\r\n c\r\nContent-Length: 0\r\n", None),
        ("A: b\r\n \0\r\n", None),
    ];
    for (fields, want) in rows {
        let text = format!("{line}{fields}\r\n");
        let want = match want {
            None => Repaired::Refused(None),
            Some(fields) => Repaired::Head {
                head: format!("{line}{fields}\r\n").into_bytes(),
                consumed: text.len(),
                is_uniform: false,
            },
        };
        for how in [Repair::Folded, Repair::Unsafe] {
            assert_eq!(repair(text.as_bytes(), 1000, how), want, "{fields:?}");
        }
    }
    // What else is not strict stays so, and is refused when the new head is read.
    let odd = b"GET / HTTP/1.0  \r\nA: b\r\n c\r\n\r\n";
    let Repaired::Head { head, .. } = repair(odd, 1000, Repair::Folded) else {
        panic!("not joined");
    };
    assert!(parse_request(&head, &RequestLimits::default(), &mut HeadIndex::default()).is_err());
}

#[test]
fn line_feeds_become_line_ends() {
    let outcome = |text: &[u8]| repair(text, 1000, Repair::LineFeeds);
    let head = |text: &str, consumed, is_uniform| Repaired::Head {
        head: text.as_bytes().to_vec(),
        consumed,
        is_uniform,
    };
    let whole = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(
        outcome(b"GET / HTTP/1.1\nHost: a\n\nmore"),
        head(whole, 24, true)
    );
    assert_eq!(
        outcome(b"\n\nGET / HTTP/1.1\nHost: a\n\n"),
        head(whole, 26, true)
    );
    assert_eq!(
        outcome(b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        head(whole, 31, true)
    );
    // Others may see another end: such a request is the last one.
    for mixed in [
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\nHost: a\n\r\n",
    ] {
        assert_eq!(
            outcome(mixed.as_bytes()),
            head(whole, mixed.len(), false),
            "{mixed:?}"
        );
    }
    assert_eq!(outcome(b"GET / HTTP/1.1\nHost: a\n"), Repaired::Partial);
    assert_eq!(outcome(b"\n\n\n"), Repaired::Partial);
    assert_eq!(outcome(&[b'\n'; 1000]), Repaired::Refused(None));
    // A CR within a line stays, and is refused with the new head.
    let Repaired::Head { head, .. } = outcome(b"GET / HTTP/1.1\nHost: a\rb\n\n") else {
        panic!("not rewritten");
    };
    assert!(parse_request(&head, &RequestLimits::default(), &mut HeadIndex::default()).is_err());
    assert!(is_repairable(RejectReason::EmptyLines, Repair::LineFeeds));
    assert!(!is_repairable(RejectReason::FoldedLine, Repair::LineFeeds));
    assert!(!is_repairable(RejectReason::BareLineFeed, Repair::Folded));
}

#[test]
fn waiting_ends_at_the_limit() {
    let text = [b"GET / HTTP/1.0\nA: ".as_slice(), &[b'a'; 2000]].concat();
    assert_eq!(
        repair(&text[..999], 1000, Repair::Unsafe),
        Repaired::Partial
    );
    assert_eq!(
        repair(&text[..1000], 1000, Repair::Unsafe),
        Repaired::Refused(None)
    );
    for (reason, folds, all) in [
        (RejectReason::LengthAndTransferEncoding, false, false),
        (RejectReason::FoldedLine, true, true),
        (RejectReason::BadHost, false, true),
    ] {
        assert_eq!(
            (
                is_repairable(reason, Repair::Folded),
                is_repairable(reason, Repair::Unsafe)
            ),
            (folds, all)
        );
    }
}

proptest! {
    /// A new head is strict, has no content, and has one host at most, whatever the old one was.
    #[test]
    fn new_heads_are_strict(
        line in "(GET|G/T|OPTIONS) (/|\\*|http://[a-z@:0-9%.]{0,8}/?)( HTTP/1\\.[01]|[ -~]{0,9})",
        fields in prop::collection::vec("(Host|host|A|Content-Length|Connection)?[\\x00-\\x7f]{0,8}:[\\x00-\\xff]{0,9}\r?", 0..5),
        is_unsafe: bool,
    ) {
        let text = format!("{line}\r\n{}\n\n", fields.join("\n"));
        let how = if is_unsafe { Repair::Unsafe } else { Repair::Folded };
        if let Repaired::Head { head, .. } = repair(text.as_bytes(), 1 << 16, how) {
            let mut index = HeadIndex::default();
            if let Ok(Parsed::Complete { head_bytes }) = parse_request(&head, &RequestLimits::default(), &mut index) {
                prop_assert_eq!(head_bytes, head.len());
                if let Ok((framing, _)) = checked(HeadView::new(&head, &index)) {
                    prop_assert_eq!(framing, BodyFraming::None);
                }
            }
        }
    }
}

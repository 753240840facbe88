//! Rows were tried out on Apache 2.4 with mod_cgi; where it does otherwise, the row says so.

use super::*;
use crate::test_peer::{Heard, hear};
use crate::{Dialogue, PlainCgi};
use proptest::prelude::*;

fn brief(head: &ResponseHead) -> String {
    let fields: String = head
        .fields
        .iter()
        .map(|(name, value)| format!("{name}={};", value.escape_ascii()))
        .collect();
    let reason = head.reason.as_ref().map_or(String::new(), |reason| {
        format!(" {}", reason.escape_ascii())
    });
    let length = head
        .length
        .map_or(String::new(), |length| format!(" [{length}]"));
    let local = if head.is_local_redirect { " local" } else { "" };
    let said = if head.is_status_said { "" } else { "~" };
    format!("{said}{}{reason}{length}{local} {fields}", head.status.0)
}

fn outcome(text: &[u8], style: Style) -> String {
    match parse(text, style) {
        Ok(head) => brief(&head),
        Err(broken) => format!("{:?} {}", broken.fault, broken.excerpt.escape_ascii()),
    }
}

#[test]
fn heads_of_scripts() {
    let rows: [(&[u8], &str); 35] = [
        (b"Content-Type: text/plain\n\n", "~200 Content-Type=text/plain;"),
        (b"Content-Type: text/plain\r\nX-A:b\r\n\r\n", "~200 Content-Type=text/plain;X-A=b;"),
        (b"\n", "~200 "),
        (b"Status: 299 Fine thing\nA: b\n\n", "299 Fine thing A=b;"),
        (b"status:404 Not Found\n\n", "404 "),
        (b"Status: 404\n\n", "404 "),
        (b"Status: 404\nStatus: 201\n\n", "201 "),
        // Apache goes on with 500 and the script's content.
        (b"Status: abc\n\n", "500 "),
        (b"Status: 99\n\n", "500 "),
        (b"Status: 1000 x\n\n", "500 "),
        (b"Status:\n\n", "500 "),
        (b"Status: 103Location:/x-of-another-line\n\n", "500 "),
        (b"Status: 204\n\n", "204 "),
        (b"Location: /x?y=1\n\n", "~302 local Location=/x?y=1;"),
        (b"Location: http://a/b\n\n", "~302 Location=http://a/b;"),
        (b"Location: foo\n\n", "~302 Location=foo;"),
        (b"Status: 200\nLocation: /x\n\n", "302 local Location=/x;"),
        (b"Status: 301\nLocation: /x\n\n", "301 Location=/x;"),
        (b"Status: 201 Made\nLocation: /x\n\n", "201 Made Location=/x;"),
        (b"Content-Length: 2\n\n", "~200 [2] "),
        (b"Content-Length: zz\n\n", "~200 "),
        (b"Content-Length: -1\n\n", "~200 "),
        (b"Content-Length: 4\nContent-Length: 4\n\n", "~200 [4] "),
        (b"Content-Length: 4\nContent-Length: 5\n\n", "~200 "),
        (b"Content-Length: 99999999999999999999\n\n", "~200 "),
        (b"Transfer-Encoding: chunked\nA: b\n\n", "~200 A=b;"),
        (
            b"Content-Type: a/b\nContent-Type: c/d\nX-A: 1\nX-A: 2\nSet-Cookie: a\nSet-Cookie: b\n\n",
            "~200 Content-Type=c/d;X-A=1;X-A=2;Set-Cookie=a;Set-Cookie=b;",
        ),
        (b"X-A: 1\n two\n\n", "Malformed  two"),
        (b"hello world\n\n", "Malformed hello world"),
        (b"HTTP/1.1 201 Created\n\n", "Malformed HTTP/1.1 201 Created"),
        (b"X A: 1\n\n", "Malformed X A: 1"),
        (b"X-A : 1\n\n", "Malformed X-A : 1"),
        (b": x\n\n", "Malformed : x"),
        (b"X-A: a\x01b\n\n", "Malformed X-A: a\\x01b"),
        // Apache takes what is before the NUL, and puts the two lines of a lone CR into one.
        (b"X-A: a\0b\n\n", "Malformed X-A: a\\x00b"),
    ];
    for (text, want) in rows {
        assert_eq!(
            outcome(text, Style::Fields),
            want,
            "{}",
            text.escape_ascii()
        );
    }
    assert_eq!(
        outcome("X-A: é\n\n".as_bytes(), Style::Fields),
        "~200 X-A=\\xc3\\xa9;"
    );
}

#[test]
fn heads_with_a_status_line() {
    let rows: [(&[u8], Style, &str); 11] = [
        (
            b"HTTP/1.1 222 Odd\r\nA: b\r\n\r\n",
            Style::StatusLine,
            "222 Odd A=b;",
        ),
        (
            b"HTTP/1.0 404 Not Found\nA: b\n\n",
            Style::StatusLineOrFields,
            "404 A=b;",
        ),
        (b"HTTP/1.1 200\n\n", Style::StatusLine, "200 "),
        (
            b"HTTP/1.1 200\nA: b \r\n\t c\n d\r\nE:\n f\n\n",
            Style::StatusLine,
            "200 A=b c d;E=f;",
        ),
        (
            b"HTTP/1.1 200\nA: b\n c\n\n",
            Style::StatusLineOrFields,
            "Malformed  c",
        ),
        (b"HTTP/1.1\n\n", Style::StatusLine, "Malformed HTTP/1.1"),
        (
            b"HTTP/1.1 200 OK\nLocation: /x\n\n",
            Style::StatusLine,
            "200 Location=/x;",
        ),
        (
            b"HTTP/1.1 200 OK\nLocation: /x\n\n",
            Style::StatusLineOrFields,
            "302 local Location=/x;",
        ),
        (b"A: b\n\n", Style::StatusLineOrFields, "~200 A=b;"),
        (b"A: b\n\n", Style::StatusLine, "Malformed A: b"),
        (b"\n", Style::StatusLine, "Malformed "),
    ];
    for (text, style, want) in rows {
        assert_eq!(outcome(text, style), want, "{}", text.escape_ascii());
    }
}

fn heard(text: &[u8]) -> Vec<Heard> {
    hear(&mut PlainCgi::new(true), [text], true)
}

fn fault(text: &[u8]) -> Option<Fault> {
    match heard(text).pop() {
        Some(Heard::Broken(broken)) => Some(broken.fault),
        _ => None,
    }
}

#[test]
fn what_is_wrong_is_said_in_the_end() {
    let rows: [(&[u8], Option<Fault>); 7] = [
        (b"A: b\n\nbody", None),
        (b"", Some(Fault::Premature)),
        (b"A: b\n", Some(Fault::Premature)),
        (b"A: b", Some(Fault::Premature)),
        (b"garbage\nA: b", Some(Fault::Malformed)),
        (b"garbage", Some(Fault::Premature)),
        (b"Status: 101\n\n", Some(Fault::Unswitchable)),
    ];
    for (text, want) in rows {
        assert_eq!(fault(text), want, "{}", text.escape_ascii());
    }
}

#[test]
fn limits_on_both_sides_of_their_edges() {
    let head_of = |size: usize| [&b"A: "[..], &vec![b'x'; size - 5], b"\n\nbody"].concat();
    assert_eq!(fault(&head_of(HEAD_BYTES_MAX)), None);
    assert_eq!(
        fault(&head_of(HEAD_BYTES_MAX + 1)),
        Some(Fault::HeadTooLarge)
    );
    assert_eq!(
        fault(&[b'x'; HEAD_BYTES_MAX + 1]),
        Some(Fault::HeadTooLarge)
    );
    let lines = |count: usize| ["A: b\n".repeat(count), "\n".into()].concat();
    assert_eq!(fault(lines(crate::head::FIELD_COUNT_MAX).as_bytes()), None);
    assert_eq!(
        fault(lines(crate::head::FIELD_COUNT_MAX + 1).as_bytes()),
        Some(Fault::TooManyFields)
    );
    let interims = |count: u32| ["Status: 103\n\n".repeat(count as usize), "\n".into()].concat();
    assert_eq!(fault(interims(INTERIM_COUNT_MAX).as_bytes()), None);
    assert_eq!(
        fault(interims(INTERIM_COUNT_MAX + 1).as_bytes()),
        Some(Fault::HeadTooLarge)
    );
}

#[test]
fn an_interim_head_comes_before_the_final_one() {
    let heard = heard(b"Status: 103\nLink: </a>\n\nStatus: 404\n\nbody");
    let brief: Vec<String> = heard
        .iter()
        .map(|heard| match heard {
            Heard::Interim(head) => format!("interim {}", brief(head)),
            Heard::Head(head) => brief(head),
            Heard::Content(content) => content.escape_ascii().to_string(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        brief,
        ["interim 103 Link=</a>;", "404 ", "body", "End(false)"]
    );
}

#[test]
fn a_head_in_one_piece_is_not_copied() {
    let mut response = Response::new(Style::Fields, false);
    assert!(matches!(
        response.receive(b"A: b\n\nbody"),
        Ok((6, Some(Event::Head(_))))
    ));
    assert_eq!(response.partial.capacity(), 0);
    assert_eq!(
        response.receive(b"body"),
        Ok((4, Some(Event::Content(0..4))))
    );
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    const WORDS: &[&str] = &[
        "A: b",
        "\n",
        "\r\n",
        "\n\n",
        "\r",
        "Status: 103",
        "Status: 404",
        "Location: /x",
        "HTTP/1.1 200 OK",
        "garbage",
        ": ",
        "\0",
        "body",
    ];
    prop_oneof![
        proptest::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8)
    ]
}

proptest! {
    #[test]
    fn any_cut_gives_the_same(pieces in proptest::collection::vec(piece(), 0..24), style in 0..3) {
        let whole = pieces.concat();
        let dialogue = || -> Box<dyn Dialogue> {
            match style {
                0 => Box::new(PlainCgi::new(true)),
                1 => Box::new(PlainCgi::new(false)),
                _ => Box::new(crate::Uwsgi::new(0, 0)),
            }
        };
        let at_once = hear(&mut *dialogue(), [&whole[..]], true);
        prop_assert_eq!(&hear(&mut *dialogue(), whole.chunks(1), true), &at_once);
        prop_assert_eq!(&hear(&mut *dialogue(), pieces.iter().map(|piece| &piece[..]), true), &at_once);
    }
}

use super::*;
use crate::test_peer::{
    Asked, Heard,
    fastcgi::{end_request, read_request, record, record_of, stdout},
    hear,
};
use proptest::prelude::*;
use saker_http::Fields;

const HEAD: &[u8] = b"Status: 404 Not Found\r\nContent-type: text/html\r\n\r\n";

fn said() -> FastCgi {
    let mut dialogue = FastCgi::new(Role::Responder, true);
    dialogue.end(&mut Vec::new());
    dialogue
}

fn brief(heard: &[Heard]) -> String {
    let one = |heard: &Heard| match heard {
        Heard::Head(head) => head.status.0.to_string(),
        Heard::Content(content) => format!("content {}", content.escape_ascii()),
        Heard::Log(text) => format!("log {}", text.escape_ascii()),
        Heard::Broken(broken) => format!(
            "{:?}{}",
            broken.fault,
            if broken.is_untouched {
                " untouched"
            } else {
                ""
            }
        ),
        other => format!("{other:?}"),
    };
    heard.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Appendix B of the specification, example 1, with its request id.
#[test]
fn the_request_of_the_specification() {
    let asked = Asked::new()
        .variable("SERVER_PORT", "80")
        .variable("SERVER_ADDR", "199.170.183.42");
    let (mut out, mut dialogue) = (Vec::new(), FastCgi::new(Role::Responder, false));
    asked
        .begin(&mut dialogue, &mut out)
        .expect("it can be said");
    dialogue.end(&mut out);
    let params = b"\x0b\x02SERVER_PORT80\x0b\x0eSERVER_ADDR199.170.183.42";
    let want = [
        record(kind::BEGIN_REQUEST, &[0, 1, 0, 0, 0, 0, 0, 0], 0),
        record(kind::PARAMS, params, 0),
        record(kind::PARAMS, &[], 0),
        record(kind::STDIN, &[], 0),
    ];
    assert_eq!(out, want.concat());
}

/// The same appendix: how applications answer.
#[test]
fn the_answers_of_the_specification() {
    let html = b"Content-type: text/html\r\n\r\n<html>\n<head> ... ";
    let good = [stdout(html), stdout(b""), end_request(0)].concat();
    assert_eq!(
        brief(&hear(&mut said(), [&good[..]], false)),
        "200, content <html>\\n<head> ... , End(true)"
    );
    let failed = [
        record(kind::STDERR, b"config error: missing SI_UID\n", 0),
        stdout(b""),
        record(kind::STDERR, b"", 0),
        end_request(0),
    ]
    .concat();
    assert_eq!(
        brief(&hear(&mut said(), [&failed[..]], false)),
        "log config error: missing SI_UID\\n, Premature"
    );
}

#[test]
fn answers() {
    let head = stdout(HEAD);
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "padding",
            [
                record(kind::STDOUT, HEAD, 7),
                record(kind::STDOUT, b"x", 255),
                record(kind::END_REQUEST, &[0; 8], 3),
            ]
            .concat(),
            "404, content x, End(true)",
        ),
        (
            "head over records",
            [stdout(&HEAD[..30]), stdout(&HEAD[30..]), end_request(0)].concat(),
            "404, End(true)",
        ),
        (
            "long end",
            [head.clone(), record(kind::END_REQUEST, &[0; 20], 0)].concat(),
            "404, End(true)",
        ),
        (
            "log between",
            [
                head.clone(),
                stdout(b"a"),
                record(kind::STDERR, b"w", 0),
                stdout(b"b"),
                end_request(0),
            ]
            .concat(),
            "404, content a, log w, content b, End(true)",
        ),
        (
            "unread behind the end",
            [head.clone(), end_request(0), stdout(b"a")].concat(),
            "404, End(false)",
        ),
        (
            "management",
            [
                record_of(0, 11, &[9, 0, 0, 0, 0, 0, 0, 0], 0),
                record_of(0, 10, b"", 0),
                head.clone(),
                end_request(0),
            ]
            .concat(),
            "404, End(true)",
        ),
        ("multiplex", end_request(1), "CannotMultiplex untouched"),
        ("overloaded", end_request(2), "Overloaded untouched"),
        ("role", end_request(3), "UnknownRole untouched"),
        ("status", end_request(4), "BadRecord"),
        (
            "short end",
            record(kind::END_REQUEST, &[0; 7], 0),
            "BadRecord",
        ),
        (
            "other request",
            [head.clone(), record_of(2, kind::STDOUT, b"a", 0)].concat(),
            "404, WrongRequest",
        ),
        (
            "other type",
            [head.clone(), record(kind::STDIN, b"a", 0)].concat(),
            "404, Misplaced",
        ),
        (
            "HTTP",
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "WrongVersion",
        ),
        (
            "garbage in the head",
            [stdout(b"<b>Fatal</b>\n\n"), end_request(0)].concat(),
            "Malformed",
        ),
        ("nothing", Vec::new(), "Premature"),
        ("cut in the head", stdout(&HEAD[..30]), "Premature"),
        (
            "cut in the content",
            [head.clone(), stdout(b"a")].concat(),
            "404, content a, Cut",
        ),
        (
            "cut in a record",
            [&head[..], &record(kind::STDOUT, b"abc", 0)[..10]].concat(),
            "404, content ab, Cut",
        ),
    ];
    for (what, bytes, want) in rows {
        let closes = !want.contains("End");
        assert_eq!(
            brief(&hear(&mut said(), [&bytes[..]], closes)),
            want,
            "{what}"
        );
        assert_eq!(
            brief(&hear(&mut said(), bytes.chunks(1), closes)),
            want,
            "{what}, byte by byte"
        );
    }
}

#[test]
fn a_connection_stays_if_both_sides_are_done_and_it_was_wanted() {
    let answer = [stdout(HEAD), end_request(0)].concat();
    let early = hear(
        &mut FastCgi::new(Role::Responder, true),
        [&answer[..]],
        false,
    );
    assert_eq!(brief(&early), "404, End(false)");
    let mut unkept = FastCgi::new(Role::Responder, false);
    unkept.end(&mut Vec::new());
    assert_eq!(
        brief(&hear(&mut unkept, [&answer[..]], true)),
        "404, End(false)"
    );
}

#[test]
fn long_variables_and_many() {
    for (size, records) in [
        (100, 1),
        (127, 1),
        (128, 1),
        (CONTENT_BYTES_MAX - 6, 2),
        (CONTENT_BYTES_MAX - 5, 3),
        (200_000, 5),
    ] {
        let value = "v".repeat(size);
        let asked = Asked::new().variable("A", &value).variable("B", "2");
        let mut out = Vec::new();
        asked
            .begin(&mut FastCgi::new(Role::Responder, true), &mut out)
            .expect("it can be said");
        let request = read_request(&out).expect("an application can read it");
        assert_eq!(
            (
                request.variables.first(b"A"),
                request.variables.first(b"B"),
                request.variables.len()
            ),
            (Some(value.as_bytes()), Some(&b"2"[..]), 2)
        );
        let count = std::iter::successors(Some(0), |at: &usize| {
            let header = out.get(*at..)?.first_chunk::<8>()?;
            Some(at + 8 + usize::from(u16::from_be_bytes([header[4], header[5]])))
        });
        // BEGIN_REQUEST, the records, the empty one; and the place behind the last.
        assert_eq!(count.count() - 3, records, "{size}");
    }
}

#[test]
fn too_much_is_refused_and_appends_nothing() {
    // A value, its name and their lengths; BEGIN_REQUEST, and 16 headers.
    let asked = |size: usize| Asked::new().variable("A", &"x".repeat(size));
    let mut out = b"before".to_vec();
    let refused =
        asked(VARIABLES_BYTES_MAX).begin(&mut FastCgi::new(Role::Responder, true), &mut out);
    assert_eq!(
        (refused, &out[..]),
        (Err(Refused::VariablesTooLong), &b"before"[..])
    );
    let overhead = 16 + 16 * 8 + 6;
    for (size, fits) in [
        (VARIABLES_BYTES_MAX - overhead, true),
        (VARIABLES_BYTES_MAX - overhead + 1, false),
    ] {
        let said = asked(size).begin(&mut FastCgi::new(Role::Responder, true), &mut Vec::new());
        assert_eq!(said.is_ok(), fits, "{size}");
    }
}

#[test]
fn content_goes_in_records() {
    let (mut dialogue, mut out) = (FastCgi::new(Role::Responder, true), Vec::new());
    Asked::new()
        .begin(&mut dialogue, &mut out)
        .expect("it can be said");
    let content: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
    content
        .chunks(150_000)
        .for_each(|piece| dialogue.content(piece, &mut out));
    assert!(!read_request(&out).expect("a request").is_whole);
    dialogue.end(&mut out);
    let request = read_request(&out).expect("a request");
    assert!(request.is_whole && request.keeps && request.content == content);
}

#[test]
fn framed_content_is_what_content_would_be() {
    for bytes in [1, 8_192, CONTENT_BYTES_MAX] {
        let content = vec![b'x'; bytes];
        let (mut whole, mut framed) = (Vec::new(), Vec::new());
        FastCgi::new(Role::Responder, true).content(&content, &mut whole);
        let behind = FastCgi::new(Role::Responder, true).frame(bytes, &mut framed);
        framed.extend_from_slice(&content);
        framed.extend_from_slice(behind.unwrap());
        assert!(framed == whole, "{bytes}");
    }
    let mut out = Vec::new();
    let mut authorizer = FastCgi::new(Role::Authorizer, true);
    assert_eq!(authorizer.frame(1, &mut out), None);
    let mut responder = FastCgi::new(Role::Responder, true);
    assert_eq!(responder.frame(CONTENT_BYTES_MAX + 1, &mut out), None);
    assert!(out.is_empty());
}

#[test]
fn an_authorizer_decides() {
    let asked = Asked::new()
        .variable("SCRIPT_NAME", "/x")
        .variable("PATH_INFO", "/y")
        .variable("A", "1")
        .variable("CONTENT_LENGTH", "5");
    let (mut dialogue, mut out) = (FastCgi::new(Role::Authorizer, true), Vec::new());
    asked
        .begin(&mut dialogue, &mut out)
        .expect("it can be said");
    dialogue.content(b"abcde", &mut out);
    let request = read_request(&out).expect("a request");
    assert_eq!(
        (request.role, request.variables.len(), &request.content[..]),
        (2, 1, &b""[..])
    );
    let head = |status: u16, fields: &[(&'static str, &'static str)]| {
        let mut all = Fields::new();
        fields
            .iter()
            .for_each(|(name, value)| all.append(*name, value.as_bytes()));
        ResponseHead {
            status: Status(status),
            reason: None,
            fields: all,
            length: None,
            is_status_said: true,
            first_status: None,
            is_status_invalid: false,
            is_local_redirect: false,
        }
    };
    let denied = head(403, &[("Variable-A", "1")]);
    assert_eq!(
        authorization(denied.clone()),
        Authorization::Answered(denied)
    );
    let mut variables = Variables::new();
    variables.push(b"AUTH_METHOD", b"database lookup");
    let allowed = head(
        200,
        &[
            ("Variable-AUTH_METHOD", "database lookup"),
            ("X", "y"),
            ("Variable-", "z"),
        ],
    );
    assert_eq!(authorization(allowed), Authorization::Allowed(variables));
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let content = || proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => (prop_oneof![Just(kind::STDOUT), Just(kind::STDERR)], content(), 0..20u8).prop_map(|(kind, content, padding)| record(kind, &content, padding)),
        2 => Just(stdout(HEAD)),
        2 => (0..2u8, 0..9u8).prop_map(|(status, padding)| record(kind::END_REQUEST, &[0, 0, 0, 0, status, 0, 0, 0], padding)),
        1 => (0..3u16, 0..13u8, content(), any::<u8>()).prop_map(|(id, kind, content, padding)| record_of(id, kind, &content, padding)),
        1 => content(),
    ]
}

proptest! {
    #[test]
    fn any_cut_gives_the_same(pieces in proptest::collection::vec(piece(), 0..8), size in 1..40usize) {
        let whole = pieces.concat();
        let at_once = hear(&mut said(), [&whole[..]], true);
        prop_assert_eq!(&hear(&mut said(), whole.chunks(size), true), &at_once);
        prop_assert_eq!(&hear(&mut said(), whole.chunks(1), true), &at_once);
    }

    #[test]
    fn variables_survive(pairs in proptest::collection::vec(("[A-Z_]{1,200}", "\\PC{0,300}"), 0..40)) {
        let asked = pairs.iter().fold(Asked::new(), |asked, (name, value)| asked.variable(name, value));
        let mut out = Vec::new();
        asked.begin(&mut FastCgi::new(Role::Responder, true), &mut out).expect("it can be said");
        let read = read_request(&out).expect("an application can read it").variables;
        let read: Vec<_> = read.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        prop_assert_eq!(read, pairs.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())).collect::<Vec<_>>());
    }
}

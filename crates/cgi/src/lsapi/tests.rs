use super::*;
use crate::{
    Level, Setting,
    test_peer::{
        Asked, Heard, hear,
        lsapi::{head, packet, process_notice, read_request},
    },
};
use proptest::prelude::*;
use saker_http::Version;

fn said() -> Lsapi {
    let mut dialogue = Lsapi::new();
    dialogue.end(&mut Vec::new());
    dialogue
}

fn brief(heard: &[Heard]) -> String {
    let one = |heard: &Heard| match heard {
        Heard::Head(head) => head
            .fields
            .iter()
            .fold(head.status.0.to_string(), |text, (name, value)| {
                format!("{text} {name}={}", value.escape_ascii())
            }),
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

fn request(asked: &Asked) -> (Vec<u8>, crate::test_peer::lsapi::Request) {
    let mut out = Vec::new();
    asked
        .begin(&mut Lsapi::new(), &mut out)
        .expect("it can be said");
    let request = read_request(&out).expect("the library can read it");
    assert_eq!(request.packet_bytes, out.len());
    (out, request)
}

/// Section 8, check 1: every byte of a small request. On x86, where the flag is 0.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_request_byte_by_byte() {
    let (out, _) = request(&Asked::script().fields(&[("Host", "h"), ("X-A", "b")]));
    let le = |numbers: &[i32]| {
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let environment = b"\0\x10\0\x0bSCRIPT_FILENAME\0/srv/a.php\0\0\x0c\0\x07SCRIPT_NAME\0/a.php\0\0\x0d\0\x01QUERY_STRING\0\0\0\x0f\0\x04REQUEST_METHOD\0GET\0\0\0\0\0";
    let raw = b"Host: h\r\nX-A: b\r\n\r\n";
    let mut want = b"LS\x01\x00".to_vec();
    want.extend(le(&[(48 + 104 + 152 + 16 + raw.len()) as i32]));
    want.extend(le(&[raw.len() as i32, 0, 68, 95, 119, 139, 1, 4, 0]));
    want.extend([0; 4]);
    want.extend(environment);
    want.resize(want.len().next_multiple_of(8), 0);
    assert_eq!(want.len(), 48 + 104);
    let mut index = [0; 152];
    (index[2 * 10], index[52 + 4 * 10]) = (1, 6);
    want.extend(index);
    want.extend(le(&[9, 3, 14, 1]));
    want.extend(raw);
    assert_eq!(out, want);
}

#[test]
fn fields_go_to_their_places() {
    let others: Vec<(String, String)> = (0..40)
        .map(|number| (format!("X-{number}"), format!("v{number}")))
        .collect();
    for count in [0, 1, 40] {
        let mut fields: Vec<(&str, &str)> = STANDARD_FIELDS
            .iter()
            .map(|name| (*name, "value"))
            .collect();
        fields.extend(
            others[..count]
                .iter()
                .map(|(name, value)| (&name[..], &value[..])),
        );
        fields.extend([("proxy", "evil"), ("accept", "again")]);
        let (_, request) = request(&Asked::script().fields(&fields).content(Some(12)));
        let read = |name: &str| {
            request
                .fields
                .first(name.as_bytes())
                .map(|value| String::from_utf8_lossy(value).into_owned())
        };
        // Transfer-Encoding is not told, the content's length is ours.
        assert_eq!(request.fields.len(), 24 + count);
        assert_eq!(
            (
                read("Accept").as_deref(),
                read("Content-Length").as_deref(),
                read("Via").as_deref()
            ),
            (Some("value, again"), Some("12"), Some("value"))
        );
        assert_eq!((read("proxy"), read("Transfer-Encoding")), (None, None));
        assert!(
            others[..count]
                .iter()
                .all(|(name, value)| read(name).as_deref() == Some(value))
        );
    }
}

#[test]
fn every_padding() {
    for size in 0..8 {
        let value = "x".repeat(size);
        let (_, request) = request(
            &Asked::script()
                .variable("A", &value)
                .fields(&[("Host", "h")]),
        );
        assert_eq!(
            (request.variables.first(b"A"), request.fields.first(b"Host")),
            (Some(value.as_bytes()), Some(&b"h"[..]))
        );
    }
}

#[test]
fn variables_of_fields_are_left_to_the_program() {
    let asked = Asked::script()
        .fields(&[("X-A", "1"), ("Content-Type", "a/b")])
        .variable("HTTP_X_A", "1")
        .variable("HTTP_X_B", "2");
    let (_, request) = request(
        &asked
            .variable("CONTENT_TYPE", "a/b")
            .variable("CONTENT_LENGTH", "0")
            .variable("MINE", "3"),
    );
    let names: Vec<_> = request
        .variables
        .iter()
        .skip(4)
        .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
        .collect();
    assert_eq!(names, ["HTTP_X_B", "MINE"]);
    assert_eq!(request.known, [&b"/srv/a.php"[..], b"/a.php", b"", b"GET"]);
}

#[test]
fn the_configuration_comes_before_a_field_of_the_client() {
    let asked = Asked::script()
        .fields(&[
            ("X-User", "admin"),
            ("Content-Type", "a/b"),
            ("Host", "h"),
            ("X-Other", "1"),
        ])
        .variable("HTTP_X_USER", "checked")
        .variable("HTTP_HOST", "main")
        .variable("CONTENT_TYPE", "c/d");
    let (_, request) = request(&asked);
    let fields = ["X-User", "Content-Type", "Host", "X-Other"]
        .map(|name| request.fields.first(name.as_bytes()).unwrap());
    assert_eq!(fields, [&b"checked"[..], b"c/d", b"main", b"1"]);
    let (_, bare) = self::request(&Asked::script().variable("CONTENT_TYPE", "c/d"));
    assert_eq!(bare.fields.first(b"Content-Type"), Some(&b"c/d"[..]));
}

#[test]
fn content_that_may_stay_unread_ends_the_connection() {
    let whole = [head(200, &[]), packet(kind::RESP_END, b"")].concat();
    for (method, content_type, length, stays) in [
        ("GET", None, Some(0), true),
        ("GET", None, Some(1), false),
        ("PUT", Some("text/plain"), Some(1), false),
        ("POST", Some("text/plain"), Some(1), true),
        (
            "POST",
            Some("Application/json"),
            Some(READ_AHEAD_BYTES_MAX),
            true,
        ),
        (
            "POST",
            Some("application/json"),
            Some(READ_AHEAD_BYTES_MAX + 1),
            false,
        ),
        ("POST", Some("multipart/form-data"), Some(1), false),
        ("POST", Some(""), Some(1), false),
        ("POST", None, Some(1), false),
    ] {
        let fields: Vec<(&str, &str)> = content_type
            .iter()
            .map(|value| ("Content-Type", *value))
            .collect();
        let asked = Asked::of(method, Version::Http11, &fields)
            .variable("SCRIPT_FILENAME", "/a")
            .variable("SCRIPT_NAME", "/a")
            .variable("REQUEST_METHOD", method)
            .content(length);
        let mut dialogue = said();
        asked.begin(&mut dialogue, &mut Vec::new()).unwrap();
        assert_eq!(
            brief(&hear(&mut dialogue, [&whole[..]], false)),
            format!("200, End({stays})"),
            "{method} {content_type:?} {length:?}"
        );
    }
}

#[test]
fn interim_responses_have_an_end() {
    for (count, is_well) in [(INTERIM_COUNT_MAX, true), (INTERIM_COUNT_MAX + 1, false)] {
        let bytes = head(103, &[]).repeat(count as usize);
        let heard = hear(&mut said(), [&bytes[..]], false);
        assert_eq!(!brief(&heard).contains("HeadTooLarge"), is_well, "{count}");
    }
}

#[test]
fn cookies_of_http2_are_put_together() {
    for (version, want) in [(Version::Http2, "a=1; b=2"), (Version::Http11, "a=1, b=2")] {
        let head = Asked::of("GET", version, &[("cookie", "a=1"), ("cookie", "b=2")]);
        let asked = head
            .variable("SCRIPT_FILENAME", "/a")
            .variable("SCRIPT_NAME", "/a")
            .variable("REQUEST_METHOD", "GET");
        assert_eq!(
            request(&asked).1.fields.first(b"Cookie"),
            Some(want.as_bytes())
        );
    }
}

#[test]
fn lengths_of_content() {
    for (length, want) in [
        (0, 0),
        (1, 1),
        ((1 << 31) - 1, i32::MAX),
        (1 << 31, -2),
        (3 << 30, -2),
    ] {
        let (_, request) = request(&Asked::script().content(Some(length)));
        assert_eq!(request.content_length, want);
        let field = (length > 0).then(|| length.to_string().into_bytes());
        assert_eq!(request.fields.first(b"Content-Length"), field.as_deref());
    }
}

#[test]
fn settings_and_identity() {
    let settings = [
        Setting {
            level: Level::System,
            name: b"Open_Basedir",
            value: b"/srv",
        },
        Setting {
            level: Level::PerDirectory,
            name: b"engine",
            value: b"0",
        },
    ];
    let mut out = Vec::new();
    let identity = Identity {
        uid: 33,
        gid: 34,
        secret: *b"0123456789abcdef",
        nonce: *b"fedcba9876543210",
    };
    Asked::script()
        .begin_with(&settings, &mut Lsapi::with_identity(identity), &mut out)
        .expect("it can be said");
    let special = read_request(&out).expect("the library can read it").special;
    let ids = [33u32.to_ne_bytes(), 34u32.to_ne_bytes()].concat();
    let list: Vec<(&[u8], &[u8])> = special.iter().collect();
    assert_eq!(
        list[..3],
        [
            (&b"\x01\x04open_basedir"[..], &b"/srv"[..]),
            (b"\x01\x01engine", b"0"),
            (b"\0SUEXEC_UGID", &ids)
        ]
    );
    assert_eq!(
        (list[3].0, &list[3].1[..16], list[3].1.len(), list.len()),
        (&b"\0SUEXEC_AUTH"[..], &b"fedcba9876543210"[..], 32, 4)
    );
    #[cfg(target_endian = "little")]
    assert_eq!(
        list[3].1[16..]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>(),
        DIGEST
    );
}

/// MD5 of nonce, secret, and 33 and 34 as 32 bit in little-endian order.
#[cfg(target_endian = "little")]
const DIGEST: &str = "bffb8e8bd76ad1416b03e53ceded3d30";

#[test]
fn what_can_not_be_said_is_refused_and_appends_nothing() {
    let rows = [
        (Asked::script().content(None), Refused::LengthUnknown),
        (Asked::new(), Refused::NoScript),
        (
            Asked::script().variable("A", "b\0c"),
            Refused::NulInVariable,
        ),
        (
            Asked::script().variable("A", &"x".repeat(65535)),
            Refused::VariablesTooLong,
        ),
        (
            Asked::script()
                .variable("A", &"x".repeat(40_000))
                .variable("B", &"x".repeat(40_000)),
            Refused::VariablesTooLong,
        ),
        (
            Asked::script().fields(&[("X", &"x".repeat(66_000))]),
            Refused::FieldsTooLong,
        ),
        (
            (0..8200).fold(Asked::script(), |asked, _| asked.variable("A", "")),
            Refused::TooManyVariables,
        ),
    ];
    for (asked, refused) in rows {
        let mut out = b"before".to_vec();
        assert_eq!(asked.begin(&mut Lsapi::new(), &mut out), Err(refused));
        assert_eq!(out, b"before");
    }
    let base = request(&Asked::script().fields(&[("X", "")])).0.len();
    let edge = |size: usize| {
        Asked::script()
            .fields(&[("X", &"x".repeat(size))])
            .begin(&mut Lsapi::new(), &mut Vec::new())
    };
    assert_eq!(
        (edge(HEAD_BYTES_MAX - base), edge(HEAD_BYTES_MAX - base + 1)),
        (Ok(()), Err(Refused::FieldsTooLong))
    );
}

#[test]
fn answers() {
    let ok = || head(200, &["Content-type: text/html"]);
    let stream = |content: &[u8]| packet(kind::RESP_STREAM, content);
    let end = || packet(kind::RESP_END, b"");
    let text = |text: &[u8]| packet(kind::STDERR_STREAM, text);
    let rows: Vec<(&str, Vec<Vec<u8>>, &str)> = vec![
        (
            "plain",
            vec![ok(), stream(b"ab"), stream(b"c"), end()],
            "200 Content-type=text/html, content abc, End(true)",
        ),
        (
            "fresh child",
            vec![process_notice(4711), ok(), end()],
            "Taken(Some(4711)), 200 Content-type=text/html, End(true)",
        ),
        (
            "received",
            vec![packet(kind::REQ_RECEIVED, b""), ok(), end()],
            "Taken(None), 200 Content-type=text/html, End(true)",
        ),
        (
            "received, 8 bytes",
            vec![packet(kind::REQ_RECEIVED, b"opaque!!"), ok(), end()],
            "Taken(None), 200 Content-type=text/html, End(true)",
        ),
        (
            "log",
            vec![text(b"warning"), text(b" of 8 by"), ok(), end()],
            "log warning of 8 by, 200 Content-type=text/html, End(true)",
        ),
        (
            "finish early",
            vec![ok(), end(), packet(kind::CONN_CLOSE, b"")],
            "200 Content-type=text/html, End(false)",
        ),
        (
            "leaving",
            vec![ok(), packet(kind::CONN_CLOSE, b""), end()],
            "200 Content-type=text/html, End(false)",
        ),
        (
            "gone before",
            vec![packet(kind::CONN_CLOSE, b"")],
            "Leaving untouched",
        ),
        (
            "failed",
            vec![packet(kind::INTERNAL_ERROR, b"oops")],
            "Failed untouched",
        ),
        (
            "failed later",
            vec![
                packet(kind::REQ_RECEIVED, b""),
                packet(kind::INTERNAL_ERROR, b""),
            ],
            "Taken(None), Failed",
        ),
        (
            "no status",
            vec![head(0, &["A: b"]), end()],
            "200 A=b, End(true)",
        ),
        (
            "status line",
            vec![head(200, &["Status: 404 Not Found"]), end()],
            "404, End(true)",
        ),
        (
            "location",
            vec![head(0, &["Location: http://a/"]), end()],
            "302 Location=http://a/, End(true)",
        ),
        (
            "second head",
            vec![ok(), ok()],
            "200 Content-type=text/html, SecondHead",
        ),
        ("content first", vec![stream(b"a")], "Misplaced"),
        ("end first", vec![end()], "Premature"),
        (
            "too many lines",
            vec![packet(
                kind::RESP_HEADER,
                &[1001i32.to_ne_bytes(), [0; 4]].concat(),
            )],
            "TooManyFields",
        ),
        (
            "lines longer than the packet",
            vec![packet(
                kind::RESP_HEADER,
                &[
                    &1i32.to_ne_bytes()[..],
                    &[0; 4],
                    &9u16.to_ne_bytes(),
                    b"a: b\0",
                ]
                .concat(),
            )],
            "BadRecord",
        ),
        (
            "no NUL",
            vec![packet(
                kind::RESP_HEADER,
                &[
                    &1i32.to_ne_bytes()[..],
                    &[0; 4],
                    &4u16.to_ne_bytes(),
                    b"a: b",
                ]
                .concat(),
            )],
            "BadRecord",
        ),
        ("garbage line", vec![head(200, &["hello"])], "Malformed"),
        ("unknown type", vec![packet(10, b"")], "BadRecord"),
        (
            "end with payload",
            vec![packet(kind::RESP_END, b"x")],
            "BadRecord",
        ),
        (
            "empty content",
            vec![ok(), packet(kind::RESP_STREAM, b"")],
            "200 Content-type=text/html, BadRecord",
        ),
        ("HTTP", vec![b"HTTP/1.1 400".to_vec()], "BadRecord"),
        ("nothing", vec![], "Cut untouched"),
        (
            "taken, then nothing",
            vec![packet(kind::REQ_RECEIVED, b"")],
            "Taken(None), Premature",
        ),
        (
            "cut",
            vec![ok(), stream(b"abc")[..10].to_vec()],
            "200 Content-type=text/html, content ab, Cut",
        ),
    ];
    for (what, packets, want) in rows {
        let bytes = packets.concat();
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

/// Section 8, check 11, and an application on a machine of the other order.
#[test]
fn both_byte_orders_are_understood() {
    type Orders = (fn(i32) -> [u8; 4], fn(u16) -> [u8; 2]);
    let orders: [Orders; 2] = [
        (i32::to_le_bytes, u16::to_le_bytes),
        (i32::to_be_bytes, u16::to_be_bytes),
    ];
    for (i32s, u16s) in orders {
        for flag in [0, 1] {
            let header = |kind: u8, payload: usize| {
                [&[b'L', b'S', kind, flag][..], &i32s(payload as i32 + 8)].concat()
            };
            let notice = [
                header(kind::STDERR_STREAM, 8),
                b"\0PID".to_vec(),
                i32s(77).to_vec(),
            ]
            .concat();
            let head = [
                header(kind::RESP_HEADER, 15),
                i32s(1).to_vec(),
                i32s(404).to_vec(),
                u16s(5).to_vec(),
                b"a: b\0".to_vec(),
            ]
            .concat();
            let bytes = [
                notice,
                head,
                header(kind::RESP_STREAM, 1),
                b"x".to_vec(),
                header(kind::RESP_END, 0),
            ]
            .concat();
            assert_eq!(
                brief(&hear(&mut said(), [&bytes[..]], false)),
                "Taken(Some(77)), 404 a=b, content x, End(true)",
                "flag {flag}"
            );
        }
    }
}

#[test]
fn limits_on_both_sides_of_their_edges() {
    let long = |size: usize| {
        brief(&hear(
            &mut said(),
            [&packet(kind::STDERR_STREAM, &vec![b'x'; size])[..]],
            false,
        ))
        .contains("BadRecord")
    };
    assert_eq!(
        (long(TEXT_BYTES_MAX), long(TEXT_BYTES_MAX + 1)),
        (false, true)
    );
    let line = |size: usize| format!("A: {}", "x".repeat(size - 4));
    let head_of = |size: usize| {
        brief(&hear(
            &mut said(),
            [&head(200, &[&line(30_000), &line(size - 8 - 4 - 30_000)])[..]],
            false,
        ))
        .contains("BadRecord")
    };
    assert_eq!(
        (
            head_of(RESPONSE_HEAD_BYTES_MAX),
            head_of(RESPONSE_HEAD_BYTES_MAX + 1)
        ),
        (false, true)
    );
    // Section 8, check 10.
    let lines: Vec<String> = (0..200)
        .map(|number| format!("X-{number}: y"))
        .chain([line(30_000)])
        .collect();
    let lines: Vec<&str> = lines.iter().map(|line| &line[..]).collect();
    assert!(
        matches!(&hear(&mut said(), [&head(200, &lines)[..]], false)[..], [Heard::Head(head), Heard::Open] if head.fields.len() == 201)
    );
    // A long file sent in one packet.
    let stream = packet(kind::RESP_STREAM, &vec![b'x'; 300_000]);
    let whole = [head(200, &[]), stream, packet(kind::RESP_END, b"")].concat();
    assert!(
        matches!(&hear(&mut said(), whole.chunks(1000), false)[..], [_, Heard::Content(content), Heard::End(true)] if content.len() == 300_000)
    );
}

#[test]
fn unsaid_content_ends_the_connection() {
    let whole = [head(200, &[]), packet(kind::RESP_END, b"")].concat();
    assert_eq!(
        brief(&hear(&mut Lsapi::new(), [&whole[..]], false)),
        "200, End(false)"
    );
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let payload = || proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        3 => payload().prop_map(|payload| packet(kind::RESP_STREAM, &payload)),
        2 => payload().prop_map(|payload| packet(kind::STDERR_STREAM, &payload)),
        2 => Just(head(0, &["Status: 404", "A: b"])),
        1 => Just(process_notice(1)),
        1 => Just(packet(kind::REQ_RECEIVED, b"")),
        1 => Just(packet(kind::RESP_END, b"")),
        1 => (0..12u8, payload()).prop_map(|(kind, payload)| packet(kind, &payload)),
        1 => payload(),
    ]
}

proptest! {
    #[test]
    fn any_cut_gives_the_same(pieces in proptest::collection::vec(piece(), 0..8), size in 1..40usize) {
        let whole = [head(200, &[]), pieces.concat()].concat();
        for bytes in [&whole[..], &whole[16..]] {
            let at_once = hear(&mut said(), [bytes], true);
            prop_assert_eq!(&hear(&mut said(), bytes.chunks(size), true), &at_once);
            prop_assert_eq!(&hear(&mut said(), bytes.chunks(1), true), &at_once);
        }
    }

    #[test]
    fn requests_survive(
        variables in proptest::collection::vec(("[A-Z_]{1,40}", "[^\0]{0,80}"), 0..30),
        fields in proptest::collection::vec(("x[a-z-]{1,40}", "[ -~]{0,80}"), 0..30),
    ) {
        let asked = variables.iter().fold(Asked::script(), |asked, (name, value)| asked.variable(name, value));
        let lines: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let (_, request) = request(&asked.fields(&lines));
        prop_assert_eq!(request.variables.len(), variables.len() + 4);
        let expected: std::collections::HashSet<&str> = lines.iter().map(|line| line.0).collect();
        prop_assert_eq!(request.fields.len(), expected.len());
    }
}

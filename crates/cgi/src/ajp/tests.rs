use super::*;
use crate::test_peer::{Asked, Heard, hear};
use proptest::prelude::*;
use saker_http::Version;

/// A packet of the container.
fn packet(payload: &[u8]) -> Vec<u8> {
    [&b"AB"[..], &(payload.len() as u16).to_be_bytes(), payload].concat()
}

fn string(text: &str) -> Vec<u8> {
    [
        &(text.len() as u16).to_be_bytes()[..],
        text.as_bytes(),
        &[0],
    ]
    .concat()
}

fn head(status: u16, reason: &str, fields: &[(Result<u8, &str>, &str)]) -> Vec<u8> {
    let mut payload = [
        &[kind::SEND_HEADERS][..],
        &status.to_be_bytes(),
        &string(reason),
        &(fields.len() as u16).to_be_bytes(),
    ]
    .concat();
    for (name, value) in fields {
        payload.extend(name.map_or_else(string, |number| vec![0xa0, number]));
        payload.extend(string(value));
    }
    packet(&payload)
}

fn content(content: &[u8]) -> Vec<u8> {
    packet(
        &[
            &[kind::SEND_BODY_CHUNK][..],
            &(content.len() as u16).to_be_bytes(),
            content,
            &[0],
        ]
        .concat(),
    )
}

fn end(stays: bool) -> Vec<u8> {
    packet(&[kind::END_RESPONSE, u8::from(stays)])
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
        Heard::Broken(broken) => format!("{:?}", broken.fault),
        other => format!("{other:?}"),
    };
    heard.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn request(asked: &Asked, secret: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    asked
        .begin(&mut Ajp::new(secret), &mut out)
        .expect("it can be said");
    out
}

#[test]
fn a_request_byte_by_byte() {
    let asked = Asked::new()
        .fields(&[("Host", "h"), ("X-A", "b")])
        .variable("SERVER_PROTOCOL", "HTTP/1.1")
        .variable("REMOTE_ADDR", "1.2.3.4");
    let asked = asked
        .variable("SERVER_NAME", "h")
        .variable("SERVER_PORT", "80")
        .variable("QUERY_STRING", "q=1")
        .variable("AJP_x", "y");
    let asked = asked
        .variable("REMOTE_PORT", "9")
        .variable("REMOTE_USER", "joe")
        .variable("SSL_CIPHER_USEKEYSIZE", "256")
        .variable("HTTPS", "on");
    let payload = [
        &[2, 2][..],
        &string("HTTP/1.1"),
        &string("/path"),
        &string("1.2.3.4"),
        &[0xff, 0xff],
        &string("h"),
        &[0, 80, 1, 0, 2],
        &[0xa0, 0x0b],
        &string("h"),
        &string("X-A"),
        &string("b"),
        &[3],
        &string("joe"),
        &[5],
        &string("q=1"),
        &[11, 1, 0],
        &[10],
        &string("AJP_REMOTE_PORT"),
        &string("9"),
        &[10],
        &string("x"),
        &string("y"),
        &[12],
        &string("s3cret"),
        &[0xff],
    ];
    let payload = payload.concat();
    let want = [
        &[0x12, 0x34][..],
        &(payload.len() as u16).to_be_bytes(),
        &payload,
    ]
    .concat();
    assert_eq!(request(&asked, Some(b"s3cret")), want);
}

#[test]
fn methods_have_numbers_or_are_spelt() {
    for (method, number) in [("OPTIONS", 1), ("GET", 2), ("POST", 4), ("MKACTIVITY", 27)] {
        assert_eq!(
            request(&Asked::of(method, Version::Http11, &[]), None)[5],
            number
        );
    }
    let spelt = request(&Asked::of("BREW", Version::Http11, &[]), None);
    assert_eq!(
        (spelt[5], &spelt[spelt.len() - 9..]),
        (0xff, &b"\x0d\x00\x04BREW\0\xff"[..])
    );
}

#[test]
fn the_length_is_the_engines() {
    let fields = [("Content-Length", "17"), ("Transfer-Encoding", "chunked")];
    let has = |out: &[u8], part: &[u8]| out.windows(part.len()).any(|window| window == part);
    let known = request(&Asked::new().fields(&fields).content(Some(3)), None);
    assert!(
        has(&known, &[&[0xa0, 8][..], &string("3")].concat())
            && !has(&known, b"17")
            && !has(&known, b"chunked")
    );
    let unknown = request(&Asked::new().fields(&fields).content(None), None);
    assert!(
        has(
            &unknown,
            &[string("transfer-encoding"), string("chunked")].concat()
        ) && !has(&unknown, b"17")
    );
    let none = request(&Asked::new().fields(&fields), None);
    assert!(!has(&none, b"chunked") && !has(&none, b"17"));
}

#[test]
fn what_can_not_be_said_is_refused_and_appends_nothing() {
    let size = request(&Asked::new().fields(&[("X", "")]), None).len();
    let edge = |more: usize| {
        Asked::new()
            .fields(&[("X", &"x".repeat(more))])
            .begin(&mut Ajp::new(None), &mut Vec::new())
    };
    assert_eq!(
        (
            edge(PACKET_BYTES_MAX - size),
            edge(PACKET_BYTES_MAX - size + 1)
        ),
        (Ok(()), Err(Refused::FieldsTooLong))
    );
    for (asked, refused) in [
        (
            Asked::new().fields(&[("X", &"x".repeat(70_000))]),
            Refused::FieldsTooLong,
        ),
        (
            Asked::new().variable("REMOTE_USER", "a\0b"),
            Refused::NulInVariable,
        ),
    ] {
        let mut out = b"before".to_vec();
        assert_eq!(asked.begin(&mut Ajp::new(None), &mut out), Err(refused));
        assert_eq!(out, b"before");
    }
}

/// The content's own conversation: the first piece unasked, the others as they are asked for, then
/// an empty one.
#[test]
fn content_is_given_as_it_is_asked_for() {
    let (mut ajp, mut out) = (Ajp::new(None), Vec::new());
    Asked::new()
        .content(Some(10))
        .begin(&mut ajp, &mut out)
        .expect("it can be said");
    assert_eq!(ajp.content_max(), CONTENT_BYTES_MAX);
    out.clear();
    ajp.content(b"abcdefgh", &mut out);
    assert_eq!(out, b"\x12\x34\x00\x0a\x00\x08abcdefgh");
    assert!(!ajp.wants_content());
    assert_eq!(
        ajp.receive(&packet(&[kind::GET_BODY_CHUNK, 0, 2])),
        Ok((4, None))
    );
    assert_eq!(
        ajp.receive(&[kind::GET_BODY_CHUNK, 0, 2]),
        Ok((3, Some(Event::Asks(2))))
    );
    assert_eq!(ajp.content_max(), 2);
    out.clear();
    ajp.content(b"ij", &mut out);
    ajp.end(&mut out);
    assert_eq!(out, b"\x12\x34\x00\x04\x00\x02ij");
    out.clear();
    assert_eq!(
        brief(&hear(
            &mut ajp,
            [&packet(&[kind::GET_BODY_CHUNK, 0x1f, 0xfa])[..]],
            false
        )),
        "Asks(8186), Open"
    );
    ajp.end(&mut out);
    assert_eq!(out, [0x12, 0x34, 0, 0]);
    assert_eq!(
        brief(&hear(
            &mut ajp,
            [&[head(200, "OK", &[]), end(true)].concat()[..]],
            false
        )),
        "200, End(true)"
    );
}

#[test]
fn content_of_unknown_length_waits_to_be_asked_for() {
    let (mut ajp, mut out) = (Ajp::new(None), Vec::new());
    Asked::new()
        .content(None)
        .begin(&mut ajp, &mut out)
        .expect("it can be said");
    assert!(!ajp.wants_content());
    out.clear();
    ajp.end(&mut out);
    assert!(out.is_empty());
    let asks = [
        packet(&[kind::GET_BODY_CHUNK, 0xff, 0xff]),
        packet(&[kind::GET_BODY_CHUNK, 0, 0]),
    ]
    .concat();
    assert_eq!(
        brief(&hear(&mut ajp, [&asks[..]], false)),
        "Asks(8186), Asks(8186), Open"
    );
    ajp.end(&mut out);
    assert_eq!(out, [0x12, 0x34, 0, 0]);
}

#[test]
fn answers() {
    let ok = || head(200, "OK", &[(Ok(1), "text/html"), (Err("X-A"), "b")]);
    let full = "200 Content-Type=text/html X-A=b";
    let rows: Vec<(&str, Vec<Vec<u8>>, String)> = vec![
        (
            "plain",
            vec![ok(), content(b"ab"), content(b"c"), end(true)],
            format!("{full}, content abc, End(true)"),
        ),
        (
            "flush",
            vec![ok(), content(b""), content(b"c"), end(true)],
            format!("{full}, content c, End(true)"),
        ),
        (
            "close",
            vec![ok(), end(false)],
            format!("{full}, End(false)"),
        ),
        (
            "stray pong",
            vec![CPONG.to_vec(), ok(), end(true)],
            format!("{full}, End(true)"),
        ),
        (
            "chunk without NUL",
            vec![
                ok(),
                packet(&[kind::SEND_BODY_CHUNK, 0, 1, b'a']),
                end(true),
            ],
            format!("{full}, content a, End(true)"),
        ),
        (
            "all numbers",
            vec![head(
                404,
                "",
                &(1..=11).map(|number| (Ok(number), "1")).collect::<Vec<_>>(),
            )],
            String::new(),
        ),
        (
            "no such number",
            vec![head(200, "OK", &[(Ok(12), "a")])],
            "BadRecord".into(),
        ),
        (
            "number 0",
            vec![head(200, "OK", &[(Ok(0), "a")])],
            "BadRecord".into(),
        ),
        (
            "short head",
            vec![packet(&[kind::SEND_HEADERS, 0, 200])],
            "BadRecord".into(),
        ),
        (
            "empty head",
            vec![packet(&[kind::SEND_HEADERS])],
            "BadRecord".into(),
        ),
        (
            "second head",
            vec![ok(), ok()],
            format!("{full}, SecondHead"),
        ),
        ("content first", vec![content(b"a")], "Misplaced".into()),
        ("end first", vec![end(true)], "Premature".into()),
        (
            "chunk longer than its packet",
            vec![ok(), packet(&[kind::SEND_BODY_CHUNK, 0, 9, b'a'])],
            format!("{full}, BadRecord"),
        ),
        (
            "short packets",
            vec![ok(), packet(&[kind::END_RESPONSE])],
            format!("{full}, BadRecord"),
        ),
        ("empty packet", vec![packet(b"")], "BadRecord".into()),
        ("unknown type", vec![packet(&[99])], "BadRecord".into()),
        (
            "long end",
            vec![ok(), packet(&[kind::END_RESPONSE, 1, 2])],
            format!("{full}, BadRecord"),
        ),
        ("HTTP", vec![b"HTTP/1.1 400".to_vec()], "BadRecord".into()),
        ("switch", vec![head(101, "", &[])], "Unswitchable".into()),
        (
            "bad name",
            vec![head(200, "", &[(Err("a b"), "c")])],
            "Malformed".into(),
        ),
        ("nothing", vec![], "Premature".into()),
        (
            "cut",
            vec![ok(), content(b"abc")[..9].to_vec()],
            format!("{full}, content ab, Cut"),
        ),
    ];
    for (what, packets, want) in rows {
        let bytes = packets.concat();
        let closes = !want.contains("End");
        let at_once = hear(&mut Ajp::new(None), [&bytes[..]], closes);
        if !want.is_empty() {
            assert_eq!(brief(&at_once), want, "{what}");
        }
        assert_eq!(
            hear(&mut Ajp::new(None), bytes.chunks(1), closes),
            at_once,
            "{what}, byte by byte"
        );
    }
}

#[test]
fn heads_say_reason_length_and_nothing_of_their_own() {
    let bytes = head(
        404,
        "Gone fishing",
        &[(Ok(3), "12"), (Ok(6), "/x"), (Ok(7), "a"), (Ok(7), "b")],
    );
    let heard = hear(&mut Ajp::new(None), [&bytes[..]], false);
    let Some(Heard::Head(head)) = heard.first() else {
        panic!("{heard:?}")
    };
    assert_eq!(
        (
            head.reason.as_deref(),
            head.length,
            head.fields.len(),
            head.is_local_redirect
        ),
        (Some(&b"Gone fishing"[..]), Some(12), 3, false)
    );
    let null = packet(&[kind::SEND_HEADERS, 0, 200, 0xff, 0xff, 0, 0]);
    assert_eq!(
        brief(&hear(&mut Ajp::new(None), [&null[..]], false)),
        "200, Open"
    );
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        3 => bytes().prop_map(|bytes| content(&bytes)),
        2 => Just(head(200, "OK", &[(Ok(1), "a/b"), (Err("X-A"), "b")])),
        2 => any::<bool>().prop_map(end),
        1 => Just(packet(&[kind::GET_BODY_CHUNK, 1, 0])),
        1 => (0..10u8, bytes()).prop_map(|(kind, bytes)| packet(&[&[kind][..], &bytes].concat())),
        1 => bytes(),
    ]
}

proptest! {
    #[test]
    fn any_cut_gives_the_same(pieces in proptest::collection::vec(piece(), 0..8), size in 1..40usize) {
        let whole = [head(200, "OK", &[]), pieces.concat()].concat();
        for bytes in [&whole[..], &whole[13..]] {
            let at_once = hear(&mut Ajp::new(None), [bytes], true);
            prop_assert_eq!(&hear(&mut Ajp::new(None), bytes.chunks(size), true), &at_once);
            prop_assert_eq!(&hear(&mut Ajp::new(None), bytes.chunks(1), true), &at_once);
        }
    }
}

#[test]
fn interim_responses_have_an_end() {
    for (count, is_well) in [(INTERIM_COUNT_MAX, true), (INTERIM_COUNT_MAX + 1, false)] {
        let bytes = head(102, "", &[]).repeat(count as usize);
        let heard = hear(&mut Ajp::new(None), [&bytes[..]], false);
        assert_eq!(!brief(&heard).contains("HeadTooLarge"), is_well, "{count}");
    }
}

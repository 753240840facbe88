use super::*;

#[test]
fn every_known_field_is_classified_in_any_case() {
    for (text, known) in KNOWN {
        assert_eq!(
            KnownField::classify(text.as_bytes()),
            Some(*known),
            "{text}"
        );
        assert_eq!(
            KnownField::classify(text.to_ascii_uppercase().as_bytes()),
            Some(*known),
            "{text}"
        );
        assert_eq!(known.name(), *text);
    }
}

#[test]
fn neighbours_of_known_fields_are_not_known() {
    for (text, _) in KNOWN {
        let bytes = text.as_bytes();
        let longer = [bytes, b"x"].concat();
        for other in [&longer[..], &bytes[1..], &bytes[..bytes.len() - 1]] {
            assert_eq!(KnownField::classify(other), None, "{other:?}");
        }
        // The bit that folds case also maps other bytes on letters and hyphens: a carriage return
        // on a hyphen.
        for at in 0..bytes.len() {
            let mut other = bytes.to_vec();
            other[at] = if bytes[at] == b'-' { b'\r' } else { b'.' };
            assert_eq!(KnownField::classify(&other), None, "{other:?}");
        }
    }
    for name in [
        &b""[..],
        b"accept",
        b"cookie2",
        b"x",
        b"sec-fetch-mode",
        b"content-lengtH ",
    ] {
        assert_eq!(KnownField::classify(name), None);
    }
}

#[test]
fn a_view_finds_first_all_and_counts() {
    let fields = [
        ("Host", "a"),
        ("If-Match", "\"1\""),
        ("X-One", "1"),
        ("if-match", "\"2\""),
        ("x-one", "2"),
    ];
    let head = RequestHead::build("GET", "/p", Version::Http11, &fields);
    let view = head.view();
    assert_eq!(
        (view.method(), view.method_token(), view.target()),
        (Method::Get, &b"GET"[..], &b"/p"[..])
    );
    assert_eq!(view.known(KnownField::Host), Some(&b"a"[..]));
    assert_eq!(view.known(KnownField::IfMatch), Some(&b"\"1\""[..]));
    assert_eq!(
        (
            view.known_count(KnownField::IfMatch),
            view.known_count(KnownField::Range)
        ),
        (2, 0)
    );
    assert_eq!(view.all("X-ONE").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(
        view.lines(KnownField::IfMatch).collect::<Vec<_>>(),
        [b"\"1\"", b"\"2\""]
    );
    assert_eq!(view.lines(KnownField::Range).count(), 0);
    assert_eq!(view.first("none"), None);
}

#[test]
fn a_cleared_index_knows_nothing() {
    let mut index = HeadIndex::default();
    index.push(
        b"host",
        FieldSpan {
            name: Span { start: 0, len: 4 },
            value: Span::default(),
        },
    );
    assert!(index.has(KnownField::Host) && index.field_count() == 1);
    index.clear();
    assert!(!index.has(KnownField::Host) && index.field_count() == 0);
}

/// An index with these fields, and what is left of them.
fn left(fields: &[(&str, &str)]) -> Vec<String> {
    let head = RequestHead::build("GET", "/", Version::Http11, fields);
    let (bytes, mut index) = (head.bytes.clone(), head.index.clone());
    index.remove_nominated(&bytes);
    let view = HeadView::new(&bytes, &index);
    let known = [
        KnownField::Host,
        KnownField::AcceptEncoding,
        KnownField::Cookie,
    ]
    .into_iter()
    .filter(|known| view.has(*known))
    .count();
    let named = view
        .fields()
        .filter(|(name, _)| matches!(KnownField::classify(name), Some(known) if view.has(known)))
        .count();
    assert!(known <= named, "what is indexed is there");
    view.fields()
        .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
        .collect()
}

#[test]
fn nominated_fields_are_gone() {
    const A: (&str, &str) = ("Accept-Language", "de");
    for (nominating, is_gone) in [
        (&[("Connection", "accept-language")][..], true),
        (&[("connection", "close, ACCEPT-LANGUAGE")], true),
        (
            &[
                ("Connection", "keep-alive"),
                ("Connection", "x,\t accept-language ,"),
            ],
            true,
        ),
        (&[("Connection", "accept_language")], false),
        (&[("Connection", "accept-languages, accept-languag")], false),
        (&[("Connection", "close")], false),
        (&[("Connection", "")], false),
        (&[("Proxy-Connection", "accept-language")], false),
        (&[("X", "accept-language")], false),
    ] {
        for fields in [
            [&[("Host", "a"), A, A, ("B", "1")], nominating].concat(),
            [nominating, &[("Host", "a"), ("B", "1"), A]].concat(),
        ] {
            let names = left(&fields);
            assert_eq!(!names.iter().any(|name| name == A.0), is_gone, "{fields:?}");
            assert!(
                names.iter().any(|name| name == "Host") && names.iter().any(|name| name == "B"),
                "{fields:?}"
            );
        }
    }
}

#[test]
fn what_is_for_all_recipients_cannot_be_nominated() {
    let names = nominated::END_TO_END.iter().chain(&[
        "X-Forwarded-For",
        "Forwarded",
        "X-Real-IP",
        "True-Client-IP",
        "X-Cluster-Client-Ip",
        "CF-Connecting-IP",
        "X-Custom-IP",
        "IP-Of-Client",
        "Remote-Addr",
        "X-Client-Cert",
        "TE",
        "Upgrade",
        "Keep-Alive",
    ]);
    for name in names.filter(|name| **name != "connection") {
        assert_eq!(
            left(&[("Connection", name), (name, "1")]),
            ["Connection", name],
            "{name}"
        );
    }
}

#[test]
fn known_fields_move_up_when_one_before_them_goes() {
    let head = RequestHead::build(
        "GET",
        "/",
        Version::Http11,
        &[
            ("A", "1"),
            ("Accept-Encoding", "x"),
            ("Cookie", "a=b"),
            ("Connection", "a, accept-encoding"),
            ("Cookie", "c=d"),
        ],
    );
    let (bytes, mut index) = (head.bytes.clone(), head.index.clone());
    index.remove_nominated(&bytes);
    let view = HeadView::new(&bytes, &index);
    assert_eq!(
        view.lines(KnownField::Cookie).collect::<Vec<_>>(),
        [b"a=b", b"c=d"]
    );
    assert_eq!(
        (
            view.known(KnownField::AcceptEncoding),
            view.known_count(KnownField::Cookie)
        ),
        (None, 2)
    );
}

#[test]
fn memory_of_a_dropped_head_serves_the_next() {
    let first = b"GET /first HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n";
    let mut index = HeadIndex::default();
    let span = |start, len| Span { start, len };
    let line = FieldSpan {
        name: span(21, 4),
        value: span(27, 1),
    };
    index.push(first, line);
    let head = HeadView::new(first, &index).to_owned();
    let place = head.bytes.as_ptr();
    drop(head);
    index.clear();
    let second = HeadView::new(b"POST /", &index).to_owned();
    assert_eq!(second.bytes.as_ptr(), place);
    assert_eq!(
        (second.view().bytes(), second.view().fields().count()),
        (&b"POST /"[..], 0)
    );
    let third = second.clone();
    drop(second);
    assert_eq!(third.view().bytes(), b"POST /");
    // What is long is not kept.
    let long = vec![b'x'; SPARE_BYTES_MAX + 1];
    drop(HeadView::new(&long, &index).to_owned());
    SPARE.with_borrow(|spare| assert!(spare.iter().all(|one| one.0.capacity() <= SPARE_BYTES_MAX)));
}

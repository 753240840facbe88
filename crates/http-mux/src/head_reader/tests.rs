use super::*;
use saker_http::Method;

const EXTENDED: Shape = Shape::Request {
    extended_connect: true,
};
const REQUEST: Shape = Shape::Request {
    extended_connect: false,
};

const DEFAULT: HeadLimits = HeadLimits {
    authority_replaces_host: false,
    answers_malformed: false,
    list_bytes_max: 32 * 1024,
    field_count_max: 100,
    target_bytes_max: u32::MAX,
    field_bytes_max: u32::MAX,
};

/// Names and values.
type Lines<'a> = &'a [(&'a str, &'a str)];

fn read_with(
    fields: &[(&str, &[u8])],
    shape: Shape,
    limits: &HeadLimits,
) -> (HeadStore, Result<HeadFacts, HeadFault>) {
    let mut store = HeadStore::default();
    let mut reader = HeadReader::new(&mut store, shape, Version::Http2, limits);
    for (name, value) in fields {
        assert!(reader.field(
            NameKind::of_name(name.as_bytes()).with_value(value),
            name.as_bytes(),
            value,
            false
        ));
    }
    let facts = reader.finish();
    (store, facts)
}

fn read(fields: &[(&str, &str)], shape: Shape) -> (HeadStore, Result<HeadFacts, HeadFault>) {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect();
    read_with(&fields, shape, &DEFAULT)
}

/// A GET with more fields, or with other pseudo-fields than those.
fn get<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/"),
    ];
    fields.retain(|field| !more.iter().any(|other| other.0 == field.0));
    let pseudo = more
        .iter()
        .filter(|field| field.0.starts_with(':') && !field.1.is_empty());
    fields.extend(pseudo);
    fields.extend(more.iter().filter(|field| !field.0.starts_with(':')));
    fields
}

fn line(store: &HeadStore) -> String {
    let mut text = String::from_utf8_lossy(store.view().start_line()).into_owned();
    for (name, value) in store.view().fields() {
        text += &format!(
            "|{}={}",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value)
        );
    }
    text
}

#[test]
fn requests_that_are_well_formed() {
    let rows: [(Lines<'_>, Shape, &str); 22] = [
        (&get(&[]), REQUEST, "GET / HTTP/2.0|host=a.example"),
        (
            &get(&[("te", "trailers"), ("x", "")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example|te=trailers|x=",
        ),
        (
            &get(&[("te", "Trailers")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example|te=Trailers",
        ),
        (
            &get(&[("host", "A.Example")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example",
        ),
        // One spelling of one host.
        (
            &get(&[(":authority", "A.Example.:0443")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example:443",
        ),
        (
            &get(&[(":authority", "a.example:")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example",
        ),
        (
            &get(&[(":authority", ""), ("host", "A.Example.:")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example",
        ),
        (
            &get(&[("host", "a.example.:443")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example",
        ),
        (
            &get(&[(":scheme", "HTTP"), ("host", "a.example:80")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example",
        ),
        (
            &get(&[(":authority", "[0:0::1]:8"), ("host", "[::1]:8")]),
            REQUEST,
            "GET / HTTP/2.0|host=[::1]:8",
        ),
        (
            &[
                (":authority", "A.:443"),
                (":method", "CONNECT"),
                ("host", "a:443"),
            ],
            REQUEST,
            "CONNECT A.:443 HTTP/2.0|host=a:443",
        ),
        (
            &get(&[(":authority", ""), ("a", "1"), ("host", "b")]),
            REQUEST,
            "GET / HTTP/2.0|a=1|host=b",
        ),
        (
            &get(&[(":authority", "[::1]:80")]),
            REQUEST,
            "GET / HTTP/2.0|host=[::1]:80",
        ),
        (
            &get(&[
                ("cookie", "a=1"),
                ("b", "2"),
                ("cookie", "c=3"),
                ("cookie", "d"),
            ]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example|b=2|cookie=a=1; c=3; d",
        ),
        (
            &get(&[(":path", "/a?b|c=%20\u{e4}")]),
            REQUEST,
            "GET /a?b|c=%20\u{e4} HTTP/2.0|host=a.example",
        ),
        (
            &get(&[(":method", "OPTIONS"), (":path", "*")]),
            REQUEST,
            "OPTIONS * HTTP/2.0|host=a.example",
        ),
        (
            &get(&[(":method", "PROPFIND")]),
            REQUEST,
            "PROPFIND / HTTP/2.0|host=a.example",
        ),
        (
            &get(&[("v", "a\tb c\u{ff}")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example|v=a\tb c\u{ff}",
        ),
        (
            &get(&[("content-length", "0")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example|content-length=0",
        ),
        (
            &[(":authority", "a:443"), (":method", "CONNECT")],
            REQUEST,
            "CONNECT a:443 HTTP/2.0|host=a:443",
        ),
        (
            &get(&[(":method", "CONNECT"), (":protocol", "websocket")]),
            EXTENDED,
            "CONNECT / HTTP/2.0|host=a.example",
        ),
        (
            &get(&[("keep-alive-x", "1"), ("trailer", "x")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example|keep-alive-x=1|trailer=x",
        ),
    ];
    for (fields, shape, want) in rows {
        let (store, facts) = read(fields, shape);
        assert!(
            facts.is_ok_and(|facts| facts.refusal.is_none()),
            "{fields:?} {facts:?}"
        );
        assert_eq!(line(&store), want);
    }
}

#[test]
fn requests_that_are_malformed() {
    let long_method = "M".repeat(METHOD_BYTES_MAX + 1);
    let rows: [(Lines<'_>, Shape, HeadFault); 66] = [
        (&[], REQUEST, HeadFault::PseudoFieldMissing),
        (
            &get(&[(":method", "")]),
            REQUEST,
            HeadFault::PseudoFieldMissing,
        ),
        (
            &get(&[(":scheme", "")]),
            REQUEST,
            HeadFault::PseudoFieldMissing,
        ),
        (
            &get(&[(":path", "")]),
            REQUEST,
            HeadFault::PseudoFieldMissing,
        ),
        (&get(&[(":authority", "")]), REQUEST, HeadFault::MissingHost),
        (
            &[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", ""),
                ("host", "a"),
            ],
            REQUEST,
            HeadFault::BadPath,
        ),
        (
            &[
                (":method", ""),
                (":scheme", "http"),
                (":path", "/"),
                ("host", "a"),
            ],
            REQUEST,
            HeadFault::BadMethod,
        ),
        (
            &[
                (":method", "GET"),
                (":scheme", ""),
                (":path", "/"),
                ("host", "a"),
            ],
            REQUEST,
            HeadFault::BadScheme,
        ),
        (
            &[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
                (":authority", ""),
            ],
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &[(":method", "GET"), (":method", "GET")],
            REQUEST,
            HeadFault::PseudoFieldDoubled,
        ),
        (
            &[(":path", "/"), (":path", "/a")],
            REQUEST,
            HeadFault::PseudoFieldDoubled,
        ),
        (
            &[(":scheme", "http"), (":scheme", "http")],
            REQUEST,
            HeadFault::PseudoFieldDoubled,
        ),
        (
            &[(":authority", "a"), (":authority", "b")],
            REQUEST,
            HeadFault::PseudoFieldDoubled,
        ),
        (
            &get(&[(":status", "200")]),
            REQUEST,
            HeadFault::PseudoFieldUnknown,
        ),
        (
            &get(&[(":new", "1")]),
            REQUEST,
            HeadFault::PseudoFieldUnknown,
        ),
        (
            &get(&[(":protocol", "websocket")]),
            REQUEST,
            HeadFault::PseudoFieldUnknown,
        ),
        (
            &get(&[(":protocol", "websocket")]),
            EXTENDED,
            HeadFault::PseudoFieldForbidden,
        ),
        (
            &get(&[(":method", "CONNECT"), (":protocol", "a b")]),
            EXTENDED,
            HeadFault::PseudoFieldForbidden,
        ),
        (
            &[
                (":method", "CONNECT"),
                (":protocol", "x"),
                (":authority", "a"),
            ],
            EXTENDED,
            HeadFault::PseudoFieldMissing,
        ),
        (
            &get(&[(":method", "CONNECT")]),
            REQUEST,
            HeadFault::PseudoFieldForbidden,
        ),
        (
            &[
                (":method", "CONNECT"),
                (":authority", "a:1"),
                (":path", "/"),
            ],
            REQUEST,
            HeadFault::PseudoFieldForbidden,
        ),
        (
            &[(":method", "CONNECT")],
            REQUEST,
            HeadFault::PseudoFieldMissing,
        ),
        (
            &[(":method", "CONNECT"), (":authority", "a")],
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &[
                (":method", "CONNECT"),
                (":authority", "a:1"),
                ("content-length", "1"),
            ],
            REQUEST,
            HeadFault::ContentInConnect,
        ),
        (
            &[
                (":method", "GET"),
                (":scheme", "http"),
                ("a", "1"),
                (":path", "/"),
            ],
            REQUEST,
            HeadFault::PseudoFieldMissing,
        ),
        (
            &[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
                ("host", "a"),
                (":authority", "a"),
            ],
            REQUEST,
            HeadFault::PseudoFieldLate,
        ),
        (&get(&[(":method", "GE T")]), REQUEST, HeadFault::BadMethod),
        (
            &get(&[(":method", &long_method)]),
            REQUEST,
            HeadFault::BadMethod,
        ),
        (&get(&[(":scheme", "1http")]), REQUEST, HeadFault::BadScheme),
        (&get(&[(":scheme", "ht/tp")]), REQUEST, HeadFault::BadScheme),
        (&get(&[(":path", "*")]), REQUEST, HeadFault::BadPath),
        (
            &get(&[(":method", "OPTIONS"), (":path", "**")]),
            REQUEST,
            HeadFault::BadPath,
        ),
        (&get(&[(":path", "a")]), REQUEST, HeadFault::BadPath),
        (
            &get(&[(":path", "http://a.example/")]),
            REQUEST,
            HeadFault::BadPath,
        ),
        (&get(&[(":path", "/a b")]), REQUEST, HeadFault::BadPath),
        (&get(&[(":path", "/a#b")]), REQUEST, HeadFault::BadPath),
        (
            &get(&[(":path", "/\u{7f}")]),
            REQUEST,
            HeadFault::BadFieldValue,
        ),
        (
            &get(&[(":authority", "u@a.example")]),
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &get(&[(":authority", "a/b")]),
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &get(&[(":authority", ""), ("host", "a b")]),
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &get(&[("host", "b.example")]),
            REQUEST,
            HeadFault::HostDiffers,
        ),
        (
            &get(&[("host", "a.example:80")]),
            REQUEST,
            HeadFault::HostDiffers,
        ),
        (
            &get(&[(":scheme", "http"), ("host", "a.example:443")]),
            REQUEST,
            HeadFault::HostDiffers,
        ),
        (
            &get(&[(":scheme", "x"), ("host", "a.example:443")]),
            REQUEST,
            HeadFault::HostDiffers,
        ),
        (&get(&[("host", "")]), REQUEST, HeadFault::BadAuthority),
        (
            &get(&[("host", "a.example..")]),
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &get(&[("host", "u@a.example")]),
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &get(&[(":authority", "127.01.0.1")]),
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &get(&[(":authority", "0x7f.1")]),
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &get(&[(":authority", "017700000001")]),
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &get(&[(":authority", ""), ("host", "0x7f.1")]),
            REQUEST,
            HeadFault::BadAuthority,
        ),
        (
            &get(&[
                (":authority", ""),
                ("host", "a.example"),
                ("host", "a.example"),
            ]),
            REQUEST,
            HeadFault::SeveralHosts,
        ),
        (
            &get(&[("host", "a.example"), ("host", "a.example")]),
            REQUEST,
            HeadFault::SeveralHosts,
        ),
        (
            &get(&[("connection", "close")]),
            REQUEST,
            HeadFault::ConnectionField,
        ),
        (
            &get(&[("keep-alive", "1")]),
            REQUEST,
            HeadFault::ConnectionField,
        ),
        (
            &get(&[("proxy-connection", "x")]),
            REQUEST,
            HeadFault::ConnectionField,
        ),
        (
            &get(&[("transfer-encoding", "chunked")]),
            REQUEST,
            HeadFault::ConnectionField,
        ),
        (
            &get(&[("upgrade", "h2c")]),
            REQUEST,
            HeadFault::ConnectionField,
        ),
        (&get(&[("te", "gzip")]), REQUEST, HeadFault::BadTe),
        (&get(&[("te", "trailers, gzip")]), REQUEST, HeadFault::BadTe),
        (
            &get(&[("content-length", "+1")]),
            REQUEST,
            HeadFault::BadLength,
        ),
        (
            &get(&[("content-length", "")]),
            REQUEST,
            HeadFault::BadLength,
        ),
        (
            &get(&[("content-length", "18446744073709551616")]),
            REQUEST,
            HeadFault::BadLength,
        ),
        (
            &get(&[("content-length", "1"), ("content-length", "1")]),
            REQUEST,
            HeadFault::SeveralLengths,
        ),
        (
            &get(&[("X-Upper", "1")]),
            REQUEST,
            HeadFault::UpperCaseFieldName,
        ),
        (&get(&[("", "1")]), REQUEST, HeadFault::EmptyFieldName),
    ];
    for (fields, shape, want) in rows {
        assert_eq!(read(fields, shape).1, Err(want), "{fields:?}");
    }
}

#[test]
fn bytes_that_names_and_values_may_not_have() {
    let rows: [(&str, &[u8], HeadFault); 12] = [
        ("a b", b"1", HeadFault::BadFieldName),
        ("a:b", b"1", HeadFault::BadFieldName),
        ("a\0", b"1", HeadFault::BadFieldName),
        ("\u{e4}", b"1", HeadFault::BadFieldName),
        ("a", b"x\0", HeadFault::BadFieldValue),
        ("a", b"x\ry", HeadFault::BadFieldValue),
        ("a", b"x\ny", HeadFault::BadFieldValue),
        ("a", b"\x7f", HeadFault::BadFieldValue),
        ("a", b" x", HeadFault::SpaceAroundFieldValue),
        ("a", b"x\t", HeadFault::SpaceAroundFieldValue),
        ("cookie", b"a=1\r\nb", HeadFault::BadFieldValue),
        (":path", b"/\r\nx: y", HeadFault::BadFieldValue),
    ];
    for (name, value, want) in rows {
        let pseudo: [(&str, &[u8]); 3] = [
            (":method", b"GET"),
            (":scheme", b"http"),
            (":authority", b"a"),
        ];
        let fields = [
            &pseudo[..],
            if name == ":path" {
                &[]
            } else {
                &[(":path", b"/")]
            },
            &[(name, value)],
        ]
        .concat();
        assert_eq!(
            read_with(&fields, REQUEST, &DEFAULT).1,
            Err(want),
            "{name:?} {value:?}"
        );
    }
}

#[test]
fn the_parts_of_a_request_are_found() {
    let fields = get(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":path", "/chat"),
        ("range", "bytes=0-1"),
        ("cookie", "a"),
    ]);
    let (store, facts) = read(&fields, EXTENDED);
    assert!(facts.unwrap().is_connect);
    let view = store.view();
    assert_eq!(
        (view.method(), view.method_token(), view.target()),
        (Method::Connect, &b"CONNECT"[..], &b"/chat"[..])
    );
    assert_eq!(
        (store.protocol(), store.scheme()),
        (Some(&b"websocket"[..]), &b"https"[..])
    );
    assert_eq!(view.version(), saker_http::Version::Http2);
    assert_eq!(view.known(KnownField::Host), Some(&b"a.example"[..]));
    assert_eq!(view.known(KnownField::Range), Some(&b"bytes=0-1"[..]));
    assert_eq!(
        (
            view.known(KnownField::Cookie),
            view.known_count(KnownField::Cookie)
        ),
        (Some(&b"a"[..]), 1)
    );
}

/// The version of the start line is the protocol's.
#[test]
fn a_head_of_http_3() {
    let mut store = HeadStore::default();
    let mut reader = HeadReader::new(&mut store, REQUEST, Version::Http3, &DEFAULT);
    for (name, value) in get(&[]) {
        reader.field(
            NameKind::of_name(name.as_bytes()),
            name.as_bytes(),
            value.as_bytes(),
            false,
        );
    }
    reader.finish().unwrap();
    assert_eq!(
        (line(&store), store.view().version()),
        ("GET / HTTP/3.0|host=a.example".into(), Version::Http3)
    );
}

#[test]
fn a_store_forgets_what_it_held() {
    let mut store = read(
        &get(&[(":method", "CONNECT"), (":protocol", "x"), ("cookie", "a")]),
        EXTENDED,
    )
    .0;
    let reader = HeadReader::new(&mut store, Shape::Trailers, Version::Http2, &DEFAULT);
    reader.finish().unwrap();
    assert_eq!(
        (store.protocol(), store.scheme(), store.status().0),
        (None, &b""[..], 0)
    );
    assert!(
        store.bytes.is_empty()
            && store.view().fields().next().is_none()
            && store.view().method_token().is_empty()
    );
}

#[test]
fn priorities_and_lengths_are_facts() {
    let facts = read(
        &get(&[
            ("priority", "u=1"),
            ("content-length", "12"),
            ("priority", "i"),
        ]),
        REQUEST,
    )
    .1
    .unwrap();
    assert_eq!(
        facts.priority,
        Priority {
            urgency: 1,
            incremental: true
        }
    );
    assert_eq!((facts.content_length, facts.is_connect), (Some(12), false));
}

#[test]
fn responses() {
    let rows: [(Lines<'_>, Result<u16, HeadFault>); 12] = [
        (&[(":status", "200"), ("a", "1")], Ok(200)),
        (&[(":status", "103")], Ok(103)),
        (&[(":status", "999"), ("host", "x y")], Ok(999)),
        (&[(":status", "101")], Err(HeadFault::BadStatus)),
        (&[(":status", "099")], Err(HeadFault::BadStatus)),
        (&[(":status", "20")], Err(HeadFault::BadStatus)),
        (&[(":status", "2000")], Err(HeadFault::BadStatus)),
        (
            &[(":status", "200"), (":status", "200")],
            Err(HeadFault::PseudoFieldDoubled),
        ),
        (&[("a", "1")], Err(HeadFault::PseudoFieldMissing)),
        (
            &[(":status", "200"), (":path", "/")],
            Err(HeadFault::PseudoFieldUnknown),
        ),
        (
            &[(":status", "200"), ("a", "1"), (":status", "200")],
            Err(HeadFault::PseudoFieldLate),
        ),
        (
            &[(":status", "200"), ("connection", "close")],
            Err(HeadFault::ConnectionField),
        ),
    ];
    for (fields, want) in rows {
        let (store, facts) = read(fields, Shape::Response);
        assert_eq!(facts.map(|_| store.status().0), want, "{fields:?}");
    }
}

#[test]
fn trailers() {
    let (store, facts) = read(&[("x-sum", "1"), ("cookie", "a")], Shape::Trailers);
    assert!(facts.is_ok());
    assert_eq!(
        store.view().fields().collect::<Vec<_>>(),
        [(&b"x-sum"[..], &b"1"[..]), (b"cookie", b"a")]
    );
    assert!(read(&[], Shape::Trailers).1.is_ok());
    assert_eq!(
        read(&[(":status", "200")], Shape::Trailers).1,
        Err(HeadFault::PseudoFieldInTrailers)
    );
    assert_eq!(
        read(&[("transfer-encoding", "x")], Shape::Trailers).1,
        Err(HeadFault::ConnectionField)
    );
}

/// With the setting, `:authority` is the only host of the request.
#[test]
fn a_host_that_differs_may_be_dropped() {
    let limits = HeadLimits {
        authority_replaces_host: true,
        ..DEFAULT
    };
    let read = |more: &[(&'static str, &'static str)]| {
        let fields = get(more);
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        let (store, facts) = read_with(&fields, REQUEST, &limits);
        let hosts: Vec<Vec<u8>> = store.view().all("host").map(<[u8]>::to_vec).collect();
        facts.map(|_| hosts)
    };
    for host in ["b.example", "a.example:80", "a.example"] {
        assert_eq!(
            read(&[("host", host)]).unwrap(),
            [b"a.example".to_vec()],
            "{host}"
        );
    }
    for hosts in [
        &[("host", "a b")][..],
        &[("host", "b.example"), ("host", "c.example")],
    ] {
        assert!(read(hosts).is_err(), "{hosts:?}");
    }
}

#[test]
fn the_list_may_be_as_large_as_the_limit_and_no_larger() {
    let fields = get(&[("name", "value")]);
    let size: u32 = fields
        .iter()
        .map(|field| (field.0.len() + field.1.len() + 32) as u32)
        .sum();
    for (less, want) in [(0, false), (1, true)] {
        let limits = HeadLimits {
            list_bytes_max: size - less,
            ..DEFAULT
        };
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        let (store, facts) = read_with(&fields, REQUEST, &limits);
        assert_eq!(facts.unwrap().refusal.is_some(), want);
        assert_eq!(store.view().first("name").is_none(), want);
        assert_eq!(store.view().start_line(), b"GET / HTTP/2.0");
    }
}

#[test]
fn the_count_of_fields_has_a_limit_in_which_cookies_are_one() {
    let limits = HeadLimits {
        field_count_max: 6,
        ..DEFAULT
    };
    let count = |fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        read_with(&fields, REQUEST, &limits)
            .1
            .unwrap()
            .refusal
            .is_some()
    };
    assert!(!count(&get(&[("a", "1"), ("b", "2")])));
    assert!(count(&get(&[("a", "1"), ("b", "2"), ("c", "3")])));
    assert!(!count(&get(&[
        ("a", "1"),
        ("cookie", "2"),
        ("cookie", "3"),
        ("cookie", "4")
    ])));
    assert!(count(&get(&[("a", "1"), ("cookie", "2"), ("b", "3")])));
}

#[test]
fn a_target_and_a_field_have_limits_of_their_own() {
    let limits = HeadLimits {
        target_bytes_max: 6,
        field_bytes_max: 20,
        ..DEFAULT
    };
    let over = |path: &str, value: &str| {
        let fields = get(&[(":path", path), ("name", value)]);
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        let (store, facts) = read_with(&fields, REQUEST, &limits);
        (facts.unwrap().refusal, line(&store))
    };
    // As HTTP/1 would write it: "name: 12345678901234".
    assert_eq!(over("/12345", "12345678901234").0, None);
    assert_eq!(
        over("/123456", "1"),
        (Some(HeadRefusal::Target), "GET /123456 HTTP/2.0".into())
    );
    assert_eq!(
        over("/12345", "123456789012345").0,
        Some(HeadRefusal::Fields)
    );
}

#[test]
fn lines_of_one_name_have_the_limit_of_one_together() {
    let over = |name: &'static str, other: &str| {
        // As HTTP/1 would write it: "a: 123456789, 123456789".
        let limits = HeadLimits {
            field_bytes_max: name.len() as u32 + 23,
            ..DEFAULT
        };
        let fields = get(&[(name, "123456789"), ("b", "1"), (name, other)]);
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        read_with(&fields, REQUEST, &limits).1.unwrap().refusal
    };
    // Cookies are one line by then.
    for (name, longer) in [("a", "1234567890"), ("cookie", "12345678901")] {
        assert_eq!(over(name, &longer[1..]), None, "{name}");
        assert_eq!(over(name, longer), Some(HeadRefusal::Fields), "{name}");
    }
}

#[test]
fn a_head_that_does_not_fit_keeps_what_came() {
    let long = "v".repeat(40_000);
    let rows: [(&[(&str, &str)], &str); 3] = [
        (
            &get(&[("a", "1"), ("b", &long), ("c", "3")]),
            "GET / HTTP/2.0|host=a.example|a=1",
        ),
        (&get(&[(":path", &long), ("c", "3")]), "GET  HTTP/2.0"),
        (&[(":path", "/p"), (":method", &long)], " /p HTTP/2.0"),
    ];
    for (fields, want) in rows {
        let (store, facts) = read(fields, REQUEST);
        assert!(facts.unwrap().refusal.is_some());
        assert_eq!(line(&store), want);
    }
    // What was malformed before the limit stays so.
    assert_eq!(
        read(&get(&[("connection", "x"), ("b", &long)]), REQUEST).1,
        Err(HeadFault::ConnectionField)
    );
}

#[test]
fn malformed_requests_are_refused_where_they_are_answered() {
    let limits = HeadLimits {
        answers_malformed: true,
        ..DEFAULT
    };
    let refused = |fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        let (store, facts) = read_with(&fields, REQUEST, &limits);
        (facts.map(|facts| facts.refusal), line(&store))
    };
    let malformed = |fault| Ok(Some(HeadRefusal::Malformed(fault)));
    assert_eq!(
        refused(&get(&[("content-length", "x")])).0,
        malformed(HeadFault::BadLength)
    );
    assert_eq!(
        refused(&[(":method", "GET"), (":path", "/a b")]),
        (
            malformed(HeadFault::PseudoFieldMissing),
            "GET /a b HTTP/2.0".into()
        )
    );
    assert_eq!(
        refused(&get(&[("X-Upper", "a")])).0,
        Err(HeadFault::UpperCaseFieldName)
    );
    assert_eq!(refused(&get(&[])).0, Ok(None));
}

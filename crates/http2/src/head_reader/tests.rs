use super::*;
use crate::hpack::Decoder;
use saker_http::Method;

const EXTENDED: Shape = Shape::Request { extended_connect: true };
const REQUEST: Shape = Shape::Request { extended_connect: false };

/// Names and values.
type Lines<'a> = &'a [(&'a str, &'a str)];

/// Literal fields without indexing and Huffman code (RFC 7541 section 6.2.2), so that any bytes may stand in them.
pub(crate) fn literal_block(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name.as_bytes(), value] {
            push_length(text.len(), &mut block);
            block.extend_from_slice(text);
        }
    }
    block
}

/// RFC 7541 section 5.1 with a prefix of 7 bits.
fn push_length(length: usize, block: &mut Vec<u8>) {
    let Some(mut rest) = length.checked_sub(127) else { return block.push(length as u8) };
    block.push(127);
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}

fn read_with(fields: &[(&str, &[u8])], shape: Shape, limits: &Limits) -> (HeadStore, Result<HeadFacts, Reason>) {
    let mut store = HeadStore::default();
    let mut reader = HeadReader::new(&mut store, shape, limits);
    Decoder::new(4096).decode(&literal_block(fields), &mut reader).unwrap();
    let facts = reader.finish();
    (store, facts)
}

fn read(fields: &[(&str, &str)], shape: Shape) -> (HeadStore, Result<HeadFacts, Reason>) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    read_with(&fields, shape, &Limits::default())
}

/// A GET with more fields, or with other pseudo-fields than those.
fn get<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];
    fields.retain(|field| !more.iter().any(|other| other.0 == field.0));
    let pseudo = more.iter().filter(|field| field.0.starts_with(':') && !field.1.is_empty());
    fields.extend(pseudo);
    fields.extend(more.iter().filter(|field| !field.0.starts_with(':')));
    fields
}

fn line(store: &HeadStore) -> String {
    let mut text = String::from_utf8_lossy(store.view().start_line()).into_owned();
    for (name, value) in store.view().fields() {
        text += &format!("|{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
    }
    text
}

#[test]
fn requests_that_are_well_formed() {
    let rows: [(Lines<'_>, Shape, &str); 15] = [
        (&get(&[]), REQUEST, "GET / HTTP/2.0|host=a.example"),
        (&get(&[("te", "trailers"), ("x", "")]), REQUEST, "GET / HTTP/2.0|host=a.example|te=trailers|x="),
        (&get(&[("te", "Trailers")]), REQUEST, "GET / HTTP/2.0|host=a.example|te=Trailers"),
        (&get(&[("host", "A.Example")]), REQUEST, "GET / HTTP/2.0|host=a.example"),
        (&get(&[(":authority", ""), ("a", "1"), ("host", "b")]), REQUEST, "GET / HTTP/2.0|a=1|host=b"),
        (&get(&[(":authority", "[::1]:80")]), REQUEST, "GET / HTTP/2.0|host=[::1]:80"),
        (
            &get(&[("cookie", "a=1"), ("b", "2"), ("cookie", "c=3"), ("cookie", "d")]),
            REQUEST,
            "GET / HTTP/2.0|host=a.example|b=2|cookie=a=1; c=3; d",
        ),
        (&get(&[(":path", "/a?b|c=%20\u{e4}")]), REQUEST, "GET /a?b|c=%20\u{e4} HTTP/2.0|host=a.example"),
        (&get(&[(":method", "OPTIONS"), (":path", "*")]), REQUEST, "OPTIONS * HTTP/2.0|host=a.example"),
        (&get(&[(":method", "PROPFIND")]), REQUEST, "PROPFIND / HTTP/2.0|host=a.example"),
        (&get(&[("v", "a\tb c\u{ff}")]), REQUEST, "GET / HTTP/2.0|host=a.example|v=a\tb c\u{ff}"),
        (&get(&[("content-length", "0")]), REQUEST, "GET / HTTP/2.0|host=a.example|content-length=0"),
        (&[(":authority", "a:443"), (":method", "CONNECT")], REQUEST, "CONNECT a:443 HTTP/2.0|host=a:443"),
        (&get(&[(":method", "CONNECT"), (":protocol", "websocket")]), EXTENDED, "CONNECT / HTTP/2.0|host=a.example"),
        (&get(&[("keep-alive-x", "1"), ("trailer", "x")]), REQUEST, "GET / HTTP/2.0|host=a.example|keep-alive-x=1|trailer=x"),
    ];
    for (fields, shape, want) in rows {
        let (store, facts) = read(fields, shape);
        assert!(facts.is_ok_and(|facts| facts.too_large.is_none()), "{fields:?} {facts:?}");
        assert_eq!(line(&store), want);
    }
}

#[test]
fn requests_that_are_malformed() {
    let long_method = "M".repeat(METHOD_BYTES_MAX + 1);
    let rows: [(Lines<'_>, Shape, Reason); 55] = [
        (&[], REQUEST, Reason::PseudoFieldMissing),
        (&get(&[(":method", "")]), REQUEST, Reason::PseudoFieldMissing),
        (&get(&[(":scheme", "")]), REQUEST, Reason::PseudoFieldMissing),
        (&get(&[(":path", "")]), REQUEST, Reason::PseudoFieldMissing),
        (&get(&[(":authority", "")]), REQUEST, Reason::MissingHost),
        (&[(":method", "GET"), (":scheme", "http"), (":path", ""), ("host", "a")], REQUEST, Reason::BadPath),
        (&[(":method", ""), (":scheme", "http"), (":path", "/"), ("host", "a")], REQUEST, Reason::BadMethod),
        (&[(":method", "GET"), (":scheme", ""), (":path", "/"), ("host", "a")], REQUEST, Reason::BadScheme),
        (&[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "")], REQUEST, Reason::BadAuthority),
        (&[(":method", "GET"), (":method", "GET")], REQUEST, Reason::PseudoFieldDoubled),
        (&[(":path", "/"), (":path", "/a")], REQUEST, Reason::PseudoFieldDoubled),
        (&[(":scheme", "http"), (":scheme", "http")], REQUEST, Reason::PseudoFieldDoubled),
        (&[(":authority", "a"), (":authority", "b")], REQUEST, Reason::PseudoFieldDoubled),
        (&get(&[(":status", "200")]), REQUEST, Reason::PseudoFieldUnknown),
        (&get(&[(":new", "1")]), REQUEST, Reason::PseudoFieldUnknown),
        (&get(&[(":protocol", "websocket")]), REQUEST, Reason::PseudoFieldUnknown),
        (&get(&[(":protocol", "websocket")]), EXTENDED, Reason::PseudoFieldForbidden),
        (&get(&[(":method", "CONNECT"), (":protocol", "a b")]), EXTENDED, Reason::PseudoFieldForbidden),
        (&[(":method", "CONNECT"), (":protocol", "x"), (":authority", "a")], EXTENDED, Reason::PseudoFieldMissing),
        (&get(&[(":method", "CONNECT")]), REQUEST, Reason::PseudoFieldForbidden),
        (&[(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")], REQUEST, Reason::PseudoFieldForbidden),
        (&[(":method", "CONNECT")], REQUEST, Reason::PseudoFieldMissing),
        (&[(":method", "CONNECT"), (":authority", "a")], REQUEST, Reason::BadAuthority),
        (&[(":method", "CONNECT"), (":authority", "a:1"), ("content-length", "1")], REQUEST, Reason::ContentInConnect),
        (&[(":method", "GET"), (":scheme", "http"), ("a", "1"), (":path", "/")], REQUEST, Reason::PseudoFieldMissing),
        (&[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "a"), (":authority", "a")], REQUEST, Reason::PseudoFieldLate),
        (&get(&[(":method", "GE T")]), REQUEST, Reason::BadMethod),
        (&get(&[(":method", &long_method)]), REQUEST, Reason::BadMethod),
        (&get(&[(":scheme", "1http")]), REQUEST, Reason::BadScheme),
        (&get(&[(":scheme", "ht/tp")]), REQUEST, Reason::BadScheme),
        (&get(&[(":path", "*")]), REQUEST, Reason::BadPath),
        (&get(&[(":method", "OPTIONS"), (":path", "**")]), REQUEST, Reason::BadPath),
        (&get(&[(":path", "a")]), REQUEST, Reason::BadPath),
        (&get(&[(":path", "http://a.example/")]), REQUEST, Reason::BadPath),
        (&get(&[(":path", "/a b")]), REQUEST, Reason::BadPath),
        (&get(&[(":path", "/a#b")]), REQUEST, Reason::BadPath),
        (&get(&[(":path", "/\u{7f}")]), REQUEST, Reason::BadFieldValue),
        (&get(&[(":authority", "u@a.example")]), REQUEST, Reason::BadAuthority),
        (&get(&[(":authority", "a/b")]), REQUEST, Reason::BadAuthority),
        (&get(&[(":authority", ""), ("host", "a b")]), REQUEST, Reason::BadAuthority),
        (&get(&[("host", "b.example")]), REQUEST, Reason::HostDiffers),
        (&get(&[("host", "a.example"), ("host", "a.example")]), REQUEST, Reason::SeveralHosts),
        (&get(&[("connection", "close")]), REQUEST, Reason::ConnectionField),
        (&get(&[("keep-alive", "1")]), REQUEST, Reason::ConnectionField),
        (&get(&[("proxy-connection", "x")]), REQUEST, Reason::ConnectionField),
        (&get(&[("transfer-encoding", "chunked")]), REQUEST, Reason::ConnectionField),
        (&get(&[("upgrade", "h2c")]), REQUEST, Reason::ConnectionField),
        (&get(&[("te", "gzip")]), REQUEST, Reason::BadTe),
        (&get(&[("te", "trailers, gzip")]), REQUEST, Reason::BadTe),
        (&get(&[("content-length", "+1")]), REQUEST, Reason::BadLength),
        (&get(&[("content-length", "")]), REQUEST, Reason::BadLength),
        (&get(&[("content-length", "18446744073709551616")]), REQUEST, Reason::BadLength),
        (&get(&[("content-length", "1"), ("content-length", "1")]), REQUEST, Reason::SeveralLengths),
        (&get(&[("X-Upper", "1")]), REQUEST, Reason::UpperCaseFieldName),
        (&get(&[("", "1")]), REQUEST, Reason::EmptyFieldName),
    ];
    for (fields, shape, want) in rows {
        assert_eq!(read(fields, shape).1, Err(want), "{fields:?}");
    }
}

#[test]
fn bytes_that_names_and_values_may_not_have() {
    let rows: [(&str, &[u8], Reason); 12] = [
        ("a b", b"1", Reason::BadFieldName),
        ("a:b", b"1", Reason::BadFieldName),
        ("a\0", b"1", Reason::BadFieldName),
        ("\u{e4}", b"1", Reason::BadFieldName),
        ("a", b"x\0", Reason::BadFieldValue),
        ("a", b"x\ry", Reason::BadFieldValue),
        ("a", b"x\ny", Reason::BadFieldValue),
        ("a", b"\x7f", Reason::BadFieldValue),
        ("a", b" x", Reason::SpaceAroundFieldValue),
        ("a", b"x\t", Reason::SpaceAroundFieldValue),
        ("cookie", b"a=1\r\nb", Reason::BadFieldValue),
        (":path", b"/\r\nx: y", Reason::BadFieldValue),
    ];
    for (name, value, want) in rows {
        let pseudo: [(&str, &[u8]); 3] = [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a")];
        let fields = [&pseudo[..], if name == ":path" { &[] } else { &[(":path", b"/")] }, &[(name, value)]].concat();
        assert_eq!(read_with(&fields, REQUEST, &Limits::default()).1, Err(want), "{name:?} {value:?}");
    }
}

#[test]
fn the_parts_of_a_request_are_found() {
    let fields = get(&[(":method", "CONNECT"), (":protocol", "websocket"), (":path", "/chat"), ("range", "bytes=0-1"), ("cookie", "a")]);
    let (store, facts) = read(&fields, EXTENDED);
    assert!(facts.unwrap().is_connect);
    let view = store.view();
    assert_eq!((view.method(), view.method_token(), view.target()), (Method::Connect, &b"CONNECT"[..], &b"/chat"[..]));
    assert_eq!((store.protocol(), store.scheme()), (Some(&b"websocket"[..]), &b"https"[..]));
    assert_eq!(view.version(), saker_http::Version::Http2);
    assert_eq!(view.known(KnownField::Host), Some(&b"a.example"[..]));
    assert_eq!(view.known(KnownField::Range), Some(&b"bytes=0-1"[..]));
    assert_eq!((view.known(KnownField::Cookie), view.known_count(KnownField::Cookie)), (Some(&b"a"[..]), 1));
}

#[test]
fn a_store_forgets_what_it_held() {
    let mut store = read(&get(&[(":method", "CONNECT"), (":protocol", "x"), ("cookie", "a")]), EXTENDED).0;
    let reader = HeadReader::new(&mut store, Shape::Trailers, &Limits::default());
    reader.finish().unwrap();
    assert_eq!((store.protocol(), store.scheme(), store.status().0), (None, &b""[..], 0));
    assert!(store.bytes.is_empty() && store.view().fields().next().is_none() && store.view().method_token().is_empty());
}

#[test]
fn priorities_and_lengths_are_facts() {
    let facts = read(&get(&[("priority", "u=1"), ("content-length", "12"), ("priority", "i")]), REQUEST).1.unwrap();
    assert_eq!(facts.priority, Priority { urgency: 1, incremental: true });
    assert_eq!((facts.content_length, facts.is_connect), (Some(12), false));
}

#[test]
fn responses() {
    let rows: [(Lines<'_>, Result<u16, Reason>); 12] = [
        (&[(":status", "200"), ("a", "1")], Ok(200)),
        (&[(":status", "103")], Ok(103)),
        (&[(":status", "999"), ("host", "x y")], Ok(999)),
        (&[(":status", "101")], Err(Reason::BadStatus)),
        (&[(":status", "099")], Err(Reason::BadStatus)),
        (&[(":status", "20")], Err(Reason::BadStatus)),
        (&[(":status", "2000")], Err(Reason::BadStatus)),
        (&[(":status", "200"), (":status", "200")], Err(Reason::PseudoFieldDoubled)),
        (&[("a", "1")], Err(Reason::PseudoFieldMissing)),
        (&[(":status", "200"), (":path", "/")], Err(Reason::PseudoFieldUnknown)),
        (&[(":status", "200"), ("a", "1"), (":status", "200")], Err(Reason::PseudoFieldLate)),
        (&[(":status", "200"), ("connection", "close")], Err(Reason::ConnectionField)),
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
    assert_eq!(store.view().fields().collect::<Vec<_>>(), [(&b"x-sum"[..], &b"1"[..]), (b"cookie", b"a")]);
    assert!(read(&[], Shape::Trailers).1.is_ok());
    assert_eq!(read(&[(":status", "200")], Shape::Trailers).1, Err(Reason::PseudoFieldInTrailers));
    assert_eq!(read(&[("transfer-encoding", "x")], Shape::Trailers).1, Err(Reason::ConnectionField));
}

#[test]
fn the_list_may_be_as_large_as_the_limit_and_no_larger() {
    let fields = get(&[("name", "value")]);
    let size: u32 = fields.iter().map(|field| (field.0.len() + field.1.len() + 32) as u32).sum();
    for (less, want) in [(0, false), (1, true)] {
        let limits = Limits { header_list_bytes_max: size - less, ..Limits::default() };
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let (store, facts) = read_with(&fields, REQUEST, &limits);
        assert_eq!(facts.unwrap().too_large.is_some(), want);
        assert_eq!(store.view().first("name").is_none(), want);
        assert_eq!(store.view().start_line(), b"GET / HTTP/2.0");
    }
}

#[test]
fn the_count_of_fields_has_a_limit_in_which_cookies_are_one() {
    let limits = Limits { header_count_max: 6, ..Limits::default() };
    let count = |fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        read_with(&fields, REQUEST, &limits).1.unwrap().too_large.is_some()
    };
    assert!(!count(&get(&[("a", "1"), ("b", "2")])));
    assert!(count(&get(&[("a", "1"), ("b", "2"), ("c", "3")])));
    assert!(!count(&get(&[("a", "1"), ("cookie", "2"), ("cookie", "3"), ("cookie", "4")])));
    assert!(count(&get(&[("a", "1"), ("cookie", "2"), ("b", "3")])));
}

#[test]
fn a_target_and_a_field_have_limits_of_their_own() {
    let limits = Limits { target_bytes_max: 6, field_bytes_max: 20, ..Limits::default() };
    let over = |path: &str, value: &str| {
        let fields = get(&[(":path", path), ("name", value)]);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let (store, facts) = read_with(&fields, REQUEST, &limits);
        (facts.unwrap().too_large, line(&store))
    };
    assert_eq!(over("/12345", "1234567890123456").0, None);
    assert_eq!(over("/123456", "1"), (Some(TooLarge::Target), "GET /123456 HTTP/2.0".into()));
    assert_eq!(over("/12345", "12345678901234567").0, Some(TooLarge::Fields));
}

#[test]
fn a_head_that_does_not_fit_keeps_what_came() {
    let long = "v".repeat(40_000);
    let rows: [(&[(&str, &str)], &str); 3] = [
        (&get(&[("a", "1"), ("b", &long), ("c", "3")]), "GET / HTTP/2.0|host=a.example|a=1"),
        (&get(&[(":path", &long), ("c", "3")]), "GET  HTTP/2.0"),
        (&[(":path", "/p"), (":method", &long)], " /p HTTP/2.0"),
    ];
    for (fields, want) in rows {
        let (store, facts) = read(fields, REQUEST);
        assert!(facts.unwrap().too_large.is_some());
        assert_eq!(line(&store), want);
    }
    // What was malformed before the limit stays so.
    assert_eq!(read(&get(&[("connection", "x"), ("b", &long)]), REQUEST).1, Err(Reason::ConnectionField));
}

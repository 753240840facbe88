use super::*;

const LIMITS: ResponseLimits = ResponseLimits {
    head_bytes_max: 100,
    header_count_max: 3,
};

fn request(
    line: RequestLine<'_>,
    framing: BodyFraming,
    connection: ClientConnection,
) -> Result<String, UnsendableRequest> {
    let mut out = Vec::new();
    let fields: [(&[u8], &[u8]); 6] = [
        (b"Accept", b"a\r\nb"),
        (b"host", b"other"),
        (b"Content-Length", b"99"),
        (b"Connection", b"x"),
        (b"Upgrade", b"websocket"),
        (b"B\xff", b"c"),
    ];
    encode_request_head(line, fields, framing, connection, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

const LINE: RequestLine<'_> = RequestLine {
    method: b"POST",
    target: b"/a",
    host: b"a.example:80",
};

#[test]
fn request_heads_say_framing_host_and_connection_once() {
    assert_eq!(
        request(LINE, BodyFraming::Length(5), ClientConnection::Close).unwrap(),
        "POST /a HTTP/1.1\r\nHost: a.example:80\r\nAccept: a  b\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"
    );
    assert_eq!(
        request(LINE, BodyFraming::Chunked, ClientConnection::Upgrade).unwrap(),
        "POST /a HTTP/1.1\r\nHost: a.example:80\r\nAccept: a  b\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    assert!(
        request(LINE, BodyFraming::None, ClientConnection::KeepAlive)
            .unwrap()
            .ends_with("Accept: a  b\r\n\r\n")
    );
}

#[test]
fn no_request_line_is_split() {
    let sent = |line| request(line, BodyFraming::None, ClientConnection::KeepAlive);
    assert_eq!(
        sent(RequestLine {
            method: b"GE T",
            ..LINE
        }),
        Err(UnsendableRequest::Method)
    );
    assert_eq!(
        sent(RequestLine {
            method: b"",
            ..LINE
        }),
        Err(UnsendableRequest::Method)
    );
    assert_eq!(
        sent(RequestLine {
            target: b"/ HTTP/1.1\r\nA: b",
            ..LINE
        }),
        Err(UnsendableRequest::Target)
    );
    assert_eq!(
        sent(RequestLine {
            target: b"",
            ..LINE
        }),
        Err(UnsendableRequest::Target)
    );
    assert_eq!(
        sent(RequestLine {
            host: b"a\r\nB: c",
            ..LINE
        }),
        Err(UnsendableRequest::Host)
    );
}

fn parsed(bytes: &[u8]) -> Result<ParsedResponse, ResponseFault> {
    parse_response(bytes, &LIMITS, &mut ResponseIndex::default())
}

/// Framing and persistence of a whole response head.
fn body(method: Method, bytes: &[u8]) -> Result<(ResponseBody, bool), ResponseFault> {
    let mut index = ResponseIndex::default();
    assert!(matches!(
        parse_response(bytes, &LIMITS, &mut index)?,
        ParsedResponse::Complete { .. }
    ));
    let head = ResponseView::new(bytes, &index);
    response_framing(method, head).map(|body| (body, response_keep_alive(head, body)))
}

fn with(line: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").into_bytes()
}

#[test]
fn response_heads_are_parsed() {
    let bytes = b"HTTP/1.0 404 Not Here\r\nA: b \r\nB:\r\n\r\nrest";
    let mut index = ResponseIndex::default();
    assert_eq!(
        parse_response(bytes, &LIMITS, &mut index),
        Ok(ParsedResponse::Complete {
            head_bytes: bytes.len() - 4
        })
    );
    let head = ResponseView::new(bytes, &index);
    assert_eq!(
        (head.status(), head.version()),
        (Status::NOT_FOUND, Version::Http10)
    );
    assert_eq!(
        head.fields().collect::<Vec<_>>(),
        [(&b"A"[..], &b"b"[..]), (b"B", b"")]
    );
    assert_eq!(head.first("a"), Some(&b"b"[..]));
}

#[test]
fn reasons_are_optional_and_partial_heads_wait() {
    assert!(matches!(
        parsed(b"HTTP/1.1 200\r\n\r\n"),
        Ok(ParsedResponse::Complete { .. })
    ));
    assert!(matches!(
        parsed(b"HTTP/1.1 200 \r\n\r\n"),
        Ok(ParsedResponse::Complete { .. })
    ));
    assert!(matches!(
        parsed(b"HTTP/1.1 200 caf\xe9\r\n\r\n"),
        Ok(ParsedResponse::Complete { .. })
    ));
    let head = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
    for end in 0..head.len() {
        assert_eq!(parsed(&head[..end]), Ok(ParsedResponse::Partial), "{end}");
    }
}

#[test]
fn faulty_heads_are_refused() {
    for (bytes, fault) in [
        (&b"ICY 200 OK\r\n\r\n"[..], ResponseFault::BadStatusLine),
        (b"HTTP/2.0 200 OK\r\n\r\n", ResponseFault::BadStatusLine),
        (b"HTTP/1.1 099 No\r\n\r\n", ResponseFault::BadStatusLine),
        (b"HTTP/1.1 20 OK\r\n\r\n", ResponseFault::BadStatusLine),
        (b"HTTP/1.1  200 OK\r\n\r\n", ResponseFault::BadStatusLine),
        (b"\r\nHTTP/1.1 200 OK\r\n\r\n", ResponseFault::BadStatusLine),
        (b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", ResponseFault::BadField),
        (b"HTTP/1.1 200 OK\r\n A: b\r\n\r\n", ResponseFault::BadField),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 6\r\n\r\n",
            ResponseFault::BadField,
        ),
        (
            b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked,\n gzip\n\n",
            ResponseFault::BadField,
        ),
        (
            b"HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
            ResponseFault::BadField,
        ),
        (
            b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
            ResponseFault::BadField,
        ),
        (
            b"HTTP/1.1 200 OK\r\nA:\r\nB:\r\nC:\r\nD:\r\n\r\n",
            ResponseFault::TooManyFields,
        ),
    ] {
        assert_eq!(parsed(bytes), Err(fault), "{}", bytes.escape_ascii());
    }
}

#[test]
fn old_servers_are_understood_once() {
    for bytes in [
        &b"HTTP/1.1 200 OK\nA: b\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nA: b\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n\n",
        b"HTTP/1.1 200 OK\nA: b\n\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA:\r\n\tc\r\n\r\n",
    ] {
        let mut index = ResponseIndex::default();
        let parsed = parse_response(bytes, &ResponseLimits::default(), &mut index);
        let whole = ParsedResponse::Complete {
            head_bytes: bytes.len(),
        };
        assert_eq!(parsed, Ok(whole), "{}", bytes.escape_ascii());
        let view = ResponseView::new(bytes, &index);
        assert!(view.is_lenient() && !response_keep_alive(view, ResponseBody::Length(0)));
    }
}

#[test]
fn response_size_limit_has_two_sides() {
    let head = |length: usize| {
        [
            &b"HTTP/1.1 200 OK\r\nA: "[..],
            &vec![b'a'; length - 24],
            b"\r\n\r\n",
        ]
        .concat()
    };
    assert_eq!(
        parsed(&head(100)),
        Ok(ParsedResponse::Complete { head_bytes: 100 })
    );
    assert_eq!(parsed(&head(101)), Err(ResponseFault::HeadTooLarge));
    assert_eq!(parsed(&head(200)[..101]), Err(ResponseFault::HeadTooLarge));
}

#[test]
fn more_fields_than_fit_on_the_stack() {
    let limits = ResponseLimits {
        head_bytes_max: 10_000,
        header_count_max: 150,
    };
    let head = |fields: usize| {
        [
            &b"HTTP/1.1 200 OK\r\n"[..],
            &b"A: b\r\n".repeat(fields),
            b"\r\n",
        ]
        .concat()
    };
    let mut index = ResponseIndex::default();
    assert!(matches!(
        parse_response(&head(150), &limits, &mut index),
        Ok(ParsedResponse::Complete { .. })
    ));
    assert_eq!(index.fields.len(), 150);
    assert_eq!(
        parse_response(&head(151), &limits, &mut index),
        Err(ResponseFault::TooManyFields)
    );
}

#[test]
fn content_is_framed_in_the_order_of_the_standard() {
    for (method, bytes, expected) in [
        (
            Method::Get,
            with("Content-Length: 5"),
            Ok((ResponseBody::Length(5), true)),
        ),
        (
            Method::Get,
            with("Transfer-Encoding: chunked"),
            Ok((ResponseBody::Chunked, true)),
        ),
        (
            Method::Get,
            with("A: b"),
            Ok((ResponseBody::UntilClose, false)),
        ),
        (
            Method::Head,
            with("Content-Length: 5"),
            Ok((ResponseBody::None, true)),
        ),
        (
            Method::Get,
            b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n".to_vec(),
            Ok((ResponseBody::None, true)),
        ),
        (
            Method::Get,
            b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n".to_vec(),
            Ok((ResponseBody::None, true)),
        ),
        (
            Method::Get,
            b"HTTP/1.1 103 Early\r\n\r\n".to_vec(),
            Ok((ResponseBody::None, true)),
        ),
        (
            Method::Get,
            b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n".to_vec(),
            Ok((ResponseBody::Tunnel, false)),
        ),
        (
            Method::Connect,
            with("Content-Length: 5"),
            Ok((ResponseBody::Tunnel, false)),
        ),
        (
            Method::Get,
            with("Content-Length: 5\r\nContent-Length: 5"),
            Ok((ResponseBody::Length(5), true)),
        ),
        (
            Method::Get,
            with("Content-Length: 5\r\nContent-Length: 05"),
            Err(ResponseFault::SeveralLengths),
        ),
        (
            Method::Get,
            with("Content-Length: 5\r\nContent-Length: 5\r\nContent-Length: 6"),
            Err(ResponseFault::SeveralLengths),
        ),
        (
            Method::Get,
            with("Content-Length: 5, 5"),
            Err(ResponseFault::BadLength),
        ),
        (
            Method::Get,
            with("Content-Length: 5\r\nTransfer-Encoding: chunked"),
            Err(ResponseFault::LengthAndTransferEncoding),
        ),
        (
            Method::Get,
            with("Transfer-Encoding: gzip, chunked"),
            Err(ResponseFault::BadTransferEncoding),
        ),
        (
            Method::Get,
            with("Transfer-Encoding: gzip"),
            Err(ResponseFault::UnknownTransferCoding),
        ),
        (
            Method::Get,
            with("Transfer-Encoding: chunked, gzip"),
            Err(ResponseFault::BadTransferEncoding),
        ),
        (
            Method::Get,
            with("Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: y"),
            Err(ResponseFault::BadTransferEncoding),
        ),
        (
            Method::Get,
            with("Transfer-Encoding: x(y"),
            Err(ResponseFault::BadTransferEncoding),
        ),
    ] {
        assert_eq!(body(method, &bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn responses_of_http10_close_unless_they_say_otherwise() {
    let old =
        |line: &str| format!("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n{line}\r\n\r\n").into_bytes();
    assert_eq!(
        body(Method::Get, &old("A: b")),
        Ok((ResponseBody::Length(5), false))
    );
    assert_eq!(
        body(Method::Get, &old("Connection: keep-alive")),
        Ok((ResponseBody::Length(5), true))
    );
    assert_eq!(
        body(
            Method::Get,
            &with("Content-Length: 5\r\nConnection: x, Close")
        ),
        Ok((ResponseBody::Length(5), false))
    );
    assert_eq!(
        body(
            Method::Get,
            b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        ),
        Err(ResponseFault::BadTransferEncoding)
    );
}

#[test]
fn a_set_of_names_has_them_in_every_case() {
    let known = NameSet::of(&["te", "x-forwarded-for", ""]);
    for name in ["te", "TE", "X-Forwarded-For", "x_forwarded_for", ""] {
        assert!(known.may_have(name.as_bytes()), "{name}");
    }
    assert!(!NameSet::default().may_have(b"te") && !known.may_have(b"User-Agent"));
    let mut more = known;
    more.insert(b"User-Agent");
    assert!(more.may_have(b"USER-AGENT") && more.may_have(b"Te"));
}

/// Everything that a parser says of a head.
fn said(parsed: Option<usize>, index: &ResponseIndex) -> Option<(usize, String)> {
    parsed.map(|head_bytes| (head_bytes, format!("{index:?}")))
}

#[test]
fn the_quick_pass_understands_what_the_thorough_one_does() {
    let heads = [
        &b"HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 10\r\nConnection: keep-alive\r\nX_Y.z: \tb c\t \r\n\r\nrest"[..],
        b"HTTP/1.0 404 Not Here\r\nTransfer-Encoding: chunked\r\nA:\r\n\r\n",
        b"HTTP/1.1 101\r\nUpgrade:x\r\n\r\n",
    ];
    let bytes = b"\0\t\n\r !-:0129AZ_az~\x7f\x80\xff";
    let (mut quick, mut thorough) = (ResponseIndex::default(), ResponseIndex::default());
    let limits = ResponseLimits::default();
    let (mut taken, mut plain) = (0, 0);
    for head in heads {
        for (at, byte) in (0..head.len()).flat_map(|at| bytes.iter().map(move |byte| (at, *byte))) {
            for is_inserted in [false, true] {
                let mut changed = head.to_vec();
                match is_inserted {
                    true => changed.insert(at, byte),
                    false => changed[at] = byte,
                }
                quick.clear(false);
                thorough.clear(false);
                let by_quick = parse_plain(&changed, &limits, &mut quick);
                let is_said = std::mem::take(&mut quick.is_plain);
                let Some(by_quick) = said(by_quick, &quick) else {
                    continue;
                };
                taken += 1;
                let is_plain = |field: &FieldSpan| {
                    let name = field.name.of(&changed);
                    name.iter()
                        .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
                        && !saker_http::chars::has_control(field.value.of(&changed))
                };
                assert!(
                    !is_said || quick.fields.iter().all(is_plain),
                    "{}",
                    changed.escape_ascii()
                );
                plain += usize::from(is_said);
                let by_thorough = match parse_window(&changed, &limits, &mut thorough) {
                    Ok(ParsedResponse::Complete { head_bytes }) => Some(head_bytes),
                    _ => None,
                };
                assert_eq!(
                    Some(by_quick),
                    said(by_thorough, &thorough),
                    "{}",
                    changed.escape_ascii()
                );
            }
        }
    }
    assert!(taken > 1000 && plain > 100, "{taken}, {plain}");
}

#[test]
fn the_quick_pass_knows_the_limit_of_lines() {
    let limits = ResponseLimits {
        header_count_max: 2,
        ..ResponseLimits::default()
    };
    let mut index = ResponseIndex::default();
    let two = b"HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n\r\n";
    assert_eq!(parse_plain(two, &limits, &mut index), Some(two.len()));
    let three = b"HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\nE: f\r\n\r\n";
    assert_eq!(
        parse_response(three, &limits, &mut index),
        Err(ResponseFault::TooManyFields)
    );
}

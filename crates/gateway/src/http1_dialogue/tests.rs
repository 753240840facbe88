use super::*;
use crate::forward::Line;
use saker_cgi::Variables;
use saker_http::{RequestHead, Version};

fn begun(method: &str, fields: &[(&str, &str)], length: Option<u64>) -> (Http1Dialogue, String) {
    begun_with(method, fields, length, RequestTerms::default())
}

fn begun_with(
    method: &str,
    fields: &[(&str, &str)],
    length: Option<u64>,
    terms: RequestTerms,
) -> (Http1Dialogue, String) {
    let lines = vec![Line {
        name: "X-Forwarded-For",
        value: Some(b"192.0.2.1".into()),
    }];
    let address = Address {
        target: b"/a?b",
        host: b"app:8080".into(),
        lines: lines.into(),
        blocks_via: false,
        upgrade: None,
    };
    let head = RequestHead::build(method, "/", Version::Http11, fields);
    let request = ProgramRequest {
        variables: &Variables::new(),
        content_length: length,
        head: head.view(),
        path: b"/a",
        settings: &[],
    };
    let mut out = Vec::new();
    let dialogue = Http1Dialogue::begin(address, &request, terms, &mut out).unwrap();
    (dialogue, String::from_utf8(out).unwrap())
}

#[test]
fn requests_of_http10_end_their_connection() {
    let terms = RequestTerms {
        asks_first: true,
        is_http10: true,
        ..RequestTerms::default()
    };
    let (mut dialogue, head) = begun_with("POST", &[("Upgrade", "x")], Some(3), terms);
    assert!(head.starts_with("POST /a?b HTTP/1.0\r\nHost: app:8080\r\n"));
    assert!(head.contains("Connection: close\r\n") && !head.contains("Expect"));
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    dialogue.head(response).unwrap();
    assert!(!dialogue.stays);
}

/// RFC 9112 section 6.3: such content ends with the connection; beside `chunked`, it is none.
#[test]
fn unknown_transfer_codings_where_they_are_read() {
    for (coding, reads_unknown_codings, is_read) in [
        ("x-unknown", true, true),
        ("x-unknown", false, false),
        ("x-unknown, chunked", true, false),
        ("chunked, x-unknown", true, false),
    ] {
        let terms = RequestTerms {
            reads_unknown_codings,
            ..RequestTerms::default()
        };
        let (mut dialogue, _) = begun_with("GET", &[], Some(0), terms);
        let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n");
        let found = dialogue.head(response.as_bytes());
        assert_eq!(found.is_ok(), is_read, "{coding}");
        assert!(!dialogue.stays, "{coding}");
    }
}

/// An upstream that never comes to its response is given up, as programs are.
#[test]
fn interim_responses_have_a_limit() {
    for (count, is_well) in [(INTERIM_COUNT_MAX, true), (INTERIM_COUNT_MAX + 1, false)] {
        let (mut dialogue, _) = begun("GET", &[], Some(0));
        let interim = b"HTTP/1.1 102 Processing\r\n\r\n";
        let outcomes: Vec<bool> = (0..count).map(|_| dialogue.head(interim).is_ok()).collect();
        assert_eq!(outcomes.iter().all(|well| *well), is_well, "{count}");
    }
}

/// Returns the events received when the bytes arrive in pieces of this size and the connection then
/// ends.
fn heard(method: &str, response: &[u8], piece: usize) -> Vec<String> {
    let (mut dialogue, _) = begun(method, &[], Some(0));
    let (mut input, mut said) = (Vec::new(), Vec::new());
    let note = |event: Event, input: &[u8], said: &mut Vec<String>| match event {
        Event::Content(range) => match said.last_mut() {
            Some(last) if last.starts_with("content ") => {
                last.push_str(&String::from_utf8_lossy(&input[range]))
            }
            _ => said.push(format!(
                "content {}",
                String::from_utf8_lossy(&input[range])
            )),
        },
        Event::Head(head) => said.push(format!(
            "head {} {:?} {:?}",
            head.status.0,
            head.length,
            head.fields.first("X")
        )),
        other => said.push(format!("{other:?}")),
    };
    for bytes in response.chunks(piece) {
        input.extend_from_slice(bytes);
        loop {
            match dialogue.receive(&input) {
                Ok((0, None)) => break,
                Ok((used, event)) => {
                    event
                        .into_iter()
                        .for_each(|event| note(event, &input, &mut said));
                    input.drain(..used);
                }
                Err(broken) => {
                    said.push(broken.fault.as_str().to_owned());
                    return said;
                }
            }
        }
    }
    match dialogue.closed() {
        Ok(event) => event
            .into_iter()
            .for_each(|event| note(event, &input, &mut said)),
        Err(broken) => said.push(broken.fault.as_str().to_owned()),
    }
    said
}

#[test]
fn requests_pass_on_what_may_pass() {
    let fields = [
        ("Host", "shop"),
        // Where the head was read, nominated fields have been taken away: this one is a rule's.
        ("Connection", "keep-alive, X-Rule, Cookie"),
        ("X-Rule", "1"),
        ("Cookie", "a"),
        ("x-forwarded-for", "10.1.1.1"),
        ("TE", "trailers"),
    ];
    let (_, out) = begun("GET", &fields, Some(0));
    assert_eq!(
        out,
        "GET /a?b HTTP/1.1\r\nHost: app:8080\r\nX-Rule: 1\r\nCookie: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
    );
    assert!(
        begun("POST", &[], Some(0))
            .1
            .contains("Content-Length: 0\r\n")
    );
    let (mut dialogue, out) = begun("POST", &[], None);
    assert!(out.contains("Transfer-Encoding: chunked\r\n"));
    let mut content = Vec::new();
    dialogue.content(b"hello", &mut content);
    Dialogue::end(&mut dialogue, &mut content);
    assert_eq!(content, b"5\r\nhello\r\n0\r\n\r\n");
}

#[test]
fn responses_however_they_are_cut() {
    let rows: [(&str, &[u8], &[&str]); 7] = [
        (
            "GET",
            b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 3\r\n\r\nabc",
            &[
                "head 200 Some(3) Some([121])",
                "content abc",
                "End { stays: true }",
            ],
        ),
        (
            "HEAD",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
            &["head 200 Some(3) None", "End { stays: true }"],
        ),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            &["head 200 None None", "content abc", "End { stays: true }"],
        ),
        (
            "GET",
            b"HTTP/1.0 200 OK\r\n\r\nto the end",
            &[
                "head 200 None None",
                "content to the end",
                "End { stays: false }",
            ],
        ),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            &[
                "head 200 Some(9) None",
                "content abc",
                "connection closed before the response was whole",
            ],
        ),
        (
            "GET",
            b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
            &["head 204 None None", "End { stays: false }"],
        ),
        (
            "GET",
            b"SSH-2.0-OpenSSH\r\n",
            &["malformed header from script"],
        ),
    ];
    for (method, bytes, want) in rows {
        for piece in [1, 2, 3, 7, bytes.len()] {
            assert_eq!(
                heard(method, bytes, piece),
                want,
                "{} in pieces of {piece}",
                bytes.escape_ascii()
            );
        }
    }
}

#[test]
fn nothing_at_all_and_switches_nobody_asked_for() {
    assert_eq!(
        heard("GET", b"HTTP/1.1 2", 3),
        ["premature end of script headers"]
    );
    assert_eq!(
        heard("GET", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", 100),
        ["101 in a protocol that can't switch"]
    );
}

#[test]
fn trailers_of_requests_go_behind_the_chunks() {
    let terms = RequestTerms {
        passes_trailers: true,
        ..RequestTerms::default()
    };
    let announced = [("Trailer", "X-Sum"), ("TE", "trailers")];
    let (mut dialogue, head) = begun_with("POST", &announced, None, terms);
    assert!(
        head.contains("Trailer: X-Sum\r\n") && !head.contains("TE:"),
        "{head}"
    );
    let mut fields = Fields::new();
    fields.append("X-Sum", &b"5"[..]);
    let mut out = Vec::new();
    dialogue.content(b"hello", &mut out);
    dialogue.trailers(fields);
    Dialogue::end(&mut dialogue, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n"
    );
    // Nothing announces what can't come.
    let (_, head) = begun_with("POST", &announced, Some(5), terms);
    assert!(!head.contains("Trailer"), "{head}");
    // Where they don't go on, neither does what announces them.
    let (mut dialogue, head) = begun("POST", &announced, None);
    assert!(!head.contains("Trailer"), "{head}");
    let (mut fields, mut out) = (Fields::new(), Vec::new());
    fields.append("X-Sum", &b"5"[..]);
    dialogue.trailers(fields);
    Dialogue::end(&mut dialogue, &mut out);
    assert_eq!(out, b"0\r\n\r\n");
}

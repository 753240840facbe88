//! HTTP/1 on the wire: every case of `tests/conformance/http1` against the running server, in one
//! write and in two, and keep-alive, interim responses, methods, and unread bodies as seen by a
//! client.
//!
//! Caveat: "closed" must be told from "silent": a connection that should stay gets one more
//! request, one that should close is read to its end.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, Response, Saker, TempDir,
    conformance::{Case, http1_cases},
};
use std::{fmt::Write as _, io, sync::Mutex, thread, time::Duration};

const PAGE: &str = "<!doctype html><title>Home</title>";
/// Statuses of a message that could not be understood; no good request may get one.
const REFUSALS: [u16; 6] = [400, 408, 414, 431, 500, 505];
const CLOSES_WITHIN: Duration = Duration::from_secs(5);
const BETWEEN_WRITES: Duration = Duration::from_millis(4);
const THREADS: usize = 8;

fn start(configuration: &str) -> Saker {
    let dir = TempDir::new("http1-conformance").unwrap();
    dir.write("www/index.html", PAGE).unwrap();
    dir.write("www/a.txt", "a text\n").unwrap();
    operate::native(configuration).start(dir)
}

/// HTTP/1 alone: without h2c, whose preface and upgrade are cases here.
fn plain() -> Saker {
    start(&saker_testkit::saker::plain("").replace("[[site]]", "http2 = false\n\n[[site]]"))
}

#[test]
fn every_case_comes_out_as_written() {
    let saker = plain();
    let cases = http1_cases().unwrap();
    assert!(cases.len() >= 170, "{} cases only", cases.len());
    let failures = Mutex::new(String::new());
    thread::scope(|scope| {
        for first in 0..THREADS {
            let (cases, saker, failures) = (&cases, &saker, &failures);
            scope.spawn(move || {
                for case in cases.iter().skip(first).step_by(THREADS) {
                    check(saker, case, failures);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{failures}");
}

fn check(saker: &Saker, case: &Case, failures: &Mutex<String>) {
    for cut in cuts(&case.bytes) {
        if let Err(what) = replay(saker, case, cut) {
            let _ = writeln!(
                failures.lock().unwrap(),
                "{} (second write from {cut}): {what}",
                case.name
            );
        }
    }
}

/// 0: one write. Otherwise within the first line, behind it, in the middle, and before the last
/// byte.
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let line = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let mut cuts = vec![0, 1, line, bytes.len() / 2, bytes.len() - 1];
    cuts.retain(|cut| *cut < bytes.len());
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

fn replay(saker: &Saker, case: &Case, cut: usize) -> Result<(), String> {
    let mut client = saker.connect().map_err(|error| error.to_string())?;
    // What the server does not want to hear any more it may refuse to take.
    let _ = client.send(&case.bytes[..cut]);
    if cut > 0 {
        let _ = client.pause(BETWEEN_WRITES);
    }
    let _ = client.send(&case.bytes[cut..]);
    let mut stays = true;
    for line in &case.expected {
        stays = outcome(&mut client, line).map_err(|what| format!("{line}: {what}"))?;
    }
    match (
        stays,
        case.expected.last().is_some_and(|line| line == "wait"),
    ) {
        (true, false) => client
            .get("/")
            .map_err(|error| format!("does not stay: {error}"))
            .and_then(|next| is_status(&next, 200)),
        (true, true) => still_waits(&mut client, &case.bytes),
        (false, _) => match client.read_to_close(CLOSES_WITHIN) {
            Ok(rest) if rest.is_empty() => Ok(()),
            Ok(rest) => Err(format!(
                "after the end came {:?}",
                String::from_utf8_lossy(&rest)
            )),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Reads what one request came to; says whether the connection stays.
fn outcome(client: &mut Client, line: &str) -> Result<bool, String> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[0] {
        "wait" => Ok(true),
        "accept" => accepted(client, &words),
        "reject" => {
            let response = read(client, "GET")?;
            is_status(&response, words[1].parse().unwrap())?;
            says_close(&response).map(|()| false)
        }
        "reject-body" => {
            let response = read(client, "POST")?;
            let known =
                response.status.to_string() == words[1] || !REFUSALS.contains(&response.status);
            if known {
                Ok(false)
            } else {
                Err(format!("status {}", response.status))
            }
        }
        other => panic!("unknown outcome {other}"),
    }
}

fn accepted(client: &mut Client, words: &[&str]) -> Result<bool, String> {
    let status: Option<u16> = words[1].parse().ok();
    let method = if status.is_some() { words[2] } else { words[1] };
    let response = read(client, method)?;
    match status {
        Some(status) => is_status(&response, status)?,
        None if REFUSALS.contains(&response.status) => {
            return Err(format!("status {}", response.status));
        }
        None => {}
    }
    let closes = words.contains(&"close");
    let has_body = !words.contains(&"body=0");
    match (closes, says_close(&response)) {
        (true, said) => said.map(|()| false),
        (false, Err(_)) => Ok(true),
        // Answered before the content was read.
        (false, Ok(())) if has_body => Ok(false),
        (false, Ok(())) => Err("Connection: close".into()),
    }
}

/// The next final response.
fn read(client: &mut Client, method: &str) -> Result<Response, String> {
    loop {
        let response = if method == "HEAD" {
            client.read_head_response()
        } else {
            client.read_response()
        };
        match response {
            Ok(response) if response.status < 200 => {}
            Ok(response) => return Ok(response),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn is_status(response: &Response, status: u16) -> Result<(), String> {
    if response.status == status {
        Ok(())
    } else {
        Err(format!("status {}", response.status))
    }
}

fn says_close(response: &Response) -> Result<(), String> {
    match response.field("connection") {
        Some(value) if value.eq_ignore_ascii_case("close") => Ok(()),
        other => Err(format!("Connection: {other:?}")),
    }
}

/// Silent and open. Where only content is missing, the answer may have come already.
fn still_waits(client: &mut Client, bytes: &[u8]) -> Result<(), String> {
    if bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        let early = read(client, "POST")?;
        if REFUSALS.contains(&early.status) {
            return Err(format!("status {}", early.status));
        }
    }
    match client.silent_for(Duration::from_millis(30)) {
        Ok(true) => Ok(()),
        Ok(false) => Err("more, or the end, came at once".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn head_is_get_without_content() {
    let saker = plain();
    let mut client = saker.connect().unwrap();
    for _ in 0..3 {
        let (head, get) = (client.head("/").unwrap(), client.get("/").unwrap());
        assert_eq!(
            (head.status, head.field("content-length")),
            (200, Some(PAGE.len().to_string().as_str()))
        );
        assert_eq!(get.text(), PAGE);
        for name in ["etag", "last-modified", "content-type", "content-length"] {
            assert_eq!(head.field(name), get.field(name), "{name}");
        }
        assert_eq!(client.head("/none").unwrap().status, 404);
    }
}

#[test]
fn methods() {
    let saker = plain();
    let mut client = saker.connect().unwrap();
    for target in ["*", "/"] {
        let options = client.request("OPTIONS", target, &[]).unwrap();
        assert!(
            matches!(options.status, 200 | 204)
                && options
                    .field("allow")
                    .is_some_and(|allow| allow.contains("GET")),
            "{options:?}"
        );
    }
    for method in ["TRACE", "POST", "PUT", "DELETE"] {
        let response = client.request(method, "/", &[]).unwrap();
        assert_eq!(response.status, 405, "{method}");
        // RFC 9110 section 15.5.6.
        assert!(
            response
                .field("allow")
                .is_some_and(|allow| allow.contains("GET") && !allow.contains("TRACE")),
            "{method}: {response:?}"
        );
    }
    assert_eq!(client.request("BREW", "/", &[]).unwrap().status, 501);
    assert_eq!(client.get("/").unwrap().status, 200);
}

#[test]
fn trace_where_it_is_switched_on_keeps_secrets() {
    let saker = start(&(saker_testkit::saker::plain("") + "trace = true\n"));
    let mut client = saker.connect().unwrap();
    let response = client
        .request(
            "TRACE",
            "/x",
            &[
                ("X-A", "b"),
                ("Cookie", "secret"),
                ("Authorization", "Basic secret"),
            ],
        )
        .unwrap();
    assert_eq!(
        (response.status, response.field("content-type")),
        (200, Some("message/http"))
    );
    let text = response.text();
    assert!(
        text.starts_with("TRACE /x HTTP/1.1\r\n")
            && text.contains("X-A: b\r\n")
            && !text.contains("secret"),
        "{text}"
    );
}

#[test]
fn absolute_form_names_the_host() {
    let configuration = saker_testkit::saker::plain("")
        .replace("names = [\"*\"]", "names = [\"a.example\"]")
        + "\n[[site]]\nnames = [\"*\"]\n[[site.route]]\npath = \"/*\"\nrespond = \"other\"\n";
    let saker = start(&configuration);
    let mut client = saker.connect().unwrap();
    for _ in 0..2 {
        // RFC 9112 section 3.2.2: the target's authority counts, not Host.
        client
            .send("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n")
            .unwrap();
        assert_eq!(client.read_response().unwrap().text(), PAGE);
        client
            .send("GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .unwrap();
        assert_eq!(client.read_response().unwrap().text(), "other");
        assert_eq!(
            client
                .request("GET", "/", &[("Host", "a.example")])
                .unwrap()
                .text(),
            PAGE
        );
        assert_eq!(
            client
                .request("GET", "/", &[("Host", "A.Example:80")])
                .unwrap()
                .text(),
            PAGE
        );
    }
}

#[test]
fn http10_stays_where_asked_and_is_told_so() {
    let saker = plain();
    let mut client = saker.connect().unwrap();
    for _ in 0..2 {
        client
            .send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            .unwrap();
        let response = client.read_response().unwrap();
        assert_eq!(
            (response.status, response.version.as_str()),
            (200, "HTTP/1.1")
        );
        assert_eq!(
            response
                .field("connection")
                .map(str::to_ascii_lowercase)
                .as_deref(),
            Some("keep-alive")
        );
    }
    client.send("GET / HTTP/1.0\r\n\r\n").unwrap();
    let response = client.read_response().unwrap();
    says_close(&response).unwrap();
    assert!(client.closed_within(CLOSES_WITHIN));
}

#[test]
fn upgrades_are_ignored() {
    let saker = plain();
    let mut client = saker.connect().unwrap();
    let fields = [
        ("Connection", "upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
    ];
    assert_eq!(client.request("GET", "/", &fields).unwrap().status, 200);
    assert_eq!(
        client
            .request(
                "GET",
                "/",
                &[("Connection", "Upgrade"), ("Upgrade", "websocket")]
            )
            .unwrap()
            .status,
        200
    );
    assert_eq!(client.get("/").unwrap().status, 200);
}

#[test]
fn small_unread_bodies_leave_the_connection_open() {
    let saker = plain();
    let mut client = saker.connect().unwrap();
    let body = vec![b'x'; 100_000];
    for _ in 0..3 {
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
                body.len()
            ))
            .unwrap();
        client.send(&body).unwrap();
        let response = client.read_response().unwrap();
        assert_eq!((response.status, response.field("connection")), (405, None));
        client
            .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        client.send(chunked(&body, 7000)).unwrap();
        assert_eq!(client.read_response().unwrap().status, 405);
        assert_eq!(client.get("/").unwrap().text(), PAGE);
    }
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in body.chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

#[test]
fn large_unread_bodies_end_the_connection_behind_a_whole_answer() {
    let saker = plain();
    let mut client = saker.connect().unwrap();
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n")
        .unwrap();
    // The server reads on for a little, so that a reset does not take the answer away (RFC 9112
    // section 9.6).
    for _ in 0..10 {
        client.send([b'x'; 50_000]).unwrap();
    }
    let response = client.read_response().unwrap();
    assert_eq!(response.status, 405);
    says_close(&response).unwrap();
    assert!(client.closed_within(CLOSES_WITHIN));

    let mut client = saker.connect().unwrap();
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    let chunk = chunked(&[b'x'; 50_000], 50_000);
    let sent = (0..1000)
        .take_while(|_| client.send(&chunk[..chunk.len() - 5]).is_ok())
        .count();
    assert!(sent < 1000, "50 MB of a body that nobody wants were taken");
}

#[test]
fn expectations() {
    let saker = plain();
    let mut client = saker.connect().unwrap();
    // Refused: no interim response, and no upload is waited for.
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n")
        .unwrap();
    let response = client.read_response().unwrap();
    assert_eq!(response.status, 405);
    says_close(&response).unwrap();
    assert!(client.closed_within(CLOSES_WITHIN));

    let mut client = saker.connect().unwrap();
    client
        .send("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")
        .unwrap();
    assert_eq!(
        client.read_response().unwrap().status,
        200,
        "nothing to continue with"
    );
    assert_eq!(
        client
            .request("GET", "/", &[("Expect", "miracles")])
            .unwrap()
            .status,
        417
    );
    assert_eq!(client.get("/").unwrap().status, 200);
}

#[test]
fn pipelined_answers_come_in_order_whatever_they_take() -> io::Result<()> {
    let saker = plain();
    saker.dir.write("www/large.bin", vec![7; 3_000_000])?;
    let mut client = saker.connect()?;
    let requests = ["/", "/large.bin", "/none", "/a.txt", "/large.bin", "/"]
        .map(|target| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let length = |response: &Response| {
        if response.status == 404 {
            0
        } else {
            response.body.len()
        }
    };
    for _ in 0..2 {
        let answers: Vec<(u16, usize)> = client
            .pipeline(&requests)?
            .iter()
            .map(|response| (response.status, length(response)))
            .collect();
        assert_eq!(
            answers,
            [
                (200, PAGE.len()),
                (200, 3_000_000),
                (404, 0),
                (200, 7),
                (200, 3_000_000),
                (200, PAGE.len())
            ]
        );
    }
    Ok(())
}

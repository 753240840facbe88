//! Heads of upstreams, whose lines go on to clients in one piece where nothing changes them.
//!
//! A hostile upstream may end a line early, hide a second one in it, or name fields of the
//! connection; rules of the site and limits of clients hold for what it says as for anything else.
//! Out of scope: heads that are refused (tests of the gateway).

use crate::harness::{PROTOCOLS, Request, ask, native};
use crate::operate::folder;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread,
};

/// Behind the status line. Neighbors are of different kinds: as they would be written, in another
/// form, for the connection, changed by the site.
const LINES: [&[u8]; 15] = [
    b"X-Plain: a  b",
    b"X-Close:c",
    b"X-Wide:  \t d",
    b"X-Tab: e\tf",
    b"X-Secret: 1",
    b"X_Odd: g",
    b"X-Latin: caf\xe9",
    b"Keep-Alive: timeout=9",
    b"Connection: keep-alive, X-Secret",
    b"Upgrade: h9",
    b"X-Gone: h",
    b"X-Set: i",
    b"X-Two: 1",
    b"x-two: 2",
    b"X-Last: j: k\xc3\xa9",
];

/// Answers each connection's requests with that head and `ok`.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let lines = LINES.join(&b"\r\n"[..]);
    let answer = [
        b"HTTP/1.1 200 OK\r\n",
        &*lines,
        b"\r\nContent-Length: 2\r\n\r\nok",
    ]
    .concat();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                let (mut head, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = stream.read(&mut piece) {
                    head.extend_from_slice(&piece[..count]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        stream.write_all(&answer).unwrap();
                    }
                }
            });
        }
    });
    address
}

#[test]
fn lines_reach_clients_of_every_protocol_alike() {
    let site = format!(
        "headers = {{ X-Gone = {{ remove = true }}, X-Set = \"ours\" }}\n\
         [[site.route]]\npath = \"/app/*\"\nproxy = \"http://{}\"\n",
        upstream()
    );
    let saker = native(folder("upstream-heads"), "", &site);
    let want = [
        ("x-plain", "a  b"),
        ("x-close", "c"),
        ("x-wide", "d"),
        ("x-tab", "e\tf"),
        ("x_odd", "g"),
        ("x-set", "ours"),
        ("x-two", "1"),
        ("x-two", "2"),
        ("x-last", "j: ké"),
    ];
    // The second request of each comes over a kept connection, and finds memory that was used.
    for protocol in PROTOCOLS.into_iter().flat_map(|one| [one, one]) {
        let answer = ask(
            saker.server.address(),
            protocol,
            &Request::get("localhost", "/app/x"),
        );
        assert_eq!(
            (answer.status, &*answer.text()),
            (200, "ok"),
            "{protocol:?}"
        );
        let mut got: Vec<(String, &str)> = answer
            .fields
            .iter()
            .map(|(name, value)| (name.to_lowercase(), &**value))
            .filter(|(name, _)| name.starts_with(['x', 'k', 'u']) && name != "x-latin")
            .collect();
        got.sort();
        let mut want = want.map(|(name, value)| (name.to_owned(), value)).to_vec();
        want.sort();
        assert_eq!(got, want, "{protocol:?}");
        assert!(answer.field("x-latin").is_some(), "{protocol:?}");
        let lengths = answer.fields.iter();
        let lengths = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        assert_eq!(lengths.count(), 1, "{protocol:?}");
    }
}

/// HTTP/1.1 in bytes: each line once, as it came, and the site's in its place.
#[test]
fn lines_are_whole_on_the_wire() {
    let site = format!(
        "headers = {{ X-Gone = {{ remove = true }}, X-Set = \"ours\" }}\n\
         [[site.route]]\npath = \"/app/*\"\nproxy = \"http://{}\"\n",
        upstream()
    );
    let saker = native(folder("upstream-lines"), "", &site);
    let request = b"GET /app/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let bytes = crate::harness::tls_exchange(
        saker.server.address(),
        Some("localhost"),
        "http/1.1",
        &[],
        request,
    );
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let lines: Vec<&[u8]> = bytes[..end]
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect();
    for line in [
        &b"X-Plain: a  b"[..],
        b"X-Close: c",
        b"X-Wide: d",
        b"X-Tab: e\tf",
        b"X_Odd: g",
        b"X-Latin: caf\xe9",
        b"X-Set: ours",
        b"X-Two: 1",
        b"x-two: 2",
        b"X-Last: j: k\xc3\xa9",
        b"Content-Length: 2",
        b"Connection: close",
    ] {
        let count = lines.iter().filter(|other| **other == line).count();
        assert_eq!(count, 1, "{}", line.escape_ascii());
    }
    for name in [&b"X-Secret"[..], b"X-Gone", b"Keep-Alive", b"Upgrade"] {
        let has = lines.iter().any(|line| line.starts_with(name));
        assert!(!has, "{}", name.escape_ascii());
    }
}

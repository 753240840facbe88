//! HTTP/2 beside nginx: frames that break the protocol, and what they lead to.
//!
//! Called by: `cargo test -p saker --test applications nginx_http2`.
//! Caveat: requests that are malformed (RFC 9113, section 8.1.1) have their streams reset here, and
//! are answered with 400 by nginx; the two are not compared.
//! Out of scope: rules of the protocol that nginx does not check (`conformance`).

use crate::nginx_pair::Pair;
use saker_testkit::{
    frames::{self, Frames, block},
    require,
};
use std::{net::SocketAddr, process::Command};

/// Type, flags, stream, and payload.
type Frame = (u8, u8, u32, Vec<u8>);

const SERVER: &str = "== http\nserver { listen {ip}:{p} http2; server_name a.test; client_max_body_size 1k; default_type text/plain; \
    location / { return 200 \"hello $content_length\\n\"; } location /none { return 204; } location /dropped { return 444; } \
    location /up { proxy_pass http://{ip}:{q}; } \
    location /trailers { add_trailer X-T t; return 200 \"trailers\\n\"; } location /file { add_trailer X-T t; alias {dir}/nginx.conf; } }\n\
    server { listen {ip}:{q}; return 200 up; }";

const HEADERS_END: u8 = frames::END_HEADERS | frames::END_STREAM;

/// The frames of interest for what a client sends, until the answer is over or the connection is.
fn outcome(address: SocketAddr, sent: &[(u8, u8, u32, Vec<u8>)]) -> Vec<String> {
    let mut client = Frames::connect(address).unwrap();
    for (kind, flags, stream, payload) in sent {
        // The server may have closed already.
        drop(client.send(*kind, *flags, *stream, payload));
    }
    let mut found = Vec::new();
    while let Ok(Some(frame)) = client.read() {
        let is_end = frame.flags & frames::END_STREAM != 0;
        match frame.kind {
            frames::HEADERS => found.push("HEADERS".to_owned()),
            frames::RST_STREAM => found.push(format!("RST_STREAM {:?}", frame.error_code())),
            frames::GOAWAY => found.push(format!("GOAWAY {:?}", frame.error_code())),
            frames::PING => found.push(format!("PING {}", frame.flags)),
            _ => {}
        }
        let is_over = matches!(
            frame.kind,
            frames::RST_STREAM | frames::GOAWAY | frames::PING
        );
        let has_end = matches!(frame.kind, frames::HEADERS | frames::DATA) && is_end;
        if is_over || has_end {
            break;
        }
    }
    found
}

fn request(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = vec![
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", "a.test"),
    ];
    fields.extend(more);
    block(&fields)
}

#[test]
fn nginx_http2_ends_connections_for_the_same_faults() {
    let pair = Pair::start("nginx-http2-faults", &[], SERVER);
    let get = || request("GET", "/", &[]);
    let setting = |id: u16, value: u32| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let faults: Vec<(&str, u32, Frame)> = vec![
        ("headers on 0", 1, (frames::HEADERS, HEADERS_END, 0, get())),
        ("even stream", 1, (frames::HEADERS, HEADERS_END, 2, get())),
        ("data on 0", 1, (frames::DATA, 1, 0, b"x".to_vec())),
        ("short PING", 6, (frames::PING, 0, 0, vec![0; 7])),
        ("PING on a stream", 1, (frames::PING, 0, 1, vec![0; 8])),
        ("settings on a stream", 1, (frames::SETTINGS, 0, 1, vec![])),
        (
            "length of settings",
            6,
            (frames::SETTINGS, 0, 0, vec![0; 5]),
        ),
        (
            "acknowledgment with content",
            6,
            (frames::SETTINGS, frames::ACK, 0, vec![0; 6]),
        ),
        (
            "window of settings",
            3,
            (frames::SETTINGS, 0, 0, setting(4, 1 << 31)),
        ),
        (
            "frame size of settings",
            1,
            (frames::SETTINGS, 0, 0, setting(5, 100)),
        ),
        ("window by 0", 1, (frames::WINDOW_UPDATE, 0, 0, vec![0; 4])),
        (
            "window too large",
            3,
            (frames::WINDOW_UPDATE, 0, 0, vec![0x7f, 255, 255, 255]),
        ),
        ("short window", 6, (frames::WINDOW_UPDATE, 0, 0, vec![0; 3])),
        ("reset of 0", 1, (frames::RST_STREAM, 0, 0, vec![0; 4])),
        ("continuation alone", 1, (frames::CONTINUATION, 4, 1, get())),
        (
            "promise of a client",
            1,
            (5, 4, 1, [&[0, 0, 0, 2][..], &get()].concat()),
        ),
        (
            "padding too long",
            1,
            (
                frames::HEADERS,
                HEADERS_END | 8,
                1,
                [&[255][..], &get()].concat(),
            ),
        ),
        (
            "unknown index",
            9,
            (frames::HEADERS, HEADERS_END, 1, vec![0xff, 0xff, 0x03]),
        ),
        ("index 0", 9, (frames::HEADERS, HEADERS_END, 1, vec![0x80])),
    ];
    for (what, code, frame) in faults {
        let sent = [frame];
        let found = pair.both(|address| outcome(address, &sent));
        assert_eq!(found, [format!("GOAWAY {:?}", Some(code))], "{what}");
    }
}

#[test]
fn nginx_http2_answers_requests_with_content_alike() {
    let pair = Pair::start("nginx-http2-content", &[], SERVER);
    let post = |path: &str, more: &[(&str, &str)]| {
        let head = request("POST", path, more);
        (frames::HEADERS, frames::END_HEADERS, 1, head)
    };
    let data = |flags: u8, text: &str| (frames::DATA, flags, 1, text.as_bytes().to_vec());
    let large = "a".repeat(600);
    let rows = [
        (
            "whole",
            vec![post("/up", &[("content-length", "3")]), data(1, "abc")],
            "HEADERS",
        ),
        (
            "without length",
            vec![post("/up", &[]), data(0, "abc"), data(1, "")],
            "HEADERS",
        ),
        (
            "too long",
            vec![post("/up", &[("content-length", "2000")])],
            "HEADERS",
        ),
        (
            "grows too long",
            vec![post("/up", &[]), data(0, &large), data(0, &large)],
            "HEADERS",
        ),
        (
            "no content",
            vec![(
                frames::HEADERS,
                HEADERS_END,
                1,
                request("GET", "/none", &[]),
            )],
            "HEADERS",
        ),
        (
            "unknown frame",
            vec![
                (99, 0, 0, vec![1]),
                (
                    frames::HEADERS,
                    HEADERS_END,
                    1,
                    request("GET", "/none", &[]),
                ),
            ],
            "HEADERS",
        ),
        ("PING", vec![(frames::PING, 0, 0, vec![7; 8])], "PING 1"),
    ];
    for (what, sent, expected) in rows {
        let mut first = pair.both(|address| {
            let found = outcome(address, &sent);
            found.into_iter().take(1).collect::<Vec<_>>()
        });
        assert_eq!(first.pop().unwrap_or_default(), expected, "{what}");
    }
}

/// Over HTTP/2, a length stands beside trailers.
#[test]
fn nginx_http2_tells_lengths_beside_trailers() {
    let pair = Pair::start("nginx-http2-trailers", &[], SERVER);
    for path in ["/trailers", "/"] {
        let found = pair.both(|address| {
            let output = Command::new(require("curl").unwrap())
                .args(["-sD", "-", "--http2-prior-knowledge"])
                .arg(format!("http://{address}{path}"))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let wanted = ["content-length", "x-t", "HTTP/2", "hello", "trailers"];
            let is_wanted = |line: &&str| wanted.iter().any(|start| line.starts_with(start));
            text.lines()
                .filter(is_wanted)
                .map(|line| line.trim_end().to_owned())
                .collect::<Vec<_>>()
        });
        assert!(
            found
                .iter()
                .any(|line| line.starts_with("content-length: ")),
            "{found:?}"
        );
    }
}

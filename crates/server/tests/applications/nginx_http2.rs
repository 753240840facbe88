//! HTTP/2 beside nginx: frames that break the protocol, malformed requests, and what they lead to.
//!
//! Called by: `cargo test -p saker --test applications nginx_http2`.
//! Caveat: requests that RFC 9113, section 8.1.1, calls malformed and nginx 1.22 does not (blanks
//! around values, fields of the connection) are not compared.
//! Out of scope: rules of the protocol that nginx does not check (`conformance`).

use crate::nginx_pair::Pair;
use saker_testkit::{
    frames::{self, Frames, block},
    require,
};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
};

/// Type, flags, stream, and payload.
type Frame = (u8, u8, u32, Vec<u8>);

const SERVER: &str = "== http\nserver { listen {ip}:{p} http2; server_name a.test; client_max_body_size 1k; default_type text/plain; \
    location / { return 200 \"hello $content_length\\n\"; } location /none { return 204; } location /dropped { return 444; } \
    location /up { proxy_pass http://{ip}:{q}; } location /bad { return 200 \"$status\"; } error_page 400 /bad; \
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

/// The status of a response: its field is the first, from the static table (RFC 7541, appendix A).
fn status(payload: &[u8]) -> u8 {
    // A change of the table's size may stand before it.
    let field = payload.iter().find(|byte| **byte & 0x80 != 0);
    field.copied().unwrap_or_default() & 0x7f
}

/// The end of a request: the index of its status, or a frame of the connection.
fn ending(address: SocketAddr, sent: &[Frame]) -> String {
    let mut client = Frames::connect(address).unwrap();
    for (kind, flags, stream, payload) in sent {
        drop(client.send(*kind, *flags, *stream, payload));
    }
    while let Ok(Some(frame)) = client.read() {
        match frame.kind {
            frames::HEADERS => return format!("status {}", status(&frame.payload)),
            frames::RST_STREAM => return format!("RST_STREAM {:?}", frame.error_code()),
            frames::GOAWAY => return format!("GOAWAY {:?}", frame.error_code()),
            _ => {}
        }
    }
    "closed".to_owned()
}

const BAD_REQUEST: &str = "status 12";

#[test]
fn nginx_http2_answers_malformed_requests_alike() {
    let pair = Pair::start("nginx-http2-malformed", &[], SERVER);
    let whole = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a.test"),
    ];
    let with = |more: &[(&'static str, &'static str)]| [&whole[..], more].concat();
    let instead = |name: &str, value: &'static str| {
        let other = |(own, old): (&'static str, &'static str)| match own == name {
            true => (own, value),
            false => (own, old),
        };
        whole.map(other).to_vec()
    };
    let without = |name: &str| {
        let mut fields = whole.to_vec();
        fields.retain(|field| field.0 != name);
        fields
    };
    let mut bad: Vec<Vec<(&str, &str)>> = whole
        .iter()
        .flat_map(|field| [without(field.0), with(&[*field])])
        .collect();
    bad.extend([
        instead(":path", "*"),
        instead(":path", "none"),
        instead(":path", "http://a.test/"),
        instead(":path", "/a b"),
        instead(":scheme", "ht tp"),
        instead(":scheme", "1a"),
        instead(":method", "GE T"),
        instead(":authority", "a/b"),
        with(&[("host", "b.test")]),
        with(&[(":unknown", "a")]),
        with(&[("content-length", "x")]),
        with(&[("content-length", "-1")]),
        with(&[("content-length", "5")]),
        with(&[("content-length", "0"), ("content-length", "0")]),
    ]);
    for fields in bad {
        let sent = [(frames::HEADERS, HEADERS_END, 1, block(&fields))];
        let found = pair.both(|address| ending(address, &sent));
        assert_eq!(found, BAD_REQUEST, "{fields:?}");
    }
    // What is no field at all ends the stream.
    for field in [("X-Upper", "a"), ("x y", "a"), ("x", "a\0b"), ("x", "a\nb")] {
        let sent = [(frames::HEADERS, HEADERS_END, 1, block(&with(&[field])))];
        let found = pair.both(|address| ending(address, &sent));
        assert_eq!(found, "RST_STREAM Some(1)", "{field:?}");
    }
    // Heads over the limit end the connection.
    let long = "l".repeat(9000);
    let fields = [&whole[..], &[("x", long.as_str())]].concat();
    let sent = [(frames::HEADERS, HEADERS_END, 1, block(&fields))];
    let found = pair.both(|address| ending(address, &sent));
    assert_eq!(found, "GOAWAY Some(11)");
}

#[test]
fn nginx_http2_refuses_content_of_another_length() {
    let pair = Pair::start("nginx-http2-lengths", &[], SERVER);
    let data = |flags: u8, text: &str| (frames::DATA, flags, 1, text.as_bytes().to_vec());
    for (length, pieces) in [
        ("5", vec![data(1, "abc")]),
        ("2", vec![data(1, "abc")]),
        ("2", vec![data(0, "abc"), data(1, "d")]),
    ] {
        let head = request("POST", "/up", &[("content-length", length)]);
        let mut sent = vec![(frames::HEADERS, frames::END_HEADERS, 1, head)];
        sent.extend(pieces);
        let found = pair.both(|address| ending(address, &sent));
        assert_eq!(found, BAD_REQUEST, "{length}");
    }
}

/// An upstream whose response is a head with trailers in it, which ends the stream.
fn trailers_only() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_with_head(stream));
        }
    });
    address
}

fn answer_with_head(mut stream: TcpStream) -> Option<()> {
    let mut preface = [0; frames::PREFACE.len()];
    stream.read_exact(&mut preface).ok()?;
    let settings = frames::frame(frames::SETTINGS, 0, 0, &[]);
    stream.write_all(&settings).ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        stream.read_exact(&mut vec![0; length]).ok()?;
        let is_end = matches!(head[3], frames::DATA | frames::HEADERS) && head[4] & 1 != 0;
        if head[3] == frames::SETTINGS && head[4] == 0 {
            let ack = frames::frame(frames::SETTINGS, frames::ACK, 0, &[]);
            stream.write_all(&ack).ok()?;
        }
        if is_end {
            let fields = [
                (":status", "200"),
                ("content-type", "application/grpc"),
                ("grpc-status", "5"),
            ];
            let answer = frames::frame(frames::HEADERS, HEADERS_END, 1, &block(&fields));
            stream.write_all(&answer).ok()?;
        }
    }
}

/// gRPC tells a response without messages by the head that ends the stream.
#[test]
fn nginx_http2_ends_streams_with_the_head_where_an_upstream_does() {
    let conf = "== http\nserver { listen {ip}:{p} http2; server_name a.test; location / { grpc_pass {up}; } }";
    let given = [("up", trailers_only().to_string())];
    let pair = Pair::start("nginx-http2-trailers-only", &given, conf);
    let sent = [
        (
            frames::HEADERS,
            frames::END_HEADERS,
            1,
            request("POST", "/", &[]),
        ),
        (frames::DATA, 1, 1, b"x".to_vec()),
    ];
    let flags = pair.both(|address| {
        let mut client = Frames::connect(address).unwrap();
        for (kind, flags, stream, payload) in &sent {
            client.send(*kind, *flags, *stream, payload).unwrap();
        }
        let head = client.read_until(frames::HEADERS).unwrap().unwrap();
        (head.flags & HEADERS_END, status(&head.payload))
    });
    assert_eq!(flags, (HEADERS_END, 8));
}

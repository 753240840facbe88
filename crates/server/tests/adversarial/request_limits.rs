//! Limits on requests hold at their edge in every framing, over every protocol; critical streams of
//! HTTP/3 may not end; half-closed clients.
//!
//! Each limit is tried on both sides. What goes beyond one reaches no program and no server: they
//! keep all they are given, and the byte beyond the limit has a value of its own. Out of scope:
//! time limits, and the limits of floods (`http2_floods`, `http3_floods`).

use crate::harness::{
    Answer, ApacheSite, PROTOCOLS, Protocol, Request, apache, ask, native, read_answer,
    tls_exchange,
};
use crate::http3_client;
use crate::operate::{PATIENCE, folder};
use saker_http3::ErrorCode;
use saker_testkit::{Client, TempDir, require};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

const EVERY: [Protocol; 4] = [
    Protocol::Plain,
    Protocol::Http1,
    Protocol::Http2,
    Protocol::Http3,
];
const FRAMINGS: [Framing; 3] = [Framing::Length, Framing::Unknown, Framing::Pieces];
/// The byte beyond a limit.
const BEYOND: u8 = b'~';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    /// One chunk, or frames without a length.
    Unknown,
    /// The same in many.
    Pieces,
}

/// Content of that length, the last byte of which is beyond the limit if it is over.
fn content(bytes: usize, limit: usize) -> Vec<u8> {
    (1..=bytes)
        .map(|number| if number > limit { BEYOND } else { b'a' })
        .collect()
}

fn chunked(content: &[u8], piece: usize, trailers: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in content.chunks(piece.max(1)) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
    out
}

/// Sends content in this framing.
fn upload(
    plain: SocketAddr,
    tls: SocketAddr,
    protocol: Protocol,
    method: &str,
    target: &str,
    framing: Framing,
    content: &[u8],
) -> Answer {
    let piece = if framing == Framing::Pieces {
        97
    } else {
        content.len()
    };
    let http1 = || {
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        match framing {
            Framing::Length => [
                format!("{head}Content-Length: {}\r\n\r\n", content.len()).as_bytes(),
                content,
            ]
            .concat(),
            _ => [
                format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes(),
                &chunked(content, piece, ""),
            ]
            .concat(),
        }
    };
    match protocol {
        Protocol::Plain => {
            let mut client = Client::connect(plain).unwrap();
            client.send(http1()).unwrap();
            let response = client.read_response().unwrap();
            Answer {
                status: response.status,
                fields: response.fields,
                body: response.body,
            }
        }
        Protocol::Http1 => read_answer(&tls_exchange(
            tls,
            Some("localhost"),
            "http/1.1",
            &[],
            &http1(),
        )),
        Protocol::Http2 => by_curl(tls, method, target, framing, content),
        Protocol::Http3 => {
            let mut connection = http3_client::Client::default().connect(&tls.to_string());
            let length = content.len().to_string();
            let fields = [("content-length", length.as_str())];
            let pseudo = [
                (":method", method),
                (":scheme", "https"),
                (":authority", "localhost"),
                (":path", target),
            ];
            let stream = connection.open_with(
                &pseudo,
                if framing == Framing::Length {
                    &fields
                } else {
                    &[]
                },
                false,
            );
            let mut pieces = content.chunks(piece.max(1)).peekable();
            while let Some(chunk) = pieces.next() {
                connection.send(stream, chunk, pieces.peek().is_none());
            }
            let response = connection.response(stream);
            Answer {
                status: response.status,
                fields: response.fields,
                body: response.body,
            }
        }
    }
}

fn by_curl(
    tls: SocketAddr,
    method: &str,
    target: &str,
    framing: Framing,
    content: &[u8],
) -> Answer {
    let mut command = Command::new(require("curl").unwrap());
    command.args([
        "-sk",
        "-i",
        "-m",
        "20",
        "--http2",
        "--raw",
        "-X",
        method,
        "-H",
        "Expect:",
        "--connect-to",
        &format!("::{tls}"),
    ]);
    match framing {
        Framing::Length => command.args(["--data-binary", "@-"]),
        _ => command.args(["-T", "-"]),
    };
    command.arg(format!("https://localhost:{}{target}", tls.port()));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut pipe, content) = (child.stdin.take().unwrap(), content.to_vec());
    let writer = thread::spawn(move || drop(pipe.write_all(&content)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    read_answer(&output.stdout)
}

/// A server that keeps every byte that it is sent, and answers whole requests.
struct Origin {
    address: SocketAddr,
    got: Arc<Mutex<Vec<u8>>>,
}

impl Origin {
    fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Origin {
            address: listener.local_addr().unwrap(),
            got: Arc::default(),
        };
        let got = Arc::clone(&origin.got);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let got = Arc::clone(&got);
                thread::spawn(move || while serve(&stream, &got).is_some() {});
            }
        });
        origin
    }

    fn has_seen(&self, byte: u8) -> bool {
        self.got.lock().unwrap().contains(&byte)
    }
}

fn serve(stream: &TcpStream, got: &Mutex<Vec<u8>>) -> Option<()> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut line = |keep: &mut Vec<u8>| {
        let start = keep.len();
        reader
            .read_until(b'\n', keep)
            .ok()
            .filter(|count| *count > 0)?;
        let line = keep[start..].to_vec();
        got.lock().unwrap().extend_from_slice(&line);
        Some(
            String::from_utf8_lossy(&line)
                .trim_end()
                .to_ascii_lowercase(),
        )
    };
    let (mut kept, mut length, mut is_chunked) = (Vec::new(), 0usize, false);
    loop {
        match line(&mut kept)? {
            end if end.is_empty() => break,
            field if field.starts_with("content-length:") => {
                length = field[15..].trim().parse().ok()?
            }
            field => is_chunked |= field == "transfer-encoding: chunked",
        }
    }
    let mut writer = stream;
    if is_chunked {
        while line(&mut kept)? != "0" {}
        while !line(&mut kept)?.is_empty() {}
    } else {
        let mut body = vec![0; length];
        let mut at = 0;
        while at < length {
            let count = reader
                .read(&mut body[at..])
                .ok()
                .filter(|count| *count > 0)?;
            got.lock().unwrap().extend_from_slice(&body[at..at + count]);
            at += count;
        }
    }
    writer
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        .ok()
}

/// A program that keeps its content beside itself.
fn program(dir: &TempDir, path: &str) {
    dir.write(
        path,
        "#!/bin/sh\ncat >>\"$0.got\"\nprintf 'Content-Type: text/plain\\r\\n\\r\\nok'\n",
    )
    .unwrap();
    std::fs::set_permissions(dir.join(path), std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn program_has_seen(dir: &TempDir, path: &str, byte: u8) -> bool {
    std::fs::read(dir.join(format!("{path}.got"))).is_ok_and(|got| got.contains(&byte))
}

#[test]
fn content_is_limited_in_every_framing() {
    let (origin, dir) = (Origin::start(), folder("limits-body"));
    program(&dir, "www/keep.cgi");
    let to = origin.address;
    let second = crate::operate::start(
        "limits-body-second",
        &crate::operate::configuration(
            "",
            &format!("\n[[site.route]]\npath = \"/h2/*\"\nproxy = \"http://{to}\"\n"),
        ),
    );
    let route = |path: &str, to: &str, size: &str| {
        format!("\n[[site.route]]\npath = \"/{path}/*\"\nproxy = \"{to}\"\n{size}\n")
    };
    let (http, h2) = (
        format!("http://{to}"),
        format!("h2c://{}", second.server.address()),
    );
    let site = [
        "body_size = 1000\ncgi = [\"*.cgi\"]\n".to_owned(),
        route("app", &http, ""),
        route("h2", &h2, ""),
        route("wide", &http, "body_size = 2000"),
        route("free", &http, "body_size = 0"),
    ]
    .concat();
    let saker = native(dir, "", &site);
    let address = saker.server.address();
    let attempts = [
        ("GET", "/index.html", 1000),
        ("POST", "/keep.cgi", 1000),
        ("POST", "/app/x", 1000),
        ("POST", "/h2/x", 1000),
        ("POST", "/wide/x", 2000),
    ];
    for protocol in PROTOCOLS {
        for framing in FRAMINGS {
            for (method, target, limit) in attempts {
                for (bytes, expected) in [(limit, 200), (limit + 1, 413)] {
                    let answer = upload(
                        address,
                        address,
                        protocol,
                        method,
                        target,
                        framing,
                        &content(bytes, limit),
                    );
                    assert_eq!(
                        answer.status, expected,
                        "{protocol:?} {framing:?} {target} {bytes}: {answer:?}"
                    );
                }
            }
            let answer = upload(
                address,
                address,
                protocol,
                "POST",
                "/free/x",
                framing,
                &content(200_000, 200_000),
            );
            assert_eq!(
                answer.status, 200,
                "{protocol:?} {framing:?} without a limit"
            );
        }
    }
    assert!(
        !origin.has_seen(BEYOND),
        "a server was given what goes beyond the limit"
    );
    assert!(
        !program_has_seen(&saker.dir, "www/keep.cgi", BEYOND),
        "a program was given what goes beyond the limit"
    );
}

/// Limits of the server, of a location, of a directory, and of its `.htaccess` file.
#[test]
fn limit_request_body() {
    let (origin, dir) = (Origin::start(), folder("limits-body-apache"));
    for path in ["www/keep.cgi", "www/tight/keep.cgi", "www/free/keep.cgi"] {
        program(&dir, path);
    }
    dir.write("www/tight/.htaccess", "LimitRequestBody 500\n")
        .unwrap();
    dir.write("www/tight/page.html", "page").unwrap();
    dir.write("www/free/.htaccess", "LimitRequestBody 0\n")
        .unwrap();
    let to = origin.address;
    let site = apache(
        dir,
        &format!(
            "LimitRequestBody 1000\nAddHandler cgi-script .cgi\nProxyPass /app http://{to}/\nProxyPass /wide http://{to}/\n\
             <Location /wide>\nLimitRequestBody 2000\n</Location>\n"
        ),
    );
    let attempts = [
        ("GET", "/index.html", 1000),
        ("POST", "/index.html", 1000),
        ("POST", "/keep.cgi", 1000),
        ("POST", "/app/x", 1000),
        ("POST", "/wide/x", 2000),
        ("POST", "/tight/keep.cgi", 500),
        ("GET", "/tight/page.html", 500),
    ];
    for protocol in EVERY {
        for framing in FRAMINGS {
            for (method, target, limit) in attempts {
                for (bytes, expected) in [(limit, 200), (limit + 1, 413)] {
                    let answer = upload(
                        site.plain,
                        site.tls,
                        protocol,
                        method,
                        target,
                        framing,
                        &content(bytes, limit),
                    );
                    assert_eq!(
                        answer.status, expected,
                        "{protocol:?} {framing:?} {method} {target} {bytes}: {answer:?}"
                    );
                }
            }
            let answer = upload(
                site.plain,
                site.tls,
                protocol,
                "POST",
                "/free/keep.cgi",
                framing,
                &content(200_000, 200_000),
            );
            assert_eq!(
                answer.status, 200,
                "{protocol:?} {framing:?} without a limit"
            );
        }
    }
    assert!(
        !origin.has_seen(BEYOND),
        "a server was given what goes beyond the limit"
    );
    for path in ["www/keep.cgi", "www/tight/keep.cgi"] {
        assert!(
            !program_has_seen(&site.dir, path, BEYOND),
            "{path} was given what goes beyond the limit"
        );
    }
}

/// Content that is asked for by 100 (Continue), and sent on though it is over.
#[test]
fn content_that_was_asked_for_is_limited_too() {
    let (origin, dir) = (Origin::start(), folder("limits-continue"));
    let saker = crate::operate::start_in(
        dir,
        &crate::operate::configuration(
            "",
            &format!(
                "body_size = 1000\n\n[[site.route]]\npath = \"/app/*\"\nproxy = \"http://{}\"\n",
                origin.address
            ),
        ),
    );
    for (bytes, expected) in [(1000, "HTTP/1.1 200"), (1001, "HTTP/1.1 413")] {
        let mut stream = TcpStream::connect(saker.server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
            .write_all(
                b"POST /app/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
            )
            .unwrap();
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream
            .write_all(&chunked(&content(bytes, 1000), 97, ""))
            .unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.starts_with(expected.as_bytes()),
            "{bytes}: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert!(!origin.has_seen(BEYOND));
}

fn narrow() -> ApacheSite {
    apache(
        folder("limits-fields"),
        "LimitRequestFieldSize 100\nLimitRequestFields 10\nLimitRequestLine 200\n",
    )
}

/// The status for fields beyond a limit, by protocol as in Apache.
fn beyond(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Plain | Protocol::Http1 => 400,
        Protocol::Http2 | Protocol::Http3 => 431,
    }
}

/// True where mod_http2 counts: joined lines with their name, Host as no field, and the path as the
/// request line.
fn is_multiplexed(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Http2 | Protocol::Http3)
}

/// `LimitRequestFieldSize`: of a line, and of all lines of a name as one value. (One byte more than
/// is said passes in a line, as in Apache; cookies of HTTP/2 are one line.)
#[test]
fn field_sizes() {
    let site = narrow();
    let value = |bytes: usize| "v".repeat(bytes);
    for protocol in EVERY {
        let status = |fields: &[(&str, &str)]| {
            site.ask(
                protocol,
                &Request::get("localhost", "/").with_fields(fields),
            )
            .status
        };
        for (bytes, expected) in [(100, 200), (101, 200), (102, beyond(protocol))] {
            assert_eq!(
                status(&[("x-a", &value(bytes - "x-a: ".len()))]),
                expected,
                "{protocol:?}: a line of {bytes}"
            );
        }
        let (line_max, cookie_max) = match is_multiplexed(protocol) {
            true => (100 - "x-a: ".len(), 101 - "cookie: ".len()),
            false => (100, 100),
        };
        for (more, expected) in [(0, 200), (1, beyond(protocol))] {
            let bytes = line_max + more;
            let (one, other) = (value(50), value(bytes - 50 - ", ".len()));
            assert_eq!(
                status(&[("x-a", &one), ("x-b", "1"), ("X-A", &other)]),
                expected,
                "{protocol:?}: lines that join to {bytes}"
            );
            let bytes = cookie_max + more;
            let other = value(bytes - 50 - "; ".len());
            assert_eq!(
                status(&[("cookie", &one), ("x-b", "1"), ("cookie", &other)]),
                expected,
                "{protocol:?}: cookies that join to {bytes}"
            );
        }
        let (a, b) = (value(60), value(60));
        assert_eq!(
            status(&[("x-a", &a), ("x-b", &b)]),
            200,
            "{protocol:?}: two names"
        );
    }
}

#[test]
fn field_counts_and_request_lines() {
    let site = narrow();
    let names: Vec<String> = (0..12).map(|number| format!("x-{number}")).collect();
    for protocol in EVERY {
        // Host over HTTP/1, and what the test's clients say by themselves.
        let own = match protocol {
            Protocol::Plain | Protocol::Http1 | Protocol::Http2 => 2,
            Protocol::Http3 => 0,
        };
        for (count, expected) in [(10, 200), (11, beyond(protocol))] {
            let fields: Vec<(&str, &str)> = names[..count - own]
                .iter()
                .map(|name| (name.as_str(), "1"))
                .collect();
            let status = site
                .ask(
                    protocol,
                    &Request::get("localhost", "/").with_fields(&fields),
                )
                .status;
            assert_eq!(status, expected, "{protocol:?}: {count} fields");
        }
        let target_max = match is_multiplexed(protocol) {
            true => 200,
            false => 188,
        };
        for (bytes, expected) in [(target_max, 404), (target_max + 1, 414)] {
            let target = format!("/{}", "a".repeat(bytes - 1));
            assert_eq!(
                site.ask(protocol, &Request::get("localhost", &target))
                    .status,
                expected,
                "{protocol:?}: a target of {bytes}"
            );
        }
    }
}

/// Trailers are fields: their sizes and number are those of the head.
#[test]
fn trailers_are_limited_as_fields() {
    let (origin, dir) = (Origin::start(), folder("limits-trailers"));
    let site = apache(
        dir,
        &format!(
            "LimitRequestFieldSize 100\nLimitRequestFields 10\nLimitRequestBody 1000\nProxyPass /app http://{}/\n",
            origin.address
        ),
    );
    let status = |trailers: &str| {
        let mut client = Client::connect(site.plain).unwrap();
        let head = "POST /app/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        client
            .send(
                [
                    head.as_bytes(),
                    &chunked(&content(1000, 1000), 97, trailers),
                ]
                .concat(),
            )
            .unwrap();
        client.read_response().unwrap().status
    };
    let lines = |count: usize| {
        (0..count)
            .map(|number| format!("X-{number}: 1\r\n"))
            .collect::<String>()
    };
    assert_eq!(status(""), 200);
    for (bytes, expected) in [(101, 200), (102, 431)] {
        assert_eq!(
            status(&format!("X-A: {}\r\n", "v".repeat(bytes - 5))),
            expected,
            "a line of {bytes}"
        );
    }
    for (count, expected) in [(10, 200), (11, 431)] {
        assert_eq!(status(&lines(count)), expected, "{count} lines");
    }
}

/// RFC 9114 section 6.2.1, RFC 9204 section 4.2: neither end of a control stream or of QPACK's
/// streams may close it.
#[test]
fn critical_streams_of_http3_must_not_end() {
    let saker = native(folder("limits-critical"), "", "");
    let address = saker.server.address().to_string();
    for way in [Way::Reset, Way::End, Way::Stop] {
        for (which, kind) in [0u8, 2, 3].into_iter().enumerate() {
            let mut connection = http3_client::Client::default().connect(&address);
            // With fields that go into the tables of both sides, so that there is something to say
            // on QPACK's streams.
            for _ in 0..4 {
                assert_eq!(
                    connection
                        .ask("GET", "/", &[("x-table", "entry")], b"")
                        .status,
                    200
                );
            }
            let stream = match connection.peer().control[which] {
                Some(stream) => stream,
                None => {
                    let stream = connection.open_raw(false);
                    connection.write(stream, &[kind], false);
                    assert_eq!(connection.get("/").status, 200);
                    stream
                }
            };
            match way {
                Way::Reset => connection.reset(stream, ErrorCode::NoError),
                Way::End => connection.write(stream, b"", true),
                // The first that the server opens is its control stream.
                Way::Stop => connection.stop(3, ErrorCode::NoError),
            }
            let lost = format!("{:?}", connection.until_lost());
            let code = u64::from(ErrorCode::ClosedCriticalStream);
            assert!(
                lost.contains(&code.to_string()),
                "stream of type {kind}, {way:?}: {lost}"
            );
        }
    }
}

/// Ways to end a stream.
#[derive(Clone, Copy, Debug)]
enum Way {
    Reset,
    End,
    Stop,
}

/// Streams of unknown types may end as they like (RFC 9114 section 6.2.3), and one that ends before
/// its type is none.
#[test]
fn other_streams_of_http3_may_end() {
    let saker = native(folder("limits-uncritical"), "", "");
    let mut connection =
        http3_client::Client::default().connect(&saker.server.address().to_string());
    for ending in 0..3 {
        let stream = connection.open_raw(false);
        match ending {
            0 => connection.write(stream, b"", true),
            1 => connection.write(stream, &[0x21, 1, 2, 3], true),
            _ => {
                connection.write(stream, &[0x21], false);
                assert_eq!(connection.get("/").status, 200);
                connection.reset(stream, ErrorCode::NoError);
            }
        }
        assert_eq!(connection.get("/").status, 200);
    }
}

/// Sends a request and close_notify, then reads on.
const HALF_CLOSE: &str = r#"
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
host, port, path, fin = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
sock = socket.create_connection((host, port), 20)
came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(came, goes, server_hostname='localhost')
def flush():
    data = goes.read()
    if data:
        sock.sendall(data)
def more():
    flush()
    data = sock.recv(65536)
    came.write(data) if data else came.write_eof()
while True:
    try:
        tls.do_handshake()
        break
    except ssl.SSLWantReadError:
        more()
tls.write(('GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n' % path).encode())
flush()
if fin != 'fin':
    try:
        tls.unwrap()
    except ssl.SSLError:
        pass
    flush()
if fin != 'notify':
    sock.shutdown(socket.SHUT_WR)
answer = b''
while not answer.endswith(b'slow'):
    try:
        piece = tls.read(65536)
        if not piece:
            break
        answer += piece
    except ssl.SSLWantReadError:
        more()
    except ssl.SSLError:
        break
sys.stdout.write(answer.decode())
"#;

/// A client that has said all it has to say may end its half, in TLS's words, in TCP's or in both,
/// and still gets its answer.
#[test]
fn half_closed_clients_under_tls_are_answered() {
    let dir = folder("limits-half-closed");
    dir.write(
        "www/slow.cgi",
        "#!/bin/sh\nsleep 1\nprintf 'Content-Type: text/plain\\r\\n\\r\\nslow'\n",
    )
    .unwrap();
    std::fs::set_permissions(
        dir.join("www/slow.cgi"),
        std::fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let saker = native(dir, "", "cgi = [\"*.cgi\"]\n");
    for end in ["notify", "fin", "both"] {
        let mut command = Command::new(require("python3").unwrap());
        let port = saker.server.address().port().to_string();
        let output = command
            .args(["-c", HALF_CLOSE, "127.0.0.1", &port, "/slow.cgi", end])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.starts_with("HTTP/1.1 200") && text.ends_with("slow"),
            "{end}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(
        ask(
            saker.server.address(),
            Protocol::Http1,
            &Request::get("localhost", "/")
        )
        .status,
        200
    );
}

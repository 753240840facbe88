//! Request heads that are not strict: folded lines, and `HttpProtocolOptions Unsafe`, as apache2
//! 2.4.71 answers them, and what of them reaches a backend.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use saker_testkit::{ServerProcess, TempDir, apache2::load_modules, free_port};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

struct Server {
    _process: ServerProcess,
    _dir: TempDir,
    strict: SocketAddr,
    lenient: SocketAddr,
}

impl Server {
    /// A strict address and a lenient one, both with a proxied path.
    fn start(name: &str, backend: SocketAddr) -> Server {
        let dir = TempDir::new(name).unwrap();
        dir.write("www/index.html", "page\n").unwrap();
        let [strict, lenient] =
            [0; 2].map(|_| SocketAddr::from(([127, 0, 0, 1], free_port().unwrap())));
        let modules = load_modules(&["mpm_event", "authz_core", "dir", "proxy", "proxy_http"]);
        let host = |address: SocketAddr, more: &str| {
            format!(
                "Listen {address}\n<VirtualHost {address}>\nDocumentRoot {{dir}}/www\nProxyPass /to/ http://{backend}/\n{more}</VirtualHost>\n"
            )
        };
        let text = format!(
            "ServerRoot {{dir}}\nServerName main.test\nPidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\n{modules}{}{}",
            host(strict, "HttpProtocolOptions Strict\n"),
            host(lenient, "HttpProtocolOptions Unsafe\n"),
        );
        let process = operate::apache(&text).at(strict).start_in(&dir);
        Server {
            _process: process,
            _dir: dir,
            strict,
            lenient,
        }
    }
}

/// Everything that the server answers.
fn answers(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

fn statuses(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("HTTP/1.1 "))
        .map(|line| &line[..3])
        .collect()
}

#[test]
fn what_each_mode_takes() {
    let server = Server::start("apache-heads", "127.0.0.1:9".parse().unwrap());
    let rows = [
        ("GET / HTTP/1.0\n\n", "200", "400"),
        ("G/T / HTTP/1.0\r\n\r\n", "501", "400"),
        ("G\0T / HTTP/1.0\r\n\r\n", "400", "400"),
        ("GET / HTTP/1.0  \r\nHost: a\r\n\r\n", "200", "400"),
        ("GET / HTTP/1.0 x\r\nHost: a\r\n\r\n", "400", "400"),
        ("GET / HTTP/1.0\r\nA: b\x01c\r\n\r\n", "200", "400"),
        ("GET / HTTP/1.0\r\nA: b\0c\r\n\r\n", "400", "400"),
        ("GET / HTTP/1.0\r\nA\x01B: c\r\n\r\n", "200", "400"),
        ("GET / HTTP/1.0\r\nA B: c\r\n\r\n", "400", "400"),
        ("GET / HTTP/1.0\r\nA : c\r\n\r\n", "400", "400"),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", "200", "400"),
        ("GET / HTTP/1.0\r\nHost: a\\b\r\n\r\n", "400", "400"),
        (
            "GET / HTTP/1.0\r\nHost: 4714::abcd:8001\r\n\r\n",
            "200",
            "400",
        ),
        ("GET http://0x7f.1/ HTTP/1.0\r\n\r\n", "200", "400"),
        ("GET http://a@b:80/ HTTP/1.0\r\n\r\n", "200", "400"),
        ("GET http://b:80x/ HTTP/1.0\r\n\r\n", "400", "400"),
        ("GET / HTTP/1.0\r\nA: b\r\n c\r\n\r\n", "200", "200"),
        ("GET / HTTP/1.0\r\n A: b\r\n\r\n", "400", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200", "200"),
    ];
    for (request, lenient, strict) in rows {
        for (address, want) in [(server.lenient, lenient), (server.strict, strict)] {
            let text = answers(address, request);
            assert_eq!(statuses(&text), [want], "{request:?} {text}");
        }
    }
}

/// A repaired request is the last one, and none has content: no byte behind it is a request to one
/// server and content to another.
#[test]
fn nothing_is_smuggled_behind_them() {
    let server = Server::start("apache-heads-smuggling", "127.0.0.1:9".parse().unwrap());
    let second = "GET /second HTTP/1.1\r\nHost: a\r\n\r\n";
    for field in [
        "A: b\r\n c",
        "A: b\x01",
        "A\x01: b",
        "Host: a",
        "Host: 4714::abcd:8001",
    ] {
        let text = answers(
            server.lenient,
            &format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n{second}"),
        );
        assert_eq!(statuses(&text).len(), 1, "{field:?} {text}");
        assert!(!text.contains("second"), "{text}");
    }
    for field in [
        "Content-Length: 5",
        "Content-Length:\r\n 5",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding: \x01chunked",
        "Upgrade: h2c\r\nConnection: upgrade",
    ] {
        for odd in ["A: b\r\n c", "A: b\x01"] {
            let request =
                format!("POST / HTTP/1.1\r\nHost: a\r\n{field}\r\n{odd}\r\n\r\nabcde{second}");
            let text = answers(server.lenient, &request);
            assert_eq!(statuses(&text), ["400"], "{field:?} {odd:?} {text}");
        }
    }
}

#[test]
fn backends_see_strict_heads() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start("apache-heads-backend", listener.local_addr().unwrap());
    let backend = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            head.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            .unwrap();
        String::from_utf8(head).unwrap()
    });
    let text = answers(
        server.lenient,
        "GET http://u@0x7f.1/to/a HTTP/1.0 \nHost: b\nA: b\x01c\n d\nE\x01F: g\nContent-Length\x02: 3\n\nabc",
    );
    assert_eq!(statuses(&text), ["200"], "{text}");
    let head = backend.join().unwrap();
    assert!(head.starts_with("GET /a HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nA: b c d\r\n"), "{head}");
    for gone in [
        "E",
        "Content-Length",
        "0x7f",
        "u@",
        "\x01",
        "\x02",
        "\nHost: b",
    ] {
        let has_field = head
            .lines()
            .any(|line| line.starts_with(&format!("{gone}:")));
        assert!(
            !has_field && (gone.len() == 1 || !head.contains(gone)),
            "{gone:?} {head}"
        );
    }
}

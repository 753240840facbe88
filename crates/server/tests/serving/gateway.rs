//! The gateway behind a real connection: what the client does while a program works, and what that
//! means for both.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Saker, TempDir, free_port, keep_waiting, require};
use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    process::Command,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

/// Event at the upstream: a request arrived (its first line), or its connection ended before the
/// answer.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Request(String),
    Gone,
}

/// Everything below the document root is for a backend that answers after a while.
fn slow_backend(pause: Duration) -> (Saker, Receiver<Seen>) {
    let dir = TempDir::new("gateway").unwrap();
    let listener = UnixListener::bind(dir.join("backend.sock")).unwrap();
    dir.write("root/a.txt", "a").unwrap();
    let modules: String = ["mpm_event", "authz_core", "proxy", "proxy_http"]
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .concat();
    let configuration = format!(
        "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nDocumentRoot {{dir}}/root\n\
         ProxyPass / unix:{}|http://backend/\n",
        dir.join("backend.sock").display()
    );
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || serve(stream, pause, &sender));
        }
    });
    (operate::apache(&configuration).start(dir), receiver)
}

fn serve(mut stream: UnixStream, pause: Duration, seen: &Sender<Seen>) {
    let mut bytes = [0; 4096];
    loop {
        stream.set_read_timeout(None).unwrap();
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => {
                let line = String::from_utf8_lossy(&bytes[..count])
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                let _ = seen.send(Seen::Request(line));
            }
            _ => return,
        }
        stream.set_read_timeout(Some(pause)).unwrap();
        // The time-out is the pause; the end of the stream comes before it.
        if matches!(stream.read(&mut bytes), Ok(0)) {
            let _ = seen.send(Seen::Gone);
            return;
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
    }
}

const LONG: Duration = Duration::from_secs(10);

#[test]
fn a_client_that_goes_before_the_answer_ends_the_request() {
    let (saker, seen) = slow_backend(LONG);
    // With and without its half ended before.
    for ends_half in [false, true] {
        let mut client = saker.connect().unwrap();
        client
            .send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        assert_eq!(
            seen.recv_timeout(LONG).unwrap(),
            Seen::Request("GET /a.txt HTTP/1.1".into())
        );
        if ends_half {
            client.finish_sending().unwrap();
        }
        client.reset().unwrap();
        assert_eq!(
            seen.recv_timeout(Duration::from_secs(5)).unwrap(),
            Seen::Gone
        );
        // The worker is none the worse for it.
        assert_eq!(seen.try_recv().ok(), None);
    }
}

/// `printf … | nc -N`, and health checks that say all they have to say at once.
#[test]
fn a_client_that_ends_its_half_gets_its_answers() {
    let (saker, seen) = slow_backend(Duration::from_millis(700));
    let mut client = saker.connect().unwrap();
    client.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    client.finish_sending().unwrap();
    let response = client.read_response().unwrap();
    assert_eq!((response.status, response.text()), (200, "slow".into()));
    assert!(client.closed_within(LONG), "nothing more can come of it");
    // Pipelined, and with content.
    let mut client = saker.connect().unwrap();
    client.send("GET /two HTTP/1.1\r\nHost: a\r\n\r\nPOST /three HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").unwrap();
    client.finish_sending().unwrap();
    for _ in 0..2 {
        let response = client.read_response().unwrap();
        assert_eq!((response.status, response.text()), (200, "slow".into()));
    }
    assert!(client.closed_within(LONG));
    let targets: Vec<Seen> = seen.try_iter().collect();
    assert_eq!(
        targets,
        ["GET /one", "GET /two", "POST /three"]
            .map(|line| Seen::Request(format!("{line} HTTP/1.1")))
    );
    // Content that ends before its length is none.
    let mut client = saker.connect().unwrap();
    client
        .send("POST /cut HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
        .unwrap();
    client.finish_sending().unwrap();
    assert!(
        client
            .read_response()
            .map_or(true, |response| response.status != 200)
    );
}

#[test]
fn further_requests_may_come_while_the_first_is_answered() {
    let (saker, seen) = slow_backend(Duration::from_millis(300));
    let mut client = saker.connect().unwrap();
    client.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(
        seen.recv_timeout(LONG).unwrap(),
        Seen::Request("GET /one HTTP/1.1".into())
    );
    client
        .send("GET /two HTTP/1.1\r\nHost: a\r\n\r\nGET /thr")
        .unwrap();
    client.pause(Duration::from_millis(50)).unwrap();
    client.send("ee HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    for _ in 0..3 {
        let response = client.read_response().unwrap();
        assert_eq!((response.status, response.text()), (200, "slow".into()));
    }
    let targets: Vec<Seen> = seen.try_iter().collect();
    assert_eq!(
        targets,
        [
            Seen::Request("GET /two HTTP/1.1".into()),
            Seen::Request("GET /three HTTP/1.1".into())
        ]
    );
}

/// `proxy` of a route: the path as it was sent, or behind the server's own; one server that is not
/// there, another that is.
#[test]
fn routes_of_our_own_configuration() {
    let dir = TempDir::new("gateway-native").unwrap();
    let socket = dir.join("app.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let (sender, seen) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || serve(stream, Duration::from_millis(1), &sender));
        }
    });
    dir.write("www/a.txt", "file").unwrap();
    let configuration = format!(
        "[[listener]]\naddress = \"{{address}}\"\n\
         [[upstream]]\nname = \"app\"\nservers = [\"http+unix:{0}/gone.sock\", \"http+unix:{0}/app.sock\"]\n\
         [[site]]\nroot = \"www\"\n[[site.route]]\npath = \"/api/*\"\nproxy = \"app\"\n",
        dir.display()
    );
    let saker = operate::native(&configuration).start(dir);
    let mut client = saker.connect().unwrap();
    for _ in 0..3 {
        let response = client.get("/api/%7Ea/b%20c?x=%20").unwrap();
        assert_eq!((response.status, response.text()), (200, "slow".into()));
        assert_eq!(
            seen.recv_timeout(LONG).unwrap(),
            Seen::Request("GET /api/%7Ea/b%20c?x=%20 HTTP/1.1".into())
        );
    }
    assert_eq!(client.get("/a.txt").unwrap().text(), "file");
}

/// An uploaded picture is no script, whatever follows in the path: a route by name is for files.
#[test]
fn what_is_no_file_is_not_told_to_a_program() {
    let dir = TempDir::new("gateway-files").unwrap();
    let listener = UnixListener::bind(dir.join("php.sock")).unwrap();
    let (sender, seen) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = sender.send(());
        }
    });
    dir.write("www/up/a.jpg", "a picture").unwrap();
    dir.write("www/a.php", "a script").unwrap();
    let configuration = format!(
        "[[listener]]\naddress = \"{{address}}\"\n\
         [[upstream]]\nname = \"php\"\nservers = [\"fcgi+unix:{}/php.sock\"]\n\
         [[site]]\nroot = \"www\"\n[[site.route]]\npath = \"*.php\"\nproxy = \"php\"\n",
        dir.display()
    );
    let saker = operate::native(&configuration).start(dir);
    for path in [
        "/up/a.jpg/x.php",
        "/up/a.jpg%00.php",
        "/none.php",
        "/up/a.jpg/%2e%2e/x.php",
    ] {
        let status = saker.connect().unwrap().get(path).unwrap().status;
        assert!(matches!(status, 400 | 403 | 404), "{path}: {status}");
    }
    assert_eq!(seen.try_recv().ok(), None);
    assert_eq!(saker.connect().unwrap().get("/a.php").unwrap().status, 502);
    assert_eq!(seen.recv_timeout(LONG).ok(), Some(()));
}

/// More than is read ahead for a length.
const CONTENT_BYTES: usize = 40_000;

/// An upstream of one request, which answers with trailers; what it was told.
fn trailing_upstream(socket: &Path) -> Receiver<String> {
    let listener = UnixListener::bind(socket).unwrap();
    // Servers may have changed their user.
    fs::set_permissions(socket, fs::Permissions::from_mode(0o777)).unwrap();
    let (sender, heard) = channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
        // The end of chunks, that of their trailers, or of content with a length.
        let is_over = |all: &[u8]| {
            let has_length = all
                .windows(16)
                .any(|part| part.eq_ignore_ascii_case(b"\r\ncontent-length"));
            all.ends_with(b"\r\n0\r\n\r\n")
                || all.ends_with(b"X-Ask: 1\r\n\r\n")
                || has_length && all.iter().filter(|byte| **byte == b'y').count() >= CONTENT_BYTES
        };
        while !is_over(&all) {
            let count = stream.read(&mut bytes).unwrap();
            all.extend_from_slice(&bytes[..count]);
            if count == 0 {
                break;
            }
        }
        sender
            .send(String::from_utf8_lossy(&all).into_owned())
            .unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 6\r\nContent-Length: 9\r\n\r\n";
        stream.write_all(answer).unwrap();
        // Until the gateway closes its connection.
        let _ = stream.read(&mut bytes);
    });
    heard
}

/// Sends content with trailers; returns what the upstream was told, and the response.
fn with_trailers(saker: &Saker, heard: &Receiver<String>) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(saker.server.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let content = format!("{CONTENT_BYTES:x}\r\n{}\r\n", "y".repeat(CONTENT_BYTES));
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: X-Ask\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    stream
        .write_all(format!("{head}{content}0\r\nX-Ask: 1\r\n\r\n").as_bytes())
        .unwrap();
    let told = heard.recv_timeout(LONG).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (told, answer)
}

fn native_with_trailers(server: &str, route: &str) -> (String, String) {
    let dir = TempDir::new("gateway-trailers").unwrap();
    let heard = trailing_upstream(&dir.join("backend.sock"));
    let configuration = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n{server}\n[[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\n\
         root = \"{{dir}}\"\n\n[[site.route]]\npath = \"/*\"\nproxy = \"http+unix:{}\"\n{route}",
        dir.join("backend.sock").display()
    );
    let saker = operate::native(&configuration).start(dir);
    with_trailers(&saker, &heard)
}

/// Both ways, through HTTP/1.1 on both sides.
#[test]
fn trailers_pass() {
    let (told, answer) = native_with_trailers("", "");
    assert!(
        told.contains("Trailer: X-Ask\r\n") && told.ends_with("0\r\nX-Ask: 1\r\n\r\n"),
        "{told}"
    );
    assert!(
        answer.contains("Trailer: X-Sum\r\n")
            && answer.ends_with("3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n"),
        "{answer}"
    );
}

/// Some programs take trailers for fields of the head, where rules have set or removed these.
#[test]
fn trailers_do_not_pass_by_rules() {
    let is_without = |told: &str| !told.contains("X-Ask") && told.contains("yyy");
    for (server, route) in [
        ("", "upstream_headers = { X-Ask = { remove = true } }\n"),
        ("", "request = { headers = { X-Ask = false } }\n"),
        ("trusted_proxies = [\"192.0.2.1\"]\n", ""),
    ] {
        let (told, answer) = native_with_trailers(server, route);
        assert!(is_without(&told), "{server}{route}{told}");
        assert!(answer.contains("X-Sum: 6\r\n"), "{answer}");
    }
    let dir = TempDir::new("gateway-trailers-nginx").unwrap();
    let heard = trailing_upstream(&dir.join("backend.sock"));
    let configuration = format!(
        "events {{}}\nhttp {{ server {{ listen {{address}}; location / {{ proxy_http_version 1.1; proxy_request_buffering off;\n\
         proxy_pass http://unix:{}:/; }} }} }}\n",
        dir.join("backend.sock").display()
    );
    let saker = operate::nginx(&configuration).start(dir);
    let (told, _) = with_trailers(&saker, &heard);
    assert!(is_without(&told), "nginx: {told}");
    let dir = TempDir::new("gateway-trailers-apache").unwrap();
    let heard = trailing_upstream(&dir.join("backend.sock"));
    let configuration = format!(
        "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
         LoadModule proxy_module modules/mod_proxy.so\nLoadModule proxy_http_module modules/mod_proxy_http.so\n\
         ServerName a\nListen {{address}}\nProxyPass / unix:{}|http://app/\n",
        dir.join("backend.sock").display()
    );
    let saker = operate::apache(&configuration).start(dir);
    let (told, _) = with_trailers(&saker, &heard);
    assert!(is_without(&told), "Apache: {told}");
}

/// Answers each connection's request with hints, and later with the response.
fn hint(listener: &UnixListener) {
    for mut stream in listener.incoming().flatten() {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nSet-Cookie: a=1\r\n\r\n",
        );
        let _ = keep_waiting(&stream, Duration::from_millis(300));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nLink: </a.css>; rel=preload\r\nContent-Length: 5\r\nConnection: close\r\n\r\nafter");
    }
}

fn proxy_to(dir: TempDir, server: &str) -> Saker {
    let configuration = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\n\
         root = \"{{dir}}\"\n\n[[site.route]]\npath = \"/*\"\nproxy = \"{server}\"\n"
    );
    operate::native(&configuration).start(dir)
}

/// Answers each request with what it says of how the client came.
fn tell_scheme(listener: &UnixListener) {
    for mut stream in listener.incoming().flatten() {
        let mut head = [0; 4096];
        let bytes = stream.read(&mut head).unwrap_or_default();
        let head = String::from_utf8_lossy(&head[..bytes]).into_owned();
        let said: Vec<&str> = head
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with("x-forwarded-proto:"))
            .collect();
        let said = said.join("|");
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{said}",
            said.len()
        );
    }
}

#[test]
fn servers_are_told_how_the_client_came() {
    for (key, plain, encrypted) in [
        ("", "http", "https"),
        ("forwarded_proto = false\n", "gopher", "gopher"),
    ] {
        let dir = TempDir::new("gateway-scheme").unwrap();
        let listener = UnixListener::bind(dir.join("app.sock")).unwrap();
        thread::spawn(move || tell_scheme(&listener));
        let secure = free_port().unwrap();
        let configuration = format!(
            "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\n\n[[listener]]\n\
             address = \"127.0.0.1:{secure}\"\ntls = true\n\n[[site]]\nnames = [\"*\"]\nroot = \"{{dir}}\"\ntls.automatic = \"local\"\n\n\
             [[site.route]]\npath = \"/*\"\nproxy = \"http+unix:{{dir}}/app.sock\"\n{key}"
        );
        let saker = operate::native(&configuration).start(dir);
        let told = |url: String| {
            let curl = Command::new(require("curl").unwrap())
                .args(["-skm", "20", "-H", "X-Forwarded-Proto: gopher", &url])
                .output();
            let said = String::from_utf8(curl.unwrap().stdout)
                .unwrap()
                .to_ascii_lowercase();
            said.strip_prefix("x-forwarded-proto: ")
                .unwrap_or(&said)
                .to_owned()
        };
        assert_eq!(told(format!("http://{}/", saker.server.address())), plain);
        assert_eq!(told(format!("https://127.0.0.1:{secure}/")), encrypted);
    }
}

/// RFC 8297, from servers over HTTP/1.1 and over HTTP/2: to clients over HTTP/2 the hints that are
/// links, to those over HTTP/1.1 none.
#[test]
fn early_hints_pass() {
    let dir = TempDir::new("gateway-hints").unwrap();
    let listener = UnixListener::bind(dir.join("app.sock")).unwrap();
    thread::spawn(move || hint(&listener));
    let server = format!("http+unix:{}", dir.join("app.sock").display());
    let near = proxy_to(dir, &server);
    let far = proxy_to(
        TempDir::new("gateway-hints-far").unwrap(),
        &format!("h2c://{}", near.server.address()),
    );
    let heard = |saker: &Saker, how: &str| {
        let url = format!("http://{}/", saker.server.address());
        let output = Command::new(require("curl").unwrap())
            .args(["-sS", "-i", "-m", "20", how, &url])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    for saker in [&near, &far] {
        let got = heard(saker, "--http2-prior-knowledge");
        let (hints, response) = got.split_once("\r\n\r\n").unwrap();
        assert!(
            hints.starts_with("HTTP/2 103")
                && hints.ends_with("\r\nlink: </a.css>; rel=preload")
                && !hints.contains("cookie"),
            "{got}"
        );
        assert!(
            response.starts_with("HTTP/2 200") && response.contains("\r\nlink: </a.css>"),
            "{got}"
        );
        assert!(response.ends_with("\r\n\r\nafter"), "{got}");
        let got = heard(saker, "--http1.1");
        assert!(
            // Names that came over HTTP/2 are in lower case.
            got.to_ascii_lowercase()
                .starts_with("http/1.1 103 early hints\r\nlink: </a.css>")
                && got.contains("\r\n\r\nHTTP/1.1 200 OK\r\n")
                && !got.contains("ookie")
                && got.ends_with("\r\n\r\nafter"),
            "{got}"
        );
        let got = heard(saker, "--http1.0");
        assert!(
            got.starts_with("HTTP/1.1 200") && got.ends_with("\r\n\r\nafter"),
            "{got}"
        );
    }
}

/// Behind `ProxyPass` with `ping=`.
fn pinged(name: &str, scheme: &str, serve: fn(&mut UnixStream)) -> Saker {
    let dir = TempDir::new(name).unwrap();
    let listener = UnixListener::bind(dir.join("backend.sock")).unwrap();
    dir.write("root/a.txt", "a").unwrap();
    let modules: String = [
        "mpm_event",
        "authz_core",
        "proxy",
        "proxy_http",
        "proxy_ajp",
    ]
    .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
    .concat();
    let configuration = format!(
        "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nDocumentRoot {{dir}}/root\n\
         ProxyPass / unix:{}|{scheme}://backend/ ping=700ms retry=0\n",
        dir.join("backend.sock").display()
    );
    thread::spawn(move || {
        listener
            .incoming()
            .flatten()
            .for_each(|mut stream| serve(&mut stream))
    });
    operate::apache(&configuration).start(dir)
}

fn heard(stream: &mut UnixStream, pause_ms: u64) -> Vec<u8> {
    let mut bytes = [0; 4096];
    stream
        .set_read_timeout(Some(Duration::from_millis(pause_ms)))
        .unwrap();
    let count = stream.read(&mut bytes).unwrap_or(0);
    bytes[..count].to_vec()
}

/// RFC 9110 section 10.1.1: content goes when the server has said that it wants it, and to none
/// that is silent.
#[test]
fn servers_are_asked_before_content_is_sent() {
    let saker = pinged("gateway-ping", "http", |stream| {
        let head = String::from_utf8(heard(stream, 5000)).unwrap();
        let asks = head.contains("\r\nExpect: 100-continue\r\n");
        let nothing = heard(stream, 200).is_empty() && head.ends_with("\r\n\r\n");
        if head.contains("/silent") {
            // The request is given up, without its content.
            let _ = heard(stream, 5000);
            return;
        }
        if head.contains("/refused") {
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
            return;
        }
        let content = if asks {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
            String::from_utf8(heard(stream, 5000)).unwrap()
        } else {
            String::new()
        };
        // Longer than the ping may take: from here on the other time limit holds.
        let _ = keep_waiting(&*stream, Duration::from_millis(900));
        let answer = format!("{asks} {nothing} {content}");
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        );
    });
    let rows = [
        ("POST", "/a", "abc", 200, "true true abc"),
        ("GET", "/a", "", 200, "false true "),
        ("POST", "/refused", "abc", 403, "no"),
    ];
    for (method, path, content, status, answer) in rows {
        let mut client = saker.connect().unwrap();
        let length = if content.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", content.len())
        };
        client
            .send(format!(
                "{method} {path} HTTP/1.1\r\nHost: a\r\n{length}\r\n{content}"
            ))
            .unwrap();
        let response = client.read_response().unwrap();
        assert_eq!(
            (response.status, response.text().as_str()),
            (status, answer),
            "{method} {path}"
        );
    }
    let mut client = saker.connect().unwrap();
    client
        .send("POST /silent HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 503);
}

/// CPING and CPONG before each request; a connection that is silent is given up for a fresh one.
#[test]
fn ajp_servers_are_asked_before_each_request() {
    let saker = pinged("gateway-ajp-ping", "ajp", |stream| {
        assert_eq!(heard(stream, 5000), [0x12, 0x34, 0, 1, 10]);
        assert_eq!(heard(stream, 100), Vec::<u8>::new());
        stream.write_all(&[b'A', b'B', 0, 1, 9]).unwrap();
        assert_eq!(heard(stream, 5000).get(..2), Some(&[0x12, 0x34][..]));
        let body = [&[b'A', b'B', 0, 8, 3, 0, 4][..], b"here\0"].concat();
        stream
            .write_all(&[b'A', b'B', 0, 10, 4, 0, 200, 0, 2, b'O', b'K', 0, 0, 0])
            .unwrap();
        stream.write_all(&body).unwrap();
        stream.write_all(&[b'A', b'B', 0, 2, 5, 1]).unwrap();
        // The second request finds this connection mute.
        let ping = heard(stream, 3000);
        // Nothing but the ping comes over it any more, and then its end.
        assert!(
            ping.is_empty() || ping == [0x12, 0x34, 0, 1, 10] && heard(stream, 3000).is_empty(),
            "{ping:?}"
        );
    });
    for _ in 0..2 {
        let response = saker.connect().unwrap().get("/a").unwrap();
        assert_eq!((response.status, response.text().as_str()), (200, "here"));
    }
}

//! Clients beside nginx: those that leave while an upstream is silent, the speed at which they get
//! responses, and what upstreams say for them (`X-Accel-Charset`, reason phrases).
//!
//! Called by: `cargo test -p saker --test applications nginx_clients`.
//! Caveat: the upstream is the test's; it closes each connection.
//! Out of scope: heads and framing that clients send (`nginx_protocol`).

use crate::nginx_pair::Pair;
use saker_testkit::{
    Client, PATIENCE,
    frames::{self, Frames, block},
    wait_until,
};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// An upstream that answers by path, and the paths whose connections the server has closed while
/// nothing was said.
#[derive(Clone, Default)]
struct Origin {
    left: Arc<Mutex<Vec<String>>>,
}

/// Silence that no client waits for.
const SILENCE: Duration = Duration::from_secs(20);
/// Silence that is longer than the time limits of the configuration.
const PAUSE: Duration = Duration::from_millis(2500);

impl Origin {
    fn start() -> (Origin, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let origin = Origin::default();
        let own = origin.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                thread::spawn(move || own.answer(stream));
            }
        });
        (origin, address)
    }

    fn answer(&self, mut stream: TcpStream) {
        let (mut head, mut piece) = (String::new(), [0; 4096]);
        while !head.contains("\r\n\r\n") {
            match stream.read(&mut piece) {
                Ok(length @ 1..) => head.push_str(&String::from_utf8_lossy(&piece[..length])),
                _ => return,
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let say = |mut stream: &TcpStream, text: &[u8]| {
            let _ = stream.write_all(text);
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        match name.split('?').next().unwrap_or_default() {
            "silent" => {}
            "middle" => say(&stream, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
            "pause" => {
                say(&stream, b"HTTP/1.1 200 OK\r\nX-Early: 1\r\n\r\n");
                thread::sleep(PAUSE);
                say(&stream, b"late");
                return;
            }
            "reason" => {
                return say(&stream, b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nok");
            }
            "odd" => {
                return say(&stream, b"HTTP/1.1 599 Odd\r\nContent-Length: 2\r\n\r\nok");
            }
            "spaces" => {
                let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3  \r\nabc\n2\nde\r\n0\r\n\r\n";
                return say(&stream, text);
            }
            "charset" => {
                let text = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Accel-Charset: koi8-r\r\nContent-Length: 2\r\n\r\n\xc1a";
                return say(&stream, text);
            }
            "named" => {
                let text = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=iso-8859-1\r\nX-Accel-Charset: koi8-r\r\nContent-Length: 2\r\n\r\n\xc1a";
                return say(&stream, text);
            }
            _ => return,
        }
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        if matches!(stream.read(&mut piece), Ok(0)) {
            self.left.lock().unwrap().push(path.to_owned());
        }
    }

    fn has_lost(&self, path: &str) -> bool {
        self.left.lock().unwrap().iter().any(|left| left == path)
    }
}

const LEAVING: &str = "== http\nlog_format short '$request|$status|$upstream_status';\n\
    limit_req_zone $server_port zone=few:1m rate=6r/m;\n\
    server { listen {ip}:{p}; access_log {dir}/left.log short; send_timeout 1s;\n\
    location /delayed { limit_req zone=few burst=5; empty_gif; }\n\
    location /up/ { proxy_pass http://{origin}/; }\n\
    location /parts { ssi on; default_type text/html; return 200 '<!--#include virtual=\"/up/silent?part-{ip}\" -->'; }\n\
    location /at-once/ { proxy_buffering off; proxy_pass http://{origin}/; }\n\
    location /ignored/ { proxy_ignore_client_abort on; proxy_pass http://{origin}/; } }";

fn open(address: SocketAddr, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    client
}

/// A client that leaves ends its request at once, before a response and in the middle of one; its
/// upstream is closed, unless `proxy_ignore_client_abort` says otherwise.
#[test]
fn nginx_clients_that_leave_end_their_requests() {
    let (origin, address) = Origin::start();
    let pair = Pair::start(
        "nginx-clients-leave",
        &[("origin", address.to_string())],
        LEAVING,
    );
    let asked = |name: &str, ip: &str| format!("/{name}?{ip}");
    let mut held = Vec::new();
    for (_, ip) in &pair.servers {
        let server = SocketAddr::from((*ip, pair.port));
        // What is closed in one direction has been left, too.
        for (place, name, closes) in [
            ("up", "silent", true),
            ("up", "silent", false),
            ("at-once", "middle", true),
            ("at-once", "middle", false),
        ] {
            let text = format!("{ip}-{closes}");
            let mut client = open(server, &format!("/{place}{}", asked(name, &text)));
            if name == "middle" {
                let mut begun = [0; 15];
                client.read_exact(&mut begun).unwrap();
            } else {
                thread::sleep(Duration::from_millis(200));
            }
            if closes {
                drop(client);
            } else {
                client.shutdown(std::net::Shutdown::Write).unwrap();
                held.push(client);
            }
            let path = asked(name, &text);
            wait_until("the upstream is closed", || origin.has_lost(&path));
        }
        // A part of a page is a part of the response.
        let client = open(server, "/parts");
        thread::sleep(Duration::from_millis(200));
        drop(client);
        let path = asked("silent", &format!("part-{ip}"));
        wait_until("the upstream is closed", || origin.has_lost(&path));
        let text = ip.to_string();
        drop(open(server, &format!("/ignored{}", asked("silent", &text))));
        thread::sleep(Duration::from_millis(300));
        assert!(!origin.has_lost(&asked("silent", &text)), "{ip}");
    }
    let mut lines = pair.logs("left.log", 5);
    assert_eq!(lines.pop().as_deref(), Some("GET /parts HTTP/1.1|499|-"));
    let silent = "GET /up/silent?127.0.0.1-C HTTP/1.1|499|-";
    let middle = "GET /at-once/middle?127.0.0.1-C HTTP/1.1|200|200";
    let expected: Vec<String> = [silent, silent, middle, middle]
        .iter()
        .zip(["true", "false", "true", "false"])
        .map(|(line, closes)| line.replace("-C", &format!("-{closes}")))
        .collect();
    assert_eq!(lines, expected);
    for mut client in held {
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty() || !rest.starts_with(b"HTTP"), "{rest:?}");
    }
    let text = "epoll_wait() reported that client prematurely closed connection, so upstream \
                connection is closed too while ";
    for what in ["sending request to upstream", "reading upstream"] {
        let words = format!("{text}{what}, client: 127.0.0.1, server: , request: \"GET ");
        wait_until("the log tells of the client", || {
            let log = fs::read_to_string(pair.dir.join("saker/error.log")).unwrap();
            log.contains(&words)
        });
    }
}

/// A request that is held back is over when its client leaves.
#[test]
fn nginx_clients_that_leave_are_not_delayed() {
    let (_, address) = Origin::start();
    let given = [("origin", address.to_string())];
    let pair = Pair::start("nginx-clients-delay", &given, LEAVING);
    for (_, ip) in &pair.servers {
        let server = SocketAddr::from((*ip, pair.port));
        let mut all = Vec::new();
        open(server, "/delayed").read_to_end(&mut all).unwrap();
        assert!(all.starts_with(b"HTTP/1.1 200"), "{all:?}");
        let second = open(server, "/delayed");
        thread::sleep(Duration::from_millis(200));
        drop(second);
    }
    let begun = Instant::now();
    let lines = pair.logs("left.log", 2);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let expected = ["GET /delayed HTTP/1.1|200|-", "GET /delayed HTTP/1.1|499|-"];
    assert_eq!(lines, expected);
}

/// The time limit of sending is for clients that take nothing, not for upstreams that say nothing; and
/// without buffering, a head does not wait for content.
#[test]
fn nginx_clients_wait_for_silent_upstreams() {
    let (_, address) = Origin::start();
    let pair = Pair::start(
        "nginx-clients-wait",
        &[("origin", address.to_string())],
        LEAVING,
    );
    for (place, is_prompt) in [("up", false), ("at-once", true)] {
        pair.both(|server| {
            let begun = Instant::now();
            let mut client = open(server, &format!("/{place}/pause"));
            let mut start = [0; 15];
            client.read_exact(&mut start).unwrap();
            let is_early = begun.elapsed() < PAUSE / 2;
            let mut rest = String::new();
            client.read_to_string(&mut rest).unwrap();
            assert!(!is_prompt || is_early, "the head came late");
            assert!(begun.elapsed() >= PAUSE);
            (rest.contains("late"), rest.ends_with("0\r\n\r\n"))
        });
    }
    pair.logs("left.log", 2);
}

const LEFT: &str = "== http\nlog_format short '$request|$status|$body_bytes_sent';\n\
    server { listen {ip}:{p} http2; access_log {dir}/other.log short; return 200 other; }\n\
    server { listen {ip}:{p} http2; server_name left.test; access_log {dir}/left.log short;\n\
    location / { proxy_pass http://{origin}; } }";

/// The line of a request over HTTP/2 whose client leaves is that of its request, in the log of its server.
#[test]
fn nginx_clients_that_leave_http2_are_logged() {
    let (origin, address) = Origin::start();
    let pair = Pair::start(
        "nginx-clients-http2",
        &[("origin", address.to_string())],
        LEFT,
    );
    for (_, ip) in &pair.servers {
        let path = format!("/silent?{ip}");
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", path.as_str()),
            (":authority", "left.test"),
        ];
        let mut client = Frames::connect(SocketAddr::from((*ip, pair.port))).unwrap();
        let flags = frames::END_HEADERS | frames::END_STREAM;
        client
            .send(frames::HEADERS, flags, 1, &block(&fields))
            .unwrap();
        thread::sleep(Duration::from_millis(300));
        client
            .send(frames::RST_STREAM, 0, 1, &8_u32.to_be_bytes())
            .unwrap();
        wait_until("the upstream is closed", || origin.has_lost(&path));
        drop(client);
    }
    let lines = pair.logs("left.log", 1);
    assert_eq!(lines, ["GET /silent?127.0.0.1 HTTP/2.0|499|0"]);
}

const RATES: &str = "== http\nlog_format sent '$request|$status|$body_bytes_sent';\n\
    server { listen {ip}:{p}; root {shared}/www; access_log {dir}/sent.log sent;\n\
    location /one/ { limit_rate 1000; }\n\
    location /after/ { limit_rate 1000; limit_rate_after 1500; }\n\
    location /named/ { limit_rate $arg_rate; }\n\
    location /chunked/ { ssi on; } }";

/// Each response has its rate for itself, however low that is: a second's worth for each second.
#[test]
fn nginx_clients_get_responses_at_their_rates() {
    let pair = Pair::start("nginx-clients-rates", &[], RATES);
    for name in ["one", "after", "named"] {
        let text = "x".repeat(3000);
        pair.dir.write(&format!("www/{name}/f.txt"), &text).unwrap();
    }
    pair.dir.write("www/chunked/f.html", "<p>page</p>").unwrap();
    let time = |server: SocketAddr, path: &str| {
        let mut client = open(server, path);
        let begun = Instant::now();
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        assert!(all.windows(15).any(|part| part == [b'x'; 15]) && all.len() > 3000);
        begun.elapsed().as_millis()
    };
    for (_, ip) in &pair.servers {
        let server = SocketAddr::from((*ip, pair.port));
        for path in ["/one/f.txt", "/after/f.txt", "/named/f.txt?rate=1000"] {
            let least = if path.starts_with("/after") { 400 } else { 900 };
            let ms = time(server, path);
            assert!((least..=6000).contains(&ms), "{ip} {path}: {ms}");
        }
        let ms = time(server, "/named/f.txt?rate=0");
        assert!(ms < 800, "{ip}: {ms}");
    }
    // The number of bytes behind the head has the framing of chunks in it.
    pair.both(|server| {
        let mut client = open(server, "/chunked/f.html");
        let mut all = String::new();
        client.read_to_string(&mut all).unwrap();
        all.ends_with("b\r\n<p>page</p>\r\n0\r\n\r\n")
    });
    let lines = pair.logs("sent.log", 5);
    assert_eq!(lines[4], "GET /chunked/f.html HTTP/1.1|200|21");
}

const SAID: &str = "== http\nproxy_cache_path {dir}/cache keys_zone=zone:1m;\n\
    charset_map koi8-r utf-8 { C1 D0B0; }\n\
    server { listen {ip}:{p};\n\
    location / { proxy_pass http://{origin}; }\n\
    location /cached/ { proxy_cache zone; proxy_cache_valid any 1m; proxy_cache_key $uri; proxy_pass http://{origin}/; }\n\
    location /source/ { source_charset koi8-r; override_charset on; charset utf-8; proxy_pass http://{origin}/; }\n\
    location /other/ { proxy_ignore_headers X-Accel-Charset; override_charset on; charset utf-8; proxy_pass http://{origin}/; }\n\
    location /unheeded/ { proxy_ignore_headers X-Accel-Charset; proxy_pass http://{origin}/; } }";

/// Words of upstreams for clients get to them: reason phrases, from a cache, too, and charsets.
#[test]
fn nginx_clients_hear_what_upstreams_say() {
    let (_, address) = Origin::start();
    let pair = Pair::start(
        "nginx-clients-hear",
        &[("origin", address.to_string())],
        SAID,
    );
    let answer = |path: &str| {
        pair.both(|server| {
            let mut client = open(server, path);
            let mut all = Vec::new();
            client.read_to_end(&mut all).unwrap();
            let text: String = all.iter().map(|byte| *byte as char).collect();
            let (head, content) = text.split_once("\r\n\r\n").unwrap();
            let kind = head.lines().find(|line| line.starts_with("Content-Type"));
            let first = head.lines().next().unwrap_or_default();
            format!("{first}|{}|{content}", kind.unwrap_or_default())
        })
    };
    for path in ["/reason", "/cached/reason", "/cached/reason"] {
        assert_eq!(answer(path), "HTTP/1.1 200 Fine||ok", "{path}");
    }
    for path in ["/cached/odd", "/cached/odd"] {
        assert_eq!(answer(path), "HTTP/1.1 599 Odd||ok", "{path}");
    }
    let (plain, koi8) = ("Content-Type: text/html", "; charset=koi8-r");
    for (path, charset) in [
        ("/charset", koi8),
        ("/unheeded/charset", ""),
        ("/named", "; charset=iso-8859-1"),
        ("/source/charset", koi8),
        ("/other/named", "; charset=iso-8859-1"),
    ] {
        let expected = format!("HTTP/1.1 200 OK|{plain}{charset}|\u{c1}a");
        assert_eq!(answer(path), expected, "{path}");
    }
    // Blanks behind sizes, and lines without CR, as some servers write them.
    let text = answer("/spaces");
    assert!(text.contains("abc") && text.contains("de"), "{text}");
}

const COUNTED: &str = "== http\nserver { listen {ip}:{p};\n\
    location /status { stub_status; }\n\
    location /counts { return 200 '$connections_active $connections_reading $connections_writing $connections_waiting'; } }";

/// Connections are counted by what they do, in variables as on the page.
#[test]
fn nginx_clients_are_counted() {
    let pair = Pair::start("nginx-clients-counted", &[], COUNTED);
    pair.both(|server| {
        let mut idle = Client::connect(server).unwrap();
        idle.send("GET /counts HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        assert_eq!(idle.read_response().unwrap().status, 200);
        let mut begun = TcpStream::connect(server).unwrap();
        begun.write_all(b"GET /counts HTTP/1.1\r\nHo").unwrap();
        let page = |path: &str| {
            let mut all = String::new();
            open(server, path).read_to_string(&mut all).unwrap();
            all.split_once("\r\n\r\n").unwrap().1.to_owned()
        };
        wait_until("what has begun is counted", || page("/counts") == "3 1 1 1");
        page("/status").contains("Reading: 1 Writing: 1 Waiting: 1")
    });
}

const PROGRAM: &str = "== http\nserver { listen {ip}:{p};\n\
    location / { fastcgi_pass {program}; fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param REQUEST_METHOD $request_method; } }";

/// Answers with the parameters and the content of a FastCGI request, and complains.
fn program(mut stream: TcpStream) {
    let (mut asked, mut piece) = (Vec::new(), [0; 4096]);
    // The empty record that ends the content.
    let is_end = |asked: &[u8]| matches!(asked, [.., 1, 5, 0, 1, 0, 0, _, 0]);
    while !is_end(&asked) {
        match stream.read(&mut piece) {
            Ok(length @ 1..) => asked.extend_from_slice(&piece[..length]),
            _ => return,
        }
    }
    let name = b"CONTENT_LENGTH";
    let at = asked
        .windows(name.len())
        .position(|part| part == name)
        .unwrap();
    let length = usize::from(asked[at - 1]);
    let value = &asked[at + name.len()..at + name.len() + length];
    let has_content = asked.windows(7).any(|part| part == b"content");
    let value = String::from_utf8_lossy(value);
    let text = format!("Content-Type: text/plain\r\n\r\n{value} {has_content}");
    let mut out = Vec::new();
    for (kind, content) in [
        (7, "a complaint"),
        (6, &text),
        (6, ""),
        (3, "\0\0\0\0\0\0\0\0"),
    ] {
        out.extend_from_slice(&[1, kind, 0, 1, 0, content.len() as u8, 0, 0]);
        out.extend_from_slice(content.as_bytes());
    }
    let _ = stream.write_all(&out);
}

/// Content that comes in chunks has a length for programs; and what they complain of is told with the
/// request.
#[test]
fn nginx_clients_send_programs_chunks() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(program));
    let pair = Pair::start(
        "nginx-clients-chunks",
        &[("program", address.to_string())],
        PROGRAM,
    );
    let ask = |rest: &str| {
        pair.both(|server| {
            let mut client = Client::connect(server).unwrap();
            let head = "POST /upload HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
            client.send(format!("{head}{rest}")).unwrap();
            String::from_utf8(client.read_response().unwrap().body).unwrap()
        })
    };
    let chunks = "Transfer-Encoding: chunked\r\n\r\n3\r\nthe\r\n7\r\ncontent\r\n0\r\n\r\n";
    assert_eq!(ask(chunks), "10 true");
    assert_eq!(ask("Content-Length: 7\r\n\r\ncontent"), "7 true");
    let words = "FastCGI sent in stderr: \"a complaint\" while reading response header from upstream, \
                 client: 127.0.0.1, server: , request: \"POST /upload HTTP/1.1\", upstream: \
                 \"fastcgi://";
    for folder in ["nginx", "saker"] {
        wait_until("the complaint is logged", || {
            let log = fs::read_to_string(pair.dir.join(folder).join("error.log")).unwrap();
            log.contains(words)
        });
    }
}

const SHOWN: &str = "== http\nserver { listen {ip}:{p};\n\
    location / { proxy_pass https://{ip}:{q}; proxy_ssl_session_reuse off; proxy_ssl_certificate $arg_c; proxy_ssl_certificate_key {shared}/$arg_k; } }\n\
    server { listen {ip}:{q} ssl; ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem;\n\
    ssl_verify_client optional_no_ca; return 200 'shown: $ssl_client_s_dn'; }";

/// The certificate that an upstream is shown may depend on the request. (In sessions that nginx resumes, it
/// is the one before.)
#[test]
fn nginx_clients_choose_certificates_for_upstreams() {
    let pair = Pair::start("nginx-clients-shown", &[], SHOWN);
    for key in ["key.pem", "stranger.key", "other.key"] {
        let mode = fs::Permissions::from_mode(0o644);
        fs::set_permissions(pair.dir.join(key), mode).unwrap();
    }
    let ask = |query: &str| {
        pair.both(|server| {
            let mut all = String::new();
            let mut client = open(server, &format!("/?{query}"));
            client.read_to_string(&mut all).unwrap();
            let (head, content) = all.split_once("\r\n\r\n").unwrap();
            let status = head.split(' ').nth(1).unwrap_or_default();
            match status {
                "200" => content.to_owned(),
                status => status.to_owned(),
            }
        })
    };
    let of = |name: &str| {
        let file = pair.dir.join(format!("{name}.pem"));
        format!("c={}&k={name}.key", file.display())
    };
    for _ in 0..2 {
        assert_eq!(ask(&of("stranger")), "shown: CN=stranger.test");
        assert_eq!(ask(&of("other")), "shown: CN=other.test");
    }
    assert_eq!(ask("c=&k=other.key"), "shown: ");
}

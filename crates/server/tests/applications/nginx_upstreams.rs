//! Upstreams that misbehave, beside nginx: what the error log says of them, what access logs tell of
//! the exchange, and which member is asked next.
//!
//! Called by: `cargo test -p saker --test applications nginx_upstreams`.
//! Caveat: the upstream closes each connection; process ids and numbers of connections are left out.

use crate::nginx_pair::Pair;
use saker_testkit::{Client, wait_until};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Starts an upstream that answers by path.
fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let Some((head, content)) = request(&mut stream) else {
        return;
    };
    let path = head.split(' ').nth(1).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let text = match name {
        "nothing" => String::new(),
        "half" => "HTTP/1.1 200 OK\r\nX-Half: ".to_owned(),
        "name" => "HTTP/1.1 200 OK\r\nX Name: a\r\n\r\n".to_owned(),
        "long" => format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(70_000)),
        "cut" => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\ncut".to_owned(),
        "held" => {
            let part = "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\npart";
            let _ = stream.write_all(part.as_bytes());
            // Until the server goes.
            let _ = stream.read(&mut [0]);
            return;
        }
        "bad" => "HTTP/1.1 503 Bad\r\nContent-Length: 3\r\n\r\nbad".to_owned(),
        _ => format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}",
            content.len()
        ),
    };
    let _ = stream.write_all(text.as_bytes());
}

/// The head of a request and its content.
fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut piece).ok().filter(|length| *length > 0)?;
        read.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, content)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let said = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.parse().ok())?
        });
        if content.len() >= said.unwrap_or(0) {
            return Some((head.to_owned(), content.to_owned()));
        }
    }
}

const LOCATIONS: &str = "== http\nlog_format told '$request|$upstream_addr|$upstream_status|$upstream_bytes_sent|$upstream_bytes_received|$upstream_response_length|$request_completion|$pipe';\n\
    log_format times '$upstream_connect_time $upstream_header_time $upstream_response_time';\n\
    upstream dead { server {dead}; server 127.0.0.3:1; }\n\
    upstream two { server {origin} max_fails=0; server {origin} max_fails=0; }\n\
    upstream few { server {origin} max_conns=1; }\n\
    upstream fewer { server {origin} max_conns=1; server {dead} backup; }\n\
    server { listen {ip}:{p}; server_name logs.test; proxy_http_version 1.0; access_log {dir}/told.log told; access_log {dir}/times.log times;\n\
    location / { proxy_pass http://{origin}; }\n\
    location /dead { proxy_pass http://dead; }\n\
    location /socket { proxy_pass http://unix:/nowhere/socket:/; }\n\
    location /next/ { proxy_next_upstream http_503 non_idempotent; proxy_pass http://two; }\n\
    location /few/ { proxy_buffering off; proxy_pass http://few; } location /fewer/ { proxy_buffering off; proxy_pass http://fewer; }\n\
    location /once/ { proxy_next_upstream http_503; proxy_pass http://two; }\n\
    location /elsewhere/ { client_max_body_size 3m; proxy_intercept_errors on; error_page 502 503 = @elsewhere; proxy_pass http://{origin}; }\n\
    location @elsewhere { client_max_body_size 3m; rewrite ^ /whole break; proxy_pass http://{origin}; }\n\
    location /port { proxy_pass http://$arg_to:1; }\n\
    location /variable { proxy_pass http://$arg_to; } }";

/// Asks both servers for paths, and returns the statuses of each.
fn ask(pair: &Pair, method: &str, paths: &[&str]) -> [Vec<u16>; 2] {
    pair.servers.each_ref().map(|(_, ip)| {
        let ask = |path: &&str| {
            let mut client = Client::connect(SocketAddr::from((*ip, pair.port))).unwrap();
            let content = if method == "POST" { "content" } else { "" };
            let length = match content {
                "" => String::new(),
                content => format!("Content-Length: {}\r\n", content.len()),
            };
            let head =
                format!("{method} {path} HTTP/1.1\r\nHost: logs.test\r\n{length}\r\n{content}");
            client.send(head).unwrap();
            client.read_response().map_or(0, |response| response.status)
        };
        paths.iter().map(ask).collect()
    })
}

/// The lines of a log of both servers, when each has so many.
fn lines(
    pair: &Pair,
    file: &str,
    count: usize,
    is_wanted: &dyn Fn(&str) -> bool,
) -> [Vec<String>; 2] {
    ["nginx", "saker"].map(|folder| {
        let path = pair.dir.join(folder).join(file);
        let mut found: Vec<String> = Vec::new();
        wait_until("the log has its lines", || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let text = text.replace("127.0.0.2", "127.0.0.1");
            found = text
                .lines()
                .filter(|line| is_wanted(line))
                .map(str::to_owned)
                .collect();
            found.len() >= count
        });
        found
    })
}

#[test]
fn nginx_upstreams_fail_in_nginxs_words() {
    let pair = Pair::start(
        "nginx-upstreams-log",
        &[("origin", start().to_string())],
        LOCATIONS,
    );
    let paths = [
        "/nothing",
        "/half",
        "/long",
        "/dead",
        "/dead",
        "/socket",
        "/variable",
        "/port",
    ];
    let [reference, saker] = ask(&pair, "GET", &paths);
    assert_eq!(reference, [502, 502, 502, 502, 502, 502, 500, 500]);
    assert_eq!(saker, reference);
    let is_wanted = |line: &str| line.contains(", request: ") && !line.contains("client closed");
    let without_numbers = |line: &String| {
        let (level, rest) = line.split_once('[').unwrap().1.split_once(']').unwrap();
        let (_, rest) = rest.split_once('*').unwrap();
        format!("[{level}] {}", rest.split_once(' ').unwrap().1)
    };
    let [reference, saker] = lines(&pair, "error.log", 11, &is_wanted)
        .map(|lines| lines.iter().map(without_numbers).collect::<Vec<_>>());
    assert_eq!(saker, reference);
    let all = reference.join("\n");
    for text in [
        "upstream prematurely closed connection while reading response header from upstream",
        "upstream sent too big header while reading response header from upstream",
        "connect() failed (111: Connection refused) while connecting to upstream",
        "upstream server temporarily disabled while connecting to upstream",
        "no live upstreams while connecting to upstream",
        "[crit] connect() to unix:/nowhere/socket failed (2: No such file or directory)",
        "invalid URL prefix in \"http://\"",
        "no host in upstream \":1\"",
    ] {
        assert!(all.contains(text), "{text}: {all}");
    }
}

#[test]
fn nginx_upstreams_are_told_of_in_access_logs() {
    let pair = Pair::start(
        "nginx-upstreams-told",
        &[("origin", start().to_string())],
        LOCATIONS,
    );
    let paths = ["/whole", "/bad", "/nothing", "/next/bad", "/once/bad"];
    let [reference, saker] = ask(&pair, "GET", &paths);
    assert_eq!(saker, reference);
    let [reference, saker] = lines(&pair, "told.log", paths.len(), &|_| true);
    assert_eq!(saker, reference);
    let [_, times] = lines(&pair, "times.log", paths.len(), &|_| true);
    assert!(
        times[0].split(' ').all(|time| time.starts_with("0.")),
        "{times:?}"
    );
    assert!(times[2].split(' ').nth(1) == Some("-"), "{times:?}");
}

/// Content that a member got goes to the next one only where the configuration says so.
#[test]
fn nginx_upstreams_get_content_again() {
    let pair = Pair::start(
        "nginx-upstreams-again",
        &[("origin", start().to_string())],
        LOCATIONS,
    );
    let paths = ["/next/bad", "/once/bad", "/next/whole"];
    let [reference, saker] = ask(&pair, "POST", &paths);
    assert_eq!(
        (reference.as_slice(), &saker),
        (&[503, 503, 200][..], &reference)
    );
    let [reference, saker] = lines(&pair, "told.log", paths.len(), &|_| true);
    let statuses = |line: &String| line.split('|').nth(2).unwrap().to_owned();
    let told: Vec<String> = saker.iter().map(statuses).collect();
    assert_eq!(told, ["503, 503", "503", "200"]);
    assert_eq!(reference.iter().map(statuses).collect::<Vec<_>>(), told);
    let bytes = |line: &String| {
        line.split('|')
            .skip(3)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        bytes(&saker[2]),
        bytes(&reference[2]),
        "the content went whole"
    );
}

/// Content that an upstream got goes to the one that an error page names, whole or not at all.
#[test]
fn nginx_upstreams_of_error_pages_get_the_content() {
    let pair = Pair::start(
        "nginx-upstreams-elsewhere",
        &[("origin", start().to_string())],
        LOCATIONS,
    );
    let ask = |address: SocketAddr, path: &str, bytes: usize, is_chunked: bool| {
        let content = "x".repeat(bytes);
        let (framing, content) = match is_chunked {
            true => (
                "Transfer-Encoding: chunked".to_owned(),
                format!("{bytes:x}\r\n{content}\r\n0\r\n\r\n"),
            ),
            false => (format!("Content-Length: {bytes}"), content),
        };
        let mut client = Client::connect(address).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: logs.test\r\n{framing}\r\n\r\n");
        client.send(head + &content).unwrap();
        let response = client.read_response().unwrap();
        let is_whole = response.status == 200 && response.text() == "x".repeat(bytes);
        (response.status, is_whole)
    };
    // The upstream has read it and says that it failed, or nothing.
    for path in ["/elsewhere/bad", "/elsewhere/nothing"] {
        for is_chunked in [false, true] {
            for bytes in [7, 300_000] {
                let told = pair.both(|address| ask(address, path, bytes, is_chunked));
                assert_eq!(told, (200, true), "{path} {bytes} {is_chunked}");
            }
        }
        // More than is kept: the first error stays.
        let saker = SocketAddr::from((pair.servers[1].1, pair.port));
        let status = if path.ends_with("bad") { 503 } else { 502 };
        assert_eq!(ask(saker, path, 2_000_000, false), (status, false));
    }
}

/// A member with as many connections as it may have is not asked, and no request waits for it.
#[test]
fn nginx_upstreams_have_so_many_connections() {
    let pair = Pair::start(
        "nginx-upstreams-few",
        &[("origin", start().to_string())],
        LOCATIONS,
    );
    for group in ["few", "fewer"] {
        let statuses = pair.both(|address| {
            let status = |name: &str| {
                let mut client = Client::connect(address).unwrap();
                let path = format!("/{group}/{name}");
                client
                    .request("GET", &path, &[])
                    .map_or(0, |response| response.status)
            };
            let mut first = TcpStream::connect(address).unwrap();
            let head = format!("GET /{group}/held HTTP/1.1\r\nHost: logs.test\r\n\r\n");
            first.write_all(head.as_bytes()).unwrap();
            let mut begun = [0; 12];
            first.read_exact(&mut begun).unwrap();
            assert_eq!(&begun, b"HTTP/1.1 200");
            status("whole")
        });
        assert_eq!(statuses, 502, "{group}");
    }
}

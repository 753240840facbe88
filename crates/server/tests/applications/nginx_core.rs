//! The core of nginx, as its authors would test it: raw requests, and lines of logs.
//!
//! Called by: `cargo test -p saker --test applications nginx_core`.
//! Caveat: names of the two servers differ, and are left out.
//! Out of scope: what a `.case` file can say (`nginx_cases`).

use crate::nginx_pair::Pair;
use saker_testkit::{Client, PATIENCE, wait_until};
use std::{
    fs,
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Everything that a server sends for these bytes until it closes.
fn raw(address: SocketAddr, bytes: &str) -> String {
    let mut client = Client::connect(address).unwrap();
    client.send(bytes).unwrap();
    let all = client.read_to_close(PATIENCE).unwrap();
    String::from_utf8_lossy(&all).into_owned()
}

/// The status lines of an answer.
fn statuses(answer: &str) -> Vec<String> {
    let lines = answer.lines().filter(|line| line.starts_with("HTTP/1."));
    lines.map(|line| line.trim_end().to_owned()).collect()
}

const METHODS: &str = "== http\nserver { listen {ip}:{p}; return 200 x; }";

/// A request behind such a one may be its content, so it gets no answer.
#[test]
fn nginx_core_ends_connections_behind_trace_and_connect() {
    let pair = Pair::start("nginx-core-methods", &[], METHODS);
    let next = "GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for first in ["TRACE / HTTP/1.1", "CONNECT / HTTP/1.1"] {
        let bytes = format!("{first}\r\nHost: a\r\n\r\n{next}");
        let found = pair.both(|address| statuses(&raw(address, &bytes)));
        assert_eq!(found, ["HTTP/1.1 405 Not Allowed"], "{first}");
    }
    for line in ["GET / HTTP/0.9", "PRI * HTTP/2.0"] {
        let bytes = format!("{line}\r\n\r\n");
        let found = pair.both(|address| statuses(&raw(address, &bytes)));
        assert_eq!(found, ["HTTP/1.1 400 Bad Request"], "{line}");
    }
}

const LOGS: &str = "== http\nlog_format l '$uri|$is_args|$status';\n\
    error_log {dir}/info.log info; error_log {dir}/error.http.log; error_log {dir}/crit.log crit;\n\
    server { listen {ip}:{p}; root {dir}/www; access_log {dir}/access.log l;\n\
    location / { }\n\
    location /dropped { return 444; }\n\
    location /own/ { error_log {dir}/own.log; access_log {dir}/own.access.log l; }\n\
    location /two/ { error_log {dir}/two.log info; error_log {dir}/two.crit.log crit; }\n\
    location /denied { satisfy any; deny all; auth_basic x; auth_basic_user_file /dev/null; } }";

/// Each log of a block has the lines that its level lets through, and a location has logs of its own.
#[test]
fn nginx_core_logs_errors_in_each_log() {
    let pair = Pair::start("nginx-core-logs", &[], LOGS);
    for path in ["/none", "/own/none", "/two/none", "/denied", "/dropped"] {
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        pair.both(|address| statuses(&raw(address, &request)));
    }
    pair.both(|address| statuses(&raw(address, "GET /\x01 HTTP/1.0\r\n\r\n")));
    // The line of a request that no location was chosen for is not in the logs of locations.
    pair.logs("own.access.log", 1);
    let lines = pair.logs("access.log", 5);
    assert!(lines.contains(&"/dropped||444".to_owned()), "{lines:?}");
    for (name, count) in [
        ("info.log", 3),
        ("error.http.log", 1),
        ("crit.log", 0),
        ("own.log", 1),
        ("two.log", 1),
        ("two.crit.log", 0),
    ] {
        for folder in ["nginx", "saker"] {
            let path = pair.dir.join(folder).join(name);
            let mut lines = Vec::new();
            wait_until(name, || {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let told = |line: &&str| {
                    let is_kept = line.contains(" kept") || line.contains(" keepalive ");
                    line.contains(", client: ") && !is_kept
                };
                lines = text.lines().filter(told).map(str::to_owned).collect();
                lines.len() >= count && path.exists()
            });
            assert_eq!(lines.len(), count, "{folder}/{name}: {lines:#?}");
        }
    }
}

const BODIES: &str = "== http\nserver { listen {ip}:{p}; client_body_temp_path {dir}/bodies 1;\n\
    location / { client_body_in_file_only on; proxy_pass http://{ip}:{q}; } }\n\
    server { listen {ip}:{q}; return 200 x; }";

/// The directory is made by the one who starts the server, who may.
#[test]
fn nginx_core_makes_directories_for_content() {
    let pair = Pair::start("nginx-core-bodies", &[], BODIES);
    let request = "POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nbody";
    let found = pair.both(|address| statuses(&raw(address, request)));
    assert_eq!(found, ["HTTP/1.1 200 OK"]);
    let files = |folder: &str| {
        let levels = fs::read_dir(pair.dir.join(folder).join("bodies")).unwrap();
        let inner = levels.flat_map(|level| fs::read_dir(level.unwrap().path()).unwrap());
        let mut texts = inner.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        (texts.next(), texts.count())
    };
    let expected = (Some("body".to_owned()), 0);
    assert_eq!(
        (files("nginx"), files("saker")),
        (expected.clone(), expected)
    );
}

const TIMES: &str = "== http\nclient_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 1s;\n\
    server { listen {ip}:{p}; location / { return 200 x; }\n\
    location /up { proxy_pass http://{ip}:{q}; } }\n\
    server { listen {ip}:{q}; return 200 x; }";

/// Times below five seconds begin with the connection, too.
#[test]
fn nginx_core_keeps_short_times() {
    let pair = Pair::start("nginx-core-times", &[], TIMES);
    for bytes in [
        "",
        "GET /",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
    ] {
        pair.both(|address| {
            let began = Instant::now();
            let answer = statuses(&raw(address, bytes));
            let took = began.elapsed();
            assert!(took > Duration::from_millis(900), "{bytes:?}: {took:?}");
            assert!(took < Duration::from_secs(4), "{bytes:?}: {took:?}");
            answer
        });
    }
}

const PLAIN: &str = "== http\nssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem;\n\
    server { listen {ip}:{p} ssl; return 200 secret; }\n\
    server { listen {ip}:{q} ssl; server_name a; error_page 497 https://$host:1$request_uri;\n\
    location / { return 200 secret; } }\n\
    server { listen {ip}:{r} ssl; error_page 497 =200 /told; location / { return 200 secret; }\n\
    location = /told { return 200 \"told $scheme\"; } }";

/// HTTP in the clear on a port for TLS gets 400, or the page for 497, and nothing else.
#[test]
fn nginx_core_knows_http_on_ports_for_tls() {
    let pair = Pair::start("nginx-core-plain", &[], PLAIN);
    let port = |name: &str| pair.word(name).parse::<u16>().unwrap();
    for (at, expected) in [
        (pair.port, "The plain HTTP request was sent to HTTPS port"),
        (port("q"), "Location: https://a:1/x?y"),
        (port("r"), "told http"),
    ] {
        let request = "GET /x?y HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let found = pair.both(|mut address| {
            address.set_port(at);
            let answer = raw(address, request);
            assert!(answer.contains(expected), "{expected}: {answer}");
            assert!(!answer.contains("secret"), "{answer}");
            statuses(&answer)
        });
        assert_eq!(found.len(), 1, "{found:?}");
    }
}

const USERS: &str = "== http\nserver { listen {ip}:{p}; userid on; userid_name u;\n\
    location / { return 200 \"got=$uid_got set=$uid_set\"; } }";

#[test]
fn nginx_core_shows_identifiers_of_clients() {
    let pair = Pair::start("nginx-core-users", &[], USERS);
    let both = |cookie: &str| {
        let request = format!("GET / HTTP/1.0\r\nCookie: u={cookie}\r\n\r\n");
        pair.both(|address| {
            let answer = raw(address, &request);
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            let body = body.split_once("set=u=").map_or(body, |(before, _)| before);
            (answer.contains("Set-Cookie: u="), body.to_owned())
        })
    };
    let known = (
        false,
        "got=u=0100007F62A9ED5D0000C8F903000003 set=".to_owned(),
    );
    assert_eq!(both("fwAAAV3tqWL5yAAAAwAAAw=="), known);
    for cookie in ["AAAAAAAAAAAAAAAAAAAAAA==", "foo", ""] {
        assert_eq!(both(cookie), (true, "got= ".to_owned()), "{cookie}");
    }
}

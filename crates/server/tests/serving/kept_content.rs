//! Requests with content that follow a kept decision: limits, framing, and content are of each
//! request, over HTTP/1.1 and HTTP/2.
//!
//! Out of scope: whether the rules say the same (`kept_decisions`).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::{
    operate,
    route_matchers::{hits, upstream},
};
use saker_testkit::{
    Client, Saker, TempDir, apache2::load_modules, require, saker::Builder, wait_until,
};
use std::process::Command;

/// It names other browsers, as most do.
const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36";

const MODULES: [&str; 4] = ["mpm_event", "authz_core", "proxy", "proxy_http"];

fn start(name: &str, builder: Builder) -> Saker {
    let dir = TempDir::new(name).unwrap();
    dir.write("www/index.html", "index").unwrap();
    builder.workers(1).start(dir)
}

/// The three front ends in front of the upstream, for content of at most 1 MB.
fn all() -> Vec<Saker> {
    let (modules, to) = (load_modules(&MODULES), upstream());
    let apache = format!(
        "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nMaxKeepAliveRequests 0\n\
         DocumentRoot {{dir}}/www\nProxyPass /a/ http://{to}/a/\nProtocols h2c http/1.1\n\
         <Location /a/>\nLimitRequestBody 1000000\n</Location>\n"
    );
    let nginx = format!(
        "worker_processes 1; events {{ }}\nhttp {{ access_log off; keepalive_requests 100000;\n\
         server {{ listen {{address}} http2; location /a/ {{ client_max_body_size 1000000; proxy_pass http://{to}/a/; }} }}\n\
         server {{ listen {{address}}; server_name plain; }} }}"
    );
    let native = format!(
        "[server]\nstate_dir = \"{{dir}}/state\"\n[[listener]]\naddress = \"{{address}}\"\n[[site]]\nroot = \"{{dir}}/www\"\nbody_size = 1000000\n\
         [[site.route]]\npath = '/a/*'\nproxy = 'http://{to}'\n"
    );
    vec![
        start("content-apache", operate::apache(&apache)),
        start("content-nginx", operate::nginx(&nginx)),
        start("content-native", operate::native(&native)),
    ]
}

fn post(client: &mut Client, content: &[u8]) -> (u16, String) {
    let length = content.len().to_string();
    let fields = [("Content-Length", length.as_str()), ("User-Agent", CHROME)];
    let answer = client.request_with("POST", "/a/x", &fields, content);
    let answer = answer.unwrap();
    (answer.status, answer.text())
}

fn is_told(answer: &(u16, String), content: &str) {
    assert_eq!(answer.0, 200, "{}", answer.1);
    assert!(answer.1.starts_with("POST /a/x "), "{}", answer.1);
    assert!(
        answer.1.ends_with(&format!("\ncontent={content}\n")),
        "{content}: {}",
        answer.1
    );
}

#[test]
fn content_is_of_each_request() {
    for saker in all() {
        let mut client = Client::connect(saker.server.address()).unwrap();
        let before = hits(&saker);
        let large = "n".repeat(900_000);
        for round in 0..5 {
            let content = format!("round={round}");
            is_told(&post(&mut client, content.as_bytes()), &content);
            is_told(&post(&mut client, large.as_bytes()), &large);
            let got = client.get("/a/x").unwrap().text();
            assert!(
                got.starts_with("GET /a/x ") && !got.contains("\ncontent="),
                "{got}"
            );
        }
        wait_until(
            &format!(
                "all but the first requests follow a decision: {}",
                saker.dir.display()
            ),
            || hits(&saker) >= before + 13,
        );
    }
}

#[test]
fn limits_of_content_hold_for_decisions() {
    for saker in all() {
        let connect = || Client::connect(saker.server.address()).unwrap();
        for round in 0..4 {
            is_told(&post(&mut connect(), b"short"), "short");
            let long = vec![b'n'; 1_000_001];
            let refused = post_in_parts(&mut connect(), "Content-Length: 1000001\r\n\r\n", &long);
            assert_eq!(refused, 413, "{round}: {}", saker.dir.display());
            let chunk = [b"f4241\r\n", long.as_slice(), b"\r\n0\r\n\r\n"].concat();
            let refused =
                post_in_parts(&mut connect(), "Transfer-Encoding: chunked\r\n\r\n", &chunk);
            assert_eq!(refused, 413, "{round}: {}", saker.dir.display());
        }
    }
}

/// The status for content that may not be taken to its end.
fn post_in_parts(client: &mut Client, rest: &str, content: &[u8]) -> u16 {
    client
        .send(format!("POST /a/x HTTP/1.1\r\nHost: localhost\r\n{rest}"))
        .unwrap();
    // The server may have answered, and closed, before all of it.
    let _ = client.send(content);
    client.read_response().unwrap().status
}

/// A request in the content stays content; a length that is none is refused, decision or not.
#[test]
fn content_is_framed_as_without_decisions() {
    for saker in all() {
        let connect = || Client::connect(saker.server.address()).unwrap();
        let inner = "GET /a/inner HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let length = inner.len();
        let outer = format!(
            "POST /a/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{inner}"
        );
        let next = "GET /a/next HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for round in 0..4 {
            is_told(&post(&mut connect(), b"short"), "short");
            let answers = connect().pipeline(&[outer.as_str(), next]).unwrap();
            let told: Vec<String> = answers.iter().map(|answer| answer.text()).collect();
            assert!(told[0].starts_with("POST /a/x ") && told[0].contains("content=GET /a/inner"));
            assert!(told[1].starts_with("GET /a/next "), "{round}: {told:?}");
            for lengths in [
                "Content-Length: +5",
                "Content-Length: 5\r\nContent-Length: 6",
                "Content-Length: 5, 6",
                "Content-Length: 5\r\nTransfer-Encoding: x",
                "Content-Length: 0x5",
                "Content-Length:",
            ] {
                let status = post_in_parts(&mut connect(), &format!("{lengths}\r\n\r\n"), b"12345");
                assert!(
                    matches!(status, 400 | 501),
                    "{round}: {lengths}: {status}, {}",
                    saker.dir.display()
                );
            }
        }
    }
}

#[test]
fn content_over_http2_follows_decisions() {
    let curl = require("curl").unwrap_or_else(|missing| panic!("{missing}"));
    for saker in all() {
        let url = format!("http://{}/a/x", saker.server.address());
        let before = hits(&saker);
        for round in 0..4 {
            let content = format!("round={round}");
            let output = Command::new(&curl)
                .args([
                    "-sS",
                    "-m",
                    "20",
                    "--http2-prior-knowledge",
                    "-w",
                    "%{http_code}",
                ])
                .args(["-d", &content, &url])
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                told.starts_with("POST /a/x ")
                    && told.ends_with(&format!("\ncontent={content}\n200")),
                "{told}"
            );
        }
        wait_until(
            &format!(
                "all but the first request follow a decision: {}",
                saker.dir.display()
            ),
            || hits(&saker) >= before + 3,
        );
    }
}

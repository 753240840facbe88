//! HTTP/3 of a listener: its advertisement, switching it on and off while the server runs, and
//! ports in use by others.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::http3_client::{Client, Http3};
use crate::operate;
use crate::operate::{rewrite, start_in};
use crate::tls_site::{configuration, curl};
use saker_testkit::{Saker, TempDir, free_port};
use std::net::UdpSocket;

fn folder(name: &str) -> TempDir {
    let dir = operate::folder(name);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    dir.write("site.pem", made.cert.pem()).unwrap();
    dir.write("site.key", made.signing_key.serialize_pem())
        .unwrap();
    dir
}

fn start(name: &str, site: &str) -> Saker {
    start_in(folder(name), &configuration("", site))
}

fn reload(saker: &Saker) {
    let output = operate::reload(saker);
    assert!(output.status.success(), "{}", operate::stderr(&output));
}

fn connect(saker: &Saker) -> Http3 {
    Client::default().connect(&saker.server.address().to_string())
}

fn told(saker: &Saker, protocol: &str) -> Option<String> {
    let answer = curl(saker, &[protocol, "-i"], "/index.html").to_ascii_lowercase();
    answer
        .lines()
        .find_map(|line| line.strip_prefix("alt-svc: ").map(str::to_owned))
}

fn with_http3(on: bool) -> String {
    configuration("", "").replace("tls = true", &format!("tls = true\nhttp3 = {on}"))
}

#[test]
fn clients_over_tcp_are_told_and_find_it() {
    let saker = start("quic-told", "");
    let expected = format!("h3=\":{}\"; ma=86400", saker.server.address().port());
    for protocol in ["--http1.1", "--http2"] {
        for _first_and_kept in 0..2 {
            assert_eq!(
                told(&saker, protocol).as_deref(),
                Some(&*expected),
                "{protocol}"
            );
        }
        let missing = curl(&saker, &[protocol, "-i"], "/missing").to_ascii_lowercase();
        assert!(
            missing.contains(" 404") && missing.contains(&expected),
            "{protocol}: {missing}"
        );
    }
    let mut client = connect(&saker);
    let answer = client.get("/index.html");
    assert_eq!(
        (answer.status, answer.text()),
        (200, "<p>hello</p>\n".into())
    );
    assert_eq!(answer.field("alt-svc"), None, "who is here knows");
}

#[test]
fn what_a_site_says_itself_comes_first() {
    let saker = start("quic-own", "headers = { Alt-Svc = \"clear\" }");
    for protocol in ["--http1.1", "--http2"] {
        for _first_and_kept in 0..2 {
            assert_eq!(
                told(&saker, protocol).as_deref(),
                Some("clear"),
                "{protocol}"
            );
        }
    }
}

#[test]
fn it_can_be_there_and_not_be_told_of() {
    let dir = folder("quic-quiet");
    let saker = start_in(
        dir,
        &configuration("", "").replace("tls = true", "tls = true\nhttp3_advertise = false"),
    );
    assert_eq!(told(&saker, "--http2"), None);
    assert_eq!(connect(&saker).get("/index.html").status, 200);
}

#[test]
fn a_reload_switches_it_on_and_off_and_cuts_nobody() {
    let dir = folder("quic-reload");
    let saker = start_in(dir, &with_http3(false));
    assert_eq!(told(&saker, "--http2"), None);
    let taken = UdpSocket::bind(saker.server.address()).expect("nobody has the UDP port");
    drop(taken);

    rewrite(&saker, &with_http3(true));
    reload(&saker);
    assert!(told(&saker, "--http2").is_some());
    let mut client = connect(&saker);
    assert_eq!(client.get("/index.html").status, 200);

    rewrite(
        &saker,
        &with_http3(true).replace("[[site]]", "[[site]]\nheaders = { X-New = \"1\" }"),
    );
    reload(&saker);
    assert_eq!(
        client.get("/index.html").field("x-new"),
        Some("1"),
        "the same connection, the new settings"
    );

    rewrite(&saker, &with_http3(false));
    reload(&saker);
    assert_eq!(told(&saker, "--http2"), None);
    assert_eq!(
        client.get("/index.html").status,
        200,
        "who is there may stay"
    );
    // A connection that was accepted would outlast `until_lost`.
    Client::default()
        .begin(&saker.server.address().to_string())
        .until_lost();
}

#[test]
fn a_port_that_others_have_costs_http3_alone() {
    let taken = UdpSocket::bind(("127.0.0.1", free_port().unwrap())).unwrap();
    let other = taken.local_addr().unwrap();
    let dir = folder("quic-taken");
    let two = format!("[[listener]]\naddress = \"{other}\"\ntls = true\n\n[[site]]");
    let saker = start_in(dir, &configuration("", "").replacen("[[site]]", &two, 1));
    assert_eq!(connect(&saker).get("/index.html").status, 200);
    let port = other.port();
    let address = format!("https://localhost:{port}/index.html");
    let answer = curl(
        &saker,
        &[
            "-i",
            "--resolve",
            &format!("localhost:{port}:127.0.0.1"),
            &address,
        ],
        "/index.html",
    )
    .to_ascii_lowercase();
    let first = answer.find("<p>hello</p>").unwrap();
    assert!(
        !answer[..first].contains("alt-svc") && answer.contains("alt-svc"),
        "{answer}"
    );
}

//! Automatic certificates of streams, from end to end: ordered from Pebble, proved on the port of the
//! stream, and no way around what a stream demands of its clients.
//!
//! Called by: `cargo test -p saker --test operation acme_streams::`.
//! Caveat: a connection of the authority may come while a client is there, and the other way round.
//! Out of scope: orders and renewals, which are those of sites (`acme.rs`).

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::{
    operate::{folder, start_in, stderr},
    tls_site::{certificate, signed},
};
use saker_testkit::{OPENSSL_CLIENT, PATIENCE, Pebble, free_port, poll, require};
use std::{
    io::Write,
    net::TcpListener,
    process::{Command, Output, Stdio},
};

/// A plain listener with a page, and a stream to it; `tls` stands in `[stream.tls]`.
fn configuration(pebble: &Pebble, stream_port: u16, tls: &str) -> String {
    format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\nlog_level = \"info\"\n\n\
         [acme]\ndirectory = \"{}\"\ndirectory_ca = \"{}\"\nchallenges = [\"tls-alpn-01\"]\n\n\
         [[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nroot = \"{{dir}}/www\"\n\n\
         [[stream]]\nlisten = \"127.0.0.1:{stream_port}\"\nproxy = \"{{address}}\"\n\n\
         [stream.tls]\nautomatic = true\nnames = [\"db.example\", \"db2.example\"]\n{tls}\n",
        pebble.directory(),
        pebble.directory_ca().display()
    )
}

fn fetch(pebble: &Pebble, name: &str, port: u16) -> Output {
    Command::new(require("curl").unwrap())
        .args(["-sS", "-m", "30", "--resolve"])
        .arg(format!("{name}:{port}:127.0.0.1"))
        .arg("--cacert")
        .arg(pebble.root().unwrap())
        .arg(format!("https://{name}:{port}/index.html"))
        .output()
        .unwrap()
}

#[test]
fn a_stream_orders_certificates_for_its_names() {
    let pebble = Pebble::new().unwrap();
    let text = configuration(&pebble, pebble.tls_port, "");
    let saker = start_in(folder("acme-stream"), &text);
    let issued = "an automatic certificate was issued: db.example, db2.example, by ";
    saker.server.wait_for_stderr(issued, PATIENCE).unwrap();
    for name in ["db.example", "db2.example"] {
        let output = fetch(&pebble, name, pebble.tls_port);
        assert!(
            output.status.success() && output.stdout == b"<p>hello</p>\n",
            "{name}: {}",
            stderr(&output)
        );
    }
}

/// Both outputs of `openssl s_client` with these arguments, for a request.
fn through_openssl(port: u16, arguments: &[&str]) -> (String, String) {
    let mut child = Command::new(require("openssl").unwrap())
        .args(OPENSSL_CLIENT)
        .args(["-connect", &format!("127.0.0.1:{port}")])
        .args(["-servername", "db.example", "-ign_eof"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let request = b"GET /index.html HTTP/1.1\r\nHost: db.example\r\nConnection: close\r\n\r\n";
    // It may have ended already.
    let _ = child.stdin.take().unwrap().write_all(request);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The certificate of a challenge is for all clients, as the authority has to see it; the way to the
/// server behind is for those with a certificate of theirs.
#[test]
fn a_challenge_is_no_way_around_client_certificates() {
    let pebble = Pebble::new().unwrap();
    // Pebble looks here, and waits.
    let authority_looks = TcpListener::bind(("127.0.0.1", pebble.tls_port)).unwrap();
    let dir = folder("acme-stream-attack");
    certificate(&dir, "clients", "clients.example");
    signed(&dir, "client", "clients");
    let port = free_port().unwrap();
    let demands = "client_certificates = \"required\"\nclient_ca = \"{dir}/clients.pem\"";
    let saker = start_in(dir, &configuration(&pebble, port, demands));
    let (_asking, _) = authority_looks.accept().unwrap();
    let shown = poll(PATIENCE, || {
        let (told, _) = through_openssl(port, &["-alpn", "acme-tls/1"]);
        assert!(!told.contains("200 OK"), "{told}");
        told.contains("ALPN protocol: acme-tls/1").then_some(told)
    });
    assert!(shown.is_some(), "the challenge is answered on this port");
    drop(saker);
}

//! Instructions of a request with a console that is not open, and with one that shows all
//! graphs.
//!
//! Called by: `cargo test -p saker --test measured console_costs:: -- --nocapture`.
//! Caveat: the worker's instructions are counted. Samples are taken once a second by the main
//! thread, whatever the load is.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::{callgrind::Callgrind, operate};
use saker_testkit::{Client, Saker, TempDir, free_port};
use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Command,
    time::Duration,
};

const COUNTED: usize = 400;
const TRIES: usize = 5;
/// Share of a request that a console may cost while it is not open, in thousandths.
const CLOSED_MAX: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(300);

struct Server {
    callgrind: Callgrind,
    saker: Saker,
    client: Client,
}

impl Server {
    fn start(name: &str, console: &str) -> Server {
        let dir = TempDir::new(name).unwrap();
        dir.write("www/small.html", "x".repeat(285)).unwrap();
        let text = format!(
            "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n{console}\n[[listener]]\naddress = \"{{address}}\"\n\
             [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\n"
        );
        let callgrind = Callgrind::new();
        let saker = callgrind.of(operate::native(&text)).start(dir);
        let mut client = saker.connect().unwrap();
        client.set_timeout(PATIENCE).unwrap();
        let mut server = Server {
            callgrind,
            saker,
            client,
        };
        server.ask();
        server.callgrind.begin(&server.saker);
        server.ask();
        server
    }

    fn ask(&mut self) {
        ask(&mut self.client);
    }

    /// Instructions of a request.
    fn count(&mut self) -> u64 {
        let client = &mut self.client;
        let (callgrind, saker) = (&self.callgrind, &self.saker);
        let counts = (0..TRIES).map(|_| callgrind.of_worker(saker, || ask(client)));
        counts.min().unwrap() / COUNTED as u64
    }
}

fn ask(client: &mut Client) {
    for _ in 0..COUNTED {
        assert_eq!(client.get("/small.html").unwrap().status, 200);
    }
}

/// A token of the console.
fn token(server: &Server) -> String {
    let state_dir = server.saker.dir.join("state").display().to_string();
    let output = Command::new(operate::SAKER)
        .args(["console", "token", "add", "t", "--state-dir", &state_dir])
        .output()
        .unwrap();
    let token = String::from_utf8(output.stdout).unwrap();
    token.trim().to_owned()
}

/// A request to the console, whose response is still to be read.
fn send(console: SocketAddr, path: &str, token: &str) -> Client {
    let mut client = Client::connect(console).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {console}\r\nAuthorization: Bearer {token}\r\n\r\n");
    client.send(head).unwrap();
    client
}

/// An event stream of figures, as the page Now has it.
fn open_stream(console: SocketAddr, token: &str) -> Client {
    let mut stream = send(console, "/api/v1/live/events", token);
    let mut seen = String::new();
    while !seen.contains("\"requests\"") {
        seen.push_str(&String::from_utf8_lossy(&stream.read_bytes(1).unwrap()));
    }
    stream
}

#[test]
fn a_console_costs_requests_next_to_nothing() {
    let _turn = crate::beside_others();
    let without = Server::start("console-costs-none", "").count();
    let console = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let mut server = Server::start(
        "console-costs",
        &format!("[console]\naddress = \"{console}\""),
    );
    let closed = server.count();
    let token = token(&server);
    let stream = open_stream(console, &token);
    server.ask();
    let open = server.count();
    // The page asks for them as long as it is open.
    let mut tops = send(console, "/api/v1/top", &token);
    while tops.read_bytes(1).unwrap() != b"}" {}
    server.ask();
    let with_tops = server.count();
    drop(stream);
    eprintln!(
        "console: {without} instructions a request without one, {closed} closed, {open} open, \
         {with_tops} with tops"
    );
    assert!(
        closed <= without + without * CLOSED_MAX / 1000,
        "{closed} instructions with a console, {without} without"
    );
    // Requests whose latency is measured; above 2,000 a second those of 50 ms are, a twentieth.
    assert!(
        open <= without + without / 3,
        "{open} instructions with an open console"
    );
    // At 50,000 requests a second one in a hundred is measured, so this is 2 %.
    assert!(
        with_tops <= without * 3,
        "{with_tops} instructions with an open console that shows tops"
    );
}

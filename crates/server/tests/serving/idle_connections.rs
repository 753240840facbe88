//! Connections that have been idle for a while: the server keeps next to nothing of them, and they
//! go on, end, and are counted as if it kept all.
//!
//! Caveat: a connection becomes one of these after its first request, or a quarter of a second or two
//! after a later one; `saker_connections_idle` tells.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{self, PATIENCE, wait_until};
use saker_testkit::{
    Client, Saker, TempDir, raise_descriptor_limit,
    saker::{Builder, plain},
};
use std::fs;

const PAGE: &str = "<!doctype html><title>Home</title>";
const CROWD: u64 = 300;

fn start(configuration: &str) -> Saker {
    started(operate::native(configuration))
}

fn started(builder: Builder) -> Saker {
    let dir = TempDir::new("idle-connections").unwrap();
    dir.write("www/index.html", PAGE).unwrap();
    dir.write("www/large.bin", vec![b'x'; 3_000_000]).unwrap();
    builder.start(dir)
}

fn figure(saker: &Saker, name: &str) -> u64 {
    let answer = operate::ask(&saker.dir.join("state"), "metrics").unwrap();
    let text = answer["text"].as_str().unwrap().to_owned();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name}: {text}"))
        .parse()
        .unwrap()
}

fn closed(saker: &Saker, reason: &str) -> u64 {
    figure(
        saker,
        &format!("saker_connections_closed_total{{reason=\"{reason}\"}}"),
    )
}

fn connected(saker: &Saker) -> Client {
    let mut client = saker.connect().unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client
}

/// Connections that have had a request, and wait now without a task.
fn idle(saker: &Saker, count: u64) -> Vec<Client> {
    let clients = (0..count)
        .map(|_| {
            let mut client = connected(saker);
            assert_eq!(client.get("/").unwrap().text(), PAGE);
            client
        })
        .collect();
    until_idle(saker, count);
    clients
}

fn until_idle(saker: &Saker, count: u64) {
    wait_until("so many wait without tasks", || {
        figure(saker, "saker_connections_idle") == count
    });
}

#[test]
fn they_go_on_with_whatever_comes() {
    let saker = start(&plain(""));
    let mut clients = idle(&saker, 5);
    // A request in one piece, several, one in pieces, one that is refused, and one whose response
    // is larger than the socket's buffer.
    assert_eq!(clients[0].get("/").unwrap().text(), PAGE);
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(clients[1].pipeline(&[get; 7]).unwrap().len(), 7);
    clients[2].send(&get[..11]).unwrap();
    until_idle(&saker, 4);
    clients[2].send(&get[11..]).unwrap();
    assert_eq!(clients[2].read_response().unwrap().text(), PAGE);
    clients[3].send("GET / HTTP/9.1\r\n\r\n").unwrap();
    assert_eq!(clients[3].read_response().unwrap().status, 505);
    assert!(clients[3].closed_within(PATIENCE));
    let large = clients[4].get("/large.bin").unwrap();
    assert_eq!(large.body.len(), 3_000_000);
    // They become idle again, and go on again.
    clients.remove(3);
    until_idle(&saker, 4);
    for client in &mut clients {
        assert_eq!(client.get("/").unwrap().text(), PAGE);
    }
    // One that never sent anything is one of them, too.
    let mut silent = connected(&saker);
    until_idle(&saker, 5);
    assert_eq!(silent.get("/").unwrap().text(), PAGE);
}

#[test]
fn they_end_and_are_counted() {
    let saker = start(&plain("keep_alive_timeout = \"2s\"\n"));
    let mut clients = idle(&saker, 4);
    let gone = closed(&saker, "client_gone");
    clients.pop();
    clients.pop().unwrap().reset().unwrap();
    wait_until("both have left", || {
        closed(&saker, "client_gone") == gone + 2
    });
    for client in &mut clients {
        assert!(client.closed_within(PATIENCE));
    }
    wait_until("the others are late", || {
        closed(&saker, "idle_timeout") == 2
    });
    until_idle(&saker, 0);
    wait_until("none is open", || {
        figure(&saker, "saker_connections_open") == 0
    });
}

/// A limit that is over before a connection would lose its task.
#[test]
fn short_limits_hold() {
    let saker = start(&plain("keep_alive_timeout = \"100ms\"\n"));
    let mut client = connected(&saker);
    assert_eq!(client.get("/").unwrap().text(), PAGE);
    assert!(client.closed_within(PATIENCE));
    wait_until("it is late", || closed(&saker, "idle_timeout") == 1);
}

#[test]
fn they_end_with_the_server_and_for_bans() {
    let mut saker = start(&plain("keep_alive_timeout = \"1h\"\n"));
    let mut clients = idle(&saker, 3);
    let state = saker.dir.join("state").display().to_string();
    let command = |words: &[&str]| {
        let output = operate::saker(words.iter().copied().chain(["--state-dir", &*state]));
        assert!(output.status.success(), "{output:?}");
    };
    command(&["ban", "127.0.0.1", "--for", "1h"]);
    for client in &mut clients {
        assert!(client.closed_within(PATIENCE));
    }
    wait_until("they are counted", || closed(&saker, "banned") == 3);
    command(&["unban", "127.0.0.1"]);
    let mut clients = idle(&saker, 3);
    let mut silent = connected(&saker);
    until_idle(&saker, 4);
    // Another configuration is that of their next request.
    let file = saker.dir.join("saker.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text + "[site.headers]\nX-Second = \"yes\"\n").unwrap();
    command(&["reload"]);
    let response = clients[0].get("/").unwrap();
    assert_eq!(response.field("x-second"), Some("yes"));
    until_idle(&saker, 4);
    saker.server.signal(saker_testkit::Signal::TERM).unwrap();
    for client in &mut clients {
        assert!(client.closed_within(PATIENCE));
    }
    // One that has not asked yet may do so for a second.
    assert!(silent.closed_within(PATIENCE));
    assert!(saker.server.wait_for_exit(PATIENCE).unwrap().is_some());
}

/// Their types are those of a release build.
#[test]
fn they_take_little_memory() {
    raise_descriptor_limit(4096).unwrap();
    let saker = started(operate::native(&plain("")).workers(1));
    drop(idle(&saker, CROWD));
    until_idle(&saker, 0);
    let before = saker.server.tree().memory().rss_bytes;
    let clients = idle(&saker, CROWD * 10);
    let grown = saker
        .server
        .tree()
        .memory()
        .rss_bytes
        .saturating_sub(before);
    assert!(
        grown < CROWD * 10 * 600,
        "{grown} bytes for {}",
        clients.len()
    );
}

//! Keys of `[[listener]]` and of `[server]` that change how, not what, is served: congestion control,
//! early data, WebSockets over HTTP/2, the queue of the kernel, and the memory of routes.
//!
//! Called by: `cargo test -p saker --test serving listener_settings::`.
//! Caveat: the queue is read from `ss`.
//! Out of scope: the protocols themselves (`http2`, `http3`, `tunnels`).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::{
    http3_client::Client,
    operate::{self, folder, pattern, start_in},
    tls_site,
};
use saker_testkit::{Saker, TempDir, require, wait_until_or};
use std::process::Command;

const LARGE_BYTES: usize = 3_000_000;

fn start_tls(name: &str, listener: &str) -> Saker {
    let dir: TempDir = folder(name);
    dir.write("www/large.bin", pattern(LARGE_BYTES)).unwrap();
    tls_site::certificate(&dir, "site", "localhost");
    let text = tls_site::configuration("", "");
    let listener = format!("tls = true\n{listener}\n");
    start_in(dir, &text.replacen("tls = true\n", &listener, 1))
}

#[test]
fn every_congestion_control_delivers() {
    for word in ["cubic", "bbr", "newreno"] {
        let listener = format!("http3_congestion = \"{word}\"");
        let saker = start_tls(&format!("congestion-{word}"), &listener);
        let address = saker.server.address().to_string();
        let mut client = Client::default().connect(&address);
        assert!(
            client.get("/large.bin").body == pattern(LARGE_BYTES),
            "{word}"
        );
    }
}

#[test]
fn early_data_only_where_it_is_accepted() {
    for (word, is_early) in [("true", true), ("false", false)] {
        let saker = start_tls(
            &format!("early-{word}"),
            &format!("http3_early_data = {word}"),
        );
        let client = Client::default();
        let address = saker.server.address().to_string();
        let mut first = client.connect_for_ticket(&address);
        assert_eq!(first.get("/index.html").status, 200);
        let mut second = match is_early {
            true => client.begin(&address),
            false => client.connect(&address),
        };
        let stream = second.open("GET", "/index.html", &[], true);
        assert_eq!(second.response(stream).status, 200);
        assert_eq!(second.connection().has_early_data(), is_early, "{word}");
    }
}

#[test]
fn the_queue_of_the_kernel() {
    let text = operate::configuration("workers = 1", "");
    let text = text.replace("[[site]]", "backlog = 17\n\n[[site]]");
    let saker = operate::start("backlog", &text);
    let port = format!("sport = :{}", saker.server.address().port());
    let output = Command::new(require("ss").unwrap())
        .args(["-ltnH", &port])
        .output()
        .unwrap();
    let said = operate::stdout(&output);
    assert_eq!(said.split_whitespace().nth(2), Some("17"), "{said}");
    assert_eq!(
        saker.connect().unwrap().get("/index.html").unwrap().status,
        200
    );
}

/// Waits until the hits of the route cache and its bytes, after requests for two files, are such.
fn is_kept(server: &str, holds: impl Fn(u64, u64, u64) -> bool) {
    let dir = folder("resource-cache");
    dir.write("www/a.bin", pattern(10_000)).unwrap();
    let text = operate::configuration(&format!("workers = 1\n{server}"), "");
    let saker = start_in(dir, &text);
    let mut client = saker.connect().unwrap();
    for _ in 0..5 {
        assert_eq!(client.get("/index.html").unwrap().status, 200);
        assert!(client.get("/a.bin").unwrap().body == pattern(10_000));
    }
    let state = saker.dir.join("state");
    let mut metrics = String::new();
    let figure = |metrics: &str, name: &str| {
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        value.unwrap_or_default() as u64
    };
    // Workers publish their figures now and then.
    wait_until_or(
        || {
            metrics = operate::stdout(&operate::saker([
                "status",
                "--prometheus",
                "--state-dir",
                state.to_str().unwrap(),
            ]));
            let [hits, misses, bytes] = ["hits_total", "misses_total", "bytes"]
                .map(|name| figure(&metrics, &format!("saker_resource_cache_{name} ")));
            hits + misses >= 10 && holds(hits, misses, bytes)
        },
        || format!("not as wanted: {server:?}"),
    );
}

#[test]
fn routes_are_kept_within_their_memory() {
    is_kept("", |hits, _, bytes| hits >= 4 && bytes > 10_000);
    is_kept("resource_entries = 0", |hits, misses, _| {
        hits == 0 && misses >= 10
    });
    is_kept("resource_file_max = \"1KiB\"", |hits, _, bytes| {
        hits >= 4 && bytes < 10_000
    });
    is_kept("resource_memory = 0", |hits, misses, _| {
        hits == 0 && misses >= 10
    });
}

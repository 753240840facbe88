//! Memory and instructions of a request that hits the route cache or the page cache, counted by
//! callgrind while the server runs, so that start, stop and connections fall out.
//!
//! Called by: `cargo test -p saker --test measured hit_costs:: -- --nocapture`.
//! Caveat: instructions mean something for an optimized build only, so in debug builds only
//! allocations are counted.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::{
    callgrind::{Callgrind, Counts},
    operate,
};
use saker_testkit::{Client, TempDir, saker::plain};
use std::{
    io::{Read, Write},
    os::unix::net::UnixListener,
    thread,
    time::Duration,
};

/// Before counting, so that everything is kept that will be.
const BEFORE: usize = 200;
const COUNTED: usize = 1000;
const TRIES: usize = 3;
/// For valgrind to have the server up.
const PATIENCE: Duration = Duration::from_secs(300);

/// Counts of `COUNTED` requests on one connection of a server with this configuration.
fn count(dir: TempDir, configuration: &str, mut ask: impl FnMut(&mut Client, usize)) -> Counts {
    let callgrind = Callgrind::new();
    let saker = callgrind.of(operate::native(configuration)).start(dir);
    let mut client = saker.connect().unwrap();
    client.set_timeout(PATIENCE).unwrap();
    (0..BEFORE).for_each(|number| ask(&mut client, number));
    callgrind.begin(&saker);
    let mut next = BEFORE;
    let counts = (0..TRIES).map(|_| {
        callgrind.of_process(&saker, || {
            (next..next + COUNTED).for_each(|number| ask(&mut client, number));
            next += COUNTED;
        })
    });
    counts
        .min_by_key(|counts| (counts.allocations, counts.instructions))
        .unwrap()
}

/// Allocations of the ticker and the logs: a few, and more the longer it takes.
fn are_few(counts: Counts) {
    assert!(
        counts.instructions > COUNTED as u64,
        "nothing was counted: {counts:?}"
    );
    assert!(
        counts.allocations < COUNTED as u64 / 10,
        "{} allocations for {COUNTED} requests",
        counts.allocations
    );
}

fn small_file() -> TempDir {
    let dir = TempDir::new("hit-costs").unwrap();
    dir.write("www/small.html", "x".repeat(285)).unwrap();
    dir
}

#[test]
fn a_hit_allocates_nothing() {
    let _turn = crate::beside_others();
    let fields: [&[_]; 2] = [
        &[],
        &[
            ("Accept-Encoding", "gzip, br, zstd"),
            ("Cookie", "a=b"),
            ("User-Agent", "someone"),
        ],
    ];
    are_few(count(small_file(), &plain(""), |client, number| {
        let response = client.request("GET", "/small.html", fields[number % 2]);
        assert_eq!(response.unwrap().status, 200);
    }));
}

/// A page that a server behind us has made: the first request asks for it, all others find it.
#[test]
fn a_hit_of_the_page_cache_allocates_nothing() {
    let _turn = crate::beside_others();
    let dir = TempDir::new("page-hit-costs").unwrap();
    let listener = UnixListener::bind(dir.join("origin.sock")).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nX-LiteSpeed-Cache-Control: public,max-age=600\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
            );
        }
    });
    let configuration = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n[[listener]]\naddress = \"{{address}}\"\n[[upstream]]\nname = \"app\"\n\
         servers = [\"http+unix:{}/origin.sock\"]\n[[site]]\nnames = [\"*\"]\ncache = true\n[[site.route]]\npath = \"/*\"\nproxy = \"app\"\n",
        dir.display()
    );
    are_few(count(dir, &configuration, |client, number| {
        let fields = [("User-Agent", "someone"), ("Accept", "text/html")];
        let response = client.request("GET", "/page", &fields).unwrap();
        assert_eq!(
            (response.status, response.field("x-litespeed-cache")),
            (200, Some(if number == 0 { "miss" } else { "hit" }))
        );
    }));
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "says something about optimized builds only: cargo test --release"
)]
fn a_hit_takes_few_instructions() {
    let _turn = crate::beside_others();
    let counts = count(small_file(), &plain(""), |client, _| {
        assert_eq!(client.get("/small.html").unwrap().status, 200);
    });
    let each = counts.instructions / COUNTED as u64;
    eprintln!("{each} instructions for a request");
    assert!(
        each <= INSTRUCTIONS_MAX,
        "{each} instructions for a request"
    );
}

/// One connection, so that each request pays for a whole turn of the event loop: some 900 of them
/// are tokio's and its clock's.
const INSTRUCTIONS_MAX: u64 = 4000;

//! Memory and instructions of a request that hits the route cache, counted by valgrind.
//!
//! Two runs that differ in nothing but the number of requests are subtracted, so that start, stop
//! and connections fall out, and no noise of the machine gets in. Instructions mean something for
//! an optimized build only, so in debug builds only allocations are counted.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{TempDir, saker::plain};
use std::{
    io::{Read, Write},
    os::unix::net::UnixListener,
    thread,
};

const FEW: usize = 200;
const MANY: usize = 2200;

/// Serves `requests` requests on one connection under valgrind, which have these fields in turn,
/// and returns the number behind `label` in what it says in the end.
fn count(requests: usize, fields: &[&[(&str, &str)]], tool: &[&str], label: &str) -> usize {
    let dir = TempDir::new("hit-costs").unwrap();
    dir.write("www/small.html", "x".repeat(285)).unwrap();
    let saker = operate::native(&plain("")).under_valgrind(tool).start(dir);
    let mut client = saker.connect().unwrap();
    for fields in fields.iter().cycle().take(requests) {
        assert_eq!(
            client.request("GET", "/small.html", fields).unwrap().status,
            200
        );
    }
    assert!(saker.server.stop().unwrap().success());
    let said = std::fs::read_to_string(saker.dir.join("valgrind.txt")).unwrap();
    let line = said
        .lines()
        .find_map(|line| line.split_once(label))
        .unwrap_or_else(|| panic!("no `{label}` in {said}"))
        .1;
    line.trim()
        .split(' ')
        .next()
        .unwrap()
        .replace(',', "")
        .parse()
        .unwrap()
}

#[test]
fn a_hit_allocates_nothing() {
    let _alone = crate::alone();
    let tool = [
        "--tool=memcheck",
        "--undef-value-errors=no",
        "--leak-check=no",
    ];
    let fields: [&[_]; 2] = [
        &[],
        &[
            ("Accept-Encoding", "gzip, br, zstd"),
            ("Cookie", "a=b"),
            ("User-Agent", "someone"),
        ],
    ];
    let allocations = |requests| count(requests, &fields, &tool, "total heap usage:");
    let (few, many) = (allocations(FEW), allocations(MANY));
    // Of the ticker and the logs there are a few, and more the longer it takes.
    assert!(
        few.abs_diff(many) < (MANY - FEW) / 10,
        "{few} allocations for {FEW} requests, {many} for {MANY}"
    );
}

/// A page that a server behind us has made: the first request asks for it, all others find it.
#[test]
fn a_hit_of_the_page_cache_allocates_nothing() {
    let _alone = crate::alone();
    let tool = [
        "--tool=memcheck",
        "--undef-value-errors=no",
        "--leak-check=no",
    ];
    let (few, many) = (page_hits(FEW, &tool), page_hits(MANY, &tool));
    assert!(
        few.abs_diff(many) < (MANY - FEW) / 10,
        "{few} allocations for {FEW} hits, {many} for {MANY}"
    );
}

fn page_hits(requests: usize, tool: &[&str]) -> usize {
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
    let saker = operate::native(&configuration)
        .under_valgrind(tool)
        .start(dir);
    let mut client = saker.connect().unwrap();
    for number in 0..requests {
        let response = client
            .request(
                "GET",
                "/page",
                &[("User-Agent", "someone"), ("Accept", "text/html")],
            )
            .unwrap();
        assert_eq!(
            (response.status, response.field("x-litespeed-cache")),
            (200, Some(if number == 0 { "miss" } else { "hit" }))
        );
    }
    assert!(saker.server.stop().unwrap().success());
    let said = std::fs::read_to_string(saker.dir.join("valgrind.txt")).unwrap();
    let line = said
        .lines()
        .find_map(|line| line.split_once("total heap usage:"))
        .unwrap_or_else(|| panic!("no heap usage in {said}"))
        .1;
    line.trim()
        .split(' ')
        .next()
        .unwrap()
        .replace(',', "")
        .parse()
        .unwrap()
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "says something about optimized builds only: cargo test --release"
)]
fn a_hit_takes_few_instructions() {
    let tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let instructions = |requests| count(requests, &[&[]], &tool, "Collected :");
    let each = (instructions(MANY) - instructions(FEW)) / (MANY - FEW);
    eprintln!("{each} instructions for a request");
    assert!(
        each <= INSTRUCTIONS_MAX,
        "{each} instructions for a request"
    );
}

/// One connection, so that each request pays for a whole turn of the event loop: some 900 of them
/// are tokio's and its clock's.
const INSTRUCTIONS_MAX: usize = 4000;

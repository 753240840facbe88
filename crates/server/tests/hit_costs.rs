//! What a request that hits a resolved resource costs in memory and in instructions, counted by valgrind.
//!
//! Two runs that differ in nothing but the number of requests are subtracted, so that start, stop and connections fall out, and no
//! noise of the machine gets in. Instructions mean something for an optimised build only, so in debug builds only allocations are counted.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use saker_testkit::{Saker, TempDir, saker::plain};

const BINARY: &str = env!("CARGO_BIN_EXE_saker");
const FEW: usize = 200;
const MANY: usize = 2200;

/// Serves `requests` requests on one connection under valgrind, which have these fields in turn, and returns the number behind `label` in
/// what it says in the end.
fn count(requests: usize, fields: &[&[(&str, &str)]], tool: &[&str], label: &str) -> usize {
    let dir = TempDir::new("hit-costs").unwrap();
    dir.write("www/small.html", "x".repeat(285)).unwrap();
    let saker = Saker::under_valgrind(BINARY, dir, &plain(""), tool).unwrap();
    let mut client = saker.connect().unwrap();
    for fields in fields.iter().cycle().take(requests) {
        assert_eq!(client.request("GET", "/small.html", fields).unwrap().status, 200);
    }
    assert!(saker.server.stop().unwrap().success());
    let said = std::fs::read_to_string(saker.dir.join("valgrind.txt")).unwrap();
    let line = said.lines().find_map(|line| line.split_once(label)).unwrap_or_else(|| panic!("no `{label}` in {said}")).1;
    line.trim().split(' ').next().unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn a_hit_allocates_nothing() {
    let tool = ["--tool=memcheck", "--undef-value-errors=no", "--leak-check=no"];
    let fields: [&[_]; 2] = [&[], &[("Accept-Encoding", "gzip, br, zstd"), ("Cookie", "a=b"), ("User-Agent", "someone")]];
    let allocations = |requests| count(requests, &fields, &tool, "total heap usage:");
    let (few, many) = (allocations(FEW), allocations(MANY));
    // Of the ticker and the logs there are a few, and more the longer it takes.
    assert!(few.abs_diff(many) < (MANY - FEW) / 10, "{few} allocations for {FEW} requests, {many} for {MANY}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "says something about optimised builds only: cargo test --release")]
fn a_hit_takes_few_instructions() {
    let tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let instructions = |requests| count(requests, &[&[]], &tool, "Collected :");
    let each = (instructions(MANY) - instructions(FEW)) / (MANY - FEW);
    eprintln!("{each} instructions for a request");
    assert!(each <= INSTRUCTIONS_MAX, "{each} instructions for a request");
}

/// One connection, so that each request pays for a whole turn of the event loop: some 900 of them are tokio's and its clock's.
const INSTRUCTIONS_MAX: usize = 4000;

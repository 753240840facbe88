//! Costs of routes: instructions of a dispatch do not grow with the number of routes that a path
//! can't match, and conditions that don't hold leave hits of the route cache as cheap as they are.
//!
//! Called by: `cargo test -p saker --test measured route_costs::`, with `SAKER_MEASURED` for the
//! program of a release build.
//! Caveat: ratios mean the same in debug builds, except for code of a few instructions that the
//! optimizer removes. What is compared is two sites of one server, whose requests are counted in
//! turns.
//! Out of scope: absolute figures (`budgets`, `hit_costs`).

use crate::{callgrind::Callgrind, operate};
use saker_testkit::{TempDir, saker::plain};
use std::{
    io::{Read, Write},
    os::unix::net::UnixListener,
    thread,
};

/// Instructions of a request for `/small.html` with these fields, of a site with the first and of
/// one with the second text.
fn instructions(sites: [&str; 2], fields: &[(&str, &str)]) -> [u64; 2] {
    instructions_of("/small.html", sites, fields)
}

/// The same for a path. `{origin}` in a text is the socket of a server whose pages may be kept.
fn instructions_of(path: &str, sites: [&str; 2], fields: &[(&str, &str)]) -> [u64; 2] {
    let dir = TempDir::new("route-costs").unwrap();
    dir.write("www/small.html", "x".repeat(285)).unwrap();
    origin(&dir);
    let sites =
        sites.map(|text| text.replace("{origin}", &format!("{}/origin.sock", dir.display())));
    let site = |(name, text): (&str, String)| {
        format!("\n[[site]]\nnames = [\"{name}\"]\nroot = \"{{dir}}/www\"\n{text}")
    };
    let sites: String = ["first", "other"]
        .into_iter()
        .zip(sites)
        .map(site)
        .collect();
    let callgrind = Callgrind::new();
    let saker = callgrind
        .of(operate::native(&(plain("") + &sites)))
        .start(dir);
    callgrind.of_hosts(&saker, ["first", "other"], path, fields)
}

/// A server behind, with a page for all paths that may be kept for an hour.
fn origin(dir: &TempDir) {
    let listener = UnixListener::bind(dir.join("origin.sock")).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut part) {
                head.extend_from_slice(&part[..count]);
                if head.ends_with(b"\r\n\r\n") {
                    head.clear();
                    let answer = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: 4\r\n\r\npage";
                    let _ = stream.write_all(answer);
                }
            }
        }
    });
}

fn routes(count: usize) -> String {
    (0..count)
        .map(|number| {
            let path = match number % 2 {
                0 => format!("/app{number}/*"),
                _ => format!("/page{number}.html"),
            };
            format!("[[site.route]]\npath = \"{path}\"\ndeny = true\n")
        })
        .collect()
}

/// Content makes the route cache stand aside, so that each request is dispatched.
const DISPATCHED: &[(&str, &str)] = &[("Content-Length", "0")];

#[test]
fn ten_thousand_routes_cost_no_more_than_ten() {
    let _turn = crate::beside_others();
    let [ten, many] = instructions([&routes(10), &routes(10_000)], DISPATCHED);
    eprintln!("{ten} instructions with 10 routes, {many} with 10,000");
    assert!(
        many <= ten + ten / 10,
        "{ten} with 10 routes, {many} with 10,000"
    );
}

/// Routes, variables, a map, and conditions that no request of these tests meets.
pub const UNUSED_CONDITIONS: &str = "[site.vars]\nname = \"value\"\n\
     [[site.route]]\npath_regex = '^/user/([0-9]+)$'\nrewrite = \"/user.php?id=$1\"\n\
     [[site.route]]\npath = \"/api/*\"\nmatch = { header = { X-Tag = \"one\" }, cookie = { a = true } }\ndeny = true\n\
     [[site.route]]\npath = \"/small.html\"\nmatch = { method = \"POST\" }\ndeny = true\n\
     [[site.route]]\npath = \"/old/*\"\nredirect = \"$moved\"\n\
     [map.moved]\nsource = \"$uri\"\nexact = { \"/old/a\" = \"/new/a\" }\nregex = { '^/old/([0-9]+)$' = \"/new/$1\" }\n";

/// Two microseconds of a processor with three instructions a nanosecond.
const PATTERN_INSTRUCTIONS_MAX: u64 = 6000;

#[test]
fn a_route_by_regular_expression_costs_little() {
    let _turn = crate::beside_others();
    let route = "[[site.route]]\npath_regex = '^/(?:user|group)/(\\d+)/(?<page>[a-z]+)\\.html$|\\.small$'\ndeny = true\n";
    let [without, with] = instructions(["", route], DISPATCHED);
    eprintln!("a dispatch: {without} instructions, with a regular expression {with}");
    assert!(
        with <= without + PATTERN_INSTRUCTIONS_MAX,
        "{without}, with a regular expression {with}"
    );
}

/// The goal is 1 % in optimized builds; without optimization, one test of a condition weighs more.
fn percent_max() -> u64 {
    let is_optimized = !cfg!(debug_assertions) || operate::optimized().is_some();
    if is_optimized { 1 } else { 3 }
}

#[test]
fn conditions_that_do_not_hold_cost_a_hit_almost_nothing() {
    let _turn = crate::beside_others();
    let [without, with] = instructions(["", UNUSED_CONDITIONS], &[]);
    eprintln!("a hit: {without} instructions, with conditions {with}");
    assert!(
        with <= without + without * percent_max() / 100,
        "{without}, with conditions {with}"
    );
}

/// The same for pages of the page cache.
#[test]
fn conditions_that_do_not_hold_cost_a_hit_of_the_page_cache_almost_nothing() {
    let _turn = crate::beside_others();
    let kept = "[[site.route]]\npath = \"/kept/*\"\nproxy = \"http+unix:{origin}\"\n";
    let refused =
        "[[site.route]]\npath = \"/kept/*\"\nmatch = { method = \"DELETE\" }\ndeny = true\n";
    let cached = format!("cache = true\n{kept}");
    let with_conditions = format!("cache = true\n{refused}{kept}{UNUSED_CONDITIONS}");
    let [without, with] = instructions_of("/kept/page", [&cached, &with_conditions], &[]);
    eprintln!("a hit of the page cache: {without} instructions, with conditions {with}");
    assert!(
        with <= without + without * percent_max() / 100,
        "{without}, with conditions {with}"
    );
}

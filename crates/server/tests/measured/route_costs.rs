//! Costs of routes: instructions of a dispatch do not grow with the number of routes that a path
//! can't match, and conditions that don't hold leave hits of the route cache as cheap as they are.
//!
//! Called by: `cargo test -p saker --test measured route_costs::`.
//! Caveat: ratios mean the same in debug builds, except for code of a few instructions that the
//! optimizer removes. What is compared is two sites of one server, whose requests are counted in
//! turns.
//! Out of scope: absolute figures (`budgets`, `hit_costs`).

use crate::{callgrind::Callgrind, operate};
use saker_testkit::{Client, TempDir, saker::plain};
use std::time::Duration;

const COUNTED: usize = 100;
const ROUNDS: usize = 5;
/// For valgrind to have the server up.
const PATIENCE: Duration = Duration::from_secs(300);

/// Instructions of a request for `/small.html` with these fields, of a site with the first and of
/// one with the second text.
fn instructions(sites: [&str; 2], fields: &[(&str, &str)]) -> [u64; 2] {
    let dir = TempDir::new("route-costs").unwrap();
    dir.write("www/small.html", "x".repeat(285)).unwrap();
    let site =
        |(name, text)| format!("\n[[site]]\nnames = [\"{name}\"]\nroot = \"{{dir}}/www\"\n{text}");
    let sites: String = ["first", "other"]
        .into_iter()
        .zip(sites)
        .map(site)
        .collect();
    let callgrind = Callgrind::new();
    let saker = callgrind
        .of(operate::native(&(plain("") + &sites)))
        .start(dir);
    let mut client = saker.connect().unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let ask = |client: &mut Client, host: &str| {
        let fields = [&[("Host", host)], fields].concat();
        for _ in 0..COUNTED {
            let response = client.request("GET", "/small.html", &fields).unwrap();
            assert_eq!(response.status, 200);
        }
    };
    // Everything is kept that will be.
    ask(&mut client, "first");
    callgrind.begin(&saker);
    let mut fewest = [u64::MAX; 2];
    for _ in 0..ROUNDS {
        for (host, fewest) in ["first", "other"].into_iter().zip(&mut fewest) {
            ask(&mut client, host);
            let count = callgrind.of_worker(&saker, || ask(&mut client, host));
            *fewest = (*fewest).min(count / COUNTED as u64);
        }
    }
    fewest
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

/// Routes, variables, and conditions that no request of these tests meets.
pub const UNUSED_CONDITIONS: &str = "[site.vars]\nname = \"value\"\n\
     [[site.route]]\npath_regex = '^/user/([0-9]+)$'\nrewrite = \"/user.php?id=$1\"\n\
     [[site.route]]\npath = \"/api/*\"\nmatch = { header = { X-Tag = \"one\" }, cookie = { a = true } }\ndeny = true\n\
     [[site.route]]\npath = \"/small.html\"\nmatch = { method = \"POST\" }\ndeny = true\n";

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

/// The goal is 1 % in release builds; without optimization, one test of a condition weighs more.
const PERCENT_MAX: u64 = if cfg!(debug_assertions) { 3 } else { 1 };

#[test]
fn conditions_that_do_not_hold_cost_a_hit_almost_nothing() {
    let _turn = crate::beside_others();
    let [without, with] = instructions(["", UNUSED_CONDITIONS], &[]);
    eprintln!("a hit: {without} instructions, with conditions {with}");
    assert!(
        with <= without + without * PERCENT_MAX / 100,
        "{without}, with conditions {with}"
    );
}

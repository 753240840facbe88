//! Costs of routes: instructions of a dispatch do not grow with the number of routes that a path
//! can't match, and conditions that don't hold leave hits of the route cache as cheap as they are.
//!
//! Counted by callgrind, as in `hit_costs`: two runs that differ in the number of requests are
//! subtracted. Ratios mean the same in debug builds.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{TempDir, saker::plain};
use std::time::Duration;

const FEW: usize = 100;
const MANY: usize = 600;
/// For valgrind to have the server up.
const PATIENCE: Duration = Duration::from_secs(300);

/// Instructions of a request for `/small.html` with these fields, behind these routes.
fn instructions(routes: &str, fields: &[(&str, &str)]) -> usize {
    let run = |requests: usize| {
        let dir = TempDir::new("route-costs").unwrap();
        dir.write("www/small.html", "x".repeat(285)).unwrap();
        let tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
        let saker = operate::native(&(plain("") + routes))
            .under_valgrind(&tool)
            .start(dir);
        let mut client = saker.connect().unwrap();
        client.set_timeout(PATIENCE).unwrap();
        for _ in 0..requests {
            let response = client.request("GET", "/small.html", fields).unwrap();
            assert_eq!(response.status, 200);
        }
        assert!(saker.server.stop().unwrap().success());
        let said = std::fs::read_to_string(saker.dir.join("valgrind.txt")).unwrap();
        let line = said
            .lines()
            .find_map(|line| line.split_once("Collected :"))
            .unwrap_or_else(|| panic!("no count in {said}"))
            .1;
        line.trim().replace(',', "").parse::<usize>().unwrap()
    };
    (run(MANY).saturating_sub(run(FEW))) / (MANY - FEW)
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
fn two_thousand_routes_cost_no_more_than_ten() {
    let _alone = crate::alone();
    let (ten, many) = (
        instructions(&routes(10), DISPATCHED),
        instructions(&routes(2000), DISPATCHED),
    );
    eprintln!("{ten} instructions with 10 routes, {many} with 2,000");
    assert!(
        many <= ten + ten / 10,
        "{ten} with 10 routes, {many} with 2,000"
    );
}

const UNUSED: &str = "[site.vars]\nname = \"value\"\n\
     [[site.route]]\npath_regex = '^/user/([0-9]+)$'\nrewrite = \"/user.php?id=$1\"\n\
     [[site.route]]\npath = \"/api/*\"\nmatch = { header = { X-Tag = \"one\" }, cookie = { a = true } }\ndeny = true\n\
     [[site.route]]\npath = \"/small.html\"\nmatch = { method = \"POST\" }\ndeny = true\n";

/// The goal is 1 % in release builds; without optimization, one test of a condition weighs more, and
/// two runs of the same configuration differ by 2 %.
const PERCENT_MAX: usize = 7;

#[test]
fn conditions_that_do_not_hold_cost_a_hit_almost_nothing() {
    let _alone = crate::alone();
    let (without, with) = (instructions("", &[]), instructions(UNUSED, &[]));
    eprintln!("a hit: {without} instructions, with conditions {with}");
    assert!(
        with <= without + without * PERCENT_MAX / 100,
        "{without}, with conditions {with}"
    );
}

//! Costs of choosing a location of an nginx configuration: instructions of a dispatch do not grow
//! with the number of prefix locations.
//!
//! Called by: `cargo test -p saker --test measured location_costs::`.
//! Caveat: two server blocks are compared whose requests are counted in turns.
//! Out of scope: absolute figures.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::{callgrind::Callgrind, operate};
use saker_testkit::{Saker, TempDir};
use std::fmt::Write as _;

/// 300 ns of the machine that the goal is meant for: three instructions per nanosecond, and a debug
/// build's ten for one.
const INSTRUCTIONS_MAX: u64 = 300 * 3 * 10;

/// Instructions of a request that is dispatched, in two server blocks with so many prefix locations
/// beside the one that is asked for.
fn instructions(locations: [usize; 2]) -> [u64; 2] {
    let mut text = "daemon off;\npid {dir}/pid;\nevents { }\nhttp {\naccess_log off;\nkeepalive_requests 10000;\n".to_owned();
    for (name, locations) in ["first", "other"].into_iter().zip(locations) {
        writeln!(text, "server {{\nlisten {{address}};\nserver_name {name};").unwrap();
        for number in 0..locations {
            let answer = "return 200 other;";
            writeln!(text, "location /app{number:04}/part/ {{ {answer} }}").unwrap();
        }
        text.push_str("location /app0500/part/wanted/ { return 200 ok; }\n}\n");
    }
    text.push_str("}\n");
    let dir = TempDir::new("location-costs").unwrap();
    let callgrind = Callgrind::without_privileges(&dir);
    let builder = Saker::nginx(operate::SAKER, &text).workers(1);
    let saker = callgrind.of(builder).start(dir);
    let path = "/app0500/part/wanted/x";
    assert_eq!(saker.connect().unwrap().get(path).unwrap().text(), "ok");
    // Content makes the route cache stand aside.
    callgrind.of_hosts(&saker, ["first", "other"], path, &[("Content-Length", "0")])
}

#[test]
fn a_thousand_locations_cost_little_more_than_one() {
    let _turn = crate::beside_others();
    let [one, many] = instructions([0, 1000]);
    eprintln!("{one} instructions with one location, {many} with 1,001");
    assert!(
        many <= one + INSTRUCTIONS_MAX,
        "{one} with one location, {many} with 1,001"
    );
}

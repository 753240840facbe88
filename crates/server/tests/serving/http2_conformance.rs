//! h2spec, in full, over cleartext and over TLS.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate::{configuration, folder, start_in};
use crate::tls_site;
use saker_testkit::{Saker, require};
use std::process::Command;

/// The port speaks HTTP/1.1 too, and says so in HTTP/1.1 before it closes (RFC 9113 section 3.4
/// lets the GOAWAY be left out).
const EXCEPTION: &str = "Sends invalid connection preface";

/// Runs all of h2spec. There is no race to excuse: a stream that is answered before its request has
/// ended stays open for the client's next frames, so errors in them are reported in any case.
fn h2spec(saker: &Saker, arguments: &[&str]) {
    assert_eq!(failures(saker, arguments), [""; 0]);
}

fn failures(saker: &Saker, arguments: &[&str]) -> Vec<String> {
    let port = saker.server.address().port().to_string();
    let mut command = Command::new(require("h2spec").unwrap());
    command
        .args(["-h", "127.0.0.1", "-p", &port, "-o", "5", "--strict"])
        .args(arguments);
    let output = command.output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(
        report.lines().any(|line| line.starts_with("146 tests")),
        "{report}"
    );
    let case = |line: &str| line.split('×').nth(1).map(|case| case.trim().to_owned());
    report
        .lines()
        .filter_map(case)
        .filter(|case| !case.contains(EXCEPTION))
        .collect()
}

#[test]
fn over_cleartext() {
    let saker = start_in(folder("h2spec"), &configuration("workers = 1", ""));
    h2spec(&saker, &[]);
}

#[test]
fn over_tls() {
    let saker = tls_site::start("h2spec-tls", "", "");
    h2spec(&saker, &["-t", "-k"]);
}

//! h2spec, in full, over cleartext and over TLS.

#![allow(clippy::unwrap_used)] // The whole file is tests.

mod operate;
mod tls_site;

use operate::{configuration, folder, start_in};
use saker_testkit::{Saker, require};
use std::process::Command;

/// Where h2spec and we differ, with the reason. What is not here has to pass.
const EXCEPTIONS: [&str; 3] = [
    // The port speaks HTTP/1.1 too, and says so in HTTP/1.1 before it closes (RFC 9113 section 3.4 lets the GOAWAY be left out).
    "Sends invalid connection preface",
    // Static files take no POST: the 405 is complete (RFC 9113 section 8.1) before the client's next frame is on its way. Whether it comes
    // first is a race, which http2's own tests decide without one.
    "Sends a second HEADERS frame without the END_STREAM flag",
    "Sends a HEADERS frame with the \"content-length\" header field which does not equal",
];

/// Runs all of h2spec.
fn h2spec(saker: &Saker, arguments: &[&str]) {
    let port = saker.server.address().port().to_string();
    let mut command = Command::new(require("h2spec").unwrap());
    command.args(["-h", "127.0.0.1", "-p", &port, "-o", "5", "--strict"]).args(arguments);
    let output = command.output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    let summary = report.lines().rfind(|line| line.contains("tests,")).unwrap_or_default().to_owned();
    println!("{summary}");
    let failed: Vec<&str> = report.lines().filter(|line| line.contains('×')).collect();
    let unexpected: Vec<&&str> = failed.iter().filter(|line| !EXCEPTIONS.iter().any(|known| line.contains(known))).collect();
    assert!(summary.starts_with("146 tests") && unexpected.is_empty(), "{unexpected:?}\n{report}");
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

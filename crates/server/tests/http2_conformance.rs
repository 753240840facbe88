//! h2spec, in full, over cleartext and over TLS.

#![allow(clippy::unwrap_used)] // The whole file is tests.

mod operate;
mod tls_site;

use operate::{configuration, folder, start_in};
use saker_testkit::{Saker, require};
use std::process::Command;

/// Runs all of h2spec, which counts what fails itself.
fn h2spec(saker: &Saker, arguments: &[&str]) {
    let port = saker.server.address().port().to_string();
    let mut command = Command::new(require("h2spec").unwrap());
    command.args(["-h", "127.0.0.1", "-p", &port, "-o", "5", "--strict"]).args(arguments);
    let output = command.output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    let summary = report.lines().rfind(|line| line.contains("tests,")).unwrap_or_default().to_owned();
    println!("{summary}");
    assert!(output.status.success() && summary.contains(" 0 failed"), "{report}");
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

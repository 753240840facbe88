//! Debian's `litmus` against a server.

use saker_testkit::{TempDir, require};
use std::process::Command;

/// Runs all suites of litmus against a collection; panics unless all tests pass.
pub fn litmus(url: &str) {
    let work = TempDir::new("litmus").expect("a folder");
    let program = require("litmus").expect("litmus");
    let output = Command::new("timeout")
        .arg("120")
        .arg(program)
        .args(["-k", url])
        .current_dir(&*work)
        .output()
        .expect("litmus runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text
        .lines()
        .filter(|line| line.contains("0 failed. 100.0%"));
    assert_eq!(passed.count(), 5, "{text}");
    assert!(!text.contains("FAIL"), "{text}");
}

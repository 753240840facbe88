//! Tests that need a process of their own, although they share a program with others.
//!
//! Called by: tests that count this process' descriptors, children, or memory.
//! Caveat: the test runs in a child, so its output appears only where it fails.
//! Out of scope: users and namespaces, which each test sets up for itself.

use std::{env, process::Command};

const MARK: &str = "SAKER_TEST_IN_OWN_PROCESS";

/// Runs the calling test, `name` in `module`, once more in a process of its own and returns true;
/// returns false in that process, where the test has to go on.
///
/// ```text
/// #[test]
/// fn nothing_is_left() {
///     if saker_testkit::ran_in_own_process(module_path!(), "nothing_is_left") {
///         return;
///     }
///     ...
/// }
/// ```
///
/// # Panics
/// If the test fails in its process, with the output of that process.
#[allow(
    clippy::panic,
    clippy::expect_used,
    reason = "it stands for a test's own assertion"
)]
pub fn ran_in_own_process(module: &str, name: &str) -> bool {
    let module = module.split_once("::").map_or("", |(_, rest)| rest);
    let test = format!("{module}::{name}");
    let test = test.trim_start_matches("::");
    if env::var_os(MARK).is_some_and(|mark| mark == test) {
        return false;
    }
    let output = Command::new(env::current_exe().expect("the path of this program"))
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .args(["--test-threads", "1"])
        .env(MARK, test)
        .output()
        .expect("this program starts once more");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{test} in a process of its own:\n{stdout}{stderr}"
    );
    print!("{stdout}");
    true
}

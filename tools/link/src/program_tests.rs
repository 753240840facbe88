//! `saker-link` as a program: what it runs and prints, and that nothing outlives it.
//!
//! Called by: `cargo test -p saker-link`, as root and with /dev/net/tun. Caveat: this test program
//! stands in for `saker-link`: it runs `as_saker_link` once more, with the arguments in its
//! environment, and what the test harness prints first is skipped. Out of scope: what a link does
//! to packets (`tests/link.rs`).

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

const ARGUMENTS: &str = "SAKER_LINK_ARGUMENTS";
const BETWEEN: &str = "\u{1f}";
/// Output of the test harness before the program runs.
const HARNESS: &str = "\nrunning 1 test\n";

#[test]
#[ignore = "the program that the tests below start"]
fn as_saker_link() {
    let words = std::env::var(ARGUMENTS).expect("started by another test");
    let words = words.split(BETWEEN).map(str::to_owned);
    std::process::exit(super::status(words).into());
}

fn link(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command
        .args(["--exact", "program_tests::as_saker_link", "--ignored"])
        .args(["--nocapture", "--quiet", "--test-threads", "2"])
        .env(ARGUMENTS, words.join(BETWEEN));
    command
}

fn output(words: &[&str]) -> Output {
    let mut output = link(words).output().expect("it runs");
    let own = output.stdout.strip_prefix(HARNESS.as_bytes());
    output.stdout = own.expect("the harness speaks first").to_vec();
    output
}

/// True if the process runs; a zombie doesn't.
fn runs(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state
        .rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(15);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A server that says who it is and what it has started, and a client that takes its time.
fn long_run() -> (Child, Vec<String>) {
    let server = "sleep 60 & echo $$ $!; wait";
    let mut child = link(&["--", "sh", "-c", server, "--", "sleep", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    for _ in HARNESS.lines() {
        stdout.read_line(&mut line).expect("the harness speaks");
    }
    assert_eq!(line, HARNESS);
    line.clear();
    stdout.read_line(&mut line).expect("the server speaks");
    let pids: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    assert!(
        pids.len() == 2 && pids.iter().all(|pid| runs(pid)),
        "{line}"
    );
    (child, pids)
}

#[test]
fn the_client_reaches_the_server_and_its_status_is_ours() {
    let script = "exec 3<>/dev/tcp/10.53.0.1/8000 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && read -r line <&3 && echo \"$line\"; exit 3";
    let server = "import http.server as h; h.HTTPServer(('10.53.0.1', 8000), h.SimpleHTTPRequestHandler).serve_forever()";
    let said = output(&[
        "--delay", "5ms", "--wait", "8000", "--", "python3", "-c", server, "--", "bash", "-c",
        script,
    ]);
    let (out, err) = (
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr),
    );
    assert!(out.starts_with("HTTP/1.0 200"), "{out}{err}");
    assert_eq!(said.status.code(), Some(3), "{err}");
    assert!(
        err.contains("link to client: ") && err.contains(" 0 dropped, 0 lost, 0 held back"),
        "{err}"
    );
}

#[test]
fn a_server_that_does_not_start_is_an_error() {
    let said = output(&["--wait", "8000", "--", "false", "--", "true"]);
    assert_eq!(said.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&said.stderr).contains("the server ended"),
        "{said:?}"
    );
    let said = output(&["--", "/not/there", "--", "true"]);
    assert!(
        String::from_utf8_lossy(&said.stderr).contains("/not/there: "),
        "{said:?}"
    );
    assert!(
        !output(&["--speed", "1", "--", "true", "--", "true"])
            .status
            .success()
    );
}

#[test]
fn signals_end_all_of_it() {
    for signal in ["TERM", "INT", "HUP"] {
        let (mut child, pids) = long_run();
        let told = Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .status()
            .expect("kill is there");
        assert!(told.success());
        assert!(!child.wait().expect("it ends").success());
        wait_until(&format!("{pids:?} outlive {signal}"), || {
            !pids.iter().any(|pid| runs(pid))
        });
    }
}

#[test]
fn what_it_started_ends_even_when_it_is_killed() {
    let (mut child, pids) = long_run();
    child.kill().expect("killed");
    child.wait().expect("it ends");
    // The leader is told by the kernel; what it has started itself is its own affair then.
    wait_until("the server outlives it", || !runs(&pids[0]));
    let _ = Command::new("kill").args(["-KILL", &pids[1]]).status();
}

//! `saker-link` itself: what it runs, what it says, and that nothing outlives it. Needs root and
//! /dev/net/tun.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

fn link(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saker-link"));
    command.args(words);
    command
}

fn output(words: &[&str]) -> Output {
    link(words).output().expect("it runs")
}

/// Whether the process still runs; one that nobody has waited for is none.
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
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("the server speaks");
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

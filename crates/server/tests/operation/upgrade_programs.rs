//! Upgrades to programs that are none of ours, as administrators write them: scripts that start the
//! server and leave it to itself, that leave none, that stand still, that take over and end. The
//! command says what has happened, and leaves nothing behind.

use crate::{
    operate::{self, SAKER, wait_until},
    upgrade::{Load, State, keeping, knocking, text},
};
use saker_testkit::{Saker, require};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
};

/// Lines of a script by which it passes the check.
const CHECKED: &str = "[ \"$SAKER_UPGRADE\" = check ] && exec SAKER \"$@\"";
/// Lines of a subshell that goes on when the script has ended.
const ORPHANED: &str = "while kill -0 $$ 2>/dev/null; do :; done";

/// A server under load, and a script in the place of its next program.
struct Running {
    load: Load,
    // Stops the server that is there in the end, which the folder of the first one tells.
    state: State,
    saker: Saker,
    pid: u64,
}

impl Running {
    fn start(name: &str) -> Running {
        let configuration = operate::configuration("workers = 2", "cache = true");
        let saker = operate::start(name, &configuration);
        let state = State::of(&saker);
        let address = saker.server.address();
        Running {
            load: Load::start(vec![knocking(address), keeping(address)]),
            pid: state.pid(),
            state,
            saker,
        }
    }

    fn script(&self, lines: &[&str]) -> PathBuf {
        let lines = lines.join("\n").replace("SAKER \"", &format!("{SAKER} \""));
        let script =
            format!("#!/bin/sh\n{lines}\n").replace("DIR", &self.saker.dir.to_string_lossy());
        let path = self.saker.dir.write("script", script).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("changed");
        path
    }

    fn upgrade(&self, lines: &[&str], more: &[&str]) -> Output {
        let script = self.script(lines);
        let script = script.to_string_lossy();
        let words: Vec<&str> = [&*script].into_iter().chain(more.iter().copied()).collect();
        self.state.upgrade(&words)
    }

    /// The server that the command names serves.
    fn is_upgraded(&mut self, output: &Output, what: &str) {
        let said = text(output);
        assert!(output.status.success(), "{what}: {said}");
        let now = self.state.pid();
        let line = format!("upgraded: pid {} has handed over to pid {now}\n", self.pid);
        assert_eq!(operate::stdout(output), line, "{what}");
        self.pid = now;
        self.load.goes_on();
        wait_until("it is alone", || {
            self.state.status()["finishing_pid"].is_null()
        });
    }

    /// The command has said why, and nothing has changed.
    fn is_as_before(&self, output: &Output, why: &str) {
        let said = text(output);
        assert_eq!(output.status.code(), Some(2), "{why}: {said}");
        assert!(said.contains(why), "{why}: {said}");
        assert!(said.contains("the server goes on as before"), "{said}");
        self.load.goes_on();
        assert_eq!(self.state.pid(), self.pid, "{why}");
        wait_until("the page cache is open", || {
            self.state.status()["page_cache"].is_array()
        });
    }

    /// The processes that wrote their numbers there have ended with the command.
    fn are_gone(&self, files: &[&str]) {
        for name in files {
            let pid = fs::read_to_string(self.saker.dir.join(name)).expect("a number");
            let pid = pid.trim();
            assert!(!Path::new("/proc").join(pid).exists(), "{name}: {pid}");
        }
    }

    /// The next program, which is the server itself, has its turn at once.
    fn ends(mut self) {
        let upgraded = self.state.upgrade(&[]);
        self.is_upgraded(&upgraded, "at the end");
        self.load
            .finish()
            .unwrap_or_else(|why| panic!("{why}\n{}", self.saker.server.stderr()));
    }
}

/// In the background, in a session of its own, as a grandchild, after the script has ended: the
/// command waits for the server, not for the script.
#[test]
fn a_script_may_leave_the_server_to_itself() {
    let _turn = saker_testkit::heavy();
    let mut running = Running::start("upgrade-script");
    let orphan = format!("( {ORPHANED}; exec SAKER \"$@\" ) &");
    let session = format!("( {ORPHANED}; exec setsid SAKER \"$@\" ) &");
    let grandchild = format!("( ( {ORPHANED}; SAKER \"$@\" ) & ) &");
    for lines in [
        &["exec SAKER \"$@\""][..],
        &[CHECKED, "SAKER \"$@\" &", "exit 0"],
        &[CHECKED, &orphan, "exit 0"],
        &[CHECKED, &session],
        &[CHECKED, &grandchild],
        // The check is left to itself, too.
        &[&orphan],
        // It is wrong about itself.
        &[CHECKED, &orphan, "exit 7"],
    ] {
        let upgraded = running.upgrade(lines, &[]);
        running.is_upgraded(&upgraded, &lines.join("; "));
    }
    running.ends();
}

/// It ends well, and so does what it has left for a while; or it does not.
#[test]
fn a_script_that_leaves_no_server_upgrades_nothing() {
    let running = Running::start("upgrade-script-none");
    let failing = format!("( {ORPHANED}; exit 1 ) &");
    let refused = format!("( {ORPHANED}; exec SAKER \"nonsense\" ) &");
    for lines in [&["exit 0"][..], &[CHECKED, &failing], &[CHECKED, &refused]] {
        let output = running.upgrade(lines, &[]);
        running.is_as_before(&output, "script has ended and left no server");
    }
    let output = running.upgrade(&[CHECKED, &failing, "exit 7"], &[]);
    running.is_as_before(&output, "not upgraded (exit status: 7)");
    // One that found another upgrade under way, and was left to itself.
    let late = format!("( {ORPHANED}; exit 4 ) &");
    let output = running.upgrade(&[CHECKED, &late], &[]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("another upgrade is under way"));
    running.ends();
}

/// In the check and in the take-over, itself and by what it has left behind; and a server that has
/// got the sockets and goes no further.
#[test]
fn what_stands_still_is_killed_and_named() {
    let running = Running::start("upgrade-script-still");
    let pauses = "sleep 1000 & echo $! >DIR/left; echo $$ >DIR/own; wait";
    let leaves = "setsid sleep 1000 & echo $! >DIR/left; exit 0";
    let output = running.upgrade(&[pauses], &["--timeout", "1"]);
    let script = running.saker.dir.join("script");
    let why = format!(
        "not upgraded: {} has not read the configuration within 1 s",
        script.display()
    );
    running.is_as_before(&output, &why);
    running.are_gone(&["own", "left"]);
    let late = "not upgraded: the new server has not listened within 1 s, and was killed";
    let output = running.upgrade(&[CHECKED, pauses], &["--timeout", "1"]);
    running.is_as_before(&output, late);
    running.are_gone(&["own", "left"]);
    let output = running.upgrade(&[CHECKED, leaves], &["--timeout", "1"]);
    running.is_as_before(&output, late);
    running.are_gone(&["left"]);
    let strace = require("strace").expect("strace");
    for behind in ["recvmsg", "clone3"] {
        let stopped = format!(
            "exec {} -o DIR/trace -e inject={behind}:signal=STOP:when=1 SAKER \"$@\"",
            strace.display()
        );
        let output = running.upgrade(&[CHECKED, &stopped], &["--timeout", "3"]);
        running.is_as_before(&output, "has not listened within 3 s, and was killed");
        let trace = fs::read_to_string(running.saker.dir.join("trace")).expect("a trace");
        assert!(trace.contains("stopped by SIGSTOP"), "{behind}: {trace}");
    }
    for wrong in ["0", "-1", "1s", "100000000000000000000"] {
        let output = running.state.upgrade(&[&format!("--timeout={wrong}")]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(text(&output).contains("--timeout"), "{}", text(&output));
    }
    running.ends();
}

/// Before it listens, it has taken nothing; behind that, the server from before is on its way out,
/// and the command does not say that it goes on.
#[test]
fn a_server_that_takes_over_and_ends_is_told_by_the_moment() {
    let running = Running::start("upgrade-script-ends");
    let strace = require("strace").expect("strace");
    for behind in ["recvmsg", "inotify_init1", "clone3"] {
        let killed = format!(
            "exec {} -o DIR/trace -e inject={behind}:signal=KILL:when=1 SAKER \"$@\"",
            strace.display()
        );
        let output = running.upgrade(&[CHECKED, &killed], &[]);
        running.is_as_before(&output, "not upgraded (signal: 9 (SIGKILL))");
    }
    running
        .load
        .finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", running.saker.server.stderr()));
    let before = running.pid;
    let (mut saker, state) = (running.saker, running.state);
    let script = [
        CHECKED,
        "unset SAKER_UPGRADE_FROM; command=$PPID",
        // So that it looks when everything is over.
        "kill -STOP $command",
        "SAKER \"$@\" &",
        "until env -u SAKER_UPGRADE SAKER \"status\" --json --state-dir DIR/state | grep -q \"\\\"pid\\\": $!,\"; do :; done",
        "kill -KILL $!; wait $!",
        "until [ ! -e /proc/OLD ] || grep -q 'State:.Z' /proc/OLD/status; do :; done",
        "kill -CONT $command",
        "exit 1",
    ];
    let script = script.map(|line| line.replace("OLD", &before.to_string()));
    let lines = script
        .join("\n")
        .replace("SAKER \"", &format!("{SAKER} \""));
    let lines = lines.replace("DIR", &saker.dir.to_string_lossy());
    let path = saker.dir.write("script", format!("#!/bin/sh\n{lines}\n"));
    let path = path.expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("changed");
    let output = state.upgrade(&[&path.to_string_lossy()]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let why = format!("the new server has ended after it had taken over from pid {before}: ");
    assert!(said.contains(&why), "{said}");
    assert!(!said.contains("goes on as before"), "{said}");
    assert_eq!(operate::exit_code(&mut saker.server), Some(0));
}

//! Upgrades in trouble: a successor that stands still for a while, a full disk below the state
//! directory, a running server without descriptors, a stranger in the server's place. The running
//! server answers all along, and exactly one of both goes on.

use crate::{
    operate::{self, SAKER, wait_until},
    upgrade::{Load, State, at_stage, keeping, knocking, text},
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use saker_testkit::{Saker, free_port, require};
use std::{
    collections::HashMap,
    fs::{self, File},
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

fn loaded(saker: &Saker) -> Load {
    Load::start(vec![
        knocking(saker.server.address()),
        keeping(saker.server.address()),
    ])
}

/// A successor that stops (SIGSTOP) behind a system call of its main thread.
fn standing_still(saker: &Saker, behind: &str, trace: &Path) -> Child {
    let strace = require("strace").expect("strace");
    let mut command = Command::new(strace);
    command.arg("-o").arg(trace).arg("-e");
    command.arg(format!("inject={behind}:signal=STOP:when=1"));
    command.arg(SAKER).args(["run", "-c"]);
    command.arg(saker.dir.join("saker.toml"));
    command.env("SAKER_UPGRADE", "take over");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("runs")
}

/// The process that strace runs, once it is stopped.
fn stopped_child(strace: &Child, trace: &Path) -> Pid {
    wait_until("the successor stands still", || {
        let said = fs::read_to_string(trace).unwrap_or_default();
        said.contains("stopped by SIGSTOP")
    });
    let children = format!("/proc/{0}/task/{0}/children", strace.id());
    let children = fs::read_to_string(children).expect("children");
    let pid = children.split_whitespace().next().expect("a child");
    Pid::from_raw(pid.parse().expect("a number")).expect("a number")
}

/// While it reads the configuration, when it has workers, when it is about to say that it listens:
/// requests go on in the running server, and the successor takes over once it goes on itself; or it
/// is killed.
#[test]
fn a_successor_may_stand_still() {
    let _turn = saker_testkit::heavy();
    let configuration = operate::configuration("workers = 2", "cache = true");
    let saker = operate::start("upgrade-still", &configuration);
    let state = State::of(&saker);
    let trace = saker.dir.join("trace");
    let load = loaded(&saker);
    let mut running = Vec::new();
    for (behind, goes_on) in [
        ("recvmsg", false),
        ("recvmsg", true),
        ("inotify_init1", false),
        ("clone3", true),
        ("clone3", false),
    ] {
        let before = state.pid();
        let _ = fs::remove_file(&trace);
        let mut strace = standing_still(&saker, behind, &trace);
        let pid = stopped_child(&strace, &trace);
        load.goes_on();
        assert_eq!(state.pid(), before, "{behind}");
        if goes_on {
            kill_process(pid, Signal::CONT).expect("sent");
            let pid = u64::from(pid.as_raw_nonzero().get().unsigned_abs());
            wait_until("it has taken over", || state.pid() == pid);
            wait_until("it is alone", || state.status()["finishing_pid"].is_null());
            running.push(strace);
        } else {
            kill_process(pid, Signal::KILL).expect("sent");
            strace.wait().expect("waited");
            wait_until("the page cache is open again", || {
                state.status()["page_cache"].is_array()
            });
            assert_eq!(state.pid(), before, "{behind}");
        }
        load.goes_on();
    }
    load.finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", saker.server.stderr()));
    drop(state);
    for mut strace in running {
        strace.wait().expect("waited");
    }
}

/// While a successor is there, however far it has come, others are told so.
#[test]
fn a_second_upgrade_is_told_of_the_first() {
    let configuration = operate::configuration("workers = 2", "cache = true");
    let saker = operate::start("upgrade-second", &configuration);
    let state = State::of(&saker);
    let before = state.pid();
    let own = format!("pid {} is taking over", std::process::id());
    for stage in 0..3 {
        at_stage(&state.0, stage, || {
            let second = state.upgrade(&[]);
            let said = text(&second);
            assert_eq!(second.status.code(), Some(4), "{stage}: {said}");
            assert!(said.contains(&own), "{stage}: {said}");
            assert_eq!(operate::stdout(&second), "", "{stage}");
        });
        assert_eq!(state.pid(), before, "{stage}");
    }
    // One that is to replace another server, which is not there any more.
    let late = Command::new(SAKER)
        .args(["run", "-c"])
        .arg(saker.dir.join("saker.toml"))
        .env("SAKER_UPGRADE", "take over")
        .env("SAKER_UPGRADE_FROM", "1")
        .output()
        .expect("runs");
    assert_eq!(late.status.code(), Some(4), "{}", text(&late));
    let said = format!("pid {before} has replaced pid 1 meanwhile");
    assert!(text(&late).contains(&said), "{}", text(&late));
    assert_eq!(state.pid(), before);
    // The first one is gone: the next one has its turn at once.
    let upgraded = state.upgrade(&[]);
    assert!(upgraded.status.success(), "{}", text(&upgraded));
}

/// Each command that says that it has upgraded has, and those that have not say so.
#[test]
fn of_upgrades_at_once_each_says_what_it_did() {
    let configuration = operate::configuration("workers = 1", "");
    let saker = operate::start("upgrade-at-once", &configuration);
    let state = State::of(&saker);
    let (load, first) = (loaded(&saker), state.pid());
    let outputs = thread::scope(|scope| {
        let commands: Vec<_> = (0..6).map(|_| scope.spawn(|| state.upgrade(&[]))).collect();
        let ended = commands.into_iter().map(|command| command.join());
        ended.collect::<Result<Vec<_>, _>>().expect("no panic")
    });
    let mut handed_over = HashMap::new();
    for output in &outputs {
        let said = text(output);
        match output.status.code() {
            Some(0) => {
                let line = operate::stdout(output);
                let words: Vec<&str> = line.split_whitespace().collect();
                assert_eq!(words[..2], ["upgraded:", "pid"], "{said}");
                let (old, new) = (words[2], words[words.len() - 1]);
                let double = handed_over.insert(old.to_owned(), new.to_owned());
                assert_eq!(double, None, "{said}");
            }
            Some(4) => assert!(said.contains("another upgrade"), "{said}"),
            other => panic!("{other:?}: {said}"),
        }
    }
    assert!(!handed_over.is_empty());
    // One that was late may have replaced the new server in turn.
    let mut pid = first.to_string();
    while let Some(next) = handed_over.remove(&pid) {
        pid = next;
    }
    assert!(handed_over.is_empty(), "{handed_over:?}");
    assert_eq!(pid, state.pid().to_string());
    load.goes_on();
    load.finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", saker.server.stderr()));
}

/// The running server can't hand its sockets over: it says so, and has lost nothing.
#[test]
fn without_descriptors_an_upgrade_is_refused() {
    let configuration = operate::configuration("workers = 2", "cache = true");
    let saker = operate::start("upgrade-descriptors", &configuration);
    let state = State::of(&saker);
    let pid = state.pid();
    let limit = |descriptors: usize| {
        let mut command = Command::new(require("prlimit").expect("prlimit"));
        command.arg(format!("--pid={pid}"));
        command.arg(format!("--nofile={descriptors}:"));
        assert!(command.status().expect("runs").success());
    };
    let open = || {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .expect("a process")
            .count()
    };
    for spare in [1, 2, 4] {
        limit(open() + spare);
        let refused = state.upgrade(&[]);
        assert!(!refused.status.success(), "{spare}: {}", text(&refused));
        limit(1024);
        assert_eq!(state.pid(), pid, "{spare}");
        wait_until("the page cache is open again", || {
            state.status()["page_cache"].is_array()
        });
        let mut client = saker.connect().expect("connected");
        assert_eq!(client.get("/").expect("answered").status, 200, "{spare}");
    }
    let upgraded = state.upgrade(&[]);
    assert!(upgraded.status.success(), "{}", text(&upgraded));
    assert_ne!(state.pid(), pid);
}

/// Another user's process that says what servers say, with a program of its own to be started.
const STRANGER: &str = r#"
import json, os, socket, sys
def leave():
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
door = socket.socket(socket.AF_UNIX)
if sys.argv[3] == "before": leave()
door.bind(sys.argv[1] + "/control.sock")
door.listen(8)
if sys.argv[3] == "after": leave()
while True:
    client, _ = door.accept()
    if not client.recv(65536):
        continue
    answer = {"ok": True, "pid": 1, "uid": 0, "program": sys.argv[2], "is_replaced": True,
              "arguments": ["saker"], "directory": "/", "environment": {}, "listening_uid": 0}
    client.sendall(json.dumps(answer).encode() + b"\n")
    client.close()
"#;

/// Has root ask a stranger who gives up root's rights before or after it listens. Returns what root is
/// told by `upgrade`; no program of the stranger's may have run.
fn ask_stranger(name: &str, owner: u32, leaves: &str) -> String {
    let dir = operate::folder(name);
    let (folder, ran) = (dir.join("strange"), dir.join("ran"));
    fs::create_dir(&folder).expect("made");
    std::os::unix::fs::chown(&folder, Some(owner), Some(owner)).expect("given");
    let script = format!("#!/bin/sh\nid -u >{}\n", ran.display());
    let program = dir.write("program", script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("changed");
    let mut stranger = Command::new(require("python3").expect("python3"))
        .args(["-c", STRANGER])
        .args([&folder, &program])
        .arg(leaves)
        .spawn()
        .expect("runs");
    let folder = folder.to_string_lossy();
    wait_until("the stranger listens", || {
        std::os::unix::net::UnixStream::connect(format!("{folder}/control.sock")).is_ok()
    });
    let reloaded = operate::saker(["reload", "--upgrade", "--state-dir", &folder]);
    assert!(!ran.exists(), "reload: {}", text(&reloaded));
    let said = operate::saker(["upgrade", "--state-dir", &folder]);
    assert!(!said.status.success(), "{}", text(&said));
    assert!(!ran.exists(), "upgrade: {}", text(&said));
    stranger.kill().expect("killed");
    stranger.wait().expect("waited");
    text(&said)
}

/// Another user who may write to the folder can put a socket in the place of the server's.
#[test]
fn what_a_stranger_names_is_not_run() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: being two users takes root");
        return;
    }
    let said = ask_stranger("upgrade-stranger", 65_534, "before");
    assert!(said.contains("user 65534"), "{said}");
}

/// A server has the socket that root opened for it, and no rights of root's. An attacker in it could
/// name anything.
#[test]
fn root_runs_nothing_that_a_server_without_its_rights_names() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: being two users takes root");
        return;
    }
    let said = ask_stranger("upgrade-compromised", 0, "after");
    assert!(said.contains("no record of the start of pid 1"), "{said}");
}

/// A server whose state directory is in a small file system that only it and its successors see.
#[test]
fn a_full_disk_keeps_no_successor_from_its_work() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: mounting a file system takes root");
        return;
    }
    let dir = operate::folder("upgrade-full");
    fs::create_dir(dir.join("state")).expect("made");
    let configuration = operate::configuration("workers = 2", "cache = true");
    let folder = dir.join("state");
    let script = format!(
        "mount -t tmpfs -o size=4m,mode=755 none {} && exec \"$0\" \"$@\"",
        folder.display()
    );
    let unshare = require("unshare").expect("unshare");
    let unshare = unshare.to_string_lossy();
    let alone = [
        &*unshare,
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        &script,
    ];
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().expect("a port")));
    let server = operate::native(&configuration)
        .wrapped(&alone)
        .at(address)
        .until_accepting()
        .start_in(&dir);
    let load = Load::start(vec![knocking(address), keeping(address)]);
    let mut pid = server.pid();
    for round in 0..3 {
        let inside = format!("/proc/{pid}/root{}", folder.display());
        let filler = Path::new(&inside).join("filler");
        let is_full = fs::write(&filler, vec![1; 8 << 20]).is_err();
        assert!(is_full && File::open(&filler).is_ok(), "{round}");
        load.goes_on();
        let upgraded = Command::new(require("nsenter").expect("nsenter"))
            .args(["--target", &pid.to_string(), "--mount", SAKER])
            .args(["upgrade", "--state-dir"])
            .arg(&folder)
            .output()
            .expect("runs");
        let said = text(&upgraded);
        assert!(upgraded.status.success(), "{round}: {said}");
        let new = operate::stdout(&upgraded)
            .rsplit("to pid ")
            .next()
            .and_then(|pid| pid.trim().parse().ok());
        pid = new.unwrap_or_else(|| panic!("{said}"));
        load.goes_on();
        let state = State(format!("/proc/{pid}/root{}", folder.display()).into());
        wait_until("it is alone", || state.status()["finishing_pid"].is_null());
        std::mem::forget(state);
        fs::remove_file(format!("/proc/{pid}/root{}/filler", folder.display())).expect("removed");
    }
    load.finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", server.stderr()));
    let pid = Pid::from_raw(pid.cast_signed()).expect("a number");
    kill_process(pid, Signal::TERM).expect("sent");
    wait_until("it has ended", || test_kill_process(pid).is_err());
}

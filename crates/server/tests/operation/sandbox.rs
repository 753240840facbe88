//! The sandbox: what a worker of the real program can do when an attacker has it, programs that the
//! broker starts outside, and reloads that need more than is in force.
//!
//! Caveat: a debugger makes the worker's system calls, so this needs gdb and root. The numbers of
//! the calls are those of x86-64.

use crate::{
    operate::{self, PATIENCE, configuration, folder, reload, rewrite, saker, wait_until},
    upgrade::State,
};
use rustix::process::{Pid, kill_process};
use saker_testkit::{Client, Saker, TempDir, require, wait_until_or};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::{self, Command},
};

/// More than is on the way at a time.
const LARGE: u64 = 64 << 20;
const NOBODY: u32 = 65_534;
const EPERM: i64 = 1;
const EACCES: i64 = 13;
const ENOSYS: i64 = 38;

fn can_attack() -> bool {
    let can = cfg!(target_arch = "x86_64") && rustix::process::geteuid().is_root();
    if !can {
        println!("left out: root on x86-64 is needed");
    }
    can
}

/// Result and errno by name.
fn attack(pid: u64, calls: &[(&str, String)]) -> BTreeMap<String, (i64, i64)> {
    let lines: Vec<String> = calls
        .iter()
        .map(|(name, call)| format!("{name} {call}"))
        .collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operation/sandbox_attack.py");
    let output = Command::new(require("gdb").unwrap())
        .args(["-nx", "-batch", "-p", &pid.to_string(), "-x"])
        .arg(script)
        .env("SAKER_CALLS", lines.join("\n"))
        .env_remove("DEBUGINFOD_URLS")
        .output()
        .unwrap();
    let text = operate::stdout(&output);
    let answers = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("CALL ")?.split(' ');
        let name = words.next()?.to_owned();
        Some((
            name,
            (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
        ))
    });
    let answers: BTreeMap<_, _> = answers.collect();
    assert_eq!(
        answers.len(),
        calls.len(),
        "{text}{}",
        operate::stderr(&output)
    );
    answers
}

/// A port that nothing listens on, as the text of a `sockaddr_in`.
fn unused_address() -> String {
    let [high, low] = saker_testkit::free_port().unwrap().to_be_bytes();
    format!(
        "\"\\002\\000\\{high:03o}\\{low:03o}\\177\\000\\000\\001\\000\\000\\000\\000\\000\\000\\000\\000\""
    )
}

/// Calls that have to fail, with the error, and some that have to work.
fn calls(dir: &Path, outside: &Path) -> Vec<(&'static str, String, i64)> {
    let open =
        |path: &Path, flags: &str| format!("257, -100, \"{}\", {flags}, 0644", path.display());
    vec![
        ("reads-own", open(&dir.join("www/index.html"), "0"), 0),
        ("writes-state", open(&dir.join("state/made"), "0101"), 0),
        ("shadow", open(Path::new("/etc/shadow"), "0"), EACCES),
        ("outside", open(outside, "0"), EACCES),
        (
            "writes-content",
            open(&dir.join("www/made.html"), "0101"),
            EACCES,
        ),
        (
            "writes-outside",
            open(&outside.with_file_name("made"), "0101"),
            EACCES,
        ),
        (
            "writes-configuration",
            open(&dir.join("saker.toml"), "1"),
            EACCES,
        ),
        (
            "beside-configuration",
            open(&dir.join("made.toml"), "0101"),
            EACCES,
        ),
        ("memory", open(Path::new("/proc/1/mem"), "2"), EACCES),
        ("execve", "59, \"/bin/true\", 0, 0".into(), EPERM),
        (
            "execveat",
            "322, -100, \"/bin/true\", 0, 0, 0".into(),
            EPERM,
        ),
        ("fork", "57".into(), EPERM),
        ("clone", "56, 17, 0, 0, 0, 0".into(), EPERM),
        ("clone3", "435, 0, 0".into(), ENOSYS),
        ("ptrace", format!("101, 16, {}, 0, 0", process::id()), EPERM),
        (
            "process_vm_readv",
            format!("310, {}, 0, 0, 0, 0, 0", process::id()),
            EPERM,
        ),
        ("kill", format!("62, {}, 0", process::id()), EPERM),
        ("unshare", "272, 0x10000000".into(), EPERM),
        ("bpf", "321, 0, 0, 0".into(), EPERM),
        ("io_uring_setup", "425, 8, 0".into(), EPERM),
        ("setuid", "105, 0".into(), EPERM),
        ("packet-socket", "41, 17, 3, 0".into(), EPERM),
        // Numbers of another calling convention of the same processor.
        (
            "execve-x32",
            "0x40000000 + 520, \"/bin/true\", 0, 0".into(),
            ENOSYS,
        ),
        ("socket", "41, 2, 1, 0".into(), 0),
    ]
}

/// Attacks a worker, and returns what the log says about it.
fn fails(saker: &Saker, outside: &Path) {
    let pid = u64::from(saker.server.pid());
    let calls = calls(&saker.dir, outside);
    let asked: Vec<_> = calls
        .iter()
        .map(|(name, call, _)| (*name, call.clone()))
        .collect();
    let answers = attack(pid, &asked);
    for (name, _, errno) in &calls {
        let (result, found) = answers[*name];
        assert_eq!(
            (result < 0, found),
            (*errno != 0, *errno),
            "{name}: {answers:?}"
        );
    }
    let socket = answers["socket"].0;
    let bound = attack(
        pid,
        &[("bind", format!("49, {socket}, {}, 16", unused_address()))],
    );
    assert_eq!(bound["bind"], (-1, EACCES));
    for name in [
        "execve",
        "ptrace",
        "fork",
        "clone (a process)",
        "socket (of another family)",
    ] {
        wait_until("refused calls are in the log", || {
            let log = saker.server.stderr();
            log.lines()
                .any(|said| said.contains("SK0119") && said.contains(name))
        });
    }
    let mut client = saker.connect().unwrap();
    client.set_timeout(PATIENCE).unwrap();
    assert_eq!(client.get("/").unwrap().status, 200, "and it serves on");
}

/// A file that everybody may read, and that no server needs.
fn outside() -> TempDir {
    let dir = TempDir::new("sandbox-outside").unwrap();
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o777)).unwrap();
    dir.write("readable", "text").unwrap();
    dir
}

#[test]
fn a_worker_of_root_is_confined() {
    if !can_attack() {
        return;
    }
    let (dir, outside) = (folder("sandbox-root"), outside());
    let saker = operate::native(&configuration("sandbox = \"on\"\nworkers = 1", "")).start(dir);
    fails(&saker, &outside.join("readable"));
}

#[test]
fn a_worker_beside_a_broker_is_confined_and_its_programs_are_not() {
    if !can_attack() {
        return;
    }
    let (dir, outside) = (folder("sandbox-user"), outside());
    let script = format!(
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ncat {}\ngrep Seccomp: /proc/self/status\n",
        outside.join("readable").display()
    );
    let program = dir.write("www/x.cgi", script).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    let text = configuration(
        "sandbox = \"on\"\nworkers = 1\nuser = \"nobody\"",
        "cgi = [\"*.cgi\"]",
    );
    let saker = operate::native(&text).start(dir);
    let mut client = saker.connect().unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let answer = client.get("/x.cgi").unwrap().text();
    assert!(
        answer.starts_with("text") && answer.contains("Seccomp:\t0"),
        "{answer}"
    );
    fails(&saker, &outside.join("readable"));
    // All threads: none was there before the sandbox.
    let tasks = fs::read_dir(format!("/proc/{}/task", saker.server.pid())).unwrap();
    for task in tasks.flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        assert!(
            status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"),
            "{status}"
        );
    }
}

#[test]
fn a_reload_that_needs_more_has_a_new_server_take_over() {
    let (dir, other) = (folder("sandbox-reload"), outside());
    other.write("www/index.html", "other").unwrap();
    let one = configuration("sandbox = \"on\"\nworkers = 1", "");
    let saker = operate::native(&one).start(dir);
    let state = State::of(&saker);
    let first = state.pid();
    let status = state.status();
    assert!(
        status["sandbox"]["landlock"].as_u64().unwrap() >= 1,
        "{status}"
    );
    assert_eq!(status["sandbox"]["mode"], "on");
    let page = saker_status(&saker);
    assert!(page.contains("sandbox         files"), "{page}");

    let two = one.clone()
        + &format!(
            "\n[[site]]\nnames = [\"other.example\"]\nroot = \"{}\"\n",
            other.join("www").display()
        );
    rewrite(&saker, &two);
    assert_eq!(
        host(saker.server.address(), "other.example"),
        "<p>hello</p>\n"
    );
    let output = reload(&saker);
    assert!(output.status.success(), "{}", operate::stderr(&output));
    assert_ne!(state.pid(), first);
    assert_eq!(host(saker.server.address(), "other.example"), "other");

    // A configuration that is allowed already needs none.
    let second = state.pid();
    rewrite(&saker, &two.replace("other.example", "next.example"));
    assert!(reload(&saker).status.success());
    assert_eq!(
        (state.pid(), state.status()["generation"].as_u64()),
        (second, Some(2))
    );
    assert_eq!(host(saker.server.address(), "next.example"), "other");
}

/// Processes whose parent this one is, by their numbers.
fn children(pid: u64) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let numbers = text.split_whitespace();
    numbers.map(|number| number.parse().unwrap()).collect()
}

fn is_running(pid: u64) -> bool {
    Path::new(&format!("/proc/{pid}/exe")).exists()
}

/// The launcher starts it: as root for a server that becomes another user, and as the user that
/// runs it for any other.
#[test]
fn a_signal_and_a_changed_file_have_a_new_server_take_over() {
    let is_root = rustix::process::geteuid().is_root();
    for server in [
        "workers = 1\nsandbox = \"on\"",
        "workers = 1\nsandbox = \"on\"\nuser = \"nobody\"",
        "workers = 1\nsandbox = \"on\"\nwatch = true",
    ] {
        if server.contains("nobody") && !is_root {
            continue;
        }
        let (dir, other) = (folder("sandbox-launcher"), outside());
        other.write("www/index.html", "other").unwrap();
        let one = configuration(server, "");
        let saker = operate::native(&one).start(dir);
        let state = State::of(&saker);
        let first = state.pid();
        let wrong = one.clone() + "\n[[site]]\nnonsense = 1\n";
        let two = one.clone()
            + &format!(
                "\n[[site]]\nnames = [\"other.example\"]\nroot = \"{}\"\n",
                other.join("www").display()
            );
        let reload = |text: &str| {
            rewrite(&saker, text);
            if !server.contains("watch") {
                let pid = Pid::from_raw(state.pid().try_into().unwrap()).unwrap();
                kill_process(pid, rustix::process::Signal::HUP).unwrap();
            }
        };
        // Errors start none.
        reload(&wrong);
        wait_until("it is refused", || saker.server.stderr().contains("SK0202"));
        let helpers = children(first);
        reload(&two);
        wait_until("another one serves", || {
            operate::ask(&state.0, "status").is_some_and(|status| status["pid"] != first)
        });
        assert!(saker.server.stderr().contains("SK0121"));
        // The old one may still take a connection.
        wait_until("it answers", || {
            host(saker.server.address(), "other.example") == "other"
        });
        wait_until("the old one and its helpers have ended", || {
            !is_running(first) && helpers.iter().all(|helper| !is_running(*helper))
        });
        // The new one can do the same, once it knows.
        wait_until("it is alone", || state.status()["finishing_pid"].is_null());
        let second = state.pid();
        let more = outside();
        more.write("www/index.html", "more").unwrap();
        reload(&two.replace(
            &other.join("www").display().to_string(),
            &more.join("www").display().to_string(),
        ));
        wait_until_or(
            || operate::ask(&state.0, "status").is_some_and(|status| status["pid"] != second),
            || format!("a third one serves: {}", saker.server.stderr()),
        );
        wait_until("it answers, too", || {
            host(saker.server.address(), "other.example") == "more"
        });
    }
}

/// A change while the server before the running one still finishes a response: there are no more than
/// two, so its turn comes when that one has ended.
#[test]
fn a_change_waits_for_the_server_before_the_last() {
    let dir = folder("sandbox-waits");
    let large = fs::File::create(dir.join("www/large.bin")).unwrap();
    large.set_len(LARGE).unwrap();
    let one = configuration("workers = 1\nsandbox = \"on\"", "");
    let saker = operate::native(&one).start(dir);
    let state = State::of(&saker);
    let (first, others) = (state.pid(), [outside(), outside()]);
    let change = |number: usize| {
        let root = others[number].write("www/index.html", number.to_string());
        let root = root.unwrap().parent().unwrap().display().to_string();
        let site = format!("\n[[site]]\nnames = [\"other.example\"]\nroot = \"{root}\"\n");
        rewrite(&saker, &(one.clone() + &site));
        let pid = Pid::from_raw(state.pid().try_into().unwrap()).unwrap();
        kill_process(pid, rustix::process::Signal::HUP).unwrap();
    };
    let mut download = TcpStream::connect(saker.server.address()).unwrap();
    download
        .write_all(b"GET /large.bin HTTP/1.0\r\n\r\n")
        .unwrap();
    download.read_exact(&mut [0; 1000]).unwrap();
    change(0);
    let pid = || operate::ask(&state.0, "status").and_then(|status| status["pid"].as_u64());
    wait_until("another one serves", || {
        pid().is_some_and(|pid| pid != first)
    });
    let second = state.pid();
    let refusals = || saker.server.stderr().matches("SK0202").count();
    let before = refusals();
    change(1);
    wait_until("it is refused", || refusals() > before);
    assert_eq!(state.pid(), second);
    let rest = io::copy(&mut download, &mut io::sink()).unwrap();
    assert!(rest > LARGE - 1000, "{rest}");
    wait_until_or(
        || pid().is_some_and(|pid| ![first, second].contains(&pid)),
        || format!("a third one serves: {}", saker.server.stderr()),
    );
    wait_until("it answers", || {
        host(saker.server.address(), "other.example") == "1"
    });
}

/// The broker binds listeners; these are bound by the confined process itself.
#[test]
fn metrics_and_the_console_come_by_reload() {
    if !can_attack() {
        return;
    }
    let one = configuration("workers = 1\nuser = \"nobody\"", "");
    let saker = operate::start("sandbox-endpoints", &one);
    // A new server takes over; it is stopped at the end.
    let _state = State::of(&saker);
    // `saker console` opens one there.
    let ports = operate::ask(&saker.dir.join("state"), "status").unwrap();
    let ports = ports["sandbox"]["ports"].as_array().unwrap().clone();
    assert!(ports.contains(&7080.into()), "{ports:?}");
    let [metrics, console] = [(); 2].map(|()| saker_testkit::free_port().unwrap());
    rewrite(
        &saker,
        &format!(
            "{one}\n[metrics]\naddress = \"127.0.0.1:{metrics}\"\n\n[console]\naddress = \"127.0.0.1:{console}\"\n"
        ),
    );
    let output = reload(&saker);
    assert!(output.status.success(), "{}", operate::stderr(&output));
    for port in [metrics, console] {
        wait_until("it listens", || {
            Client::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_ok()
        });
    }
}

fn host(address: SocketAddr, name: &str) -> String {
    let mut client = Client::connect(address).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client
        .send(format!(
            "GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
        ))
        .unwrap();
    client.read_response().unwrap().text()
}

fn saker_status(saker: &Saker) -> String {
    let folder = saker.dir.join("state");
    operate::stdout(&self::saker([
        "status",
        "--state-dir",
        &folder.to_string_lossy(),
    ]))
}

#[test]
fn a_server_that_starts_programs_says_so_or_does_not_start() {
    let text = |mode: &str| {
        configuration(
            &format!("sandbox = \"{mode}\"\nworkers = 1"),
            "access_log = \"|/usr/bin/cat\"",
        )
    };
    let error = operate::native(&text("on"))
        .try_start_in(&folder("sandbox-programs-on"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("can't be put in force") && error.contains("log programs"),
        "{error}"
    );
    let saker = operate::start("sandbox-programs", &text("auto"));
    let page = saker_status(&saker);
    assert!(
        page.contains("nothing is confined; this process starts programs: log programs"),
        "{page}"
    );
    let saker = operate::start("sandbox-off", &text("off"));
    assert_eq!(
        operate::ask(&saker.dir.join("state"), "status").unwrap()["sandbox"]["summary"],
        "off (`sandbox` in [server])"
    );
    let status = fs::read_to_string(format!("/proc/{}/status", saker.server.pid())).unwrap();
    assert!(status.contains("Seccomp:\t0"), "{status}");
}

#[test]
fn a_file_that_the_sandbox_keeps_from_being_read_is_named() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: other users can't read it either");
        return;
    }
    let dir = folder("sandbox-named");
    std::os::unix::fs::symlink("/etc/shadow", dir.join("www/link")).unwrap();
    chown(&*dir, Some(NOBODY), None).unwrap();
    let saker = operate::native(&configuration("workers = 1", "symlinks = \"follow\"")).start(dir);
    let mut client = saker.connect().unwrap();
    client.set_timeout(PATIENCE).unwrap();
    assert_eq!(client.get("/link").unwrap().status, 403);
    wait_until("the refusal is in the log", || {
        let log = saker.server.stderr();
        log.lines()
            .any(|line| line.contains("SK0119") && line.contains("www/link"))
    });
}

//! Signals and ends: what TERM, QUIT, USR1 and a crash leave behind.

use crate::operate;
use crate::operate::{
    Load, PATIENCE, begin_download, configuration, exit_code, folder, lines, pattern,
    rest_of_download, start,
};
use saker_testkit::{Client, Saker, Signal};
use std::time::{Duration, Instant};

const LARGE: usize = 24 << 20;
const IDLE: usize = 24;

fn with_download(name: &str, server: &str) -> Saker {
    let dir = folder(name);
    dir.write("www/large.bin", pattern(LARGE)).expect("written");
    operate::start_in(dir, &configuration(server, "access_log = \"access.log\""))
}

#[test]
fn term_finishes_what_is_open() {
    let mut saker = with_download("signals-term", "workers = 2");
    let mut first = saker.connect().expect("connected");
    assert_eq!(first.get("/").expect("answered").status, 200);
    let mut idle = vec![first];
    let mut half = saker.connect().expect("connected");
    assert_eq!(half.get("/").expect("answered").status, 200);
    half.send("GET / HTTP/1.1\r\nHost: localhost\r\n")
        .expect("sent");
    let (mut slow, begun) = begin_download(&saker, "/large.bin", 100_000);
    half.pause(Duration::from_millis(200)).expect("open");
    // Enough that each worker has one: when all are closed, both know that the server stops.
    for _ in 1..IDLE {
        let mut another = saker.connect().expect("connected");
        assert_eq!(another.get("/").expect("answered").status, 200);
        idle.push(another);
    }

    saker.server.signal(Signal::TERM).expect("sent");
    for connection in &mut idle {
        assert!(
            connection.closed_within(PATIENCE),
            "an idle connection is closed at once"
        );
    }
    // They come to whatever is open still.
    assert_eq!(
        saker
            .connect()
            .expect("let in")
            .get("/")
            .expect("answered")
            .status,
        200
    );
    half.send("\r\n").expect("sent");
    let response = half.read_response().expect("answered");
    assert_eq!(
        (response.status, response.field("connection")),
        (200, Some("close"))
    );
    assert!(half.closed_within(PATIENCE));
    assert!(
        rest_of_download(&mut slow, begun, LARGE) == pattern(LARGE),
        "the download is not whole"
    );
    assert_eq!(exit_code(&mut saker.server), Some(0));
    assert!(
        !saker.dir.join("state/saker.pid").exists()
            && !saker.dir.join("state/control.sock").exists()
    );
    assert_eq!(lines(&saker.dir.join("access.log")).len(), 4 + IDLE);
}

#[test]
fn stopping_is_bounded() {
    let mut saker = with_download("signals-bound", "workers = 1\nshutdown_timeout = \"1s\"");
    let (slow, _) = begin_download(&saker, "/large.bin", 1000);
    let began = Instant::now();
    saker.server.signal(Signal::TERM).expect("sent");
    assert_eq!(exit_code(&mut saker.server), Some(0));
    assert!(
        began.elapsed() >= Duration::from_millis(900),
        "{:?}",
        began.elapsed()
    );
    saker
        .server
        .wait_for_stderr("SK0105", PATIENCE)
        .expect("said");
    let logged = lines(&saker.dir.join("access.log"));
    assert!(
        logged.len() == 1 && logged[0].contains("GET /large.bin HTTP/1.1\" 200 "),
        "what was cut has its line: {logged:?}"
    );
    drop(slow);
}

#[test]
fn quit_does_not_wait() {
    let mut saker = with_download("signals-quit", "workers = 2\nshutdown_timeout = \"10m\"");
    let (slow, _) = begin_download(&saker, "/large.bin", 1000);
    saker.server.signal(Signal::QUIT).expect("sent");
    assert_eq!(exit_code(&mut saker.server), Some(0));
    drop(slow);
}

#[test]
fn waiting_can_be_cut_short() {
    type Cut = fn(&Saker);
    let ways: [(&str, Cut); 3] = [
        ("a second TERM", |saker| {
            saker.server.signal(Signal::TERM).expect("sent")
        }),
        ("QUIT", |saker| {
            saker.server.signal(Signal::QUIT).expect("sent")
        }),
        ("saker stop --now", |saker| {
            let output = operate::saker([
                "stop",
                "--now",
                "--state-dir",
                &saker.dir.join("state").to_string_lossy(),
            ]);
            assert!(output.status.success(), "{}", operate::stderr(&output));
        }),
    ];
    for (name, cut) in ways {
        let mut saker = with_download("signals-cut", "workers = 1\nshutdown_timeout = \"10m\"");
        let (slow, _) = begin_download(&saker, "/large.bin", 1000);
        saker.server.signal(Signal::TERM).expect("sent");
        saker
            .server
            .wait_for_stderr("SK0103", PATIENCE)
            .expect("it is stopping");
        assert_eq!(
            saker
                .server
                .wait_for_exit(Duration::from_millis(300))
                .expect("waited"),
            None,
            "{name}: it waits"
        );
        assert!(
            operate::ask(&saker.dir.join("state"), "status").is_some(),
            "{name}: and still answers"
        );
        let refused = operate::reload(&saker);
        assert!(
            operate::stderr(&refused).contains("the server is stopping"),
            "{refused:?}"
        );
        cut(&saker);
        assert_eq!(exit_code(&mut saker.server), Some(0), "{name}");
        drop(slow);
    }
}

#[test]
fn stop_waits_for_the_end() {
    let mut saker = start("signals-stop", &configuration("workers = 1", ""));
    let state = saker.dir.join("state").to_string_lossy().into_owned();
    let output = operate::saker(["stop", "--state-dir", &state]);
    assert_eq!(
        operate::stdout(&output),
        format!("stopped (pid {})\n", saker.server.pid())
    );
    assert_eq!(
        saker
            .server
            .wait_for_exit(Duration::from_secs(1))
            .expect("waited")
            .and_then(|status| status.code()),
        Some(0)
    );
    assert_eq!(
        operate::saker(["stop", "--state-dir", &state])
            .status
            .code(),
        Some(3)
    );
}

#[test]
fn usr1_loses_no_line() {
    const ROTATIONS: usize = 6;
    let server = "workers = 2\nerror_log = \"error.log\"\nlog_level = \"info\"";
    let saker = start(
        "signals-usr1",
        &configuration(server, "access_log = \"access.log\""),
    );
    let (path, error_log) = (saker.dir.join("access.log"), saker.dir.join("error.log"));
    let load = Load::start(saker.server.address(), 6, "/", "<p>hello</p>\n");
    for number in 0..ROTATIONS {
        operate::wait_until("some lines", || {
            load.has_failed() || path.metadata().is_ok_and(|metadata| metadata.len() > 0)
        });
        std::fs::rename(&path, saker.dir.join(format!("access.log.{number}"))).expect("renamed");
        std::fs::rename(&error_log, saker.dir.join(format!("error.log.{number}")))
            .expect("renamed");
        saker.server.signal(Signal::USR1).expect("sent");
        operate::wait_until("new files", || path.exists() && error_log.exists());
    }
    let requests = load.finish().expect("no error");
    let dir = saker.dir.to_path_buf();
    operate::saker(["stop", "--state-dir", &dir.join("state").to_string_lossy()]);
    let mut all = lines(&path);
    for number in 0..ROTATIONS {
        let old = lines(&dir.join(format!("access.log.{number}")));
        assert!(!old.is_empty(), "rotation {number} has no line");
        all.extend(old);
    }
    assert_eq!(all.len() as u64, requests);
    assert!(
        all.iter()
            .all(|line| line.contains("\"GET / HTTP/1.1\" 200 13 ")),
        "a torn line"
    );
    assert!(
        lines(&dir.join("error.log.0"))
            .iter()
            .any(|line| line.contains("SK0101")),
        "the first error log has the start"
    );
    assert!(
        lines(&error_log).iter().any(|line| line.contains("SK0104")),
        "the last one the end"
    );
}

#[test]
fn a_log_that_cannot_be_reopened_stays_in_use() {
    let saker = start(
        "signals-usr1-fails",
        &configuration("workers = 1", "access_log = \"logs/access.log\"")
            .replace("\"logs/", "\"{dir}/logs-"),
    );
    let path = saker.dir.join("logs-access.log");
    std::fs::rename(&path, saker.dir.join("moved")).expect("renamed");
    std::fs::create_dir(&path).expect("made");
    saker.server.signal(Signal::USR1).expect("sent");
    saker
        .server
        .wait_for_stderr("SK0604", PATIENCE)
        .expect("said");
    assert_eq!(
        saker
            .connect()
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );
    operate::wait_until("the line", || lines(&saker.dir.join("moved")).len() == 1);
}

#[test]
fn a_killed_server_is_followed_at_once() {
    let dir = folder("signals-kill");
    let unix = dir.join("http.sock");
    let plain = configuration("workers = 2", "")
        + &format!("\n[[listener]]\naddress = \"unix:{}\"\n", unix.display());
    let mut saker = operate::start_in(dir, &plain);
    let mut client = saker.connect().expect("connected");
    assert_eq!(client.get("/").expect("answered").status, 200);
    for _ in 0..3 {
        saker.server.kill().expect("killed");
        assert!(
            saker.dir.join("state/saker.pid").exists() && unix.exists(),
            "a crash leaves its files"
        );
        assert_eq!(
            operate::saker([
                "status",
                "--state-dir",
                &saker.dir.join("state").to_string_lossy()
            ])
            .status
            .code(),
            Some(3)
        );
        // The same port and state directory.
        saker.server = operate::native("")
            .existing_file("saker.toml")
            .at(saker.server.address())
            .start_in(&saker.dir);
        assert_eq!(
            saker
                .connect()
                .expect("connected")
                .get("/")
                .expect("answered")
                .status,
            200
        );
        assert_eq!(
            Client::connect_unix(&unix)
                .expect("connected")
                .get("/")
                .expect("answered")
                .status,
            200
        );
    }
}

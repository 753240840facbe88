//! The command line from the outside: exit statuses, output, and the addressed server.

use crate::operate;
use crate::operate::{PATIENCE, SAKER, configuration, folder, saker, start, stderr, stdout};
use saker_testkit::{Client, Saker, TempDir, saker::Builder};
use serde_json::Value;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

fn state_of(saker: &Saker) -> String {
    saker.dir.join("state").to_string_lossy().into_owned()
}

#[test]
fn exit_statuses() {
    let dir = folder("cli-exit");
    let (good, bad) = (dir.join("good.toml"), dir.join("bad.toml"));
    let text = configuration("", "")
        .replace("{dir}", &dir.to_string_lossy())
        .replace("{address}", "127.0.0.1:1");
    fs::write(&good, &text).expect("written");
    fs::write(&bad, text.replace("root", "rooot")).expect("written");
    let (good, bad, nowhere) = (
        good.to_string_lossy(),
        bad.to_string_lossy(),
        dir.join("nowhere").to_string_lossy().into_owned(),
    );
    let rows: &[(&[&str], i32)] = &[
        (&["--version"], 0),
        (&["version"], 0),
        (&["--help"], 0),
        (&["serve", "--help"], 0),
        (&[], 2),
        (&["nonsense"], 2),
        (&["serve", "--workers", "0"], 2),
        (&["serve", "--http", "http"], 2),
        (&["serve", &nowhere], 2),
        (&["serve", "--https", "8443", "--cert", &nowhere], 2),
        (&["check", "-c", &good], 0),
        (&["check", "-c", &bad], 1),
        (&["check", "-c", &nowhere], 1),
        (&["run", "-c", &bad], 1),
        (&["run", "-c", &nowhere], 1),
        (&["explain", "-c", &good, "/"], 0),
        (&["explain", "-c", &bad, "/"], 1),
        (&["explain", "-c", &good, "http://a b/"], 2),
        (&["status", "--state-dir", &nowhere], 3),
        (&["reload", "--state-dir", &nowhere], 3),
        (&["stop", "--state-dir", &nowhere], 3),
        (&["status", "-c", &good], 3),
        (&["status", "-c", &bad], 1),
        (&["purge", "--state-dir", &nowhere], 2),
        (&["purge", "--all", "--state-dir", &nowhere], 3),
        (&["cache", "stat", "--state-dir", &nowhere], 3),
        (&["schema"], 0),
        (&["reference"], 0),
        (&["completions", "bash"], 0),
        (&["completions", "csh"], 2),
        (&["man"], 0),
    ];
    for (arguments, status) in rows {
        let output = saker(*arguments);
        assert_eq!(
            output.status.code(),
            Some(*status),
            "{arguments:?}: {}{}",
            stdout(&output),
            stderr(&output)
        );
        let silent = if *status == 0 {
            output.stdout.is_empty()
        } else {
            output.stderr.is_empty()
        };
        assert!(!silent, "{arguments:?} says nothing");
    }
}

#[test]
fn check_shows_every_error_at_once() {
    let dir = folder("cli-check");
    let text = "[server]\nworkers = \"many\"\nstate_dri = \"x\"\n\n[[listener]]\naddress = \"localhost\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"www\"\nlisting = 3\n";
    let path = dir.write("saker.toml", text).expect("written");
    let output = saker(["check".as_ref(), "-c".as_ref(), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    for place in [
        "saker.toml:2:11: error: ",
        "saker.toml:3:1: error: ",
        "saker.toml:6:11: error: ",
        "saker.toml:11:11: error: ",
    ] {
        assert!(said.contains(place), "{place} is not in:\n{said}");
    }
    assert!(
        said.contains("did you mean")
            && said.contains("state_dri = \"x\"")
            && said.contains("^^^^"),
        "{said}"
    );
    assert!(said.ends_with(": 4 errors\n"), "{said}");

    let output = saker([
        "check".as_ref(),
        "--json".as_ref(),
        "-c".as_ref(),
        path.as_os_str(),
    ]);
    let report: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(
        (output.status.code(), &report["ok"]),
        (Some(1), &Value::Bool(false))
    );
    let lines: Vec<u64> = report["diagnostics"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["line"].as_u64())
        .collect();
    assert_eq!(lines, [2, 3, 6, 11]);

    fs::write(
        &path,
        "[[listener]]\naddress = \"127.0.0.1:80\"\n[[site]]\nnames = [\"*\"]\nroot = \"www\"\n",
    )
    .expect("written");
    let output = saker(["check".as_ref(), "-c".as_ref(), path.as_os_str()]);
    assert_eq!(
        (
            output.status.code(),
            stdout(&output).ends_with("saker.toml: ok: 1 listener, 1 site\n")
        ),
        (Some(0), true),
        "{output:?}"
    );
}

/// A site with everything that `explain` has to find words for.
fn explained() -> TempDir {
    let dir = folder("cli-explain");
    dir.write(
        "saker.toml",
        "[[listener]]\naddress = \"127.0.0.1:8081\"\n\n[[site]]\nnames = [\"a.example\", \"*.a.example\"]\nroot = \"www\"\n\n\
         [[site.route]]\npath = \"/closed/*\"\ndeny = true\n\n[[site.redirect]]\nfrom = \"/old\"\nto = \"/new$query\"\n\n\
         [[site.route]]\npath = \"/ping\"\nrespond = \"pong\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"www\"\n",
    )
    .expect("written");
    dir.write("www/style.css", "body { color: black }\n".repeat(200))
        .expect("written");
    dir.write("www/.secret", "x").expect("written");
    fs::create_dir_all(dir.join("www/empty")).expect("made");
    std::os::unix::fs::symlink("/etc/hostname", dir.join("www/outside")).expect("linked");
    dir
}

fn explain(dir: &Path, arguments: &[&str]) -> String {
    let config = dir.join("saker.toml").to_string_lossy().into_owned();
    let output = saker([&["explain", "-c", &config], arguments].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn explain_says_which_rule_and_which_file() {
    let dir = explained();
    let www = fs::canonicalize(dir.join("www"))
        .expect("a path")
        .to_string_lossy()
        .into_owned();
    let file = |name: &str| format!("{www}/{name}");
    let rows: &[(&[&str], &[&str])] = &[
        (
            &["http://a.example/style.css"],
            &[
                "host `a.example` is a name of this site",
                "saker.toml:4:1",
                "none of the site's 3 routes",
                &file("style.css"),
                "200 OK",
                "in memory",
            ],
        ),
        (
            &["http://b.a.example/"],
            &["covered by a wildcard name", &file("index.html"), "200 OK"],
        ),
        (
            &["http://other.example/"],
            &["takes every name (`*`)", "the site has no routes", "200 OK"],
        ),
        (
            &["http://a.example/closed/x"],
            &[
                "route `/closed/*` matches: deny",
                "denied by this route",
                "saker.toml:8:1",
                "403 Forbidden",
            ],
        ),
        (
            &["http://a.example/old?q"],
            &[
                "redirect to /new$query",
                "redirected to /new?q",
                "saker.toml:12:1",
                "Location: /new?q",
                "not: the outcome depends on more",
            ],
        ),
        (
            &["http://a.example/ping"],
            &["a fixed response (200)", "saker.toml:16:1", "200 OK"],
        ),
        (
            &["http://a.example/none"],
            &[&file("none"), "no such file or folder", "404 Not Found"],
        ),
        (&["http://a.example/.secret"], &["hidden", "404 Not Found"]),
        (
            &["http://a.example/outside"],
            &["symbolic link", "`symlinks`", "403 Forbidden"],
        ),
        (
            &["http://a.example/empty/"],
            &[
                "no such file or folder",
                "listings are off",
                "403 Forbidden",
            ],
        ),
        (
            &["http://a.example/empty"],
            &[
                "redirected to its address with a slash",
                "301 Moved Permanently",
            ],
        ),
        (
            &["-H", "Accept-Encoding: br", "http://a.example/style.css"],
            &["Content-Encoding: br", "200 OK"],
        ),
        (
            &["--method", "DELETE", "http://a.example/"],
            &["405 Method Not Allowed"],
        ),
        (&["/"], &["host `localhost`", "200 OK"]),
    ];
    for (arguments, expected) in rows {
        let page = explain(&dir, arguments);
        for text in *expected {
            assert!(
                page.contains(text),
                "{arguments:?}: `{text}` is not in:\n{page}"
            );
        }
        for debug in [
            "CatchAll",
            "FirstSite",
            "Exact",
            "Prefix(",
            "NotFound",
            "Some(",
            "None",
            "Deny",
        ] {
            assert!(
                !page.contains(debug),
                "{arguments:?}: `{debug}` is for programmers:\n{page}"
            );
        }
        assert!(
            page.lines().all(|line| !line.trim_end().is_empty()),
            "{page}"
        );
    }
}

/// By what `saker serve` runs by where nothing else is said: the page cache is on, and its places
/// are that server's own.
#[test]
fn explain_serve_looks_at_what_serve_runs_by() {
    let dir = explained();
    dir.write("www/page.php", "<?php").expect("written");
    let www = dir.join("www").to_string_lossy().into_owned();
    for (target, expected) in [
        ("/style.css", "not used: static files are served directly"),
        ("/empty/", "200 OK"),
    ] {
        let page = stdout(&saker(["explain", "--serve", &www, target]));
        assert!(
            page.contains(expected) && page.contains("200 OK") && !page.contains("off here"),
            "{target}: {page}"
        );
    }
    let page = stdout(&saker(["explain", "--serve", &www, "/page.php"]));
    assert!(
        !page.contains("off here") && !page.contains("/var/lib/saker"),
        "{page}"
    );
}

#[test]
fn status_counts_what_was_served() {
    let saker = start("cli-status", &configuration("workers = 2", ""));
    let mut client = saker.connect().expect("connected");
    (0..5).for_each(|_| assert_eq!(client.get("/").expect("answered").status, 200));
    assert_eq!(client.get("/none").expect("answered").status, 404);
    let state = state_of(&saker);
    let page = stdout(&operate::saker(["status", "--state-dir", &state]));
    assert!(
        page.starts_with(&format!(
            "saker {}, pid {}, up ",
            env!("CARGO_PKG_VERSION"),
            saker.server.pid()
        )),
        "{page}"
    );
    let rows = [
        "generation 1",
        "6 in all",
        "5 2xx, 0 3xx, 1 4xx",
        &saker.server.address().to_string(),
        "sites           1",
        "workers         2",
    ];
    for row in rows {
        assert!(page.contains(row), "`{row}` is not in:\n{page}");
    }
    let config = saker.dir.join("saker.toml").to_string_lossy().into_owned();
    let report: Value = serde_json::from_str(&stdout(&operate::saker([
        "status", "--json", "-c", &config,
    ])))
    .expect("JSON");
    assert_eq!(
        (
            &report["counters"]["responses_total{class=\"2xx\"}"],
            &report["configuration"]
        ),
        (&5.into(), &config.as_str().into())
    );

    let text = stdout(&operate::saker([
        "status",
        "--prometheus",
        "--state-dir",
        &state,
    ]));
    let socket = format!("{state}/control.sock");
    let curl = Command::new("curl")
        .args(["-sS", "--unix-socket", &socket, "http://saker/metrics"])
        .output()
        .expect("curl runs");
    for metrics in [text, stdout(&curl)] {
        assert!(
            metrics.contains("\nsaker_responses_total{class=\"2xx\"} 5\n"),
            "{metrics}"
        );
        assert!(
            metrics
                .lines()
                .all(|line| line.starts_with("# ") || line.starts_with("saker_")),
            "{metrics}"
        );
    }
    let curl = Command::new("curl")
        .args(["-sS", "--unix-socket", &socket, "http://saker/status"])
        .output()
        .expect("curl runs");
    assert!(
        serde_json::from_slice::<Value>(&curl.stdout).is_ok_and(|report| report["ok"] == true),
        "{curl:?}"
    );
    let curl = Command::new("curl")
        .args([
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-X",
            "POST",
            "--unix-socket",
            &socket,
            "http://saker/stop",
        ])
        .output();
    assert_eq!(
        stdout(&curl.expect("curl runs")),
        "405",
        "a scraper changes nothing"
    );
}

/// `saker serve` as a person in a terminal would have it, with a runtime folder of its own.
fn serve(dir: &TempDir, more: &[&str]) -> Builder {
    operate::serve(&[&["--http", "{address}"], more, &["{dir}/www"]].concat())
        .env("XDG_RUNTIME_DIR", dir.join("runtime"))
        .env("XDG_CACHE_HOME", dir.join("caches"))
}

/// Runs `saker serve` on an address where it can't listen.
fn refused(dir: &TempDir, http: &str, more: &[&str]) -> Output {
    let address = http.parse().expect("an address");
    serve(dir, more)
        .command(dir, address)
        .and_then(|mut command| command.output())
        .expect("saker runs")
}

fn in_runtime(dir: &TempDir, arguments: &[&str]) -> Output {
    in_runtime_command(dir)
        .args(arguments)
        .output()
        .expect("saker runs")
}

fn in_runtime_command(dir: &TempDir) -> Command {
    fs::create_dir_all(dir.join("runtime")).expect("made");
    let mut command = Command::new(SAKER);
    command
        .env("XDG_RUNTIME_DIR", dir.join("runtime"))
        .env("XDG_CACHE_HOME", dir.join("caches"));
    command
}

#[test]
fn serve_is_found_without_being_named() {
    let dir = folder("cli-serve");
    let before = in_runtime(&dir, &["status"]);
    if before.status.success() {
        eprintln!(
            "not tested: a server runs by the usual configuration here: {}",
            stdout(&before)
        );
        return;
    }
    assert_eq!(before.status.code(), Some(3));
    let server = serve(&dir, &[]).start_in(&dir);
    assert_eq!(
        Client::connect(server.address())
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );
    let state = dir
        .join("runtime/saker")
        .join(server.address().to_string().replace(":", "-"));
    server.wait_until_ready(&state).expect("ready");
    assert_eq!(
        fs::read_to_string(state.join("saker.pid")).expect("a pid"),
        format!("{}\n", server.pid())
    );
    assert_eq!(
        fs::metadata(state.join("control.sock"))
            .expect("a socket")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    assert!(stdout(&in_runtime(&dir, &["status"])).contains(&server.address().to_string()));
    let second = serve(&dir, &[]).start_in(&dir);
    second
        .wait_until_ready(
            &dir.join("runtime/saker")
                .join(second.address().to_string().replace(":", "-")),
        )
        .expect("ready");
    let several = in_runtime(&dir, &["status"]);
    assert_eq!(several.status.code(), Some(2));
    assert!(
        stderr(&several).contains("several servers are running"),
        "{}",
        stderr(&several)
    );
    assert!(second.stop().expect("stopped").success());
    assert!(
        stdout(&in_runtime(&dir, &["reload"]))
            .starts_with("reloaded: generation 2, 1 listener, 1 site")
    );
    assert!(stdout(&in_runtime(&dir, &["stop"])).starts_with("stopped"));
    assert!(!state.exists(), "nothing is left behind");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let dir = folder("cli-taken");
    let first = serve(&dir, &[]).start_in(&dir);
    let address = first.address().to_string();
    let output = refused(&dir, &address, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains(&format!("already running with pid {}", first.pid())),
        "{}",
        stderr(&output)
    );
    let other = dir.join("other").to_string_lossy().into_owned();
    let output = refused(&dir, &address, &["--state-dir", &other]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains(&format!("cannot listen on {address}"))
            && stderr(&output).contains("another program listens there"),
        "{}",
        stderr(&output)
    );

    let program = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let taken = [program.local_addr().expect("address").to_string(), address];
    let output = refused(&dir, &taken[0], &[&taken[1], "--state-dir", &other]);
    for address in &taken {
        assert!(
            stderr(&output).contains(&format!("cannot listen on {address}")),
            "all of them at once: {}",
            stderr(&output)
        );
    }
    let output = refused(&dir, "192.0.2.1:8080", &["--state-dir", &other]);
    assert!(
        stderr(&output).contains("this machine has no such address"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_low_port_without_the_right_to_it() {
    let lowest =
        fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    let Some(port @ 1..) = lowest
        .trim()
        .parse::<u16>()
        .ok()
        .map(|lowest| lowest.saturating_sub(1))
    else {
        eprintln!("not tested: this system gives every port to everybody");
        return;
    };
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root can become somebody without rights");
        return;
    }
    let dir = folder("cli-low");
    let binary = dir
        .copy_program(SAKER, "saker")
        .expect("copied to where everybody may read it");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&binary)
        .args([
            "serve",
            "--http",
            &format!("127.0.0.1:{port}"),
            "--state-dir",
            &format!("/tmp/saker-test-low-{}", std::process::id()),
        ])
        .arg(dir.join("www"))
        .output()
        .expect("setpriv runs");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("ports below 1024 need root or CAP_NET_BIND_SERVICE"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn port_0_is_one_port_that_is_said() {
    let dir = folder("cli-port-0");
    let server = serve(&dir, &["--workers", "3"]).spawn_in(&dir);
    server
        .wait_for_stderr("SK0101", PATIENCE)
        .expect("it started");
    let said = server.stderr();
    let address = said
        .split("listening: ")
        .nth(1)
        .and_then(|rest| rest.lines().next())
        .and_then(|text| text.parse::<SocketAddr>().ok());
    let address = address.unwrap_or_else(|| panic!("no address in {said}"));
    assert_ne!(address.port(), 0);
    for _ in 0..20 {
        assert_eq!(
            Client::connect(address)
                .expect("connected")
                .get("/")
                .expect("answered")
                .status,
            200
        );
    }
}

#[test]
fn documents() {
    let schema: Value = serde_json::from_slice(&saker(["schema"]).stdout).expect("JSON");
    assert!(schema["properties"]["site"].is_object(), "{schema}");
    let reference = stdout(&saker(["reference"]));
    assert!(reference.contains("### `access_log`"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            stdout(&saker(["completions", shell])).contains("explain"),
            "{shell}"
        );
    }
    let man = stdout(&saker(["man"]));
    assert!(man.contains(".TH") && man.contains("serve"), "{man}");
    let dir = folder("cli-man");
    let output = saker(["man", &dir.to_string_lossy()]);
    assert!(
        output.status.success() && dir.join("saker-serve.1").exists(),
        "{output:?}"
    );
    // A reader that has seen enough is no error.
    let output = Command::new("sh")
        .args([
            "-c",
            "\"$0\" reference | head -n 1; \"$0\" reference 2>&1 >/dev/full",
        ])
        .arg(SAKER)
        .output()
        .expect("ran");
    assert!(
        stderr(&output).is_empty() && stdout(&output).contains("saker: standard output: "),
        "{output:?}"
    );
}

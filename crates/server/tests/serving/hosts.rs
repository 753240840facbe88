//! Hosts by the thousand: document roots by pattern, and hosts that a database knows, with the
//! database stopped and started again under load.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::databases::{Mariadb, Postgres, Slapd, Sqlite};
use crate::http3_client;
use crate::operate;
use crate::operate::{
    ask, configuration, folder, reload, rewrite, saker, start_in, stderr, stdout, wait_until,
};
use saker_testkit::{Response, Saker, TempDir, require};
use std::{
    fs,
    os::unix::fs::symlink,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const QUERY: &str = "SELECT root, suspended, redirect, bandwidth FROM hosts WHERE name = ?";
const TABLE: &str = "CREATE TABLE hosts (name VARCHAR(255) PRIMARY KEY, root VARCHAR(255), suspended INT NOT NULL DEFAULT 0, \
                     redirect VARCHAR(255), bandwidth BIGINT);";

/// `more` stands in `[dynamic_vhosts]`, `site` in `[[site]]`, whose root is not there for hosts.
fn looked_up(database: &str, more: &str, site: &str) -> String {
    let hosts = format!(
        "[dynamic_vhosts]\ndatabase = \"{database}\"\nquery = \"{QUERY}\"\nroots = [\"{{dir}}/srv\"]\n{more}\n\n[[listener]]"
    );
    configuration("workers = 2", &format!("lookup = true\n{site}")).replace("[[listener]]", &hosts)
}

fn page(dir: &TempDir, host: &str, text: &str) {
    dir.write(&format!("srv/{host}/index.html"), text).unwrap();
}

fn get(saker: &Saker, host: &str) -> Response {
    saker
        .connect()
        .unwrap()
        .request("GET", "/", &[("Host", host)])
        .unwrap()
}

/// Status and text.
fn got(saker: &Saker, host: &str) -> (u16, String) {
    let response = get(saker, host);
    (response.status, response.text())
}

fn figure(saker: &Saker, name: &str) -> u64 {
    ask(&saker.dir.join("state"), "hosts-stat").unwrap()[name]
        .as_u64()
        .unwrap()
}

fn purge(saker: &Saker, what: &str) {
    let state = saker.dir.join("state");
    let output = operate::saker([
        "hosts",
        "purge",
        what,
        "--state-dir",
        state.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn roots_by_pattern() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-pattern");
    page(&dir, "example/www", "<p>www</p>\n");
    page(&dir, "example/shop", "<p>shop</p>\n");
    page(&dir, "_/example", "<p>short</p>\n");
    fs::write(dir.join("secret.txt"), "secret").unwrap();
    let text = configuration("", "").replace("{dir}/www", "{dir}/srv/%2/%1");
    let saker = start_in(dir, &text);
    // The second time from what was kept.
    for _ in 0..3 {
        assert_eq!(got(&saker, "www.example.org"), (200, "<p>www</p>\n".into()));
        assert_eq!(
            got(&saker, "SHOP.example.org:80"),
            (200, "<p>shop</p>\n".into())
        );
        assert_eq!(got(&saker, "example"), (200, "<p>short</p>\n".into()));
        assert_eq!(get(&saker, "none.example.org").status, 404);
    }
    for host in ["..", "a..b", ".", "..%2f..", "[::1]"] {
        assert!(matches!(get(&saker, host).status, 400 | 404), "{host}");
    }
    let config = saker.dir.join("saker.toml");
    let explained = operate::saker([
        "explain",
        "http://www.example.org/",
        "-c",
        config.to_str().unwrap(),
    ]);
    assert!(
        stdout(&explained).contains("srv/example/www"),
        "{}",
        stdout(&explained)
    );
    rewrite(&saker, &text.replace("%2/%1", "%x"));
    let output = reload(&saker);
    assert!(
        !output.status.success() && stderr(&output).contains("percent sign"),
        "{}",
        stderr(&output)
    );
}

/// Columns of a row over each protocol, and refused values.
#[test]
fn rows_of_sqlite_over_every_protocol() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-sqlite");
    let root = |name: &str| dir.join("srv").join(name).display().to_string();
    page(&dir, "a", "<p>a</p>\n");
    fs::create_dir_all(dir.join("outside")).unwrap();
    symlink(dir.join("outside"), dir.join("srv/link")).unwrap();
    let database = Sqlite::start(&dir);
    let row = |name: &str, root: &str, suspended: u8, redirect: &str| {
        format!(
            "INSERT INTO hosts VALUES ('{name}.example', '{root}', {suspended}, '{redirect}', 0);"
        )
    };
    let rows = [
        row("a", &root("a"), 0, ""),
        row("gone", &root("a"), 1, ""),
        row("moved", "", 0, "https://elsewhere.example"),
        row("out", &dir.join("outside").display().to_string(), 0, ""),
        row("linked", &root("link"), 0, ""),
        row("up", &root("a/../../outside"), 0, ""),
        row("odd", &root("a"), 0, "javascript:x"),
    ];
    assert!(database.ask(&format!("{TABLE}{}", rows.concat())));
    dir.write("hosts.url", format!("{}\n", database.url()))
        .unwrap();
    let hosts = format!(
        "[dynamic_vhosts]\ndatabase_file = \"hosts.url\"\nquery = \"{QUERY}\"\nroots = [\"{{dir}}/srv\"]\n\
         entries_missing = 1"
    );
    let saker = http3_client::site::start_with(dir, &hosts, "lookup = true");
    let port = saker.server.address().port();
    let expected = [
        ("a", "200", "<p>a</p>\n"),
        ("gone", "503", ""),
        ("moved", "302", ""),
        ("out", "503", ""),
        ("linked", "503", ""),
        ("up", "503", ""),
        ("odd", "503", ""),
        ("none", "404", ""),
    ];
    for _ in 0..2 {
        for (name, status, text) in expected {
            let url = format!("https://{name}.example:{port}/");
            for version in ["--http1.1", "--http2"] {
                let connect = format!("::127.0.0.1:{port}");
                let mut curl = Command::new(require("curl").unwrap());
                let output = curl
                    .args([
                        "-sk",
                        version,
                        "--connect-to",
                        &connect,
                        "-w",
                        "%{http_code} %{redirect_url}",
                        &url,
                    ])
                    .output()
                    .unwrap();
                let (said, location) = (
                    stdout(&output),
                    if name == "moved" {
                        "https://elsewhere.example/"
                    } else {
                        ""
                    },
                );
                assert!(
                    said.ends_with(&format!("{status} {location}")) && said.starts_with(text),
                    "{name} {version}: {said}"
                );
            }
            let mut client =
                http3_client::Client::default().connect(&saker.server.address().to_string());
            let authority = format!("{name}.example:{port}");
            let stream = client.open_with(
                &[
                    (":method", "GET"),
                    (":scheme", "https"),
                    (":authority", &authority),
                    (":path", "/"),
                ],
                &[],
                true,
            );
            let response = client.response(stream);
            assert_eq!(response.status.to_string(), status, "{name}");
            assert!(
                text.is_empty() || response.text() == text,
                "{name}: {response:?}"
            );
        }
    }
    for text in ["is below no folder of `roots`", "link leads to"] {
        saker
            .server
            .wait_for_stderr(text, Duration::from_secs(20))
            .unwrap();
    }
    let said = saker.server.stderr();
    assert!(
        said.contains("SK1303")
            && said.contains("is below no folder of `roots`")
            && said.contains("link leads to"),
        "{said}"
    );
}

#[test]
fn ten_thousand_hosts_of_mariadb() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-mariadb");
    page(&dir, "a", "<p>a</p>\n");
    page(&dir, "b", "<p>b</p>\n");
    let mut database = Mariadb::start(&dir);
    let root = |name: &str| dir.join("srv").join(name).display().to_string();
    let rows: Vec<String> = (0..10_000)
        .map(|number| format!("('h{number}.example', '{}')", root("a")))
        .collect();
    assert!(database.ask(&format!(
        "USE web; {TABLE} INSERT INTO hosts (name, root) VALUES {};",
        rows.join(",")
    )));
    let (a, b) = (root("a"), root("b"));
    let saker = start_in(
        dir,
        &looked_up(
            &database.url(),
            "keep = \"1s\"\nkeep_missing = \"50ms\"",
            "",
        ),
    );
    assert_eq!(got(&saker, "h1.example"), (200, "<p>a</p>\n".into()));
    tell_first_requests(&saker);
    // What comes, is changed and goes, without a reload.
    assert_eq!(get(&saker, "new.example").status, 404);
    assert!(database.ask(&format!(
        "INSERT INTO web.hosts (name, root) VALUES ('new.example', '{a}')"
    )));
    wait_until("the new host is served", || {
        got(&saker, "new.example") == (200, "<p>a</p>\n".into())
    });
    assert!(database.ask(&format!(
        "UPDATE web.hosts SET root = '{b}' WHERE name = 'new.example'"
    )));
    wait_until("its other root is served", || {
        got(&saker, "new.example") == (200, "<p>b</p>\n".into())
    });
    assert!(database.ask("DELETE FROM web.hosts WHERE name = 'new.example'"));
    wait_until("it is gone", || get(&saker, "new.example").status == 404);
    assert_eq!(figure(&saker, "failed"), 0);
    // Known hosts outlive their time limit many times over while the database is away, under load.
    let known: Vec<String> = (0..200)
        .map(|number| format!("h{number}.example"))
        .collect();
    known
        .iter()
        .for_each(|host| assert_eq!(get(&saker, host).status, 200, "{host}"));
    database.end();
    let (ends, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let load = || {
            let mut client = saker.connect().unwrap();
            let mut count = 0;
            while !ends.load(Relaxed) {
                let host = &known[count % known.len()];
                assert_eq!(
                    client
                        .request("GET", "/", &[("Host", host)])
                        .unwrap()
                        .status,
                    200,
                    "{host}"
                );
                count += 1;
                served.fetch_add(1, Relaxed);
            }
        };
        let threads = [scope.spawn(load), scope.spawn(load)];
        wait_until("the database is missed", || figure(&saker, "failed") >= 3);
        // Long past their time limit, and without it, known hosts are served; an unknown name is
        // answered instead of waiting.
        let before = served.load(Relaxed);
        wait_until("known hosts are served", || {
            served.load(Relaxed) >= before + 5 * known.len()
        });
        assert_eq!(get(&saker, "unheard-of.example").status, 503);
        database.start_again();
        wait_until("it is asked again", || {
            get(&saker, "h9999.example").status == 200
        });
        ends.store(true, Relaxed);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    assert!(saker.server.stderr().contains("SK1301") && saker.server.stderr().contains("SK1302"));
}

/// Says how long first requests take: `cargo test --release -p saker --test serving
/// hosts::ten_thousand -- --nocapture`.
fn tell_first_requests(saker: &Saker) {
    let mut client = saker.connect().unwrap();
    let mut ask = |number: usize| {
        let began = Instant::now();
        let response = client
            .request("GET", "/", &[("Host", &format!("h{number}.example"))])
            .unwrap();
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "<p>a</p>\n")
        );
        began.elapsed().as_micros()
    };
    let mut first: Vec<u128> = (2_000..4_000).map(&mut ask).collect();
    first.sort_unstable();
    println!(
        "first requests of 2,000 hosts: median {} µs, p99 {} µs, longest {} µs",
        first[1_000], first[1_980], first[1_999]
    );
}

#[test]
fn ten_thousand_hosts_are_asked_for_once_each() {
    let _turn = saker_testkit::heavy();
    const HOSTS: usize = 10_000;
    let dir = folder("hosts-once");
    page(&dir, "a", "<p>a</p>\n");
    let database = Mariadb::start(&dir);
    let root = dir.join("srv/a").display().to_string();
    let rows: Vec<String> = (0..HOSTS)
        .map(|number| format!("('h{number}.example', '{root}')"))
        .collect();
    assert!(database.ask(&format!(
        "USE web; {TABLE} INSERT INTO hosts (name, root) VALUES {};",
        rows.join(",")
    )));
    let saker = start_in(dir, &looked_up(&database.url(), "keep = \"1h\"", ""));
    let mut client = saker.connect().unwrap();
    for round in ["first", "second"] {
        let asked = figure(&saker, "asked");
        let requests: Vec<String> = (0..HOSTS)
            .map(|number| format!("HEAD / HTTP/1.1\r\nHost: h{number}.example\r\n\r\n"))
            .collect();
        for some in requests.chunks(100) {
            client.send(some.concat()).unwrap();
            some.iter().for_each(|request| {
                assert_eq!(
                    client.read_head_response().unwrap().status,
                    200,
                    "{request}"
                )
            });
        }
        let wanted = if round == "first" { HOSTS as u64 } else { 0 };
        assert_eq!(
            figure(&saker, "asked") - asked,
            wanted,
            "queries of the {round} requests"
        );
    }
}

#[test]
fn what_is_known_is_not_asked_for_again_until_it_is_purged() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-purge");
    page(&dir, "a", "<p>a</p>\n");
    page(&dir, "b", "<p>b</p>\n");
    let (a, b) = (
        dir.join("srv/a").display().to_string(),
        dir.join("srv/b").display().to_string(),
    );
    let database = Sqlite::start(&dir);
    assert!(database.ask(&format!(
        "{TABLE} INSERT INTO hosts (name, root) VALUES ('a.example', '{a}'), ('b.example', '{a}');"
    )));
    let text = looked_up(&database.url(), "keep = \"1h\"\nkeep_missing = \"1h\"", "");
    let saker = start_in(dir, &text);
    for _ in 0..20 {
        assert_eq!(get(&saker, "a.example").status, 200);
        assert_eq!(get(&saker, "c.example").status, 404);
    }
    assert_eq!(
        (
            figure(&saker, "asked"),
            figure(&saker, "known"),
            figure(&saker, "missing")
        ),
        (2, 1, 1)
    );
    // A reload that changes something else keeps what is known.
    rewrite(
        &saker,
        &text.replace("workers = 2", "workers = 2\nlog_level = \"info\""),
    );
    assert!(reload(&saker).status.success());
    assert_eq!(
        (got(&saker, "a.example"), figure(&saker, "asked")),
        ((200, "<p>a</p>\n".into()), 2)
    );
    assert!(database.ask(&format!(
        "UPDATE hosts SET root = '{b}'; INSERT INTO hosts (name, root) VALUES ('c.example', '{b}');"
    )));
    assert_eq!(got(&saker, "a.example").1, "<p>a</p>\n");
    purge(&saker, "A.example.");
    assert_eq!(got(&saker, "a.example").1, "<p>b</p>\n");
    assert_eq!(get(&saker, "c.example").status, 404);
    purge(&saker, "--all");
    assert_eq!(got(&saker, "c.example"), (200, "<p>b</p>\n".into()));
    let metrics = operate::saker([
        "status",
        "--prometheus",
        "--state-dir",
        saker.dir.join("state").to_str().unwrap(),
    ]);
    assert!(
        stdout(&metrics).contains("\nsaker_hosts_known 1\n"),
        "{}",
        stdout(&metrics)
    );
}

#[test]
fn one_question_for_all_who_wait() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-once");
    page(&dir, "a", "<p>a</p>\n");
    let database = Postgres::start(&dir);
    let root = dir.join("srv/a").display().to_string();
    assert!(database.ask(&format!(
        "{TABLE} INSERT INTO hosts (name, root) VALUES ('a.example', '{root}');"
    )));
    let query = "SELECT root, suspended, pg_sleep(0.3)::text AS pause FROM hosts WHERE name = ?";
    let saker = start_in(
        dir,
        &looked_up(&database.url(), "keep = \"1h\"", "").replace(QUERY, query),
    );
    thread::scope(|scope| {
        let requests: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| got(&saker, "a.example")))
            .collect();
        requests
            .into_iter()
            .for_each(|request| assert_eq!(request.join().unwrap(), (200, "<p>a</p>\n".into())));
    });
    assert_eq!((figure(&saker, "asked"), figure(&saker, "failed")), (1, 0));
    assert_eq!(get(&saker, "b.example").status, 404);
}

/// The database says which host has changed; answers hold for an hour otherwise.
#[test]
fn announced_changes_hold_at_once() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-notify");
    page(&dir, "a", "<p>a</p>\n");
    page(&dir, "b", "<p>b</p>\n");
    let database = Postgres::start(&dir);
    let root = |name: &str| dir.join("srv").join(name).display().to_string();
    let moved = |name: &str| {
        format!(
            "UPDATE hosts SET root = '{}' WHERE name = 'a.example';",
            root(name)
        )
    };
    let (to_a, to_b) = (moved("a"), moved("b"));
    assert!(database.ask(&format!(
        "{TABLE} INSERT INTO hosts (name, root) VALUES ('a.example', '{0}'), ('last.example', '{0}');",
        root("a")
    )));
    let more = "keep = \"1h\"\nnotify = \"hosts\"";
    let text = looked_up(&database.url(), more, "");
    let saker = start_in(dir, &text);
    let shows = |host: &str, page: &str| got(&saker, host).1 == format!("<p>{page}</p>\n");
    let is = |page: &str| shows("a.example", page);
    assert!(is("a") && shows("last.example", "a"));
    assert!(database.ask(&to_b));
    wait_until("the change holds", || {
        // Nothing is announced to a server that does not listen yet.
        database.ask("NOTIFY hosts, 'A.example'") && is("b")
    });
    // Announcements come in order: with this one, all of the loop have been heard.
    assert!(database.ask(&to_b.replace("a.example", "last.example")));
    assert!(database.ask("NOTIFY hosts, 'last.example'"));
    // The first host's answer is asked for again behind them.
    wait_until("all are heard", || shows("last.example", "b") && is("b"));
    assert!(database.ask(&to_a));
    assert!(is("b"), "not announced");
    assert!(database.ask("NOTIFY hosts, 'other.example'"));
    assert!(is("b"), "another host");
    assert!(database.ask("NOTIFY hosts"));
    wait_until("any host may have changed", || is("a"));
    // What may have been announced while the connection was cut is not known.
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    assert!(database.ask(&format!("{to_b} {cut}")));
    wait_until("the answers are asked for again", || is("b"));
    assert!(saker.server.stderr().contains("SK1304"));
    // Said once the database has taken the connection for announcements, which the answers do not
    // wait for.
    let told = saker
        .server
        .wait_for_stderr("SK1305", Duration::from_secs(60));
    told.expect("it is heard again");
}

/// Columns of any type stand beside those that mean something; of these, a type that has no text is
/// refused.
#[test]
fn columns_of_every_type() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-types");
    page(&dir, "a", "<p>a</p>\n");
    let root = dir.join("srv/a").display().to_string();
    let (mariadb, postgres) = (Mariadb::start(&dir), Postgres::start(&dir));
    let rows = |off: &str, on: &str| {
        format!(
            "INSERT INTO hosts VALUES ('a.example', '{root}', 5000000, 7.00, {on}, '2026-01-02', '2026-01-02 03:04:05', 1.25), \
             ('off.example', '{root}', 0, NULL, {off}, '2026-01-02', '2026-01-02 03:04:05', 1.25), \
             ('odd.example', '{root}', 0, 7.5, {on}, '2026-01-02', '2026-01-02 03:04:05', 1.25);"
        )
    };
    let table = |whole: &str, truth: &str, time: &str| {
        format!(
            "CREATE TABLE hosts (name VARCHAR(255) PRIMARY KEY, root VARCHAR(255), bandwidth {whole}(20,0), requests {whole}(10,2), \
             enabled {truth}, born DATE NOT NULL, seen {time} NOT NULL, share {whole}(6,2) NOT NULL);"
        )
    };
    let (bits, truths) = (rows("b'0'", "b'1'"), rows("false", "true"));
    assert!(mariadb.ask(&format!(
        "USE web; {} {bits} ALTER TABLE hosts ADD icon BLOB; UPDATE hosts SET icon = x'ff00';",
        table("DECIMAL", "BIT(1)", "DATETIME")
    )));
    assert!(postgres.ask(&format!(
        "{} {truths} ALTER TABLE hosts ADD icon BYTEA; UPDATE hosts SET icon = '\\xff00';",
        table("NUMERIC", "BOOL", "TIMESTAMP")
    )));
    let all =
        |url: &str| looked_up(url, "", "").replace(QUERY, "SELECT * FROM hosts WHERE name = ?");
    let saker = start_in(dir, &all(&mariadb.url()));
    for url in [mariadb.url(), postgres.url()] {
        rewrite(&saker, &all(&url));
        assert!(reload(&saker).status.success());
        assert_eq!(
            got(&saker, "a.example"),
            (200, "<p>a</p>\n".into()),
            "{url}: {}",
            saker.server.stderr()
        );
        for host in ["off.example", "odd.example"] {
            assert_eq!(get(&saker, host).status, 503, "{url} {host}");
        }
    }
    // Lines are written beside the answers.
    for kind in ["DECIMAL", "NUMERIC"] {
        let line =
            format!("odd.example: column requests: is a {kind}: let the query make a text of it");
        saker
            .server
            .wait_for_stderr(&line, Duration::from_secs(20))
            .unwrap();
    }
    let said = saker.server.stderr();
    assert!(!said.contains("off.example:"), "{said}");
}

#[test]
fn entries_of_a_directory() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-ldap");
    page(&dir, "a", "<p>a</p>\n");
    let root = dir.join("srv/a").display().to_string();
    let entries = format!(
        "dn: cn=a.example,dc=test\nobjectClass: webHost\ncn: a.example\ncn: www.a.example\ndocumentRoot: {root}\n\n\
         dn: cn=gone.example,dc=test\nobjectClass: webHost\ncn: gone.example\ndocumentRoot: {root}\nsuspended: yes\n"
    );
    let directory = Slapd::start(&dir, &entries);
    let more =
        "ldap_base = \"dc=test\"\nldap_user = \"cn=admin,dc=test\"\nldap_password = \"secret\"";
    let saker = start_in(
        dir,
        &looked_up(&directory.url(), more, "").replace(QUERY, "(&(objectClass=webHost)(cn=?))"),
    );
    for host in ["a.example", "www.a.example"] {
        assert_eq!(got(&saker, host), (200, "<p>a</p>\n".into()), "{host}");
    }
    assert_eq!(get(&saker, "gone.example").status, 503);
    assert_eq!(get(&saker, "none.example").status, 404);
    assert_eq!(figure(&saker, "failed"), 0);
}

/// Each of the table's sixteen parts keeps its share, one at least.
#[test]
fn few_hosts_are_kept() {
    for (entries, kept) in [("", 64..=64), ("entries = 1", 1..=16)] {
        let dir = folder("hosts-few");
        page(&dir, "a", "<p>a</p>\n");
        let root = dir.join("srv/a").display().to_string();
        let database = Sqlite::start(&dir);
        let rows: String = (0..64)
            .map(|host| {
                format!("INSERT INTO hosts (name, root) VALUES ('{host}.example', '{root}');")
            })
            .collect();
        assert!(database.ask(&format!("{TABLE} {rows}")));
        let more = format!("keep = \"1h\"\n{entries}");
        let saker = start_in(dir, &looked_up(&database.url(), &more, ""));
        for host in 0..64 {
            assert_eq!(get(&saker, &format!("{host}.example")).status, 200);
        }
        let known = figure(&saker, "known");
        assert!(kept.contains(&known), "{entries}: {known}");
    }
}

/// Names that the database doesn't know: the site as it is, or another status.
#[test]
fn unknown_hosts_are_answered_as_is_set() {
    let dir = folder("hosts-unknown");
    page(&dir, "a", "<p>a</p>\n");
    let database = Sqlite::start(&dir);
    let root = dir.join("srv/a").display().to_string();
    assert!(database.ask(&format!(
        "{TABLE}INSERT INTO hosts VALUES ('a.example', '{root}', 0, '', 0);"
    )));
    let text = |unknown: &str| looked_up(&database.url(), &format!("unknown = {unknown}"), "");
    let saker = start_in(dir, &text("\"site\""));
    assert_eq!(got(&saker, "a.example"), (200, "<p>a</p>\n".into()));
    assert_eq!(got(&saker, "b.example"), (200, "<p>hello</p>\n".into()));
    rewrite(&saker, &text("421"));
    let output = reload(&saker);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(got(&saker, "a.example").0, 200);
    assert_eq!(got(&saker, "b.example").0, 421);
}

#[test]
fn a_log_for_each_host() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-logs");
    page(&dir, "a.example", "<p>a</p>\n");
    page(&dir, "b.example", "<p>b</p>\n");
    fs::create_dir(dir.join("logs")).unwrap();
    let text = configuration(
        "",
        "access_log = { path = \"{dir}/logs/%{host}.log\", format = '%s %U' }",
    )
    .replace("{dir}/www", "{dir}/srv/%0");
    let saker = start_in(dir, &text);
    for _ in 0..3 {
        assert_eq!(get(&saker, "a.example").status, 200);
        assert_eq!(get(&saker, "B.example:80").status, 200);
    }
    assert_eq!(get(&saker, "c.example").status, 404);
    let log = |name: &str| {
        let text =
            fs::read_to_string(saker.dir.join(format!("logs/{name}.log"))).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    wait_until("all is written", || {
        [
            log("a.example").len(),
            log("b.example").len(),
            log("_").len(),
        ] == [3, 3, 1]
    });
    assert_eq!(log("b.example")[0], "200 /");
    assert_eq!(fs::read_dir(saker.dir.join("logs")).unwrap().count(), 3);
}

#[test]
fn what_is_wrong_is_said() {
    let _turn = saker_testkit::heavy();
    let dir = folder("hosts-wrong");
    dir.write("saker.toml", "").unwrap();
    let path = dir.join("saker.toml");
    let rows = [
        (
            "[dynamic_vhosts]\nquery = \"SELECT 1\"\n",
            "missing `database`",
        ),
        (
            "[dynamic_vhosts]\ndatabase = \"oracle://x\"\nquery = \"?\"\nroots = [\"/srv\"]\n",
            "unsupported database",
        ),
        (
            "[dynamic_vhosts]\ndatabase = \"sqlite:///x\"\nquery = \"SELECT 1\"\nroots = [\"/srv\"]\n",
            "has no placeholder for the host name",
        ),
        (
            "[dynamic_vhosts]\ndatabase = \"sqlite:///x\"\nquery = \"?\"\n",
            "missing `roots`",
        ),
        (
            "[dynamic_vhosts]\ndatabase = \"ldap://x\"\nquery = \"(cn=?)\"\nroots = [\"/srv\"]\n",
            "missing `ldap_base`",
        ),
        (
            "[dynamic_vhosts]\ndatabase = \"ldaps://x\"\nquery = \"(cn=?)\"\nroots = [\"/srv\"]\n",
            "missing `ldap_base`",
        ),
        (
            "[dynamic_vhosts]\nldap_base = \"o=x\"\ndatabase = \"ldap://x\"\nquery = \"(&(objectClass=webHost)(cn=?)\"\nroots = [\"/srv\"]\n",
            "saker.toml:4:9: error: `query`: this is no filter of LDAP",
        ),
        (
            "[dynamic_vhosts]\ndatabase = \"mysql://u:p@h/d?ssl-mode=FOO\"\nquery = \"?\"\nroots = [\"/srv\"]\n",
            "saker.toml:2:12: error: the URL (mysql://h/d): unknown value",
        ),
        (
            "[dynamic_vhosts]\ndatabase = \"postgres://h/d?ssl-mode=REQUIRED\"\nquery = \"?\"\nroots = [\"/srv\"]\n",
            "saker.toml:2:12: error: the URL (postgres://h/d): unknown value",
        ),
        (
            "[dynamic_vhosts]\ndatabase = \"mysql://h/d\"\nquery = \"?\"\nroots = [\"/srv\"]\nnotify = \"hosts\"\n",
            "saker.toml:5:10: error: `notify`: only PostgreSQL",
        ),
        (
            "[dynamic_vhosts]\ndatabase = \"postgres://h/d\"\nquery = \"?\"\nroots = [\"/srv\"]\nnotify = \"hosts; DROP\"\n",
            "saker.toml:5:10: error: `notify` must be a name",
        ),
        (
            "[dynamic_vhosts]\nldap_base = \"o=x\"\ndatabase = \"ldap://x?sslmode=require\"\nquery = \"(cn=?)\"\nroots = [\"/srv\"]\n",
            "saker.toml:3:12: error: the URL (ldap://x): `ssl-mode` is",
        ),
        ("", "`lookup` without [dynamic_vhosts]"),
    ];
    for (hosts, message) in rows {
        fs::write(
            &path,
            format!("{hosts}[[listener]]\naddress = \":8080\"\n[[site]]\nlookup = true\n"),
        )
        .unwrap();
        for command in ["check", "run"] {
            let output = saker([command, "-c", path.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(1), "{command} {hosts}");
            assert!(
                stderr(&output).contains(message),
                "{command} {hosts}: {}",
                stderr(&output)
            );
        }
    }
}

//! `saker purge` and `saker cache`, asked of a running server; what `saker explain` says of the
//! cache; where the cache's folder is, and when there is none.

use crate::operate;
use crate::operate::{
    configuration, folder, reload, rewrite, saker, start, start_in, stderr, stdout,
};
use crate::origin;
use saker_testkit::Saker;
use std::{os::unix::fs::PermissionsExt, process::Output};

fn command(saker: &Saker, arguments: &[&str]) -> Output {
    let state = saker.dir.join("state").to_string_lossy().into_owned();
    self::saker(arguments.iter().copied().chain(["--state-dir", &state]))
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output)
}

#[test]
fn an_empty_cache_answers() {
    let server = start(
        "page-cache-commands",
        &configuration("workers = 1", "cache = true"),
    );
    let folder = server.dir.join("state/cache");
    assert_eq!(
        folder.metadata().expect("the folder").permissions().mode() & 0o777,
        0o700
    );
    let stat = said(&command(&server, &["cache", "stat"]));
    assert!(
        stat.contains("entries    0 of 2,000,000\n") && stat.contains("of 10.7 GB"),
        "{stat}"
    );
    assert!(said(&command(&server, &["cache", "stat", "--json"])).contains("\"is_complete\""));
    assert_eq!(said(&command(&server, &["cache", "list"])), "");
    let nothing = command(&server, &["cache", "show", "http://localhost/"]);
    assert_eq!(
        (nothing.status.code(), stdout(&nothing).as_str()),
        (Some(2), "nothing of it is kept\n")
    );
    for purge in [
        &["purge", "--all"][..],
        &["purge", "/x", "--soft"],
        &["cache", "purge", "--tag", "a"],
        &["purge", "--site", "any.example"],
    ] {
        assert_eq!(
            said(&command(&server, purge)),
            if purge.contains(&"--soft") {
                "made stale (1 site looked at)\n"
            } else {
                "purged (1 site looked at)\n"
            }
        );
    }
    assert!(said(&command(&server, &["cache", "stat"])).contains("purges     "));
    for mistake in [
        &["purge"][..],
        &["purge", "nonsense"],
        &["purge", "--ban", "req.url ~ x", "--soft"],
    ] {
        assert_eq!(
            command(&server, mistake).status.code(),
            Some(2),
            "{mistake:?}"
        );
    }
}

#[test]
fn a_site_that_is_not_there_is_a_mistake() {
    let text = configuration("workers = 1", "cache = true").replace("\"*\"", "\"shop.example\"");
    let many = "\n[[site]]\nnames = [\"*.many.example\"]\nroot = \"{dir}/www/%0\"\ncache = true\n";
    let server = start("page-cache-sites", &format!("{text}{many}"));
    for mistake in [
        &["purge", "--site", "nosuch.example"][..],
        &["purge", "--tag", "a", "--site", "nosuch.example"],
        &["purge", "/x", "--site", "nosuch.example"],
        &["cache", "list", "--site", "nosuch.example"],
    ] {
        let output = command(&server, mistake);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(2), ""),
            "{mistake:?}"
        );
        assert!(
            stderr(&output).contains("no site is called nosuch.example"),
            "{mistake:?}: {}",
            stderr(&output)
        );
    }
    for site in [
        "shop.example",
        "SHOP.example",
        "a.many.example",
        "*.many.example",
    ] {
        assert!(
            said(&command(&server, &["purge", "--site", site])).starts_with("purged ("),
            "{site}"
        );
    }
    // The first site answers for unknown hosts.
    said(&command(&server, &["purge", "http://nosuch.example/x"]));
}

#[test]
fn purges_outlive_a_restart() {
    let text = configuration("workers = 1", "cache = true");
    let server = start("page-cache-restart", &text);
    said(&command(&server, &["purge", "--tag", "a"]));
    let number = |server: &Saker| {
        let mut answer: serde_json::Value =
            serde_json::from_str(&said(&command(server, &["cache", "stat", "--json"])))
                .expect("JSON");
        answer["purges"].take()
    };
    assert_eq!(number(&server), 1);
    let Saker { server, dir, .. } = server;
    assert!(server.stop().expect("stopped").success());
    let again = start_in(dir, &text);
    assert_eq!(number(&again), 0, "since the start");
    assert!(
        again
            .dir
            .join("state/cache/purges")
            .metadata()
            .expect("the journal")
            .len()
            > 0
    );
}

#[test]
fn without_a_site_that_uses_it_there_is_none_until_a_reload_brings_one() {
    let server = start("page-cache-reload", &configuration("workers = 1", ""));
    let none = command(&server, &["cache", "stat"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(
        stderr(&none).contains("no site uses it"),
        "{}",
        stderr(&none)
    );
    assert!(!server.dir.join("state/cache").exists());
    rewrite(&server, &configuration("workers = 1", "cache = true"));
    assert!(reload(&server).status.success());
    said(&command(&server, &["cache", "stat"]));
    let larger = format!(
        "[cache]\nsize = \"1GB\"\n{}",
        configuration("workers = 1", "cache = true")
    );
    rewrite(&server, &larger);
    let output = reload(&server);
    assert!(
        output.status.success()
            && stderr(&output).contains("cache.size changes with the next start"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_folder_that_cannot_be_had_leaves_a_server_without_a_cache() {
    let dir = folder("page-cache-off");
    dir.write("file", "").expect("written");
    let text = format!(
        "[cache]\nfolder = \"{{dir}}/file/cache\"\n{}",
        configuration("workers = 1", "cache = true")
    );
    let server = start_in(dir, &text);
    assert_eq!(
        server
            .connect()
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );
    assert_eq!(command(&server, &["cache", "stat"]).status.code(), Some(2));
    operate::wait_until("the log line", || server.server.stderr().contains("SK1004"));
}

/// Output of `saker explain` about the cache.
fn explained(origin: &origin::Origin, arguments: &[&str]) -> String {
    let configuration = origin
        .saker
        .dir
        .join("saker.toml")
        .to_string_lossy()
        .into_owned();
    let output = saker(
        ["explain", "-c", &configuration]
            .into_iter()
            .chain(arguments.iter().copied()),
    );
    let page = said(&output);
    page.lines()
        .filter(|line| line.starts_with("cache "))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn explain_says_why_something_is_not_kept() {
    let site = "[site.cache]\nenabled = true\nexclude = [\"/cart\"]\n[[site.route]]\npath = \"/fixed\"\nrespond = \"fixed\"\n";
    let origin = origin::Origin::with("explain-cache", site, 1, |_| {
        origin::ok(&[("Cache-Control", "public, max-age=60")], "page")
    });
    type Row<'t> = (&'t [&'t str], &'t [&'t str]);
    let url = |path: &str| {
        format!(
            "http://localhost:{}{path}",
            origin.saker.server.address().port()
        )
    };
    let (page, cart) = (url("/page?x=1"), url("/cart/1"));
    let rows: [Row<'_>; 6] = [
        (
            &[&page],
            &[
                "looked up, by http://localhost:",
                "/page?x=1 |",
                "keeps nothing of it now",
                "storing is decided by: ",
                "Cache-Control",
            ],
        ),
        (
            &[&cart],
            &["neither looked up nor stored: targets with `/cart` are excluded"],
        ),
        (
            &["-H", "Authorization: Basic YTpi", &page],
            &["the request has Authorization: the response is shared only"],
        ),
        (
            &["-H", "Cookie: a=b; PHPSESSID=0123456789abcdef0123", &page],
            &["has the session cookie `PHPSESSID`"],
        ),
        (
            &["-H", "Cache-Control: no-cache", &page],
            &["the request's Cache-Control `no-cache` is ignored"],
        ),
        (
            &["--method", "POST", &page],
            &["not looked up: POST is an unsafe method"],
        ),
    ];
    operate::wait_until("the control socket", || {
        command(&origin.saker, &["cache", "stat"]).status.success()
    });
    for (arguments, expected) in rows {
        let said = explained(&origin, arguments);
        expected.iter().for_each(|text| {
            assert!(
                said.contains(text),
                "{arguments:?}: `{text}` is not in:\n{said}"
            )
        });
    }
    assert_eq!(origin.get("/page?x=1", &[]).status, 200);
    let kept = explained(&origin, &[&page]);
    assert!(
        kept.contains("the running server keeps it for all: 200, fresh "),
        "{kept}"
    );
    assert!(
        origin.asked("/page?x=1").len() == 1,
        "nothing is sent anywhere"
    );
}

//! `saker purge` and `saker cache`, asked of a running server; where the cache's folder is, and when there is none.

mod operate;

use operate::{configuration, folder, reload, rewrite, saker, start, start_in, stderr, stdout};
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
    let server = start("page-cache-commands", &configuration("workers = 1", "cache = true"));
    let folder = server.dir.join("state/cache");
    assert_eq!(folder.metadata().expect("the folder").permissions().mode() & 0o777, 0o700);
    let stat = said(&command(&server, &["cache", "stat"]));
    assert!(stat.contains("entries    0 of 2,000,000\n") && stat.contains("of 10.7 GB"), "{stat}");
    assert!(said(&command(&server, &["cache", "stat", "--json"])).contains("\"is_complete\""));
    assert_eq!(said(&command(&server, &["cache", "list"])), "");
    let nothing = command(&server, &["cache", "show", "http://localhost/"]);
    assert_eq!((nothing.status.code(), stdout(&nothing).as_str()), (Some(2), "nothing of it is kept\n"));
    for purge in
        [&["purge", "--all"][..], &["purge", "/x", "--soft"], &["cache", "purge", "--tag", "a"], &["purge", "--site", "any.example"]]
    {
        assert_eq!(
            said(&command(&server, purge)),
            if purge.contains(&"--soft") { "made stale (1 site looked at)\n" } else { "purged (1 site looked at)\n" }
        );
    }
    assert!(said(&command(&server, &["cache", "stat"])).contains("purges     "));
    for mistake in [&["purge"][..], &["purge", "nonsense"], &["purge", "--ban", "req.url ~ x", "--soft"]] {
        assert_eq!(command(&server, mistake).status.code(), Some(2), "{mistake:?}");
    }
}

#[test]
fn purges_outlive_a_restart() {
    let text = configuration("workers = 1", "cache = true");
    let server = start("page-cache-restart", &text);
    said(&command(&server, &["purge", "--tag", "a"]));
    let number = |server: &Saker| {
        let mut answer: serde_json::Value = serde_json::from_str(&said(&command(server, &["cache", "stat", "--json"]))).expect("JSON");
        answer["purges"].take()
    };
    assert_eq!(number(&server), 1);
    let Saker { server, dir, .. } = server;
    assert!(server.stop().expect("stopped").success());
    let again = start_in(dir, &text);
    assert_eq!(number(&again), 0, "since the start");
    assert!(again.dir.join("state/cache/purges").metadata().expect("the journal").len() > 0);
}

#[test]
fn without_a_site_that_uses_it_there_is_none_until_a_reload_brings_one() {
    let server = start("page-cache-reload", &configuration("workers = 1", ""));
    let none = command(&server, &["cache", "stat"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("no site uses it"), "{}", stderr(&none));
    assert!(!server.dir.join("state/cache").exists());
    rewrite(&server, &configuration("workers = 1", "cache = true"));
    assert!(reload(&server).status.success());
    said(&command(&server, &["cache", "stat"]));
    let larger = format!("[cache]\nsize = \"1GB\"\n{}", configuration("workers = 1", "cache = true"));
    rewrite(&server, &larger);
    let output = reload(&server);
    assert!(output.status.success() && stderr(&output).contains("cache.size changes with the next start"), "{}", stderr(&output));
}

#[test]
fn a_folder_that_cannot_be_had_leaves_a_server_without_a_cache() {
    let dir = folder("page-cache-off");
    dir.write("file", "").expect("written");
    let text = format!("[cache]\nfolder = \"{{dir}}/file/cache\"\n{}", configuration("workers = 1", "cache = true"));
    let server = start_in(dir, &text);
    assert_eq!(server.connect().expect("connected").get("/").expect("answered").status, 200);
    assert_eq!(command(&server, &["cache", "stat"]).status.code(), Some(2));
    operate::until("the log line", || server.server.stderr().contains("SK1004"));
}

//! `watch = true`: the configuration is reloaded when one of its files changes.

use crate::operate::{self, configuration, folder, generation, wait_until};
use saker_testkit::Saker;
use std::{fs, time::Duration};

fn text(body: &str) -> String {
    let top = "include = [\"conf.d/*.toml\"]\n";
    let site = format!("[[site.route]]\npath = \"/x\"\nrespond = \"{body}\"\n");
    format!("{top}{}", configuration("workers = 1\nwatch = true", &site))
}

fn answer(server: &Saker, host: &str) -> String {
    let mut client = server.connect().unwrap();
    let request = format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    client.send(request).unwrap();
    client.read_response().unwrap().text()
}

fn written(server: &Saker, body: &str) -> String {
    text(body)
        .replace("{address}", &server.server.address().to_string())
        .replace("{dir}", &server.dir.to_string_lossy())
}

fn refusals(server: &Saker) -> usize {
    server.server.stderr().matches("SK0202").count()
}

#[test]
fn changes_are_taken_up_however_they_are_made() {
    let dir = folder("watch");
    dir.write("conf.d/.keep", "").unwrap();
    let server = operate::start_in(dir, &text("one"));
    assert_eq!(answer(&server, "a.example"), "one");
    // In place.
    operate::rewrite(&server, &text("two"));
    wait_until("the change in place", || {
        answer(&server, "a.example") == "two"
    });
    // By rename, as editors do.
    let file = server.dir.join("saker.toml");
    let beside = server.dir.join("saker.toml.new");
    fs::write(&beside, written(&server, "three")).unwrap();
    fs::rename(&beside, &file).unwrap();
    wait_until("the rename", || answer(&server, "a.example") == "three");
    // Moved away for an instant, and written anew.
    fs::rename(&file, server.dir.join("saker.toml~")).unwrap();
    fs::write(&file, written(&server, "four")).unwrap();
    wait_until("the new file", || answer(&server, "a.example") == "four");
    // A file that is included, and gone again.
    let site = "[[site]]\nnames = [\"b.example\"]\n[[site.route]]\npath = \"*\"\nrespond = \"b\"\n";
    let included = server.dir.join("conf.d/b.toml");
    fs::write(&included, site).unwrap();
    wait_until("the included file", || answer(&server, "b.example") == "b");
    fs::remove_file(&included).unwrap();
    wait_until("the end of it", || answer(&server, "b.example") == "four");
    assert_eq!(refusals(&server), 0, "{}", server.server.stderr());
    assert!(server.server.stderr().contains("SK0931"));
}

#[test]
fn a_broken_change_keeps_the_old_one_and_is_logged_once() {
    let server = operate::start_in(folder("watch-broken"), &text("one"));
    let before = generation(&server);
    operate::rewrite(
        &server,
        &text("two").replace("workers = 1", "workers = 0\nlog_levle = 1"),
    );
    wait_until("the refusal", || refusals(&server) > 0);
    let log = server.server.stderr();
    assert!(
        log.contains("`workers` must be") && log.contains("log_levle"),
        "{log}"
    );
    // What is left beside it by editors changes nothing.
    fs::write(server.dir.join("conf.d.swp"), "x").unwrap();
    fs::write(server.dir.join(".saker.toml.swp"), "x").unwrap();
    operate::rewrite(&server, &text("three"));
    wait_until("the correction", || answer(&server, "a.example") == "three");
    assert_eq!((refusals(&server), generation(&server)), (1, before + 1));
}

#[test]
fn many_changes_make_few_reloads() {
    let server = operate::start_in(folder("watch-many"), &text("0"));
    let before = generation(&server);
    for number in 1..=40 {
        operate::rewrite(&server, &text(&number.to_string()));
    }
    wait_until("the last change", || answer(&server, "a.example") == "40");
    assert!(generation(&server) - before < 20, "{}", generation(&server));
}

#[test]
fn nothing_is_reloaded_without_it() {
    let off = |body: &str| text(body).replace("watch = true\n", "");
    let server = operate::start_in(folder("watch-off"), &off("one"));
    operate::rewrite(&server, &off("two"));
    // Longer than a watching server takes: it would have looked several times.
    let until = std::time::Instant::now() + Duration::from_millis(1200);
    while std::time::Instant::now() < until {
        assert_eq!(answer(&server, "a.example"), "one");
    }
    assert_eq!(generation(&server), 1);
}

/// The files are looked at through the broker, every two seconds.
#[test]
fn a_directory_that_only_root_can_read_is_watched_too() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: root is needed");
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let dir = folder("watch-closed");
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&dir, 0o755);
    fs::create_dir_all(dir.join("conf/conf.d")).unwrap();
    mode(&dir.join("conf"), 0o700);
    let of = |body: &str| text(body).replace("workers = 1", "workers = 1\nuser = \"nobody\"");
    let server = operate::native(&of("one"))
        .file("conf/saker.toml")
        .start(dir);
    assert_eq!(answer(&server, "a.example"), "one");
    let written = of("two")
        .replace("{address}", &server.server.address().to_string())
        .replace("{dir}", &server.dir.to_string_lossy());
    fs::write(server.dir.join("conf/saker.toml"), written).unwrap();
    wait_until("the change", || answer(&server, "a.example") == "two");
    let generations = generation(&server);
    let until = std::time::Instant::now() + Duration::from_secs(5);
    while std::time::Instant::now() < until {
        assert_eq!(answer(&server, "a.example"), "two");
    }
    assert_eq!(
        generation(&server),
        generations,
        "{}",
        server.server.stderr()
    );
}

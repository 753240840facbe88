//! Counters and messages count and name what happens: requests over a limit, compressed responses,
//! missing document roots, error pages that fail, directories that can't be watched.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate::{self, configuration, folder, wait_until};
use saker_testkit::{Client, Saker};

fn counter(saker: &Saker, name: &str) -> u64 {
    let status = operate::ask(&saker.dir.join("state"), "status").unwrap();
    status["counters"][name].as_u64().unwrap()
}

#[test]
fn refused_and_delayed_requests_are_counted() {
    let refusing = "[site.throttle]\nrequests_static = { rate = \"1/s\", burst = 1 }";
    let saker = operate::start("counters-refused", &configuration("", refusing));
    let mut client = saker.connect().unwrap();
    let statuses: Vec<u16> = (0..6)
        .map(|_| client.get("/index.html").unwrap().status)
        .collect();
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert!(refused > 0, "{statuses:?}");
    let counted = counter(&saker, "throttle_total{outcome=\"refused\"}");
    assert_eq!(counted, refused as u64);

    let delaying = "[site.throttle]\nrequests_static = { rate = \"20/s\", burst = 1, excess = \"delay\", delay_max = \"9s\" }";
    let saker = operate::start("counters-delayed", &configuration("", delaying));
    let mut client = saker.connect().unwrap();
    (0..8).for_each(|_| assert_eq!(client.get("/index.html").unwrap().status, 200));
    assert!(counter(&saker, "throttle_total{outcome=\"delayed\"}") > 0);
}

#[test]
fn compressed_responses_are_counted() {
    let site = "listing = true\n[site.compression]\ncodings = [\"gzip\"]";
    let dir = folder("counters-compressed");
    for number in 0..100 {
        dir.write(&format!("www/folder/file-{number}.txt"), "text")
            .unwrap();
    }
    let saker = operate::start_in(dir, &configuration("", site));
    let mut client = saker.connect().unwrap();
    client
        .send("GET /folder/ HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
        .unwrap();
    let response = client.read_response().unwrap();
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert_eq!(
        counter(&saker, "compression_total{result=\"compressed\"}"),
        1
    );
}

#[test]
fn what_is_missing_is_named() {
    let site = "[site.error_pages]\n404 = \"/errors/none.html\"\n\n[[site]]\nnames = [\"b.test\"]\nroot = \"{dir}/none\"";
    let saker = operate::start("counters-missing", &configuration("", site));
    let mut client = saker.connect().unwrap();
    assert_eq!(client.get("/nothing").unwrap().status, 404);
    wait_until("both are named", || {
        let log = saker.server.stderr();
        log.contains("SK0505: a document root does not exist: ")
            && log.contains("SK0507: a custom error page could not be served")
    });
}

#[test]
fn what_lies_in_the_state_directory_is_named_and_not_served() {
    let dir = folder("counters-private");
    dir.write("state/www/a.txt", "key").unwrap();
    std::os::unix::fs::symlink(dir.join("state/www"), dir.join("www/link")).unwrap();
    let site =
        "symlinks = \"follow\"\n\n[[site]]\nnames = [\"b.test\"]\nroot = \"{dir}/state/www\"";
    let saker = operate::start_in(dir, &configuration("", site));
    let mut client = saker.connect().unwrap();
    assert_eq!(client.get("/link/a.txt").unwrap().status, 403);
    let request = "GET /a.txt HTTP/1.1\r\nHost: b.test\r\n\r\n";
    client.send(request).unwrap();
    assert_eq!(client.read_response().unwrap().status, 403);
    wait_until("it is named", || {
        let log = saker.server.stderr();
        log.contains("SK0514: a document root is in the state directory")
    });
}

/// A user namespace of its own has limits of its own on inotify. Where one is reached, a message
/// says so, and each change is still served at once.
fn without_watches(name: &str, limit: &str, message: &str) {
    let dir = folder(name);
    dir.write("www/a/b/c/page.html", "first").unwrap();
    let unshare = saker_testkit::require("unshare").unwrap();
    let script = format!("echo {limit} && exec \"$0\" \"$@\"");
    let server = operate::native(&configuration("", ""))
        .wrapped(&[unshare.to_str().unwrap(), "-U", "-r", "sh", "-c", &script])
        .start_in(&dir);
    let mut client = Client::connect(server.address()).unwrap();
    assert_eq!(client.get("/a/b/c/page.html").unwrap().text(), "first");
    wait_until("the limit is named", || server.stderr().contains(message));
    for round in 0..20 {
        let text = format!("round {round}");
        dir.write("www/a/b/c/page.html", &text).unwrap();
        assert_eq!(client.get("/a/b/c/page.html").unwrap().text(), text);
        assert_eq!(client.get("/a/b/c/page.html").unwrap().text(), text);
        let other = format!("/a/b/c/new-{round}.html");
        assert_eq!(client.get(&other).unwrap().status, 404);
        dir.write(&format!("www{other}"), "new").unwrap();
        assert_eq!(client.get(&other).unwrap().text(), "new");
        std::fs::remove_file(dir.join(format!("www{other}"))).unwrap();
        assert_eq!(client.get(&other).unwrap().status, 404);
    }
}

#[test]
fn the_limit_on_watches_is_a_message_and_files_are_served() {
    without_watches(
        "counters-watches",
        "2 >/proc/sys/user/max_inotify_watches",
        "SK0503: the inotify watch limit is reached",
    );
}

#[test]
fn the_limit_on_instances_is_a_message_and_files_are_served() {
    without_watches(
        "counters-instances",
        "0 >/proc/sys/user/max_inotify_instances",
        "no inotify instance is left for this user",
    );
}

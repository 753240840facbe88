//! The page cache keeps the response whose request was sent last, however long the others took.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::origin::{Gate, Origin, answer, ok};
use saker_testkit::wait_until;
use std::thread;

const PUBLIC: (&str, &str) = ("Cache-Control", "public, max-age=600");
const HTML: (&str, &str) = ("Content-Type", "text/html");
/// Requests with a session do not wait for others' fetches.
const SESSION: (&str, &str) = ("Cookie", "PHPSESSID=0123456789abcdef0123");
const NO_CACHE: (&str, &str) = ("Cache-Control", "no-cache");
const SETTINGS: &str =
    "[site.cache]\nenabled = true\nobey_client = true\ngrace = \"0s\"\nstale_if_error = \"1h\"\n";

/// Asks for a target, does something while the answer to that is held back, and returns the answer.
fn meanwhile(
    origin: &Origin,
    gate: &Gate,
    target: &str,
    fields: &[(&str, &str)],
    act: impl FnOnce(),
) -> String {
    let asked = origin.asked(target).len();
    thread::scope(|scope| {
        let slow = scope.spawn(|| origin.get(target, fields).text());
        origin.wait_for(target, asked + 1);
        act();
        gate.open();
        slow.join().unwrap()
    })
}

/// By connections that the kernel spreads over both workers.
fn all_say(origin: &Origin, target: &str, expected: &str) {
    for _ in 0..20 {
        assert_eq!(origin.get(target, &[]).text(), expected, "{target}");
    }
}

#[test]
fn an_answer_that_took_long_replaces_no_newer_one() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::with("cache-order", SETTINGS, 2, move |asked| {
        if asked.count == 1 {
            held.pass();
        }
        ok(&[PUBLIC], &asked.count.to_string())
    });
    let slow = meanwhile(&origin, &gate, "/page", &[], || {
        assert_eq!(origin.get("/page", &[SESSION]).text(), "2")
    });
    assert_eq!(slow, "1", "whoever asked for it gets it");
    all_say(&origin, "/page", "2");
    assert_eq!(origin.asked("/page").len(), 2);
}

/// Nor does one with variants, where it is not known yet that there are any.
#[test]
fn variants_that_took_long_replace_no_newer_page() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::with("cache-order-vary", SETTINGS, 2, move |asked| {
        match asked.count {
            1 => {
                held.pass();
                ok(&[PUBLIC, ("Vary", "Accept-Language")], "1")
            }
            count => ok(&[PUBLIC], &count.to_string()),
        }
    });
    let slow = meanwhile(&origin, &gate, "/page", &[], || {
        assert_eq!(origin.get("/page", &[SESSION]).text(), "2")
    });
    assert_eq!(slow, "1");
    all_say(&origin, "/page", "2");
}

/// RFC 9111 section 4.4, for a page that is not cached yet.
#[test]
fn what_was_changed_while_it_was_made_is_not_kept() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::with("cache-order-post", SETTINGS, 2, move |asked| {
        if asked.target == "/page" && asked.count == 1 {
            held.pass();
        }
        ok(&[PUBLIC], &asked.count.to_string())
    });
    // Until the store knows that there was nothing before, it purges in any case.
    wait_until("the store is complete", || {
        stat(&origin).contains("\"is_complete\":true")
    });
    let post = || {
        assert_eq!(
            origin
                .client()
                .request("POST", "/page", &[("Content-Length", "0")])
                .unwrap()
                .status,
            200
        )
    };
    assert_eq!(meanwhile(&origin, &gate, "/page", &[], post), "1");
    all_say(&origin, "/page", "3");
}

/// The making of a page begins when the origin is asked, not when its request begins: a purge that
/// comes while the request is still read has been in force since before the page was made.
#[test]
fn what_was_purged_before_it_was_made_is_kept() {
    let settings = "[site.cache]\nenabled = true\nmethods = [\"QUERY\"]\n\
                    purge_from = [\"127.0.0.0/8\"]\n";
    let origin = Origin::with("cache-order-purge", settings, 2, |asked| {
        ok(&[PUBLIC], &asked.count.to_string())
    });
    let mut client = origin.client();
    let head = "QUERY /page HTTP/1.1\r\nHost: a.example\r\nContent-Type: text/plain\r\n\
                Content-Length: 1\r\n";
    client
        .send(format!("{head}Expect: 100-continue\r\n\r\n"))
        .unwrap();
    let goes_on = "HTTP/1.1 100 Continue\r\n\r\n";
    assert_eq!(
        client.read_bytes(goes_on.len()).unwrap(),
        goes_on.as_bytes()
    );
    let purged = origin
        .client()
        .request("PURGE", "/page", &[("Host", "a.example")]);
    assert_eq!(purged.unwrap().status, 200);
    assert_eq!(origin.asked("/page").len(), 0);
    client.send("x").unwrap();
    assert_eq!(client.read_response().unwrap().text(), "1");
    for _ in 0..4 {
        let mut client = origin.client();
        client.send(format!("{head}\r\nx")).unwrap();
        assert_eq!(client.read_response().unwrap().text(), "1");
    }
    assert_eq!(origin.asked("/page").len(), 1);
    // One that comes while it is made still counts.
    let purged = origin
        .client()
        .request("PURGE", "/page", &[("Host", "a.example")]);
    assert_eq!(purged.unwrap().status, 200);
    client.send(format!("{head}\r\nx")).unwrap();
    assert_eq!(client.read_response().unwrap().text(), "2");
}

fn stat(origin: &Origin) -> String {
    let mut command = std::process::Command::new(crate::operate::SAKER);
    let output = command
        .args(["cache", "stat", "--json", "--state-dir"])
        .arg(origin.saker.dir.join("state"))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).replace([' ', '\n'], "")
}

/// A purge in a page's response is as old as the page.
#[test]
fn a_page_that_took_long_replaces_no_newer_part() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::with("cache-order-inline", SETTINGS, 2, move |asked| match asked
        .target
        .as_str()
    {
        "/page" => {
            held.pass();
            let esi = ("X-LiteSpeed-Cache-Control", "public,max-age=60,esi=on");
            ok(
                &[esi, HTML],
                "<esi:inline name='/part' cache-control='public,max-age=60'>old</esi:inline><esi:include src='/part'/>",
            )
        }
        _ => ok(
            &[("X-LiteSpeed-Cache-Control", "public,max-age=60"), HTML],
            &asked.count.to_string(),
        ),
    });
    meanwhile(&origin, &gate, "/page", &[], || {
        assert_eq!(origin.get("/part", &[]).text(), "1")
    });
    all_say(&origin, "/part", "1");
    all_say(&origin, "/page", "1");
}

/// An origin that fails is stood in for by what is there then, not by what was there when it was
/// asked.
#[test]
fn the_newest_page_stands_in_for_an_error() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::with("cache-order-error", SETTINGS, 2, move |asked| {
        match asked.count {
            2 => {
                held.pass();
                answer("503 Service Unavailable", &[], "bad")
            }
            count => ok(&[PUBLIC], &count.to_string()),
        }
    });
    assert_eq!(origin.get("/page", &[]).text(), "1");
    let act = || assert_eq!(origin.get("/page", &[NO_CACHE, SESSION]).text(), "3");
    assert_eq!(meanwhile(&origin, &gate, "/page", &[NO_CACHE], act), "3");
    all_say(&origin, "/page", "3");
}

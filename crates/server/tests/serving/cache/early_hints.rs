//! 103 Early Hints from what stored pages linked, over HTTP/2 as curl speaks it.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::origin::{Asked, Origin, ok};
use saker_testkit::require;
use std::process::Command;

const LINK: &str = "</a.css>; rel=preload; as=style";
const NAVIGATES: &str = "Sec-Fetch-Mode: navigate";

fn answers(asked: &Asked) -> Vec<u8> {
    let control = match asked.target.as_str() {
        "/private" => "private, max-age=5",
        "/uncached" => "no-store",
        _ => "max-age=5",
    };
    let host = asked.field("x-original-host").unwrap_or("a.example");
    let more = format!("<https://{host}>; rel=preconnect, </next>; rel=next");
    ok(
        &[("Cache-Control", control), ("Link", LINK), ("Link", &more)],
        "page",
    )
}

/// Link fields of the interim response; `None` without one.
fn hints(origin: &Origin, target: &str, how: &str, fields: &[&str]) -> Option<Vec<String>> {
    let url = format!("http://{}{target}", origin.saker.server.address());
    let fields = fields.iter().flat_map(|field| ["-H", *field]);
    let output = Command::new(require("curl").unwrap())
        .args(["-sS", "-i", "-m", "20", how])
        .args(fields)
        .arg(url)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(" 200"), "{target}: {text}");
    let interim = text.split("\r\n\r\n").find(|head| head.contains(" 103"))?;
    let links = interim.lines().skip(1).map(|line| line.trim().to_owned());
    Some(links.collect())
}

const H2: &str = "--http2-prior-knowledge";

#[test]
fn stored_pages_say_what_to_load() {
    let site = "early_hints = true\npurge_from = [\"127.0.0.0/8\"]\n";
    let origin = Origin::with_clock("hints", site, 1, answers);
    let navigates = |target: &str, fields: &[&str]| {
        hints(&origin, target, H2, &[&[NAVIGATES], fields].concat())
    };
    let expected = Some(vec![
        format!("link: {LINK}"),
        "link: <https://a.example>; rel=preconnect".to_owned(),
    ]);
    let pages = ["/page", "/private", "/uncached"];
    for target in pages {
        assert_eq!(navigates(target, &[]), None, "{target}: nothing is known");
    }
    assert_eq!(navigates("/page", &[]), None, "a hit needs none");
    // A client with a session waits for the application.
    let session = "Cookie: PHPSESSID=0123456789abcdef";
    assert_eq!(navigates("/page", &[session]), expected);
    assert_eq!(navigates("/private", &[session]), None);
    // What another spelling of the request has put into its page is not for this one.
    let forged = "X-Original-Host: evil.example";
    assert_eq!(navigates("/page", &[forged]), None);
    origin.advance(8);
    for (how, fields) in [
        (H2, &[][..]),
        (H2, &["Sec-Fetch-Mode: cors"]),
        ("--http1.1", &[NAVIGATES]),
    ] {
        assert_eq!(
            hints(&origin, "/page", how, fields),
            None,
            "{how} {fields:?}"
        );
        origin.advance(8);
    }
    assert_eq!(navigates("/page", &[]), expected);
    for target in ["/private", "/uncached"] {
        assert_eq!(navigates(target, &[]), None, "{target}: not stored");
    }
    origin.advance(8);
    let host = origin.saker.server.address().to_string();
    let mut client = origin.client();
    client
        .send(format!("PURGE /page HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 200);
    assert_eq!(navigates("/page", &[]), None, "the page was purged");
}

#[test]
fn only_where_the_site_says_so() {
    let origin = Origin::with_clock("hints-off", "", 1, answers);
    for _ in 0..2 {
        assert_eq!(hints(&origin, "/page", H2, &[NAVIGATES]), None);
        origin.advance(8);
    }
}

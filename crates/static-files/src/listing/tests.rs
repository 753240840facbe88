//! Listings through the handler, on real folders: order, what is left out, HTML or JSON.

use super::*;
use crate::{
    StaticFiles,
    test_site::{Folder, block_on, body_bytes, exchange, field},
};
use saker_config::model::{Settings, SymlinkPolicy};
use saker_pipeline::{Handled, Handler};
use std::os::unix::{ffi::OsStrExt, fs::symlink};

fn list(
    folder: &Folder,
    target: &str,
    fields: &[(&str, &str)],
    policy: SymlinkPolicy,
) -> (Response, Exchange) {
    let mut settings = Settings::default();
    (settings.files.listing, settings.files.symlinks) = (true, policy);
    let mut exchange = exchange(&folder.site(settings), "GET", target, fields);
    let handler = StaticFiles::new(Watcher::idle(), 1000);
    match block_on(handler.handle(&mut exchange)) {
        Handled::Answered(response) => (response, exchange),
        _ => panic!("declined"),
    }
}

const JSON: [(&str, &str); 1] = [("Accept", "application/json")];

fn names(folder: &Folder, target: &str) -> Vec<String> {
    let (response, _) = list(folder, target, &JSON, SymlinkPolicy::Inside);
    let json: serde_json::Value = serde_json::from_slice(&body_bytes(&response.body)).unwrap();
    json.as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect()
}

fn sample() -> Folder {
    let folder = Folder::new();
    folder
        .write("img10.png", "0123456789")
        .touch("img10.png", 300)
        .write("img2.png", "0123")
        .touch("img2.png", 500);
    folder
        .write("Alpha.txt", "")
        .touch("Alpha.txt", 400)
        .write("zoo/x", "")
        .write("Zebra/x", "");
    folder
        .write(".hidden", "")
        .write("x.bak", "")
        .write("#draft#", "");
    folder
}

#[test]
fn folders_first_in_each_order() {
    let folder = sample();
    let cases = [
        ("/", ["Zebra", "zoo", "Alpha.txt", "img2.png", "img10.png"]),
        (
            "/?C=N;O=D",
            ["zoo", "Zebra", "img10.png", "img2.png", "Alpha.txt"],
        ),
        (
            "/?C=S;O=A",
            ["Zebra", "zoo", "Alpha.txt", "img2.png", "img10.png"],
        ),
        (
            "/?C=S&O=D",
            ["Zebra", "zoo", "img10.png", "img2.png", "Alpha.txt"],
        ),
        (
            "/?what&C=X;O=",
            ["Zebra", "zoo", "Alpha.txt", "img2.png", "img10.png"],
        ),
    ];
    for (target, expected) in cases {
        assert_eq!(names(&folder, target), expected, "{target}");
    }
    assert_eq!(
        names(&folder, "/?C=M;O=A")[2..],
        ["img2.png", "Alpha.txt", "img10.png"]
    );
    assert_eq!(
        names(&folder, "/?C=M;O=D")[2..],
        ["img10.png", "Alpha.txt", "img2.png"]
    );
}

#[test]
fn nothing_is_listed_that_could_not_be_fetched() {
    let folder = Folder::new();
    folder.write("plain.txt", "x").write("dir/y", "");
    symlink("plain.txt", folder.path().join("inside")).unwrap();
    symlink("dir", folder.path().join("inside-dir")).unwrap();
    symlink("/etc/hostname", folder.path().join("outside")).unwrap();
    symlink("gone", folder.path().join("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    assert_eq!(
        names(&folder, "/"),
        ["dir", "inside-dir", "inside", "plain.txt"]
    );
    let (response, _) = list(&folder, "/", &JSON, SymlinkPolicy::Never);
    let text = String::from_utf8(body_bytes(&response.body)).unwrap();
    assert!(
        text.contains("plain.txt") && !text.contains("inside"),
        "{text}"
    );
}

#[test]
fn the_answer_is_not_kept_and_says_what_it_is() {
    let folder = sample();
    let (response, exchange) = list(&folder, "/", &[], SymlinkPolicy::Inside);
    assert!(exchange.cache.request_dependent && exchange.cache.cached_route.is_none());
    let shown = [
        "content-type",
        "vary",
        "cache-control",
        "content-security-policy",
    ]
    .map(|name| field(&response, name));
    assert_eq!(
        shown,
        [
            "text/html; charset=utf-8",
            "Accept",
            "no-cache",
            "default-src 'none'; style-src 'unsafe-inline'"
        ]
    );
    assert_eq!(
        field(&response, "content-length"),
        body_bytes(&response.body).len().to_string()
    );
    let (json, _) = list(&folder, "/", &JSON, SymlinkPolicy::Inside);
    assert_eq!(field(&json, "content-type"), "application/json");
}

#[test]
fn json_has_what_programs_need() {
    let folder = Folder::new();
    folder
        .write("a.txt", "four")
        .touch("a.txt", 0)
        .write("d/x", "");
    std::fs::write(
        folder
            .path()
            .join(std::ffi::OsStr::from_bytes(b"z\xff\"\n")),
        "",
    )
    .unwrap();
    let (response, _) = list(&folder, "/", &JSON, SymlinkPolicy::Inside);
    let json: serde_json::Value = serde_json::from_slice(&body_bytes(&response.body)).unwrap();
    assert_eq!(
        (&json[0]["name"], &json[0]["type"], json[0].get("size")),
        (&"d".into(), &"directory".into(), None)
    );
    assert_eq!(
        (&json[1]["name"], &json[1]["type"], &json[1]["size"]),
        (&"a.txt".into(), &"file".into(), &4.into())
    );
    assert!(json[1]["mtime"].as_str().unwrap().ends_with(" GMT"));
    assert_eq!(json[2]["name"], "z\u{fffd}\"\n");
}

#[test]
fn html_unless_json_is_liked_better() {
    let cases = [
        ("text/html,application/xhtml+xml,*/*;q=0.8", false),
        ("*/*", false),
        ("", false),
        ("application/json", true),
        ("Application/JSON; q=0.9, text/html;q=0.8", true),
        ("application/json;q=0", false),
        ("application/*, text/html;q=0.5", true),
        ("application/json;q=0.1, */*", false),
        ("application/json;q=nonsense", false),
        ("application/json;q=7", true),
        ("text/*, application/json", false),
        (";;,,=", false),
    ];
    for (accept, expected) in cases {
        let head = saker_http::RequestHead::build(
            "GET",
            "/",
            saker_http::Version::Http11,
            &[("Accept", accept)],
        );
        assert_eq!(prefers_json(head.view()), expected, "{accept}");
    }
}

#[test]
fn names_sort_as_people_do() {
    let sorted: [&[u8]; 9] = [
        b"", b"0", b"a", b"A1", b"a02", b"a2b", b"a10", b"a10x", b"b",
    ];
    for window in sorted.windows(2) {
        assert_eq!(
            compare_names(window[0], window[1]),
            Ordering::Less,
            "{window:?}"
        );
        assert_eq!(
            compare_names(window[1], window[0]),
            Ordering::Greater,
            "{window:?}"
        );
    }
    assert_eq!(compare_names(b"A", b"A"), Ordering::Equal);
    assert_ne!(compare_names(b"A", b"a"), Ordering::Equal);
    assert_ne!(compare_names(b"01", b"1"), Ordering::Equal);
}

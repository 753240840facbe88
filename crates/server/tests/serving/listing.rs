//! Directory listings in a real browser: whatever the names of files, the reader sees the name,
//! nothing is executed, and each link leads to its file.
//!
//! Caveat: only the browser knows how it interprets a link. So a page of ours shows the listing in
//! a frame, asks the browser for each link as it understood it, fetches that, and records the
//! result.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{configuration, folder, start_in};
use saker_testkit::{Saker, TempDir, require};
use std::process::{Command, Stdio};

const NAMES: [&str; 14] = [
    "with space.txt",
    "quote\"s and 'more'.txt",
    "<script>top.owned=1",
    "<img src=x onerror=top.owned=1>",
    "\" onmouseover=\"top.owned=1.txt",
    "100%.txt",
    "%41.txt",
    "what?.txt",
    "#hash.txt",
    "a&lt;b&amp;.txt",
    "javascript:top.owned=1",
    "ünï-日本-🦅.txt",
    "new\nline.txt",
    "back\\slash.txt",
];

/// Writes a row per link: text, status, content.
const PROBE: &str = "<!doctype html><meta charset=utf-8><iframe id=frame src=\"/odd/\"></iframe><ol id=out></ol><script>
onload = () => {
  const note = text => { const row = document.createElement('li'); row.textContent = text; out.append(row) };
  const page = frame.contentDocument;
  for (const link of page.querySelectorAll('td.name a')) {
    const ask = new XMLHttpRequest();
    try { ask.open('GET', link.href, false); ask.send() } catch (error) { note('failed: ' + link.href); continue }
    const name = link.querySelector('bdi')?.textContent ?? 'up';
    note(`[${name}] ${ask.status} ${link.href.endsWith('/') ? new URL(link.href).pathname : ask.responseText}`);
  }
  note('title ' + page.title);
  note('ran ' + String(window.owned));
};
</script>";

fn start() -> Saker {
    let dir = folder("listing");
    for (number, name) in NAMES.iter().enumerate() {
        // Each has a size of its own.
        dir.write(
            &format!("www/odd/{name}"),
            format!("content {number} {}", "x".repeat(number * 10)),
        )
        .unwrap();
    }
    dir.write("www/odd/sub dir?/inner.txt", "inner").unwrap();
    dir.write("www/probe.html", PROBE).unwrap();
    start_in(dir, &configuration("workers = 1", "listing = true"))
}

/// The document as the browser has it after loading.
fn dom(saker: &Saker, target: &str) -> String {
    let profile = TempDir::new("chromium").unwrap();
    let output = Command::new(require("timeout").unwrap())
        .args(["-k", "5", "100"])
        .arg(require("chromium").unwrap())
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ])
        .arg(format!("--user-data-dir={}", profile.to_string_lossy()))
        .args([
            "--dump-dom",
            &format!("http://{}{target}", saker.server.address()),
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        dom.contains("</html>"),
        "{}\n{dom}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    dom
}

/// As a browser writes text when it turns a document into HTML.
fn as_text(name: &str) -> String {
    name.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Replaces characters that do not print.
fn shown(name: &str) -> String {
    name.replace('\n', "\u{240a}")
}

#[test]
fn a_browser_shows_every_name_and_runs_none() {
    let saker = start();
    let dom = dom(&saker, "/odd/?C=S;O=D");
    let at = |name: &str| {
        let cell = format!("<bdi>{}</bdi>", as_text(&shown(name)));
        dom.find(&cell)
            .unwrap_or_else(|| panic!("{cell} is not in\n{dom}"))
    };
    // Folders first, then the largest: it was written last.
    let places: Vec<usize> = ["sub dir?/"]
        .iter()
        .chain(NAMES.iter().rev())
        .map(|name| at(name))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    for element in [
        "<script",
        "<img",
        " onerror=\"",
        " onmouseover=\"top.owned=1.txt\">",
    ] {
        assert!(!dom.contains(element), "a name became {element}\n{dom}");
    }
    assert!(
        dom.contains("aria-sort=\"descending\"><a href=\"?C=S;O=A\">"),
        "a click on Size turns the order round\n{dom}"
    );
    assert!(dom.contains("<title>Index of /odd/</title>"));
}

#[test]
fn every_link_leads_a_browser_to_its_file() {
    let saker = start();
    let dom = dom(&saker, "/probe.html");
    let has = |row: String| {
        assert!(
            dom.contains(&format!("<li>{}</li>", as_text(&row))),
            "{row} is not in\n{dom}"
        )
    };
    for (number, name) in NAMES.iter().enumerate() {
        has(format!(
            "[{}] 200 content {number} {}",
            shown(name),
            "x".repeat(number * 10)
        ));
    }
    has("[sub dir?/] 200 /odd/sub%20dir%3F/".into());
    has("[up] 200 /".into());
    has("title Index of /odd/".into());
    has("ran undefined".into());
}

/// The heads of the columns are links; each is followed as it stands in the page.
#[test]
fn columns_sort() {
    let dir = folder("listing-order");
    for (name, bytes) in [("a.txt", 200), ("b.txt", 300), ("c.txt", 100)] {
        dir.write(&format!("www/d/{name}"), "x".repeat(bytes))
            .unwrap();
    }
    let saker = start_in(dir, &configuration("workers = 1", "listing = true"));
    let mut client = saker.connect().unwrap();
    let mut target = "/d/".to_owned();
    let steps = [
        ("Name", "cba"),
        ("Size", "cab"),
        ("Size", "bac"),
        ("Name", "abc"),
    ];
    for (column, expected) in steps {
        let page = client.get(&target).unwrap().text();
        let (before, _) = page
            .split_once(&format!("\">{column}"))
            .unwrap_or_else(|| panic!("no column {column}\n{page}"));
        let (_, link) = before.rsplit_once("href=\"").unwrap();
        target = format!("/d/{link}");
        let sorted = client.get(&target).unwrap().text();
        let mut names: Vec<char> = "abc".chars().collect();
        names.sort_by_key(|name| {
            sorted
                .find(&format!("<bdi>{name}.txt</bdi>"))
                .expect("listed")
        });
        assert_eq!(names.into_iter().collect::<String>(), expected, "{target}");
    }
}

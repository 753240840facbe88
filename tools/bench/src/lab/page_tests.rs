//! The page in a browser: nothing to complain of, no scrolling sideways on a telephone, two color
//! schemes, the figures readable.
//!
//! The page has no script, so the test puts one at its end that writes down what it sees.

use super::{machine::Facts, page, report::Report, samples};
use saker_testkit::{TempDir, require};
use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

fn sample_page() -> String {
    let results = samples::results();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let facts = Facts {
        when: "2026-11-22 07:00 UTC".to_owned(),
        took: Duration::from_secs(3100),
        machine: vec![
            pair("Processor", "A <processor> & more, with a name as long as processors' names are @ 3.10GHz"),
            pair("Cores", "2"),
        ],
        versions: vec![pair("saker", "saker 0.1.0"), pair("nginx", "nginx version: nginx/1.22.1")],
        absent: vec![
            "`caddy` is not installed: apt-get install golang-go, then: go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9"
                .to_owned(),
        ],
        command: "saker-bench lab --saker target/release/saker --out lab".to_owned(),
        ..Facts::default()
    };
    page::html(&Report::new(&results, facts))
}

/// The document after loading, and what the browser said.
fn loaded(dir: &Path, name: &str, text: &str, more: &[&str]) -> (String, String) {
    let file = dir.join(name);
    std::fs::write(&file, text).expect("written");
    let output = Command::new("timeout")
        .args(["-k", "5", "100"])
        .arg(require("chromium").expect("chromium"))
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-sync",
        ])
        .args([
            "--disable-component-update",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            "--hide-scrollbars",
            "--window-size=1200,900",
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .args(more)
        .args(["--dump-dom", &format!("file://{}", file.display())])
        .stdin(Stdio::null())
        .output()
        .expect("ran");
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn with_script(page: &str, script: &str) -> String {
    let end = format!(
        "<script>onload = () => {{ const say = text => {{ const p = document.createElement('p'); p.textContent = text; document.body.append(p) }}; {script} }};</script></body>"
    );
    page.replace("</body>", &end)
}

const COLOURS: &str = "for (const [name, property] of [['body', 'backgroundColor'], ['.own', 'fill'], ['.chip.won', 'color']]) \
    say(`${name} ${getComputedStyle(document.querySelector(name))[property]}`); \
    say('articles ' + document.querySelectorAll('article').length); say('elsewhere ' + performance.getEntriesByType('resource').length);";

/// In a frame as wide as a small telephone, with everything that can be opened open.
const NARROW: &str = "const frame = document.querySelector('iframe'), page = frame.contentDocument; \
    page.querySelectorAll('details').forEach(details => details.open = true); const root = page.documentElement; \
    say(`width ${root.clientWidth} scrolls ${root.scrollWidth}`); \
    say('smallest ' + Math.min(...[...page.querySelectorAll('body *')].map(one => parseFloat(getComputedStyle(one).fontSize))));";

fn said<'a>(dom: &'a str, label: &str) -> &'a str {
    let begin = format!("<p>{label} ");
    let from = dom
        .rfind(&begin)
        .unwrap_or_else(|| panic!("no `{label}` in {dom}"))
        + begin.len();
    dom[from..].split('<').next().unwrap_or_default()
}

#[test]
fn a_browser_shows_it_in_both_schemes() {
    let dir = TempDir::new("lab-page").expect("made");
    let page = with_script(&sample_page(), COLOURS);
    let scheme = |number: &str| {
        loaded(
            &dir,
            "page.html",
            &page,
            &[&format!("--blink-settings=preferredColorScheme={number}")],
        )
    };
    let ((dark, dark_log), (light, light_log)) = (scheme("0"), scheme("1"));
    for log in [&dark_log, &light_log] {
        assert!(!log.contains("CONSOLE"), "{log}");
    }
    for label in ["body", ".own", ".chip.won"] {
        assert_ne!(said(&dark, label), said(&light, label), "{label}");
    }
    assert_eq!(
        (said(&light, "articles"), said(&light, "elsewhere")),
        ("8", "0")
    );
    for figure in [
        "6.10",
        "31.0",
        "12 errors",
        "h2o takes 1.31 times the CPU time",
        "worker_processes 1;",
        "A &lt;processor&gt; &amp; more",
    ] {
        assert!(light.contains(figure), "{figure}\n{light}");
    }
    assert!(
        !light.contains("<script>alert"),
        "a server's words are text"
    );
}

#[test]
fn a_telephone_does_not_scroll_sideways() {
    let dir = TempDir::new("lab-page").expect("made");
    let inner = sample_page().replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!(
        "<!doctype html><meta charset=utf-8><body><iframe width=360 height=800 style=\"border:0\" srcdoc=\"{inner}\"></iframe></body>"
    );
    // What stands in the frame has an end of its own.
    let (begin, end) = frame.rsplit_once("</body>").expect("an end");
    let page = format!("{begin}{}{end}", with_script("</body>", NARROW));
    let (dom, log) = loaded(&dir, "narrow.html", &page, &[]);
    assert!(!log.contains("CONSOLE"), "{log}");
    assert_eq!(said(&dom, "width"), "360 scrolls 360");
    assert!(
        said(&dom, "smallest").parse::<f64>().expect("a size") >= 12.0,
        "{}",
        said(&dom, "smallest")
    );
}

/// For eyes: `SAKER_LAB_PAGE=/tmp/page.html cargo test -p saker-bench lab::page_tests`.
#[test]
fn the_page_is_one_file() {
    let page = sample_page();
    if let Some(file) = std::env::var_os("SAKER_LAB_PAGE") {
        std::fs::write(file, &page).expect("written");
    }
    assert!(!page.contains("http://www") && !page.contains("<script") && !page.contains("url("));
}

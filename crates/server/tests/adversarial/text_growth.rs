//! Text that grows by what an `.htaccess` file says: fields of responses and requests, variables,
//! content.
//!
//! Beyond the budget the answer is 500 with a line in the error log, or breaks off where its head
//! has gone; the worker goes on answering others, and memory is bounded. Apache's own bounds
//! (SubstituteMaxLineLength) hold besides. Out of scope: how often each edit may be applied, which
//! the crates' own tests count.

use crate::harness::{self, ApacheSite, PROTOCOLS, Protocol, Request};
use std::fs;

/// Memory limit of the process, in KiB.
const MEMORY_KIB_MAX: u64 = 600 << 10;

/// Lines that grow beyond any bound, and the answer to `/NAME/a.html`; `None`: it breaks off.
fn growing() -> Vec<(&'static str, String, Option<u16>)> {
    let forty = |line: &str| format!("{line}\n").repeat(40);
    let long = "x".repeat(4000);
    vec![
        ("edit-all", format!("Header set X aaaaaaaa\n{}", forty("Header edit* X . $0$0$0$0")), Some(500)),
        ("edit", format!("Header set X aaaaaaaa\n{}", forty("Header edit X ^(.*)$ $1$1$1$1")), Some(500)),
        ("edit-always", format!("Header always set X aaaaaaaa\n{}", forty("Header always edit* X . $0$0$0$0")), Some(500)),
        ("edit-own", forty("Header edit* Last-Modified . $0$0$0$0"), Some(500)),
        ("literal", format!("Header set X {long}\n{}", forty(&format!("Header edit* X . {long}"))), Some(500)),
        ("add", format!("Header add X {long}\n").repeat(200), Some(500)),
        ("append", format!("Header append X {long}\n").repeat(200), Some(500)),
        ("merge", (0..200).map(|number| format!("Header merge X {number}{long}\n")).collect(), Some(500)),
        ("expression", format!("Header set X aaaaaaaa\n{}", forty("Header set X expr=%{resp:X}%{resp:X}%{resp:X}")), Some(500)),
        (
            "expression-request",
            format!("RequestHeader set X aaaaaaaa\n{}", forty("RequestHeader set X expr=%{req:X}%{req:X}%{req:X}")),
            None,
        ),
        ("request", format!("RequestHeader set X aaaaaaaa\n{}", forty("RequestHeader edit* X . $0$0$0$0")), Some(500)),
        ("request-edit", format!("RequestHeader set X aaaaaaaa\n{}", forty("RequestHeader edit X ^(.*)$ $1$1$1$1")), Some(500)),
        ("request-add", format!("RequestHeader add X {long}\n").repeat(200), Some(500)),
        ("slow", format!("Header set X {}!\n{}", "a".repeat(3000), forty("Header edit* X (a+)+$ b")), Some(500)),
        ("patterns", "RewriteEngine on\nRewriteRule (?:a?){2000} -\n".repeat(1000), Some(500)),
        ("many-patterns", (0..30_000).map(|number| format!("SetEnvIf X (a|{number}) x\n")).collect(), Some(500)),
        ("setenvif", format!("SetEnv unused 1\nSetEnvIf Request_URI (.*) a=aaaaaaaa\n{}", forty("SetEnvIf a (.*) a=$1$1$1$1")), Some(500)),
        (
            "rewriting",
            format!(
                "RewriteEngine on\nRewriteRule .* - [E=a:aaaaaaaa]\n{}",
                forty("RewriteRule .* - [E=a:%{ENV:a}%{ENV:a}%{ENV:a}%{ENV:a}]")
            ),
            Some(500),
        ),
        ("next", "RewriteEngine on\nRewriteRule ^(.*)$ $1$1$1 [N]\n".to_owned(), Some(500)),
        ("query", "RewriteEngine on\nRewriteCond %{QUERY_STRING} (.*)\nRewriteRule .* a.html?aaaaaaaa%1%1%1 [N]\n".to_owned(), Some(500)),
        ("substitute", format!("SetOutputFilter SUBSTITUTE\n{}", forty("Substitute s/./$0$0$0$0/")), None),
        ("substitute-literal", format!("SetOutputFilter SUBSTITUTE\n{}", forty(&format!("Substitute s/x/{}/n", "x".repeat(500)))), None),
        ("substitute-slow", format!("SetOutputFilter SUBSTITUTE\n{}", forty("Substitute s/(x+x+)+y/b/")), None),
        ("sed", format!("SetOutputFilter Sed\n{}", forty("OutputSed s/./&&&&/g")), None),
        ("sed-print", "SetOutputFilter Sed\nOutputSed :a\nOutputSed p\nOutputSed ba\n".to_owned(), None),
        ("sed-hold", "SetOutputFilter Sed\nOutputSed :a\nOutputSed H\nOutputSed G\nOutputSed ba\n".to_owned(), None),
    ]
}

/// Pages that make text grow.
fn pages() -> Vec<(&'static str, String)> {
    let set = |from: &str| format!("<!--#set var=\"a\" value=\"{from}\" -->");
    let doubled = set("$a$a$a$a").repeat(60);
    vec![
        (
            "double",
            format!("{}{doubled}<!--#echo var=\"a\" -->", set("aaaaaaaa")),
        ),
        (
            "many",
            (0..900)
                .map(|number| {
                    format!(
                        "{}{doubled}<!--#set var=\"b{number}\" value=\"$a\" -->",
                        set("aaaaaaaa")
                    )
                })
                .collect(),
        ),
        (
            "echo",
            format!(
                "{}{doubled}{}",
                set("aaaaaaaa"),
                "<!--#echo var=\"a\" -->".repeat(5000)
            ),
        ),
        (
            "judge",
            format!(
                "{}{doubled}{}",
                set("aaaaaaaa"),
                "<!--#if expr=\"v('a') =~ /(a+)+b/\" -->x<!--#endif -->".repeat(5000)
            ),
        ),
    ]
}

fn server(more: &str) -> ApacheSite {
    let dir = crate::operate::folder("text-growth");
    let page = format!("{}\n", "x".repeat(3000)).repeat(20);
    for (name, text, _) in growing() {
        dir.write(&format!("www/{name}/.htaccess"), text).unwrap();
        dir.write(&format!("www/{name}/a.html"), &page).unwrap();
    }
    dir.write(
        "www/pages/.htaccess",
        "Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n",
    )
    .unwrap();
    for (name, text) in pages() {
        dir.write(&format!("www/pages/{name}.shtml"), text).unwrap();
    }
    harness::apache(dir, more)
}

fn lives(site: &ApacheSite) {
    let answer = site.ask(Protocol::Plain, &Request::get("localhost", "/"));
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "<p>hello</p>\n")
    );
}

/// The most that any process of the server has had in memory.
fn memory_kib(site: &ApacheSite) -> u64 {
    let peak = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap_or_default();
        line.trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .unwrap_or(0)
    };
    peak(site.server.pid())
}

#[test]
fn forty_lines_end_in_500_over_each_protocol() {
    let site = server("");
    for (name, _, status) in growing() {
        let Some(status) = status else { continue };
        let target = format!("/{name}/a.html");
        for protocol in [Protocol::Plain].into_iter().chain(PROTOCOLS) {
            for _ in 0..2 {
                let answer = site.ask(protocol, &Request::get("localhost", &target));
                assert_eq!(answer.status, status, "{name} over {protocol:?}");
                assert!(
                    answer.body.len() < 5_000 && answer.fields.len() < 20,
                    "{name}: {:?}",
                    answer.fields
                );
            }
        }
        lives(&site);
    }
    saker_testkit::wait_for_text(site.dir.join("error.log"), |log| {
        log.contains("SK0805") && log.contains("TEXT_BYTES_MAX")
    });
    assert!(
        memory_kib(&site) < MEMORY_KIB_MAX,
        "{} KiB",
        memory_kib(&site)
    );
}

/// Content breaks off: the client must not take it for whole.
#[test]
fn content_that_grows_breaks_off() {
    let site = server("");
    for (name, _, status) in growing() {
        if status.is_some() {
            continue;
        }
        for protocol in PROTOCOLS {
            let answer = site.ask(
                protocol,
                &Request::get("localhost", &format!("/{name}/a.html")),
            );
            assert!(
                answer.body.len() < 64 << 20,
                "{name} over {protocol:?}: {} bytes",
                answer.body.len()
            );
        }
        lives(&site);
    }
    for (name, _) in pages() {
        let bytes = harness::tls_exchange(
            site.tls,
            Some("localhost"),
            "http/1.1",
            &[],
            &harness::http1_bytes(&Request::get("localhost", &format!("/pages/{name}.shtml"))),
        );
        assert!(bytes.len() < 64 << 20, "{name}: {}", bytes.len());
        lives(&site);
    }
    assert!(
        memory_kib(&site) < MEMORY_KIB_MAX,
        "{} KiB",
        memory_kib(&site)
    );
}

/// Edits that sites really have are none the worse, and their heads are kept.
#[test]
fn usual_edits_go_on() {
    let dir = crate::operate::folder("text-usual");
    let usual = "Header set A one\nHeader append A two\nHeader edit A one three\nHeader edit* A t T\nHeader always set B %{x}e\nSetEnv x y\n\
                 Header edit Set-Cookie ^(.*)$ $1;HttpOnly;Secure\nHeader set C \"expr=%{REQUEST_URI}\"\nHeader merge A two\nHeader add D e\n\
                 RequestHeader set E f\nRequestHeader edit E f g\n";
    dir.write("www/usual/.htaccess", usual).unwrap();
    dir.write("www/usual/a.html", "x").unwrap();
    dir.write(
        "www/content/.htaccess",
        "SetOutputFilter SUBSTITUTE\nSubstitute s/a/bbbb/\nSubstitute s/(b)/<$1>/\n",
    )
    .unwrap();
    let page = "one a and another a\n".repeat(100_000);
    dir.write("www/content/a.html", &page).unwrap();
    let site = harness::apache(dir, "");
    for protocol in PROTOCOLS {
        for _ in 0..3 {
            let answer = site.ask(protocol, &Request::get("localhost", "/usual/a.html"));
            let fields =
                ["A", "B", "C", "D"].map(|name| answer.field(name).unwrap_or_default().to_owned());
            assert_eq!(
                (answer.status, fields.as_slice()),
                (
                    200,
                    ["Three, Two, two", "y", "/usual/a.html", "e"]
                        .map(String::from)
                        .as_slice()
                ),
                "{protocol:?}"
            );
        }
    }
    let answer = site.ask(
        Protocol::Http1,
        &Request::get("localhost", "/content/a.html"),
    );
    assert_eq!(answer.status, 200);
    assert_eq!(answer.text(), page.replace('a', "<b><b><b><b>"));
}

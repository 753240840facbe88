//! Documents that lead to themselves, to each other, and to many: each alone and in pairs, on a
//! worker with a stack of 256 KiB.
//!
//! The server answers all of it (500 as Apache, or what the page comes to without the part that
//! goes too far), keeps its process, and answers other requests. Out of scope: statuses in detail,
//! which `tests/apache/cases/recursion.case` compares with the real apache2.

use crate::harness::{self, ApacheSite, PROTOCOLS, Protocol, Request};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// Bytes of a worker's stack here.
const STACK_BYTES: usize = 256 << 10;
/// The same for text that nests, whose parsers have larger frames without optimization.
const NESTED_STACK_BYTES: usize = if cfg!(debug_assertions) {
    STACK_BYTES + STACK_BYTES / 2
} else {
    STACK_BYTES
};
/// The same for pages in pages, whose streams are polled inside of each other: without optimization
/// their frames are several times as large.
const PAGES_STACK_BYTES: usize = if cfg!(debug_assertions) {
    2 * STACK_BYTES
} else {
    STACK_BYTES
};

/// A document that leads to the path `TO`, and where it stands.
struct Recursion {
    name: &'static str,
    /// Files in its folder; `{to}` is the path that it leads to, `{own}` the folder's own.
    files: &'static [(&'static str, &'static str)],
    /// Target below the folder.
    asked: &'static str,
}

const RECURSIONS: &[Recursion] = &[
    Recursion {
        name: "index",
        files: &[(".htaccess", "DirectoryIndex {to}")],
        asked: "",
    },
    Recursion {
        name: "breadth",
        files: &[(".htaccess", "DirectoryIndex {to} {to} {to} {to} {to} {to}")],
        asked: "",
    },
    Recursion {
        name: "fallback",
        files: &[(".htaccess", "FallbackResource {to}none")],
        asked: "x",
    },
    Recursion {
        name: "both",
        files: &[(
            ".htaccess",
            "DirectoryIndex {to} {to}x\nFallbackResource {to}",
        )],
        asked: "x",
    },
    Recursion {
        name: "error",
        files: &[(
            ".htaccess",
            "ErrorDocument 404 {to}none\nErrorDocument 500 {to}none\nErrorDocument 403 {to}",
        )],
        asked: "x",
    },
    Recursion {
        name: "action",
        files: &[
            (
                ".htaccess",
                "AddHandler again .txt\nAction again {to}x.txt virtual",
            ),
            ("x.txt", "x"),
        ],
        asked: "x.txt",
    },
    Recursion {
        name: "handler",
        files: &[(".htaccess", "SetHandler again\nAction again {to} virtual")],
        asked: "",
    },
    Recursion {
        name: "rewriting",
        files: &[(".htaccess", "RewriteEngine on\nRewriteRule .* {to}x")],
        asked: "x",
    },
    Recursion {
        name: "ahead",
        files: &[(
            ".htaccess",
            "RewriteEngine on\nRewriteCond {to}$0 -U [OR]\nRewriteCond {to}y -U [OR]\nRewriteCond %{LA-U:REQUEST_FILENAME} x\nRewriteRule .* - [E=a:%{LA-U:ENV:a}]",
        )],
        asked: "x",
    },
    Recursion {
        name: "type map",
        files: &[
            (
                ".htaccess",
                "AddHandler type-map .var\nDirectoryIndex a.var",
            ),
            (
                "a.var",
                "URI: {to}\nContent-type: text/html\n\nURI: a.var\nContent-type: text/plain\n",
            ),
        ],
        asked: "a.var",
    },
    Recursion {
        name: "views",
        files: &[
            (
                ".htaccess",
                "Options +MultiViews\nDirectoryIndex page {to}\nRewriteEngine on\nRewriteCond {to} -U\nRewriteRule page.* -",
            ),
            ("page.html", "1"),
            ("page.txt", "2"),
        ],
        asked: "page",
    },
    Recursion {
        name: "includes",
        files: &[
            (
                ".htaccess",
                "Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\nDirectoryIndex p.shtml",
            ),
            (
                "p.shtml",
                "<!--#include virtual=\"{to}\" --><!--#include virtual=\"{to}\" --><!--#include file=\"p.shtml\" --><!--#fsize virtual=\"{to}\" -->end",
            ),
        ],
        asked: "p.shtml",
    },
    Recursion {
        name: "legacy",
        files: &[
            (
                ".htaccess",
                "Options +Includes\nSSILegacyExprParser on\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\nDirectoryIndex p.shtml",
            ),
            (
                "p.shtml",
                "<!--#if expr=\"-A {to}\" -->yes<!--#endif --><!--#include virtual=\"{to}\" -->end",
            ),
        ],
        asked: "p.shtml",
    },
    Recursion {
        name: "listing",
        files: &[
            (
                ".htaccess",
                "Options +Indexes\nDirectoryIndex disabled\nReadmeName {to}\nHeaderName {to}\nIndexOptions FancyIndexing",
            ),
            ("sub/.htaccess", "DirectoryIndex {to}"),
        ],
        asked: "",
    },
    Recursion {
        name: "slash",
        files: &[
            (".htaccess", "DirectorySlash off\nDirectoryIndex {to} ."),
            ("sub/.htaccess", "DirectoryIndex ../ ../sub"),
        ],
        asked: "sub",
    },
    Recursion {
        name: "if",
        files: &[(
            ".htaccess",
            "<If \"-U '{to}'\">\nDirectoryIndex {to}\n</If>\n<Else>\nDirectoryIndex {own}\n</Else>",
        )],
        asked: "",
    },
    Recursion {
        name: "variables",
        files: &[(
            ".htaccess",
            "SetEnvIfExpr \"-U '{to}'\" a=1\nDirectoryIndex {to}",
        )],
        asked: "",
    },
    Recursion {
        name: "program",
        files: &[
            (
                ".htaccess",
                "Options +ExecCGI\nAddHandler cgi-script .sh\nDirectoryIndex x.sh{to}",
            ),
            ("x.sh", "#!/bin/sh\necho\necho x\n"),
        ],
        asked: "x.sh{to}",
    },
];

fn folder(recursion: &Recursion) -> String {
    recursion.name.replace(' ', "-")
}

/// A server with each recursion to itself, `/NAME/`, and in pairs, `/NAME.OTHER/` and
/// `/OTHER.NAME/`.
fn server() -> ApacheSite {
    let dir = crate::operate::folder("document-recursion");
    for own in RECURSIONS {
        write(&dir, own, &folder(own), &folder(own));
        for other in RECURSIONS {
            write(
                &dir,
                own,
                &format!("{}.{}", folder(own), folder(other)),
                &format!("{}.{}", folder(other), folder(own)),
            );
        }
    }
    harness::apache_with(dir, "", |command| {
        command.env("RUST_MIN_STACK", PAGES_STACK_BYTES.to_string());
    })
}

fn write(dir: &saker_testkit::TempDir, recursion: &Recursion, own: &str, to: &str) {
    for (name, content) in recursion.files {
        let content = content
            .replace("{to}", &format!("/{to}/"))
            .replace("{own}", &format!("/{own}/"));
        let file = dir.write(&format!("www/{own}/{name}"), content).unwrap();
        if name.ends_with(".sh") {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

/// The status, and whether the answer is whole: pages break off where they go too far.
fn status(site: &ApacheSite, protocol: Protocol, target: &str) -> (u16, bool) {
    let request = Request::get("localhost", target);
    let bytes = match protocol {
        Protocol::Plain => {
            let mut stream = TcpStream::connect(site.plain).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            stream.write_all(&harness::http1_bytes(&request)).unwrap();
            let mut bytes = Vec::new();
            // A reset is an end, too.
            let _ = stream.read_to_end(&mut bytes);
            bytes
        }
        Protocol::Http1 => harness::tls_exchange(
            site.tls,
            Some("localhost"),
            "http/1.1",
            &[],
            &harness::http1_bytes(&request),
        ),
        protocol => return (site.ask(protocol, &request).status, true),
    };
    let answer = harness::read_answer(&bytes);
    let length = answer
        .field("content-length")
        .and_then(|length| length.parse::<usize>().ok());
    (
        answer.status,
        length.map_or(bytes.ends_with(b"0\r\n\r\n"), |length| {
            length == answer.body.len()
        }),
    )
}

fn lives(site: &ApacheSite) {
    let answer = site.ask(Protocol::Plain, &Request::get("localhost", "/"));
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "<p>hello</p>\n")
    );
}

#[test]
fn each_to_itself_over_each_protocol() {
    let site = server();
    for recursion in RECURSIONS {
        let own = folder(recursion);
        let target = format!(
            "/{own}/{}",
            recursion.asked.replace("{to}", &format!("/{own}/"))
        );
        let (plain, is_whole) = status(&site, Protocol::Plain, &target);
        assert!(plain >= 200, "{target}: {plain}");
        for protocol in PROTOCOLS
            .into_iter()
            .filter(|protocol| is_whole || *protocol == Protocol::Http1)
        {
            assert_eq!(
                status(&site, protocol, &target).0,
                plain,
                "{target} over {protocol:?}"
            );
        }
        lives(&site);
    }
}

#[test]
fn each_with_each_other() {
    let site = server();
    for own in RECURSIONS {
        for other in RECURSIONS {
            let (name, to) = (
                format!("{}.{}", folder(own), folder(other)),
                format!("{}.{}", folder(other), folder(own)),
            );
            let target = format!("/{name}/{}", own.asked.replace("{to}", &format!("/{to}/")));
            let (status, _) = status(&site, Protocol::Plain, &target);
            assert!(status >= 200, "{target}: {status}");
        }
    }
    lives(&site);
}

/// Cases that Apache answers with 500; one log line says why.
#[test]
fn circles_are_500_and_told() {
    let site = server();
    for name in ["index", "breadth", "if", "variables"] {
        let asked = RECURSIONS
            .iter()
            .find(|one| one.name == name)
            .unwrap()
            .asked;
        let answer = site.ask(
            Protocol::Plain,
            &Request::get("localhost", &format!("/{name}/{asked}")),
        );
        assert_eq!(answer.status, 500, "{name}");
    }
    saker_testkit::wait_for_text(site.dir.join("error.log"), |log| {
        log.contains("SK0804") && log.contains("LimitInternalRecursion")
    });
}

/// Thousands of names, each a folder with as many: the total is bounded, not the depth alone.
#[test]
fn breadth_is_bounded_by_the_total() {
    let dir = crate::operate::folder("document-breadth");
    let names = (0..200).map(|_| "/wide/").collect::<Vec<_>>().join(" ");
    dir.write("www/wide/.htaccess", format!("DirectoryIndex {names}"))
        .unwrap();
    dir.write(
        "www/views/.htaccess",
        "Options +MultiViews\nRewriteEngine on\nRewriteCond /views/a -U\nRewriteRule . -\n",
    )
    .unwrap();
    for number in 0..60 {
        dir.write(
            &format!(
                "www/views/a.{}.html",
                ["en", "de", "fr", "gz", "txt"][number % 5].to_owned()
                    + &".html".repeat(number / 5)
            ),
            "x",
        )
        .unwrap();
    }
    let includes = "<!--#include virtual=\"page.shtml\" -->".repeat(50);
    dir.write(
        "www/wide2/.htaccess",
        "Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n",
    )
    .unwrap();
    dir.write("www/wide2/page.shtml", includes).unwrap();
    let site = harness::apache(dir, "");
    assert_eq!(
        site.ask(Protocol::Plain, &Request::get("localhost", "/wide/"))
            .status,
        500
    );
    let views = site
        .ask(Protocol::Plain, &Request::get("localhost", "/views/a"))
        .status;
    assert!(views >= 200);
    // Its head has gone; the answer breaks off.
    assert_eq!(
        status(&site, Protocol::Plain, "/wide2/page.shtml"),
        (200, false)
    );
    lives(&site);
    saker_testkit::wait_for_text(site.dir.join("error.log"), |log| {
        log.contains("LOOKUPS_MAX") && log.contains("INCLUDES_MAX")
    });
}

/// Text that nests: sections, expressions, conditions of pages.
#[test]
fn nested_text_is_bounded_on_a_small_stack() {
    let dir = crate::operate::folder("document-nesting");
    let nested = |open: &str, close: &str, depth: usize, inside: &str| {
        format!("{}{inside}\n{}", open.repeat(depth), close.repeat(depth))
    };
    let cases: Vec<(String, String)> = vec![
        (
            "if-30".into(),
            nested("<If true>\n", "</If>\n", 30, "Header set X y"),
        ),
        (
            "if-5000".into(),
            nested("<If true>\n", "</If>\n", 5000, "Header set X y"),
        ),
        (
            "module".into(),
            nested(
                "<IfModule headers_module>\n",
                "</IfModule>\n",
                5000,
                "Header set X y",
            ),
        ),
        (
            "files".into(),
            nested("<Files a>\n", "</Files>\n", 5000, "Header set X y"),
        ),
        (
            "define".into(),
            nested("<IfDefine !X>\n", "</IfDefine>\n", 5000, "Header set X y"),
        ),
        (
            "else".into(),
            format!(
                "<If false>\n</If>\n{}",
                nested("<Else>\n<If false>\n</If>\n", "</Else>\n", 3000, "")
            ),
        ),
        (
            "parentheses".into(),
            format!(
                "<If \"{}true{}\">\n</If>",
                "(".repeat(4000),
                ")".repeat(4000)
            ),
        ),
        (
            "negations".into(),
            format!("<If \"{}true\">\n</If>", "! ".repeat(4000)),
        ),
        (
            "chain".into(),
            format!(
                "<If \"true{}\">\nHeader set X y\n</If>",
                " && true".repeat(900)
            ),
        ),
        (
            "calls".into(),
            format!(
                "<If \"{}'a'{} == 'a'\">\n</If>",
                "tolower(".repeat(900),
                ")".repeat(900)
            ),
        ),
        (
            "variables".into(),
            format!(
                "SetEnvIfExpr \"'{}a{}' == 'a'\" a=1",
                "%{tolower:".repeat(900),
                "}".repeat(900)
            ),
        ),
        (
            "pattern".into(),
            format!(
                "RewriteEngine on\nRewriteRule \"{}a{}\" -",
                "(".repeat(200),
                ")".repeat(200)
            ),
        ),
        (
            "pattern-10000".into(),
            format!(
                "RewriteEngine on\nRewriteRule \"{}a{}\" -",
                "(".repeat(10_000),
                ")".repeat(10_000)
            ),
        ),
        (
            "maps".into(),
            format!(
                "RewriteEngine on\nRewriteRule .* {}a{}",
                "${tolower:".repeat(700),
                "}".repeat(700)
            ),
        ),
        (
            "aheads".into(),
            format!(
                "RewriteEngine on\nRewriteCond %{{{}ENV:a}} x\nRewriteRule .* -",
                "LA-U:".repeat(1500)
            ),
        ),
        (
            "any".into(),
            nested(
                "<RequireAny>\n",
                "</RequireAny>\n",
                5000,
                "Require all granted",
            ),
        ),
        (
            "any-30".into(),
            nested(
                "<RequireAny>\n",
                "</RequireAny>\n",
                30,
                "Require all granted",
            ),
        ),
    ];
    for (name, text) in &cases {
        dir.write(&format!("www/{name}/.htaccess"), text).unwrap();
        dir.write(&format!("www/{name}/a"), "x").unwrap();
    }
    let pages = [
        (
            "legacy-and",
            format!(
                "<!--#if expr=\"a{}\" -->yes<!--#endif -->",
                "&&a".repeat(20_000)
            ),
        ),
        (
            "legacy-group",
            format!(
                "<!--#if expr=\"{}a{}\" -->yes<!--#endif -->",
                "(".repeat(20_000),
                ")".repeat(20_000)
            ),
        ),
        (
            "legacy-not",
            format!(
                "<!--#if expr=\"{}(a)\" -->yes<!--#endif -->",
                "!".repeat(20_000)
            ),
        ),
        (
            "page-if",
            format!(
                "{}x{}",
                "<!--#if expr=\"true\" -->".repeat(5000),
                "<!--#endif -->".repeat(5000)
            ),
        ),
    ];
    dir.write(
        "www/pages/.htaccess",
        "Options +Includes\nSSILegacyExprParser on\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n",
    )
    .unwrap();
    for (name, text) in &pages {
        dir.write(&format!("www/pages/{name}.shtml"), text).unwrap();
    }
    let site = harness::apache_with(dir, "", |command| {
        command.env("RUST_MIN_STACK", NESTED_STACK_BYTES.to_string());
    });
    for (name, _) in &cases {
        let (status, _) = status(&site, Protocol::Plain, &format!("/{name}/a"));
        assert!(matches!(status, 200 | 500), "{name}: {status}");
        let is_plain = matches!(name.as_str(), "if-30" | "any-30" | "chain" | "pattern");
        assert!(status == 200 || !is_plain, "{name}: {status}");
    }
    for (name, _) in &pages {
        assert_eq!(
            status(&site, Protocol::Plain, &format!("/pages/{name}.shtml")),
            (200, true),
            "{name}"
        );
    }
    lives(&site);
}

/// The native configuration: pages for errors that are missing themselves, routes that rewrite in
/// circles.
#[test]
fn error_pages_of_the_native_configuration() {
    let site = "error_pages = { 404 = \"/none.html\", 500 = \"/none.html\", 403 = \"/sub/\" }\n";
    let dir = crate::operate::folder("document-native");
    dir.write("www/sub/x", "x").unwrap();
    let server = harness::native(dir, "", site);
    for protocol in PROTOCOLS {
        let answer = harness::ask(
            server.server.address(),
            protocol,
            &Request::get("localhost", "/missing"),
        );
        assert_eq!(answer.status, 404, "{protocol:?}: {answer:?}");
        assert!(
            harness::ask(
                server.server.address(),
                protocol,
                &Request::get("localhost", "/sub/")
            )
            .status
                >= 200
        );
    }
}

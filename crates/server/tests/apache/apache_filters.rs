//! Content filters of Apache's that text files of cases can't show: decoded content, the pace,
//! large files that are encoded while they are sent.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use saker_testkit::{Saker, TempDir, wait_until};
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

fn start(name: &str, directives: &str, files: &[(&str, &[u8])]) -> Saker {
    let dir = TempDir::new(name).unwrap();
    for (path, content) in files {
        dir.write(&format!("www/{path}"), content).unwrap();
    }
    let modules = [
        "mpm_event",
        "authz_core",
        "mime",
        "deflate",
        "filter",
        "substitute",
        "env",
        "ratelimit",
        "setenvif",
        "headers",
    ];
    let modules: String = modules
        .iter()
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect();
    let text = format!(
        "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nDocumentRoot {{dir}}/www\nAddType text/html .html\n\
         <Directory />\n    Require all granted\n</Directory>\n{directives}\n"
    );
    operate::apache(&text).start(dir)
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn content_is_decoded_edited_and_encoded_again() {
    let directives = "AddEncoding x-gzip .gz\nSetOutputFilter INFLATE;SUBSTITUTE;DEFLATE\n<Directory />\nSubstitute s/foo/bar/\n</Directory>\n";
    let page = "foo ".repeat(100);
    let bomb = gzip(&vec![0; 4 << 20]);
    let files = [
        ("a.html.gz", gzip(page.as_bytes())),
        ("cut.html.gz", gzip(page.as_bytes())[..15].to_vec()),
        ("bomb.html.gz", bomb),
        ("a.html", page.clone().into_bytes()),
    ];
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, content)| (*name, content.as_slice()))
        .collect();
    let saker = start("filters-inflate", directives, &files);
    let mut client = saker.connect().unwrap();
    for path in ["/a.html.gz", "/a.html", "/a.html.gz"] {
        let plain = client.get(path).unwrap();
        assert_eq!(
            (plain.text(), plain.field("content-encoding")),
            ("bar ".repeat(100), None),
            "{path}"
        );
        let coded = client
            .request("GET", path, &[("Accept-Encoding", "gzip")])
            .unwrap();
        let mut text = String::new();
        GzDecoder::new(coded.body.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(
            (text, coded.field("content-encoding")),
            ("bar ".repeat(100), Some("gzip")),
            "{path}"
        );
    }
    for path in ["/cut.html.gz", "/bomb.html.gz"] {
        assert_eq!(
            saker.connect().unwrap().get(path).unwrap().status,
            500,
            "{path}"
        );
    }
}

/// No response at the pace comes within this time.
const UNPACED_MAX: Duration = Duration::from_millis(250);

/// 100 KiB at once, 50 more at 100 KiB/s.
#[test]
fn the_pace_is_kept() {
    let directives = "SetOutputFilter RATE_LIMIT\nSetEnv rate-limit 100\nSetEnv rate-initial-burst 100\n\
         <Location /free>\nSetOutputFilter None\n</Location>\nSetEnvIf X-Fast yes rate-limit=100000\n";
    let content = vec![b'x'; 150 << 10];
    let saker = start(
        "filters-pace",
        directives,
        &[("a.html", &content), ("free/a.html", &content)],
    );
    let time = |path: &str| {
        let start = Instant::now();
        assert_eq!(
            saker.connect().unwrap().get(path).unwrap().body.len(),
            content.len()
        );
        start.elapsed()
    };
    // What is kept keeps its pace.
    for _ in 0..2 {
        let paced = time("/a.html");
        assert!(paced > UNPACED_MAX, "{paced:?}");
    }
    // On a busy machine one of several is fast.
    wait_until("it comes at once", || time("/free/a.html") < UNPACED_MAX);
}

/// Above 32 MB nothing is encoded whole.
#[test]
fn large_files_are_encoded_while_they_are_sent() {
    let content: Vec<u8> = (0..5_000_000_u32)
        .flat_map(|number| (number % 1000).to_be_bytes().map(|byte| byte | 0x20))
        .chain(*b"end")
        .collect();
    let content = [content.as_slice(), &content].concat();
    assert!(content.len() > 32 << 20);
    let saker = start(
        "filters-large",
        "SetOutputFilter DEFLATE\nHeader add X-Once yes",
        &[("a.html", &content)],
    );
    for _ in 0..2 {
        let mut client = saker.connect().unwrap();
        client.set_timeout(Duration::from_secs(60)).unwrap();
        let coded = client
            .request("GET", "/a.html", &[("Accept-Encoding", "gzip")])
            .unwrap();
        assert_eq!(
            (coded.field("content-encoding"), coded.field("vary")),
            (Some("gzip"), Some("Accept-Encoding"))
        );
        assert_eq!(coded.field_values("x-once").count(), 1);
        let mut decoded = Vec::new();
        GzDecoder::new(coded.body.as_slice())
            .read_to_end(&mut decoded)
            .unwrap();
        assert!(
            decoded == content,
            "{} of {} bytes",
            decoded.len(),
            content.len()
        );
        let plain = client.get("/a.html").unwrap();
        assert!(
            plain.body == content
                && plain.field("vary") == Some("Accept-Encoding")
                && plain.field("content-encoding").is_none()
        );
        let part = client
            .request(
                "GET",
                "/a.html",
                &[("Accept-Encoding", "gzip"), ("Range", "bytes=-3")],
            )
            .unwrap();
        assert_eq!((part.status, part.text()), (206, "end".into()));
    }
}

/// Bodies generated by handlers are encoded, too.
#[test]
fn listings_go_through_filters() {
    let directives = "LoadModule autoindex_module modules/mod_autoindex.so\n<Directory />\nOptions Indexes\n</Directory>\n\
         AddOutputFilterByType DEFLATE;SUBSTITUTE text/html\n<Directory />\nSubstitute s/name/renamed/\n</Directory>\n";
    let saker = start("filters-listing", directives, &[("sub/name.txt", b"x")]);
    let mut client = saker.connect().unwrap();
    let plain = client.get("/sub/").unwrap();
    assert!(
        plain.status == 200 && plain.text().contains("renamed.txt"),
        "{plain:?}"
    );
    let coded = client
        .request("GET", "/sub/", &[("Accept-Encoding", "gzip")])
        .unwrap();
    let mut text = String::new();
    GzDecoder::new(coded.body.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("renamed.txt"), "{text}");
}

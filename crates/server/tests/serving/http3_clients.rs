//! HTTP/3 with clients that others have written: aioquic and quic-go (downloads with their sums,
//! from one port and then another; uploads; 0-RTT) and Chromium forced to QUIC. curl and h2load of
//! Debian know no HTTP/3.
//!
//! SAKER_DOWNLOAD_MB and SAKER_UPLOAD_MB say how large a download and an upload are; 1000 and 100
//! are what was once asked for.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::http3_client::site::{backend, start_with};
use crate::operate::{folder, pattern, wait_until};
use crate::tls_site;
use aws_lc_rs::digest::{SHA256, digest};
use saker_ap_expr::base64_encode;
use saker_testkit::{Saker, TempDir, require};
use serde_json::Value;
use std::{
    env, fs,
    process::{Command, Stdio},
};

fn sum(bytes: &[u8]) -> String {
    digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Both take the same words and answer alike.
#[derive(Clone, Copy, Debug)]
enum Program {
    Aioquic,
    QuicGo,
}

const PROGRAMS: [Program; 2] = [Program::Aioquic, Program::QuicGo];

impl Program {
    fn run(self, saker: &Saker, arguments: &[&str]) -> Value {
        let mut command = match self {
            Program::Aioquic => {
                let mut command = Command::new(require("aioquic-python").unwrap());
                command.arg(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/tests/serving/http3_programs/client.py"
                ));
                command
            }
            Program::QuicGo => Command::new(require("quic-go-client").unwrap()),
        };
        let output = command
            .arg(saker.server.address().to_string())
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{self:?} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn megabytes(variable: &str, usual: usize) -> usize {
    env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
        << 20
}

fn start(site: &str) -> Saker {
    let dir = folder("http3-clients");
    for number in 0..40 {
        let square = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"9\"/>\n",
            number + 1
        );
        dir.write(&format!("www/icons/{number}.svg"), square)
            .unwrap();
    }
    let route = format!(
        "{site}\n[[site.route]]\npath = \"/app/*\"\nproxy = \"http://{}\"\n",
        backend()
    );
    start_with(dir, "", &route)
}

/// aioquic says a status as the wire has it.
fn status(answer: &Value) -> String {
    answer["status"].to_string().trim_matches('"').to_owned()
}

#[test]
fn a_large_file_reaches_a_client_that_moves() {
    let _turn = saker_testkit::heavy();
    let saker = start("");
    let content = pattern(megabytes("SAKER_DOWNLOAD_MB", 20));
    saker.dir.write("www/large.bin", &content).unwrap();
    for (program, moves) in PROGRAMS
        .into_iter()
        .flat_map(|program| [(program, "0"), (program, "2")])
    {
        let got = program.run(&saker, &["download", "/large.bin", moves]);
        assert_eq!(
            (status(&got), got["bytes"].as_u64()),
            ("200".to_owned(), Some(content.len() as u64)),
            "{program:?} {got}"
        );
        assert_eq!(got["sha256"], sum(&content), "another content");
        assert_eq!(got["moved"].to_string(), moves, "{program:?}");
    }
}

#[test]
fn many_requests_at_once() {
    let _turn = saker_testkit::heavy();
    let saker = start("");
    let paths: Vec<String> = (0..40)
        .map(|number| format!("/icons/{number}.svg"))
        .chain(["/missing".to_owned()])
        .collect();
    let arguments: Vec<&str> = ["many"]
        .into_iter()
        .chain(paths.iter().map(String::as_str))
        .collect();
    for program in PROGRAMS {
        let got = program.run(&saker, &arguments);
        for (number, answer) in got.as_array().unwrap().iter().take(40).enumerate() {
            let content = fs::read(saker.dir.join(format!("www/icons/{number}.svg"))).unwrap();
            assert_eq!(
                (status(answer), answer["sha256"].as_str()),
                ("200".to_owned(), Some(sum(&content).as_str())),
                "{program:?}"
            );
        }
        assert_eq!(status(&got[40]), "404", "{program:?}");
    }
}

#[test]
fn uploads() {
    let _turn = saker_testkit::heavy();
    let saker = start("");
    let content: Vec<u8> = (0..megabytes("SAKER_UPLOAD_MB", 3))
        .map(|number| (number % 251) as u8)
        .collect();
    for program in PROGRAMS {
        let got = program.run(&saker, &["upload", "/app/echo", &content.len().to_string()]);
        assert_eq!(
            (status(&got), got["sha256"].as_str()),
            ("200".to_owned(), Some(sum(&content).as_str())),
            "{program:?}"
        );
    }
}

#[test]
fn early_data() {
    let _turn = saker_testkit::heavy();
    let saker = start("");
    for program in PROGRAMS {
        let got = program.run(&saker, &["resume", "/index.html"]);
        let early = (&got[0]["early"], &got[1]["resumed"], &got[1]["early"]);
        assert_eq!(
            early,
            (&false.into(), &true.into(), &true.into()),
            "{program:?} {got}"
        );
        assert_eq!([status(&got[0]), status(&got[1])], ["200", "200"]);
    }
}

/// Everything is over when `load` is, which is what the browser waits for.
const PAGE: &str = "<!doctype html><title>page</title><body><ul id=said></ul><script>
addEventListener('load', () => {
  const say = text => { const item = document.createElement('li'); item.textContent = text; said.append(item); };
  const images = [...document.images];
  say('images ' + images.filter(image => image.naturalWidth > 0).length);
  const upload = new XMLHttpRequest();
  upload.open('POST', '/app/sum', false);
  upload.send(new Uint8Array(UPLOAD).fill(7));
  say('upload ' + upload.status + ' ' + upload.responseText.split('\\n').pop());
  const entries = performance.getEntriesByType('resource').filter(entry => entry.name.endsWith('.svg'));
  say('over h3 ' + entries.filter(entry => entry.nextHopProtocol === 'h3').length);
});
</script>\n";

/// The public key's hash, as Chromium wants to be told of those that it is to trust.
fn key_hash(dir: &TempDir) -> String {
    let (pem, der) = (dir.join("site.pem"), dir.join("key.der"));
    let said = tls_site::openssl(&["x509", "-in", tls_site::shown(&pem), "-pubkey", "-noout"]);
    let public = dir.write("public.pem", said.stdout).unwrap();
    tls_site::openssl(&[
        "pkey",
        "-pubin",
        "-in",
        tls_site::shown(&public),
        "-outform",
        "DER",
        "-out",
        tls_site::shown(&der),
    ]);
    String::from_utf8(base64_encode(
        digest(&SHA256, &fs::read(der).unwrap()).as_ref(),
    ))
    .unwrap()
}

#[test]
fn a_browser_loads_a_page_with_forty_images_and_uploads() {
    let _turn = saker_testkit::heavy();
    let saker = start("access_log = { path = \"{dir}/access.log\", format = '%H %s %U' }");
    let upload = megabytes("SAKER_UPLOAD_MB", 2);
    let images: String = (0..40)
        .map(|number| format!("<img src=\"/icons/{number}.svg\">\n"))
        .collect();
    saker
        .dir
        .write(
            "www/page.html",
            format!("{}{images}", PAGE.replace("UPLOAD", &upload.to_string())),
        )
        .unwrap();
    let profile = TempDir::new("chromium").unwrap();
    let address = saker.server.address();
    let output = Command::new("timeout")
        .args(["-k", "5", "100"])
        .arg(require("chromium").unwrap())
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ])
        .arg(format!("--origin-to-force-quic-on={address}"))
        .arg(format!(
            "--ignore-certificate-errors-spki-list={}",
            key_hash(&saker.dir)
        ))
        .arg(format!("--user-data-dir={}", profile.to_string_lossy()))
        .args(["--dump-dom", &format!("https://{address}/page.html")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    for row in [
        "images 40",
        &format!("upload 200 {upload} {}", upload * 7),
        "over h3 40",
    ] {
        assert!(
            dom.contains(&format!("<li>{row}</li>")),
            "{row}\n{dom}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let log = saker.dir.join("access.log");
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    wait_until("42 lines", || {
        lines()
            .lines()
            .filter(|line| line.starts_with("HTTP/3.0 200 "))
            .count()
            >= 42
    });
}

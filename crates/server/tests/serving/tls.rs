//! HTTPS as real clients speak it: curl over HTTP/1.1 and HTTP/2, openssl for what a browser would
//! not do; certificates that change.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use crate::operate::{folder, pattern, start_in, wait_until};
use crate::tls_site;
use crate::tls_site::{certificate, curl, openssl_client, shown, start};
use saker_testkit::{Client, OPENSSL_CLIENT, require};
use std::{
    fs,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

const LARGE_BYTES: usize = 3_000_000;

#[test]
fn files_over_both_protocols_and_versions() {
    let saker = start("tls", "", "");
    saker
        .dir
        .write("www/large.bin", pattern(LARGE_BYTES))
        .unwrap();
    let rows: [(&[&str], &str); 4] = [
        (&["--http1.1", "--tlsv1.3"], "HTTP/1.1 200"),
        (&["--http1.1", "--tls-max", "1.2"], "HTTP/1.1 200"),
        (&["--http2", "--tlsv1.3"], "HTTP/2 200"),
        (&["--http2", "--tls-max", "1.2"], "HTTP/2 200"),
    ];
    for (arguments, status) in rows {
        for _ in 0..2 {
            let got = curl(&saker, &[arguments, &["-i"]].concat(), "/index.html");
            assert!(
                got.starts_with(status) && got.ends_with("\r\n\r\n<p>hello</p>\n"),
                "{arguments:?}: {got}"
            );
        }
        let out = saker.dir.join("large.out");
        curl(
            &saker,
            &[arguments, &["-o", shown(&out)]].concat(),
            "/large.bin",
        );
        assert!(
            fs::read(&out).unwrap() == pattern(LARGE_BYTES),
            "{arguments:?}: another body"
        );
    }
}

#[test]
fn keep_alive_requests_share_a_handshake_and_sessions_are_resumed() {
    let saker = start("tls-resume", "", "");
    let url = format!(
        "https://localhost:{}/index.html",
        saker.server.address().port()
    );
    let twice = curl(
        &saker,
        &["--http1.1", "-w", "%{num_connects}\n", &url],
        "/index.html",
    );
    assert!(
        twice.contains("</p>\n1\n") && twice.ends_with("</p>\n0\n"),
        "{twice}"
    );
    for version in ["-tls1_2", "-tls1_3"] {
        let session = saker.dir.join("session");
        let address = saker.server.address().to_string();
        let connect = |arguments: &[&str]| {
            let mut command = Command::new(require("openssl").unwrap());
            command
                .args(OPENSSL_CLIENT)
                .args(["-connect", &address, "-servername", "localhost", version])
                .args(arguments);
            let script = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let mut child = script.spawn().unwrap();
            std::io::Write::write_all(
                &mut child.stdin.take().unwrap(),
                b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            )
            .unwrap();
            let output = child.wait_with_output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let first = connect(&["-ign_eof", "-sess_out", shown(&session)]);
        assert!(
            first.contains("HTTP/1.1 200 OK") && first.contains("New, TLS"),
            "{version}: {first}"
        );
        let again = connect(&["-ign_eof", "-sess_in", shown(&session)]);
        assert!(
            again.contains("HTTP/1.1 200 OK") && again.contains("Reused, TLS"),
            "{version}: {again}"
        );
    }
}

/// Clients that connect to an IP address send no host name (RFC 6066 section 3), and get the local
/// certificate, too.
#[test]
fn a_folder_is_served_by_address_and_by_name_without_a_certificate_of_its_own() {
    let dir = folder("tls-serve");
    let server = operate::serve(&["--workers", "1", "--https", "{address}"])
        .arguments(&["--state-dir", "{dir}/state", "{dir}/www"])
        .env("XDG_DATA_HOME", dir.join("none"))
        .env("HOME", dir.join("none"))
        .start_in(&dir);
    let port = server.address().port();
    let authority = dir.join("state/authority/authority.pem");
    for host in ["127.0.0.1", "localhost"] {
        let mut command = Command::new(require("curl").unwrap());
        command.args([
            "-sS",
            "-m",
            "20",
            "--resolve",
            &format!("localhost:{port}:127.0.0.1"),
            "--cacert",
            shown(&authority),
        ]);
        let output = command
            .arg(format!("https://{host}:{port}/index.html"))
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "<p>hello</p>\n",
            "{host}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn http_on_the_https_port_gets_a_readable_answer() {
    let saker = start("tls-plain", "", "");
    let mut client = Client::connect(saker.server.address()).unwrap();
    let response = client.get("/").unwrap();
    assert_eq!(response.status, 400);
    assert!(String::from_utf8_lossy(&response.body).contains("https://"));
}

#[test]
fn what_is_not_tls_ends_without_harm() {
    let saker = start("tls-noise", "", "");
    for noise in [
        &[0u8; 64][..],
        &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3],
        &[0x16, 3, 1, 0, 4, 1, 0, 0, 0],
        b"\x80\x2e\x01\x00\x02",
    ] {
        let mut client = Client::connect(saker.server.address()).unwrap();
        client.send(noise).unwrap();
        client.finish_sending().unwrap();
        client.read_to_close(Duration::from_secs(15)).unwrap();
    }
    assert!(curl(&saker, &[], "/index.html").contains("hello"));
}

#[test]
fn old_versions_are_refused_and_the_minimum_holds() {
    let saker = start("tls-versions", "minimum_version = \"1.3\"", "");
    let address = saker.server.address().to_string();
    for (version, works) in [("-tls1_1", false), ("-tls1_2", false), ("-tls1_3", true)] {
        let output = openssl_client(&["-connect", &address, version, "-cipher", "ALL:@SECLEVEL=0"]);
        let shaken = String::from_utf8_lossy(&output.stdout).contains("Server certificate");
        assert_eq!(shaken, works, "{version}");
    }
}

#[test]
fn a_site_that_wants_client_certificates_serves_nobody_else() {
    let dir = folder("tls-client");
    certificate(&dir, "site", "localhost");
    certificate(&dir, "authority", "authority");
    tls_site::signed(&dir, "friend", "authority");
    let text = tls_site::configuration(
        "client_certificates = \"required\"\nclient_ca = \"{dir}/authority.pem\"",
        "",
    );
    let open = "\n[[site]]\nnames = [\"open.test\"]\nroot = \"{dir}/www\"\n[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n";
    let saker = start_in(
        dir,
        &format!(
            "{}{open}",
            text.replace("[\"localhost\", \"*\"]", "[\"localhost\"]")
        ),
    );
    let friend = [
        shown(&saker.dir.join("friend.pem")).to_owned(),
        shown(&saker.dir.join("friend.key")).to_owned(),
    ];
    let with = curl(
        &saker,
        &["--cert", &friend[0], "--key", &friend[1]],
        "/index.html",
    );
    assert!(with.contains("hello"), "{with}");
    let port = saker.server.address().port();
    let resolve = format!("localhost:{port}:127.0.0.1");
    let without = Command::new(require("curl").unwrap())
        .args([
            "-sS",
            "-k",
            "-m",
            "10",
            "--resolve",
            &resolve,
            &format!("https://localhost:{port}/index.html"),
        ])
        .output()
        .unwrap();
    assert!(
        !without.status.success(),
        "{}",
        String::from_utf8_lossy(&without.stdout)
    );
    // By the other site's handshake, for the guarded host: misdirected.
    let resolve = format!("open.test:{port}:127.0.0.1");
    for protocol in ["--http1.1", "--http2"] {
        for (host, status) in [("open.test", "200"), ("localhost", "421")] {
            let output = Command::new(require("curl").unwrap())
                .args([
                    "-sS",
                    "-k",
                    "-m",
                    "10",
                    protocol,
                    "-o",
                    "/dev/null",
                    "-w",
                    "%{http_code}",
                    "--resolve",
                    &resolve,
                ])
                .args([
                    "-H",
                    &format!("Host: {host}"),
                    &format!("https://open.test:{port}/index.html"),
                ])
                .output()
                .unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                status,
                "{protocol} {host}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

/// Certificates are replaced by rename, key first, a thousand times, while clients shake hands
/// without a pause.
#[test]
fn a_thousand_swaps_fail_no_handshake() {
    const SWAPS: u64 = 1000;
    let dir = folder("tls-swaps");
    for name in ["site", "one", "other"] {
        certificate(&dir, name, "localhost");
    }
    let saker = start_in(dir, &tls_site::configuration("", ""));
    let swap = |from: &str| {
        for ending in ["key", "pem"] {
            fs::copy(
                saker.dir.join(format!("{from}.{ending}")),
                saker.dir.join("next"),
            )
            .unwrap();
            fs::rename(
                saker.dir.join("next"),
                saker.dir.join(format!("site.{ending}")),
            )
            .unwrap();
        }
    };
    let (over, shaken) = (AtomicBool::new(false), AtomicU64::new(0));
    let address = saker.server.address().to_string();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let output =
                        openssl_client(&["-connect", &address, "-servername", "localhost"]);
                    let text = String::from_utf8_lossy(&output.stdout);
                    assert!(
                        text.contains("Server certificate") && text.contains("Cipher is TLS"),
                        "{text}"
                    );
                    shaken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 0..SWAPS {
            swap(if number % 2 == 0 { "one" } else { "other" });
            let before = shaken.load(Ordering::Relaxed);
            wait_until("a handshake", || shaken.load(Ordering::Relaxed) > before);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(shaken.into_inner() > 20);
    // The last swap has `other`, and in the end that is what is shown.
    let wanted = fs::read_to_string(saker.dir.join("other.pem")).unwrap();
    wait_until("the last certificate", || {
        let output = openssl_client(&["-connect", &address, "-servername", "localhost"]);
        String::from_utf8_lossy(&output.stdout).contains(wanted.trim())
    });
}

#[test]
fn plain_http_is_sent_to_https_where_the_site_wants_that() {
    let dir = folder("tls-redirect");
    certificate(&dir, "site", "localhost");
    let port = saker_testkit::free_port().unwrap();
    let text = tls_site::configuration("", "https_redirect = true").replacen(
        "tls = true",
        &format!("[[listener]]\naddress = \"127.0.0.1:{port}\"\ntls = true"),
        1,
    );
    let saker = start_in(dir, &text);
    let mut client = Client::connect(saker.server.address()).unwrap();
    let response = client.get("/a%20b?c=d").unwrap();
    assert_eq!(
        (response.status, response.field("location")),
        (
            308,
            Some(format!("https://localhost:{port}/a%20b?c=d").as_str())
        )
    );
    assert_eq!(
        client.get("/.well-known/acme-challenge/x").unwrap().status,
        404
    );
}

/// `saker check` reads what the configuration names, and says where it stands.
#[test]
fn check_looks_into_certificates_and_keys() {
    let dir = folder("tls-check");
    certificate(&dir, "site", "localhost");
    certificate(&dir, "other", "localhost");
    let text = tls_site::configuration("", "")
        .replace("{address}", "127.0.0.1:0")
        .replace("{dir}", &dir.to_string_lossy());
    let line = text
        .lines()
        .position(|line| line.starts_with("certificate ="))
        .unwrap()
        + 1;
    let check = |text: &str, arguments: &[&str]| {
        let file = dir.write("saker.toml", text).unwrap();
        operate::saker([&["check", "-c", shown(&file)], arguments].concat())
    };
    let good = check(&text, &[]);
    assert!(good.status.success(), "{}", operate::stderr(&good));
    for (wrong, reason) in [
        ("missing.key", "missing.key"),
        ("other.key", "is not that of the certificate"),
        ("site.pem", "no private key"),
    ] {
        let output = check(&text.replace("site.key", wrong), &[]);
        let said = operate::stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{wrong}: {said}");
        assert!(
            said.contains(&format!("saker.toml:{line}:"))
                && said.contains("error: ")
                && said.contains(reason),
            "{wrong}: {said}"
        );
    }
    let warned = check(
        &text.replace("\"localhost\", \"*\"", "\"elsewhere.test\""),
        &["--json"],
    );
    let report: serde_json::Value = serde_json::from_str(&operate::stdout(&warned)).unwrap();
    assert!(warned.status.success() && report["ok"] == true);
    assert!(
        report["diagnostics"][0]["message"]
            .as_str()
            .unwrap()
            .contains("covers elsewhere.test"),
        "{report}"
    );
}

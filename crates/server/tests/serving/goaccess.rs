//! GoAccess reads the access logs, whatever clients send and by which protocol.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::http3_client::{Client as Http3Client, site::start_with};
use crate::operate::{PATIENCE, configuration, folder, lines, start};
use saker_testkit::{Saker, TempDir, frames::Frames, require};
use serde_json::Value;
use std::{fs, path::Path, process::Command};

const LOGS: &str = "access_log = [{ path = \"common\", format = \"common\" }, { path = \"combined\", format = \"combined\" }, \
    { path = \"vhost\", format = \"vhost_combined\" }]";

/// Stops the server and returns its folder, whose logs are complete then.
fn finished(saker: Saker) -> TempDir {
    let Saker { server, dir } = saker;
    assert!(server.stop().unwrap().success());
    dir
}

/// Every line of each log is read.
fn assert_read(dir: &TempDir, count: usize) {
    for (log, format) in [
        ("common", "COMMON"),
        ("combined", "COMBINED"),
        ("vhost", "VCOMBINED"),
    ] {
        let (path, page, left) = (
            dir.join(log),
            dir.join(format!("{log}.json")),
            dir.join(format!("{log}.left")),
        );
        assert_eq!(lines(&path).len(), count, "{log}: {:#?}", lines(&path));
        let mut goaccess = Command::new(require("goaccess").unwrap());
        goaccess
            .arg(&path)
            .args([
                "--no-global-config",
                "--no-progress",
                &format!("--log-format={format}"),
                "-o",
            ])
            .arg(&page);
        let output = goaccess
            .arg(format!("--invalid-requests={}", left.display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{log}: {said}");
        let general: Value =
            serde_json::from_str(&String::from_utf8_lossy(&fs::read(&page).unwrap())).unwrap();
        let number = |name: &str| general["general"][name].as_u64().unwrap();
        let left = fs::read(&left)
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .unwrap_or_default();
        assert_eq!(
            (number("total_requests"), number("failed_requests")),
            (count as u64, 0),
            "{log}: {said}\n{left}"
        );
    }
}

#[test]
fn of_http1_and_http2() {
    let saker = start(
        "goaccess",
        &configuration("workers = 1", LOGS)
            .replace("names = [\"*\"]", "names = [\"www.example\", \"*\"]"),
    );
    let field = |field: &str| {
        format!("GET / HTTP/1.1\r\nHost: www.example\r\n{field}\r\nConnection: close\r\n\r\n")
            .into_bytes()
    };
    let mut requests = vec![
        field("User-Agent: Test/1 (a \"b\") \\ 'c'"),
        field("Referer: http://a.example/\"x\"?y=\\z"),
        field("User-Agent: \" \" \" -"),
        field("X-None: x"),
        field("User-Agent:"),
        b"GET /a%20b%22c%0a%ff?x=\"y\"&[z]={} HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\n\r\n".to_vec(),
        b"HEAD / HTTP/1.0\r\n\r\n".to_vec(),
        b"OPTIONS * HTTP/1.1\r\nHost: a b\r\n\r\n".to_vec(),
        b"PROPFIND / HTTP/1.0\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET /%zz HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\n\r\n".to_vec(),
        // Longer lines are more than GoAccess reads as one.
        format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(3_000)).into_bytes(),
    ];
    requests.push(
        [
            b"GET / HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\nUser-Agent: ".as_slice(),
            b"\xff\xfe\xc3\xa9\t\"",
            b"\r\n\r\n",
        ]
        .concat(),
    );
    for request in &requests {
        let mut client = saker.connect().unwrap();
        client.send(request).unwrap();
        client.read_to_close(PATIENCE).unwrap();
    }
    let mut http2 = Frames::connect(saker.server.address()).unwrap();
    for (at, path) in ["/", "/none?a=\"b\""].iter().enumerate() {
        http2.get(2 * at as u32 + 1, path).unwrap();
        http2.read_until(0).unwrap();
    }
    drop(http2);
    let dir = finished(saker);
    assert_read(&dir, requests.len() + 2);
    let text = fs::read_to_string(dir.join("combined")).unwrap();
    assert!(text.contains("\"GET / HTTP/2.0\" 200 "), "{text}");
}

#[test]
fn of_http3() {
    let saker = start_with(folder("goaccess-http3"), "", LOGS);
    let mut client = Http3Client::default().connect(&saker.server.address().to_string());
    for path in ["/", "/none", "/a%22b"] {
        client.ask("GET", path, &[("user-agent", "Test \"3\" \\")], b"");
    }
    client.close();
    let dir = finished(saker);
    assert_read(&dir, 3);
    let shown = fs::read_to_string(Path::new(&*dir).join("vhost")).unwrap();
    assert!(shown.contains("\"GET / HTTP/3.0\" 200 "), "{shown}");
}

//! Internal redirects by programs: X-Accel-Redirect, X-LiteSpeed-Location, X-Sendfile, from
//! saker.toml.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Response, Saker, TempDir};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

/// A server that answers with the lines that the query asks for, one per part.
fn backend() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    port
}

fn serve(mut stream: TcpStream) {
    let mut bytes = vec![0; 8192];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        let query = text
            .split_whitespace()
            .nth(1)
            .and_then(|target| target.split_once('?'))
            .map(|(_, query)| query)
            .unwrap_or_default();
        let lines = query.replace("%20", " ").replace('&', "\r\n");
        let lines = if lines.is_empty() {
            lines
        } else {
            format!("{lines}\r\n")
        };
        let _ = stream.write_all(
            format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 3\r\n\r\nown").as_bytes(),
        );
    }
}

/// `/app` may lead elsewhere, `/other` may not.
fn site() -> Saker {
    let dir = TempDir::new("sendfile").unwrap();
    for (name, text) in [
        ("www/a.txt", "0123456789"),
        ("www/protected/b.txt", "protected"),
        ("store/deep/c.txt", "stored"),
        ("secret.txt", "secret"),
        ("store/.hidden", "hidden"),
    ] {
        dir.write(name, text).unwrap();
    }
    dir.write("store/big.bin", vec![b'x'; 3 << 20]).unwrap();
    let port = backend();
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n[[listener]]\naddress = \"{{address}}\"\n\
         [[upstream]]\nname = \"app\"\nservers = [\"http://127.0.0.1:{port}\"]\ninternal_redirects = true\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\nsend_files = [\"{{dir}}/store\"]\n\
         [[site.route]]\npath = \"/protected/*\"\ninternal = true\n\
         [[site.route]]\npath = \"/app\"\nproxy = \"app\"\n\
         [[site.route]]\npath = \"/other\"\nproxy = \"http://127.0.0.1:{port}\"\n"
    );
    operate::native(&text).start(dir)
}

fn get(saker: &Saker, target: &str, fields: &[(&str, &str)]) -> Response {
    saker
        .connect()
        .unwrap()
        .request("GET", target, fields)
        .unwrap()
}

#[test]
fn another_path_answers() {
    let saker = site();
    assert_eq!(
        get(&saker, "/protected/b.txt", &[]).status,
        404,
        "not for clients"
    );
    let led = get(
        &saker,
        "/app?X-Accel-Redirect:%20/protected/b.txt&Set-Cookie:%20a=b&X-Other:%20x&Content-Type:%20text/x&ETag:%20\"e\"",
        &[],
    );
    assert_eq!((led.status, led.text()), (200, "protected".into()));
    assert_eq!(
        (
            led.field("content-type"),
            led.field("set-cookie"),
            led.field("x-other")
        ),
        (Some("text/x"), Some("a=b"), None)
    );
    assert!(
        led.field("x-accel-redirect").is_none()
            && led.field("etag") != Some("\"e\"")
            && led.field("last-modified").is_some()
    );
    let part = get(
        &saker,
        "/app?X-Accel-Redirect:%20/a.txt",
        &[("Range", "bytes=2-4")],
    );
    assert_eq!(
        (part.status, part.text(), part.field("content-range")),
        (206, "234".into(), Some("bytes 2-4/10"))
    );
    let tag = part.field("etag").unwrap().to_owned();
    assert_eq!(
        get(
            &saker,
            "/app?X-Accel-Redirect:%20/a.txt",
            &[("If-None-Match", &tag)]
        )
        .status,
        304
    );
    let led = get(
        &saker,
        "/app?X-LiteSpeed-Location:%20/a.txt&X-Other:%20x&Content-Type:%20text/html",
        &[],
    );
    assert_eq!(
        (led.text(), led.field("content-type"), led.field("x-other")),
        (
            "0123456789".into(),
            Some("text/plain; charset=utf-8"),
            Some("x")
        )
    );
    assert_eq!(
        get(&saker, "/app?X-Accel-Redirect:%20/nothing", &[]).status,
        404
    );
    assert_eq!(
        get(&saker, "/app?X-Accel-Redirect:%20nothing", &[]).status,
        502
    );
    assert_eq!(
        get(
            &saker,
            "/app?X-Accel-Redirect:%20/app?X-Accel-Redirect:%2520/a.txt",
            &[]
        )
        .status,
        502,
        "what it leads to is a head of its own"
    );
    let mut client = saker.connect().unwrap();
    client.send("POST /app?X-Accel-Redirect:%20/a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=b").unwrap();
    assert_eq!(client.read_response().unwrap().text(), "0123456789");
    assert_eq!(
        client.get("/a.txt").unwrap().text(),
        "0123456789",
        "the connection goes on"
    );
    assert_eq!(
        client
            .head("/app?X-Accel-Redirect:%20/a.txt")
            .unwrap()
            .field("content-length"),
        Some("10")
    );
}

#[test]
fn a_file_takes_the_place_of_the_content() {
    let saker = site();
    let store = saker.dir.join("store");
    let sent = |name: &str, fields: &[(&str, &str)]| {
        get(
            &saker,
            &format!("/app?X-Other:%20x&X-Sendfile:%20{name}"),
            fields,
        )
    };
    let whole = sent(&format!("{}/deep/c.txt", store.display()), &[]);
    assert_eq!(
        (whole.status, whole.text(), whole.field("x-other")),
        (200, "stored".into(), Some("x"))
    );
    assert_eq!(
        (whole.field("x-sendfile"), whole.field("content-type")),
        (None, Some("text/plain; charset=utf-8"))
    );
    assert_eq!(sent("deep/c.txt", &[]).text(), "stored");
    let big = sent("big.bin", &[("Range", "bytes=1000000-")]);
    assert_eq!((big.status, big.body.len()), (206, (3 << 20) - 1_000_000));
    for outside in [
        "../secret.txt",
        "/etc/passwd",
        "deep",
        "nothing",
        "deep/../../secret.txt",
    ] {
        let refused = sent(outside, &[]);
        assert_eq!(
            (refused.status, refused.field("x-sendfile")),
            (404, None),
            "{outside}"
        );
    }
}

#[test]
fn who_is_not_trusted_leads_nowhere() {
    let saker = site();
    for field in [
        "X-Accel-Redirect:%20/protected/b.txt",
        "X-Sendfile:%20deep/c.txt",
        "X-LiteSpeed-Location:%20/a.txt",
    ] {
        let response = get(&saker, &format!("/other?{field}"), &[]);
        assert_eq!(
            (response.status, response.text()),
            (200, "own".into()),
            "{field}"
        );
        assert!(
            ["x-accel-redirect", "x-sendfile", "x-litespeed-location"]
                .iter()
                .all(|name| response.field(name).is_none()),
            "{field}"
        );
    }
}

#[test]
fn the_pace_is_the_programs() {
    let saker = site();
    let began = std::time::Instant::now();
    let slow = get(
        &saker,
        "/app?X-Accel-Limit-Rate:%202000000&X-Sendfile:%20big.bin",
        &[],
    );
    assert_eq!(
        (slow.body.len(), slow.field("x-accel-limit-rate")),
        (3 << 20, None)
    );
    assert!(began.elapsed().as_millis() > 400, "{:?}", began.elapsed());
}

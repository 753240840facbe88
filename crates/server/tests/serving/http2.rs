//! HTTP/2 as real clients speak it: by prior knowledge and over TLS; and what becomes of its
//! connections.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use crate::operate::{configuration, folder, pattern, rewrite, start_in, wait_until};
use crate::tls_site;
use saker_testkit::{
    PATIENCE, Saker,
    frames::{self, Frames},
    keep_waiting, require,
};
use std::{
    fs,
    io::{Read as _, Write as _},
    process::{Command, Output},
    time::{Duration, Instant},
};

const LARGE_BYTES: usize = 3_000_000;

fn start(server: &str, site: &str) -> Saker {
    let dir = folder("http2");
    dir.write("www/large.bin", pattern(LARGE_BYTES)).unwrap();
    dir.write("www/folder/page.html", "<p>a page</p>\n")
        .unwrap();
    for number in 0..40 {
        dir.write(
            &format!("www/icons/{number}.svg"),
            format!("<svg id=\"{number}\"/>\n"),
        )
        .unwrap();
    }
    start_in(dir, &configuration(&format!("workers = 1\n{server}"), site))
}

fn curl(saker: &Saker, arguments: &[&str], path: &str) -> Output {
    let url = format!("http://{}{path}", saker.server.address());
    let output = Command::new(require("curl").unwrap())
        .args(["-sS", "-m", "20"])
        .args(arguments)
        .arg(url)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "curl {arguments:?} {path}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const PRIOR: &str = "--http2-prior-knowledge";

#[test]
fn files_by_prior_knowledge_and_none_by_upgrade() {
    let saker = start("", "");
    for (how, version) in [(PRIOR, "HTTP/2 200"), ("--http2", "HTTP/1.1 200 OK")] {
        for _ in 0..2 {
            // The first walks, the second is answered from the resolved resource.
            let got = text(&curl(&saker, &[how, "-i"], "/folder/page.html"));
            // A front proxy that passes `Upgrade` on would be no more than a pipe.
            assert!(got.starts_with(version), "{how}: {got}");
            assert!(got.ends_with("\r\n\r\n<p>a page</p>\n"), "{how}: {got}");
            let got = got.to_ascii_lowercase();
            assert!(
                got.contains("content-type: text/html") && got.contains("content-length: 14\r\n"),
                "{how}: {got}"
            );
            assert_eq!(got.matches("\r\ndate: ").count(), 1, "{how}: {got}");
        }
        assert!(
            curl(&saker, &[how], "/large.bin").stdout == pattern(LARGE_BYTES),
            "{how}: another body"
        );
    }
}

#[test]
fn methods_conditions_ranges_and_errors() {
    let saker = start("", "");
    let rows: &[(&[&str], &str, &str, &str)] = &[
        (
            &["-I"],
            "/folder/page.html",
            "HTTP/2 200",
            "content-length: 14\r\n",
        ),
        (
            &["-i", "-r", "3-5"],
            "/folder/page.html",
            "HTTP/2 206",
            "content-range: bytes 3-5/14\r\n",
        ),
        (
            &["-i", "-r", "99-"],
            "/folder/page.html",
            "HTTP/2 416",
            "content-range: bytes */14\r\n",
        ),
        (
            &["-i", "-H", "If-None-Match: *"],
            "/folder/page.html",
            "HTTP/2 304",
            "etag: ",
        ),
        (&["-i"], "/folder", "HTTP/2 301", "location: "),
        (&["-i"], "/missing", "HTTP/2 404", "content-type: text/html"),
        (
            &["-i", "-X", "DELETE"],
            "/folder/page.html",
            "HTTP/2 405",
            "allow: ",
        ),
        (
            &["-i", "-d", "a=1"],
            "/folder/page.html",
            "HTTP/2 405",
            "allow: ",
        ),
        (
            &["-i", "-X", "OPTIONS"],
            "/folder/page.html",
            "HTTP/2 2",
            "allow: ",
        ),
        (
            &["-i", "--path-as-is"],
            "/../../etc/passwd",
            "HTTP/2 4",
            "content-type: text/html",
        ),
    ];
    for _ in 0..2 {
        for (arguments, path, status, field) in rows {
            let got = text(&curl(&saker, &[&[PRIOR], *arguments].concat(), path));
            assert!(got.starts_with(status), "{arguments:?} {path}: {got}");
            assert!(got.contains(field), "{arguments:?} {path}: {got}");
        }
    }
}

#[test]
fn compression_is_chosen_as_over_http1() {
    let saker = start("", "");
    saker
        .dir
        .write("www/long.txt", "many words and words again ".repeat(400))
        .unwrap();
    for _ in 0..3 {
        let got = curl(&saker, &[PRIOR, "-i", "--compressed"], "/long.txt");
        let got = text(&got);
        assert!(
            got.contains("content-encoding: ") && got.contains("vary: "),
            "{got}"
        );
        assert!(got.ends_with("words and words again "), "{got}");
    }
}

#[test]
fn a_page_with_forty_files_at_once() {
    let dir = folder("http2-page");
    tls_site::certificate(&dir, "site", "localhost");
    for number in 0..40 {
        dir.write(
            &format!("www/icons/{number}.svg"),
            format!("<svg id=\"{number}\"/>\n"),
        )
        .unwrap();
    }
    let saker = start_in(dir, &tls_site::configuration("", ""));
    let out = saker.dir.join("out");
    fs::create_dir(&out).unwrap();
    let url = format!("https://{}/icons/[0-39].svg", saker.server.address());
    let mut command = Command::new(require("curl").unwrap());
    command
        .args(["-sS", "-k", "-m", "20", "--http2", "--parallel", "-o"])
        .arg(out.join("#1.svg"))
        .arg(url);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for number in 0..40 {
        assert_eq!(
            fs::read_to_string(out.join(format!("{number}.svg"))).unwrap(),
            format!("<svg id=\"{number}\"/>\n")
        );
    }
}

/// The same in the clear, by each client that can: nghttp on one connection, curl as connections
/// come, h2load in bulk. Absent on purpose: `curl --parallel --http2-prior-knowledge` without
/// `--parallel-immediate`, which curl 7.88 answers with a framing error of its own, with nginx on
/// the other side, too: it puts requests on a connection that it has not set up for several.
#[test]
fn forty_files_at_once_in_the_clear() {
    let saker = start("", "");
    let url = |path: &str| format!("http://{}{path}", saker.server.address());
    let urls: Vec<String> = (0..40)
        .map(|number| url(&format!("/icons/{number}.svg")))
        .collect();
    for how in [
        &["--http2"][..],
        &["--http2", "--parallel-immediate"],
        &[PRIOR, "--parallel-immediate"],
    ] {
        let out = saker.dir.join(format!("out{}", how.len()));
        let pattern = out.join("#1.svg");
        let arguments = [
            how,
            &[
                "--parallel",
                "--create-dirs",
                "-o",
                tls_site::shown(&pattern),
            ],
        ]
        .concat();
        curl(&saker, &arguments, "/icons/[0-39].svg");
        for number in 0..40 {
            assert_eq!(
                fs::read_to_string(out.join(format!("{number}.svg"))).unwrap(),
                format!("<svg id=\"{number}\"/>\n"),
                "{how:?}"
            );
        }
        fs::remove_dir_all(out).unwrap();
    }
    let mut nghttp = Command::new("timeout");
    let output = nghttp
        .arg("20")
        .arg(require("nghttp").unwrap())
        .arg("-ns")
        .args(&urls)
        .output()
        .unwrap();
    let got = String::from_utf8_lossy(&output.stdout);
    assert_eq!(got.matches(" 200 ").count(), 40, "{got}");
    let large = url("/large.bin");
    for (connections, streams) in [("1", "100"), ("10", "10"), ("10", "1")] {
        let mut h2load = Command::new("timeout");
        h2load
            .arg("30")
            .arg(require("h2load").unwrap())
            .args(["-n", "410", "-c", connections, "-m", streams])
            .args(&urls)
            .arg(&large);
        let output = h2load.output().unwrap();
        let got = String::from_utf8_lossy(&output.stdout);
        assert!(
            got.contains("410 succeeded, 0 failed, 0 errored")
                && got.contains("status codes: 410 2xx"),
            "{got}"
        );
    }
}

/// Streams that a pace holds up are woken one by one, and all come whole.
#[test]
fn many_streams_share_a_bandwidth() {
    let saker = start(
        "",
        "[site.throttle]\nout_per_connection = { rate = \"500kB/s\", burst = \"20kB\" }",
    );
    saker.dir.write("www/paced.bin", pattern(40_000)).unwrap();
    let url = format!("http://{}/paced.bin", saker.server.address());
    let began = Instant::now();
    let mut nghttp = Command::new("timeout");
    let output = nghttp
        .arg("60")
        .arg(require("nghttp").unwrap())
        .args(["-ns", "-m", "30"])
        .arg(url)
        .output()
        .unwrap();
    let got = String::from_utf8_lossy(&output.stdout);
    assert_eq!(got.matches(" 200  39K /paced.bin").count(), 30, "{got}");
    let took = began.elapsed();
    assert!(
        took > Duration::from_millis(2_200) && took < Duration::from_secs(15),
        "{took:?}"
    );
}

/// Content that no handler reads takes nothing from the connection's window for good: more of it
/// than fits the window comes on one connection, of lengths that are told and are not.
#[test]
fn content_that_nobody_reads_stalls_no_connection() {
    let saker = start("", "");
    saker.dir.write("content.bin", pattern(200_000)).unwrap();
    let content = saker.dir.join("content.bin");
    let url = format!("http://{}/index.html", saker.server.address());
    for streams in ["1", "10"] {
        let mut h2load = Command::new("timeout");
        h2load.arg("30").arg(require("h2load").unwrap()).args([
            "-n",
            "30",
            "-c",
            "1",
            "-m",
            streams,
            "-d",
            tls_site::shown(&content),
            &url,
        ]);
        let output = h2load.output().unwrap();
        let got = String::from_utf8_lossy(&output.stdout);
        assert!(
            got.contains("30 done") && got.contains("0 errored") && got.contains("30 4xx"),
            "{got}"
        );
    }
    // Without a length.
    let mut client = Frames::connect(saker.server.address()).unwrap();
    let post = frames::block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
    ]);
    for stream in (1..).step_by(2).take(10) {
        client
            .send(frames::HEADERS, frames::END_HEADERS, stream, &post)
            .unwrap();
        while client.read_until(frames::DATA).unwrap().unwrap().flags & frames::END_STREAM == 0 {}
        // The server says when it is enough.
        for _ in 0..15 {
            client.send(frames::DATA, 0, stream, &[0; 16_384]).unwrap();
        }
        let reset = client.read_until(frames::RST_STREAM).unwrap().unwrap();
        assert_eq!((reset.stream, reset.error_code()), (stream, Some(0)));
    }
}

/// curl 7.88 has a response only if the reset of its stream comes in a TLS record of its own.
#[test]
fn a_refused_upload_has_its_answer() {
    let saker = tls_site::start(
        "http2-refused",
        "",
        "body_size = \"1MB\"\n[[site.route]]\npath = \"/closed\"\ndeny = true\n",
    );
    for (path, bytes, status) in [("/any", 2_000_000, "413"), ("/closed", 900_000, "403")] {
        saker.dir.write("upload", pattern(bytes)).unwrap();
        let upload = format!("@{}", saker.dir.join("upload").display());
        for _ in 0..5 {
            let url = format!("https://{}{path}", saker.server.address());
            let arguments = [
                "-skm",
                "20",
                "--http2",
                "-o",
                "/dev/null",
                "-w",
                "%{http_version} %{http_code}",
                "--data-binary",
                &upload,
                &url,
            ];
            let output = Command::new(require("curl").unwrap())
                .args(arguments)
                .output()
                .unwrap();
            assert_eq!(
                text(&output),
                format!("2 {status}"),
                "{path}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

#[test]
fn every_exchange_has_its_line() {
    let saker = start(
        "",
        "access_log = { path = \"{dir}/access.log\", format = '%m %U %s %B %H \"%r\" %{Host}i' }",
    );
    curl(&saker, &[PRIOR], "/folder/page.html");
    curl(&saker, &[PRIOR], "/folder/page.html");
    curl(&saker, &[PRIOR, "-o", "/dev/null"], "/large.bin");
    curl(&saker, &[PRIOR], "/missing?x=1");
    let path = saker.dir.join("access.log");
    wait_until("four lines", || {
        fs::read_to_string(&path).is_ok_and(|log| log.lines().count() == 4)
    });
    let host = saker.server.address().to_string();
    let log = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(
        lines[0],
        format!("GET /folder/page.html 200 14 HTTP/2.0 \"GET /folder/page.html HTTP/2.0\" {host}")
    );
    assert_eq!(lines[1], lines[0]);
    assert_eq!(
        lines[2],
        format!("GET /large.bin 200 {LARGE_BYTES} HTTP/2.0 \"GET /large.bin HTTP/2.0\" {host}")
    );
    assert!(lines[3].starts_with("GET /missing 404 "), "{}", lines[3]);
}

#[test]
fn a_head_that_is_too_large_is_answered() {
    let saker = start("", "");
    let field = format!("X-Long: {}", "x".repeat(40_000));
    let output = curl(&saker, &[PRIOR, "-i", "-H", &field], "/");
    assert!(text(&output).starts_with("HTTP/2 431"), "{}", text(&output));
}

#[test]
fn connections_end_in_good_order() {
    let saker = start("shutdown_timeout = \"5s\"", "");
    let mut client = Frames::connect(saker.server.address()).unwrap();
    client.get(1, "/folder/page.html").unwrap();
    assert_eq!(
        client.read_until(frames::DATA).unwrap().unwrap().payload,
        b"<p>a page</p>\n"
    );
    saker.server.signal(saker_testkit::Signal::TERM).unwrap();
    let goaway = client.read_until(frames::GOAWAY).unwrap().unwrap();
    assert_eq!(goaway.error_code(), Some(0));
    while let Some(frame) = client.read().unwrap() {
        assert_eq!(frame.error_code().unwrap_or(0), 0, "{frame:?}");
    }
}

#[test]
fn idle_connections_are_closed_and_half_frames_are_not_waited_for() {
    let dir = folder("http2-idle");
    let limits = configuration("workers = 1", "").replace(
        "[[listener]]",
        "[limits]\nkeep_alive_timeout = \"1s\"\nhead_timeout = \"1s\"\n\n[[listener]]",
    );
    let saker = start_in(dir, &limits);
    let began = Instant::now();
    let mut idle = Frames::connect(saker.server.address()).unwrap();
    assert_eq!(
        idle.read_until(frames::GOAWAY)
            .unwrap()
            .unwrap()
            .error_code(),
        Some(0)
    );
    assert_eq!(idle.read().unwrap(), None);
    let mut half = Frames::connect(saker.server.address()).unwrap();
    half.send_bytes(&frames::frame(frames::HEADERS, 5, 1, &frames::get_block("/"))[..12])
        .unwrap();
    assert!(half.read_until(frames::GOAWAY).unwrap().is_some());
    assert!(began.elapsed() < Duration::from_secs(50));
}

/// Requests that are answered at once, from a resolved resource, are use of a connection like any
/// other; and a connection that has rested, and given memory back, serves on.
#[test]
fn a_connection_in_use_is_not_idle() {
    let dir = folder("http2-in-use");
    let limits = configuration("workers = 1", "").replace(
        "[[listener]]",
        "[limits]\nkeep_alive_timeout = \"9s\"\n\n[[listener]]",
    );
    let saker = start_in(dir, &limits);
    let began = Instant::now();
    let mut client = Frames::connect(saker.server.address()).unwrap();
    let mut last = began;
    for (stream, pause_ms) in [
        500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 3_000, 3_000, 0,
    ]
    .into_iter()
    .enumerate()
    {
        last = Instant::now();
        client
            .get(2 * u32::try_from(stream).unwrap() + 1, "/index.html")
            .unwrap();
        let data = client.read_until(frames::DATA).unwrap();
        assert_eq!(
            data.map(|data| data.payload).as_deref(),
            Some(&b"<p>hello</p>\n"[..]),
            "after {:?}",
            began.elapsed()
        );
        client.pause(Duration::from_millis(pause_ms)).unwrap();
    }
    assert_eq!(
        client
            .read_until(frames::GOAWAY)
            .unwrap()
            .unwrap()
            .error_code(),
        Some(0)
    );
    assert!(
        last.elapsed() > Duration::from_secs(8),
        "{:?}",
        last.elapsed()
    );
}

/// The time without a request ends with the next one, not while that is answered.
#[test]
fn a_slow_answer_is_not_idleness() {
    let backend = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = backend.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in backend.incoming().flatten() {
            let _ = (&stream).read(&mut [0; 4096]);
            let _ = keep_waiting(&stream, Duration::from_secs(4));
            let _ = (&stream).write_all(
                b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow",
            );
        }
    });
    let route = format!("[[site.route]]\npath = \"/slow\"\nproxy = \"http://{address}\"\n");
    let saker = start_in(folder("http2-slow"), &configuration("workers = 1", &route));
    let mut client = Frames::connect(saker.server.address()).unwrap();
    for (stream, path) in [(1, "/index.html"), (3, "/slow")] {
        client.get(stream, path).unwrap();
        let data = client
            .read_until(frames::DATA)
            .unwrap()
            .map(|data| data.payload);
        assert!(data.is_some(), "{path}: the connection has ended");
    }
}

/// A window that the client leaves closed holds a response for `write_timeout`; one that it opens
/// in time does not end it.
#[test]
fn windows_that_stay_closed_have_a_limit() {
    let dir = folder("http2-windows");
    dir.write("www/large.bin", pattern(200)).unwrap();
    let limits = configuration("workers = 1", "").replace(
        "[[listener]]",
        "[limits]\nwrite_timeout = \"4s\"\n\n[[listener]]",
    );
    let saker = start_in(dir, &limits);
    let ask = || {
        let mut client = Frames::connect(saker.server.address()).unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE.
        client
            .send(frames::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10])
            .unwrap();
        client.get(1, "/large.bin").unwrap();
        assert_eq!(
            client
                .read_until(frames::DATA)
                .unwrap()
                .unwrap()
                .payload
                .len(),
            10
        );
        client
    };
    let mut slow = ask();
    let began = Instant::now();
    for number in 0..4 {
        slow.pause(Duration::from_millis(1_500)).unwrap();
        slow.send(frames::WINDOW_UPDATE, 0, 1, &10u32.to_be_bytes())
            .unwrap();
        let data = slow.read_until(frames::DATA).unwrap();
        assert_eq!(
            data.map(|data| data.payload.len()),
            Some(10),
            "{number}, after {:?}",
            began.elapsed()
        );
    }
    let began = Instant::now();
    let mut stalled = ask();
    // Other requests on the connection are no excuse.
    let mut stream = 1;
    let goaway = loop {
        stream += 2;
        let _ = stalled.send(
            frames::HEADERS,
            frames::END_HEADERS | frames::END_STREAM,
            stream,
            &frames::head_block("/index.html"),
        );
        match stalled.read().unwrap() {
            Some(frame) if frame.kind == frames::GOAWAY => break frame,
            Some(_) => {}
            None => panic!("no GOAWAY after {:?}", began.elapsed()),
        }
        stalled.pause(Duration::from_millis(200)).unwrap();
    };
    assert_eq!(goaway.error_code(), Some(11));
    let took = began.elapsed();
    assert!(
        took > Duration::from_millis(3_900) && took < PATIENCE,
        "{took:?}"
    );
}

#[test]
fn a_reload_cuts_no_connection() {
    let saker = start("", "");
    let mut client = Frames::connect(saker.server.address()).unwrap();
    client.get(1, "/folder/page.html").unwrap();
    assert!(client.read_until(frames::DATA).unwrap().is_some());
    rewrite(
        &saker,
        &configuration(
            "workers = 1",
            "fields = [{ set = \"X-New\", value = \"1\" }]",
        ),
    );
    let _ = operate::reload(&saker);
    client.get(3, "/folder/page.html").unwrap();
    assert_eq!(
        client.read_until(frames::DATA).unwrap().unwrap().payload,
        b"<p>a page</p>\n"
    );
}

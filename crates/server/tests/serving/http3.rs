//! HTTP/3 as clients speak it: files, uploads, many streams, and what becomes of streams and
//! connections that end before their time.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::http3_client;
use crate::http3_client::{Client, Http3, site::start_with};
use crate::operate;
use crate::operate::{folder, pattern, wait_until};
use crate::tls_site;
use saker_http3::ErrorCode;
use saker_quic::Lost;
use saker_testkit::{Saker, Signal};
use std::{
    fs,
    time::{Duration, Instant},
};

const LARGE_BYTES: usize = 3_000_000;
const PROXY: &str = "[[site.route]]\npath = \"/app/*\"\nproxy = \"{backend}\"\n";

fn start(more: &str, site: &str) -> Saker {
    let dir = folder("http3");
    dir.write("www/large.bin", pattern(LARGE_BYTES)).unwrap();
    dir.write("www/small.bin", pattern(20_000)).unwrap();
    dir.write("www/folder/page.html", "<p>a page</p>\n")
        .unwrap();
    for number in 0..40 {
        dir.write(
            &format!("www/icons/{number}.svg"),
            format!("<svg id=\"{number}\"/>\n"),
        )
        .unwrap();
    }
    start_with(dir, more, site)
}

fn connect(saker: &Saker) -> Http3 {
    Client::default().connect(&saker.server.address().to_string())
}

#[test]
fn files_methods_conditions_ranges_and_errors() {
    let saker = start("", "");
    let mut client = connect(&saker);
    type Row<'r> = (
        &'r str,
        &'r str,
        &'r [(&'r str, &'r str)],
        u16,
        &'r str,
        &'r str,
    );
    let rows: &[Row<'_>] = &[
        (
            "GET",
            "/folder/page.html",
            &[],
            200,
            "content-type",
            "text/html; charset=utf-8",
        ),
        (
            "HEAD",
            "/folder/page.html",
            &[],
            200,
            "content-length",
            "14",
        ),
        (
            "GET",
            "/folder/page.html",
            &[("range", "bytes=3-5")],
            206,
            "content-range",
            "bytes 3-5/14",
        ),
        (
            "GET",
            "/folder/page.html",
            &[("range", "bytes=99-")],
            416,
            "content-range",
            "bytes */14",
        ),
        (
            "GET",
            "/folder/page.html",
            &[("if-none-match", "*")],
            304,
            "server",
            "Saker",
        ),
        ("GET", "/folder", &[], 301, "location", "/folder/"),
        (
            "GET",
            "/missing",
            &[],
            404,
            "content-type",
            "text/html; charset=utf-8",
        ),
        (
            "DELETE",
            "/folder/page.html",
            &[],
            405,
            "allow",
            "GET, HEAD, OPTIONS",
        ),
    ];
    // The first walks, later ones are answered from the resolved resource.
    for _ in 0..3 {
        for (method, path, fields, status, name, value) in rows {
            let got = client.ask(method, path, fields, b"");
            assert_eq!(
                (got.status, got.field(name).map(|got| got.contains(value))),
                (*status, Some(true)),
                "{method} {path}: {got:?}"
            );
            assert_eq!(
                got.fields.iter().filter(|(name, _)| name == "date").count(),
                1,
                "{got:?}"
            );
        }
        assert_eq!(client.get("/folder/page.html").body, b"<p>a page</p>\n");
        assert!(
            client.get("/large.bin").body == pattern(LARGE_BYTES),
            "another body"
        );
        assert!(
            client.get("/small.bin").body == pattern(20_000),
            "another body"
        );
    }
}

#[test]
fn many_streams_at_once() {
    let saker = start("", "");
    let mut client = connect(&saker);
    for _ in 0..2 {
        let large = client.open("GET", "/large.bin", &[], true);
        let streams: Vec<u64> = (0..40)
            .map(|number| client.open("GET", &format!("/icons/{number}.svg"), &[], true))
            .collect();
        for (number, stream) in streams.into_iter().enumerate() {
            assert_eq!(
                client.response(stream).text(),
                format!("<svg id=\"{number}\"/>\n")
            );
        }
        assert!(
            client.response(large).body == pattern(LARGE_BYTES),
            "another body"
        );
    }
}

#[test]
fn every_exchange_has_its_line() {
    let saker = start(
        "",
        "access_log = { path = \"{dir}/access.log\", format = '%m %U %s %B %H \"%r\" %{Host}i' }",
    );
    let mut client = connect(&saker);
    for path in [
        "/folder/page.html",
        "/folder/page.html",
        "/large.bin",
        "/missing?x=1",
    ] {
        client.get(path);
    }
    let path = saker.dir.join("access.log");
    wait_until("four lines", || {
        fs::read_to_string(&path).is_ok_and(|log| log.lines().count() == 4)
    });
    let log = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(
        lines[0],
        "GET /folder/page.html 200 14 HTTP/3.0 \"GET /folder/page.html HTTP/3.0\" localhost"
    );
    assert_eq!(lines[1], lines[0]);
    assert_eq!(
        lines[2],
        format!("GET /large.bin 200 {LARGE_BYTES} HTTP/3.0 \"GET /large.bin HTTP/3.0\" localhost")
    );
    assert!(lines[3].starts_with("GET /missing 404 "), "{}", lines[3]);
}

fn start_with_backend(more: &str) -> Saker {
    let backend = format!("http://{}", http3_client::site::backend());
    start(more, &PROXY.replace("{backend}", &backend))
}

#[test]
fn uploads_come_whole_and_wait_for_their_readers() {
    let saker = start_with_backend("");
    let mut client = connect(&saker);
    let content = pattern(2_500_000);
    let sum: u64 = content.iter().map(|byte| u64::from(*byte)).sum();
    for path in ["/app/sum", "/app/slow"] {
        let got = client.ask("POST", path, &[], &content);
        assert!(
            got.status == 200 && got.text().ends_with(&format!("{} {sum}", content.len())),
            "{path}: {got:?}"
        );
    }
    let got = client.ask(
        "PUT",
        "/app/echo",
        &[("content-length", &content.len().to_string())],
        &content,
    );
    assert!(got.status == 200 && got.body == content, "another body");
    // In pieces, the end by itself.
    let stream = client.open("POST", "/app/sum", &[], false);
    for piece in content.chunks(100_000) {
        client.send(stream, piece, false);
        client.pass(Duration::from_millis(2));
    }
    client.send(stream, b"", true);
    assert!(
        client
            .response(stream)
            .text()
            .ends_with(&format!("{} {sum}", content.len()))
    );
}

#[test]
fn content_that_nobody_reads_stalls_no_connection() {
    let saker = start("", "");
    let mut client = connect(&saker);
    for _ in 0..30 {
        let got = client.ask("POST", "/folder/page.html", &[], &pattern(200_000));
        assert_eq!(got.status, 405);
    }
    // What is told to be long is not waited for.
    let stream = client.open(
        "POST",
        "/folder/page.html",
        &[("content-length", "100000000")],
        false,
    );
    client.send(stream, &pattern(100_000), false);
    let got = client.response(stream);
    client.until(|peer| peer.responses[&stream].stopped.is_some());
    assert_eq!(got.status, 405);
    assert_eq!(
        client.peer().responses[&stream].stopped,
        Some(ErrorCode::NoError.into())
    );
    assert_eq!(client.get("/folder/page.html").status, 200);
}

#[test]
fn interim_responses_trailers_and_broken_ones() {
    let saker = start_with_backend("");
    let mut client = connect(&saker);
    let stream = client.open(
        "POST",
        "/app/echo",
        &[("expect", "100-continue"), ("content-length", "4")],
        false,
    );
    client.until(|peer| !peer.responses[&stream].informational.is_empty());
    client.send(stream, b"1234", true);
    let got = client.response(stream);
    assert_eq!(
        (got.status, got.informational, got.body),
        (200, vec![100], b"1234".to_vec())
    );
    assert_eq!(
        client
            .ask("POST", "/app/echo", &[("expect", "miracles")], b"1")
            .status,
        417
    );
    let got = client.ask("GET", "/app/trailers", &[("te", "trailers")], b"");
    assert_eq!(
        (got.text().as_str(), got.trailers),
        ("body", vec![("x-sum".to_owned(), "7".to_owned())])
    );
    let got = client.get("/app/hints");
    assert_eq!(
        (got.status, &got.informational[..], got.text().as_str()),
        (200, &[103][..], "body")
    );
    let got = client.get("/app/half");
    assert!(
        got.reset == Some(ErrorCode::InternalError.into()) || got.status == 502,
        "{got:?}"
    );
    assert_eq!(client.get("/folder/page.html").status, 200);
}

#[test]
fn streams_that_clients_give_up_end_and_are_logged() {
    let log = "access_log = { path = \"{dir}/access.log\", format = '%U %s %X' }\n";
    let backend = format!("http://{}", http3_client::site::backend());
    let saker = start(
        "",
        &format!("{log}{}", PROXY.replace("{backend}", &backend)),
    );
    let mut client = connect(&saker);
    let endless = client.open("GET", "/app/endless", &[], true);
    client.until(|peer| peer.responses[&endless].body.len() > 12);
    client.reset(endless, ErrorCode::RequestCancelled);
    let requests = requests_received(&saker);
    let upload = client.open("POST", "/app/sum", &[], false);
    client.send(upload, b"some", false);
    wait_until("the upload is dispatched", || {
        requests_received(&saker) > requests
    });
    client.reset(upload, ErrorCode::RequestCancelled);
    let stopped = client.open("GET", "/app/endless", &[], true);
    client.until(|peer| peer.responses[&stopped].body.len() > 12);
    client.stop(stopped, ErrorCode::RequestCancelled);
    let path = saker.dir.join("access.log");
    client.pass(Duration::from_millis(300));
    assert_eq!(client.get("/folder/page.html").status, 200);
    wait_until("four lines", || {
        fs::read_to_string(&path).is_ok_and(|log| log.lines().count() == 4)
    });
    let log = fs::read_to_string(&path).unwrap();
    assert_eq!(
        log.lines()
            .filter(|line| line == &"/app/endless 200 X")
            .count(),
        2,
        "{log}"
    );
    let counters = operate::ask(&saker.dir.join("state"), "status").unwrap();
    assert_eq!(
        counters["counters"]["http3_streams_reset_total"], 3,
        "{counters}"
    );
}

#[test]
fn malformed_requests_end_their_stream_and_broken_connections_end() {
    let saker = start("", "");
    let mut client = connect(&saker);
    let stream = client.open_with(
        &[(":method", "GET"), (":scheme", "https"), (":path", "/")],
        &[],
        true,
    );
    assert_eq!(
        client.response(stream).reset,
        Some(ErrorCode::MessageError.into())
    );
    let stream = client.open("GET", "/", &[("connection", "close")], true);
    assert_eq!(
        client.response(stream).reset,
        Some(ErrorCode::MessageError.into())
    );
    assert_eq!(client.get("/folder/page.html").status, 200);
    let long = "x".repeat(40_000);
    let stream = client.open("GET", "/", &[("x-long", &long)], true);
    assert_eq!(client.response(stream).status, 431);
    // DATA on the control stream's place.
    let stream = client.open_raw(true);
    client.write(stream, &[0, 1, b'x'], true);
    assert!(
        matches!(client.until_lost(), Lost::ClosedByPeer { code, .. } if code == u64::from(ErrorCode::FrameUnexpected))
    );
    let mut client = connect(&saker);
    let second = client.open_raw(false);
    client.write(second, &[0, 4, 0], false);
    assert!(
        matches!(client.until_lost(), Lost::ClosedByPeer { code, .. } if code == u64::from(ErrorCode::StreamCreationError))
    );
}

#[test]
fn connections_end_in_good_order() {
    let saker = start("", "");
    let mut client = connect(&saker);
    assert_eq!(client.get("/folder/page.html").status, 200);
    let large = client.open("GET", "/large.bin", &[], true);
    saker.server.signal(Signal::TERM).unwrap();
    assert!(
        client.response(large).body == pattern(LARGE_BYTES),
        "another body"
    );
    client.until(|peer| peer.goaway.is_some());
    assert!(
        matches!(client.until_lost(), Lost::ClosedByPeer { code, .. } if code == u64::from(ErrorCode::NoError))
    );
}

#[test]
fn a_connection_has_its_number_of_requests() {
    let saker = start("[limits]\nrequests_per_connection = 3", "");
    let mut client = connect(&saker);
    for _ in 0..3 {
        assert_eq!(client.get("/folder/page.html").status, 200);
    }
    client.until(|peer| peer.goaway.is_some());
    assert!(
        matches!(client.until_lost(), Lost::ClosedByPeer { code, .. } if code == u64::from(ErrorCode::NoError))
    );
}

#[test]
fn idle_connections_are_closed_and_half_heads_are_not_waited_for() {
    let saker = start(
        "[limits]\nkeep_alive_timeout = \"1s\"\nhead_timeout = \"1s\"",
        "",
    );
    let began = Instant::now();
    let mut idle = connect(&saker);
    assert!(
        matches!(idle.until_lost(), Lost::ClosedByPeer { code, .. } if code == u64::from(ErrorCode::NoError))
    );
    let mut half = connect(&saker);
    let stream = half.open_raw(true);
    half.write(stream, &[1, 30, 0, 0], false);
    assert!(
        matches!(half.until_lost(), Lost::ClosedByPeer { code, .. } if code == u64::from(ErrorCode::RequestIncomplete))
    );
    assert!(began.elapsed() < Duration::from_secs(50));
}

/// Slow ones, that are never silent for long, come through.
#[test]
fn uploads_that_fall_silent_have_a_limit() {
    let saker = start_with_backend("[limits]\nbody_timeout = \"2s\"");
    let mut client = connect(&saker);
    let begin =
        |client: &mut Http3| client.open("POST", "/app/sum", &[("content-length", "30")], false);
    let (slow, silent) = (begin(&mut client), begin(&mut client));
    client.send(silent, b"1234", false);
    for _ in 0..29 {
        client.pass(Duration::from_millis(100));
        client.send(slow, b"1", false);
    }
    client.send(slow, b"1", true);
    let got = client.response(slow);
    assert!(
        got.status == 200
            && got
                .text()
                .ends_with(&format!("30 {}", 30 * u32::from(b'1'))),
        "{got:?}"
    );
    let got = client.response(silent);
    assert!(got.status == 408 || got.reset.is_some(), "{got:?}");
    assert_eq!(
        client.get("/folder/page.html").status,
        200,
        "the connection goes on"
    );
}

#[test]
fn windows_that_stay_closed_have_a_limit() {
    let saker = start("[limits]\nwrite_timeout = \"2s\"", "");
    let mut slow = Client::default();
    slow.settings.stream_window_bytes = 100_000;
    let mut slow = slow.connect(&saker.server.address().to_string());
    slow.be_lazy(true);
    let began = Instant::now();
    slow.open("GET", "/large.bin", &[], true);
    assert!(
        matches!(slow.until_lost(), Lost::ClosedByPeer { code, .. } if code == u64::from(ErrorCode::ExcessiveLoad))
    );
    assert!(
        began.elapsed() > Duration::from_millis(1_500),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(connect(&saker).get("/folder/page.html").status, 200);
}

#[test]
fn urgent_streams_overtake() {
    let saker = start("", "");
    let mut client = Client::default();
    client.settings.connection_window_bytes = 400_000;
    let mut client = client.connect(&saker.server.address().to_string());
    let background = client.open("GET", "/large.bin", &[("priority", "u=7")], true);
    let usual = client.open("GET", "/large.bin", &[], true);
    let urgent = client.open("GET", "/large.bin", &[("priority", "u=0")], true);
    client.until(|peer| {
        [background, usual, urgent]
            .iter()
            .all(|stream| peer.responses[stream].is_over())
    });
    let done = |client: &mut Http3, stream: u64| client.peer().responses[&stream].done.unwrap();
    let (background, usual, urgent) = (
        done(&mut client, background),
        done(&mut client, usual),
        done(&mut client, urgent),
    );
    assert!(
        urgent < usual && usual < background,
        "{urgent:?} {usual:?} {background:?}"
    );
}

#[test]
fn clients_move_in_mid_download() {
    let saker = start("", "");
    let mut client = Client::default();
    client.settings.connection_window_bytes = 200_000;
    let mut client = client.connect(&saker.server.address().to_string());
    let stream = client.open("GET", "/large.bin", &[], true);
    for megabytes in 1..3 {
        client.until(|peer| peer.responses[&stream].body.len() > megabytes * 1_000_000);
        client.move_away();
    }
    assert!(
        client.response(stream).body == pattern(LARGE_BYTES),
        "another body"
    );
    let status = operate::ask(&saker.dir.join("state"), "status").unwrap();
    assert!(
        status["counters"]["quic_migrations_total"]
            .as_u64()
            .is_some_and(|moved| moved >= 2),
        "{status}"
    );
}

#[test]
fn what_comes_early_is_answered_where_it_only_reads() {
    let saker = start_with_backend("");
    let client = Client::default();
    let address = saker.server.address().to_string();
    let mut first = client.connect_for_ticket(&address);
    assert_eq!(first.get("/app/x").text().matches("early-data").count(), 0);
    let requests = requests_received(&saker);
    let mut second = client.begin(&address);
    let read = second.open("GET", "/app/x", &[], true);
    // The client reads nothing meanwhile, so that its handshake can't be complete before the
    // request is dispatched.
    wait_until("the early request is dispatched", || {
        requests_received(&saker) > requests
    });
    let write = second.open("POST", "/app/sum", &[("content-length", "3")], false);
    second.send(write, b"abc", true);
    let (read, write) = (second.response(read), second.response(write));
    assert!(second.connection().has_early_data(), "no 0-RTT");
    assert!(
        read.text()
            .to_ascii_lowercase()
            .contains("\r\nearly-data: 1\r\n"),
        "{}",
        read.text()
    );
    assert!(
        write.status == 200 && !write.text().to_ascii_lowercase().contains("early-data"),
        "{}",
        write.text()
    );
}

/// One forged datagram may hold a handshake's beginning with the request behind it: nothing is done
/// in the name of an address that is not proved.
#[test]
fn what_comes_early_waits_until_its_address_is_proved() {
    let saker = start_with_backend("");
    let client = Client::default();
    let address = saker.server.address().to_string();
    client.connect_for_ticket(&address).get("/app/x");
    let begun = || counter(&saker, "quic_handshakes_total{result=\"begun\"}");
    wait_until("the first request is counted", || {
        requests_received(&saker) == 1
    });
    let before = begun();
    let mut second = client.without_tokens().begin(&address);
    let read = second.open("GET", "/app/x", &[], true);
    wait_until("the handshake has begun", || begun() > before);
    // By a client that has gone all the way meanwhile.
    Client::default().connect(&address).get("/folder/page.html");
    wait_until("the other's request is counted", || {
        requests_received(&saker) >= 2
    });
    assert_eq!(requests_received(&saker), 2, "served before any proof");
    let response = second.response(read);
    assert!(second.connection().has_early_data(), "no 0-RTT");
    assert_eq!(response.status, 200);
    let text = response.text().to_ascii_lowercase();
    assert!(!text.contains("early-data"), "{text}");
}

fn counter(saker: &Saker, name: &str) -> u64 {
    operate::ask(&saker.dir.join("state"), "status").unwrap()["counters"][name]
        .as_u64()
        .unwrap()
}

fn requests_received(saker: &Saker) -> u64 {
    counter(saker, "requests_total{protocol=\"http3\"}")
}

/// RFC 9000 section 7.4.1, RFC 9114 section 7.2.4.2: what is sent early goes by limits of the
/// connection before.
#[test]
fn early_data_never_meets_smaller_limits_than_it_was_made_for() {
    let saker = start("", "");
    let client = Client::default();
    let address = saker.server.address().to_string();
    let reload = |more: &str, site: &str| {
        operate::rewrite(&saker, &http3_client::site::configuration(more, site));
        let said = operate::reload(&saker);
        assert!(said.status.success(), "{}", operate::stderr(&said));
    };
    let come_back = |early_before: u64, is_early: bool| {
        let tickets = client.tickets_received();
        let mut again = client.begin(&address);
        assert!(
            again.connection().has_early_data(),
            "it has a ticket, and tries"
        );
        again.until(|peer| peer.is_established && client.tickets_received() > tickets);
        let early = early_before + u64::from(is_early);
        wait_until("the connection is counted", || {
            counter(&saker, "quic_handshakes_total{result=\"begun\"}") > early_before + 1
        });
        wait_until("early data is taken or not", || {
            counter(&saker, "quic_early_data_total") == early
        });
        again.close();
    };
    let _first = client.connect_for_ticket(&address);
    come_back(0, true);
    reload("", "headers = { X-New = \"1\" }");
    come_back(1, true);
    for limits in ["http2_streams = 50", "head_size = \"8kB\"", ""] {
        reload(&format!("[limits]\n{limits}"), "");
        let tls_full = counter(&saker, "tls_handshakes_total{result=\"full\"}");
        come_back(2, false);
        assert_eq!(
            counter(&saker, "tls_handshakes_total{result=\"full\"}"),
            tls_full + 1,
            "{limits}"
        );
        // Clients that have connected since may send early data again.
        assert_eq!(connect(&saker).get("/folder/page.html").status, 200);
    }
}

/// A site for everybody, one that asks for certificates, one that takes them, one that is alike the
/// first.
fn start_with_demands() -> Saker {
    let dir = folder("http3-demands");
    tls_site::certificate(&dir, "site", "localhost");
    tls_site::certificate(&dir, "authority", "authority");
    tls_site::certificate(&dir, "stranger", "stranger");
    tls_site::signed(&dir, "someone", "authority");
    let files = "certificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n";
    let site = |name: &str, demands: &str| {
        format!(
            "\n[[site]]\nnames = [\"{name}\"]\nroot = \"{{dir}}/www\"\nheaders = {{ X-Site = \"{name}\" }}\n[site.tls]\n{files}{demands}"
        )
    };
    let by = |demand: &str| {
        format!("client_certificates = \"{demand}\"\nclient_ca = \"{{dir}}/authority.pem\"\n")
    };
    let sites = [
        site("guarded.test", &by("required")),
        site("optional.test", &by("optional")),
        site("alike.test", ""),
    ]
    .concat();
    let configuration =
        tls_site::configuration("", "").replace("[\"localhost\", \"*\"]", "[\"localhost\"]");
    operate::start_in(dir, &format!("{configuration}{sites}"))
}

fn status_of(client: &mut Http3, authority: &str) -> u16 {
    let pseudo = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", authority),
        (":path", "/index.html"),
    ];
    let stream = client.open_with(&pseudo, &[], true);
    client.response(stream).status
}

/// RFC 9110 section 15.5.20: by a handshake that one site's terms were for, another site with other
/// terms is not served.
#[test]
fn requests_for_sites_with_other_demands_are_misdirected() {
    let saker = start_with_demands();
    let mut client = connect(&saker);
    let rows = [
        ("localhost", 200),
        ("guarded.test", 421),
        ("GUARDED.test:443", 421),
        ("alike.test", 200),
        ("nobody.test", 200),
    ];
    for (authority, status) in rows {
        assert_eq!(status_of(&mut client, authority), status, "{authority}");
        // As the same request over TCP, by a handshake for the same name.
        let host = format!("Host: {authority}");
        let over_tcp = tls_site::curl(
            &saker,
            &[
                "--http2",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-H",
                &host,
            ],
            "/index.html",
        );
        assert_eq!(over_tcp, status.to_string(), "{authority} over HTTP/2");
    }
    let pseudo = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "guarded.test"),
        (":path", "/socket"),
    ];
    client.until(|peer| peer.allows_tunnels());
    let stream = client.open_with(&pseudo, &[("sec-websocket-version", "13")], false);
    client.until(|peer| peer.responses[&stream].status != 0);
    assert_eq!(client.peer().responses[&stream].status, 421);
    assert_eq!(
        client.get("/index.html").status,
        200,
        "the connection goes on"
    );
}

/// The name in the ClientHello decides what is asked of the client, as over TCP.
#[test]
fn sites_ask_for_certificates_of_their_own() {
    let saker = start_with_demands();
    let address = saker.server.address().to_string();
    let named = |mut client: Client, name: &str| {
        client.name = name.into();
        client.begin(&address)
    };
    let shows = |name: &str| Client::who_shows(&saker.dir, name);
    for (client, name) in [
        (Client::default(), "guarded.test"),
        (shows("stranger"), "guarded.test"),
        (shows("stranger"), "optional.test"),
    ] {
        let lost = named(client, name).until_lost();
        // A TLS alert (RFC 9001 section 4.8).
        assert!(
            matches!(
                lost,
                Lost::AbortedByPeer {
                    code: 0x100..=0x1ff,
                    ..
                }
            ),
            "{name}: {lost:?}"
        );
    }
    for (client, name) in [
        (shows("someone"), "guarded.test"),
        (shows("someone"), "optional.test"),
        (Client::default(), "optional.test"),
    ] {
        let mut client = named(client, name);
        client.until(|peer| peer.is_established);
        assert_eq!(client.get("/index.html").field("x-site"), Some(name));
        for other in ["localhost", "guarded.test", "optional.test"] {
            assert_eq!(
                status_of(&mut client, other),
                if other == name { 200 } else { 421 },
                "{other} by a handshake for {name}"
            );
        }
    }
    // Who may have had a session elsewhere does not go on with it here, certificate or not.
    let mut wanderer = Client::default();
    let _first = wanderer.connect_for_ticket(&address);
    wanderer.name = "guarded.test".into();
    assert!(matches!(
        wanderer.begin(&address).until_lost(),
        Lost::AbortedByPeer { .. }
    ));
    assert_eq!(connect(&saker).get("/index.html").status, 200);
}

#[test]
fn strict_names_are_strict_here_too() {
    let dir = folder("http3-strict");
    tls_site::certificate(&dir, "site", "localhost");
    let configuration =
        tls_site::configuration("", "").replace("[\"localhost\", \"*\"]", "[\"localhost\"]");
    let saker = operate::start_in(
        dir,
        &configuration.replace("tls = true", "tls = true\nstrict_sni = true"),
    );
    let mut stranger = Client::default();
    stranger.name = "nobody.test".into();
    let lost = stranger
        .begin(&saker.server.address().to_string())
        .until_lost();
    // unrecognized_name (RFC 8446 section 6).
    assert!(
        matches!(lost, Lost::AbortedByPeer { code: 0x170, .. }),
        "{lost:?}"
    );
    assert_eq!(connect(&saker).get("/index.html").status, 200);
}

/// Recordings of a connection are JSON text sequences (RFC 7464) of its events.
#[test]
fn connections_are_recorded_where_that_is_wanted() {
    let dir = folder("http3-qlog");
    dir.write("www/large.bin", pattern(LARGE_BYTES)).unwrap();
    tls_site::certificate(&dir, "site", "localhost");
    let configuration = http3_client::site::configuration("", "")
        .replace("tls = true", "tls = true\nhttp3_qlog = \"{dir}/qlog\"");
    let saker = operate::start_in(dir, &configuration);
    let mut client = connect(&saker);
    assert!(client.get("/large.bin").body == pattern(LARGE_BYTES));
    client.close();
    let files = || {
        fs::read_dir(saker.dir.join("qlog"))
            .map(|files| files.map(|file| file.unwrap().path()).collect())
            .unwrap_or_default()
    };
    wait_until("the connection's file is whole", || {
        let files: Vec<std::path::PathBuf> = files();
        files.first().is_some_and(|file| {
            fs::read_to_string(file)
                .unwrap()
                .contains("connection_closed")
        })
    });
    let text = fs::read_to_string(&files()[0]).unwrap();
    let records: Vec<serde_json::Value> = text
        .split_terminator('\n')
        .map(|record| {
            serde_json::from_str(record.strip_prefix('\u{1e}').expect("a record separator"))
                .expect("JSON")
        })
        .collect();
    let (header, events) = records.split_first().unwrap();
    assert_eq!(
        (&header["qlog_format"], &header["qlog_version"]),
        (&"JSON-SEQ".into(), &"0.3".into())
    );
    assert_eq!(header["trace"]["vantage_point"]["type"], "server");
    let of = |name: &str| {
        events
            .iter()
            .filter(|event| event["name"] == name)
            .map(|event| &event["data"])
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("connectivity:connection_started")[0]["src_ip"],
        "127.0.0.1"
    );
    assert_eq!(
        of("connectivity:connection_state_updated")[0]["new"],
        "handshake_complete"
    );
    let sent: u64 = of("transport:datagrams_sent")
        .iter()
        .flat_map(|data| data["raw"].as_array().unwrap())
        .map(|raw| raw["length"].as_u64().unwrap())
        .sum();
    assert!(sent > LARGE_BYTES as u64, "{sent}");
    assert!(!of("transport:datagrams_received").is_empty());
    let windows: Vec<u64> = of("recovery:metrics_updated")
        .iter()
        .filter_map(|data| data["congestion_window"].as_u64())
        .collect();
    assert!(windows.iter().max() > windows.first(), "{windows:?}");
    let closed = of("connectivity:connection_closed");
    assert!(
        closed.len() == 1
            && closed[0]["owner"] == "remote"
            && closed[0]["trigger"] == "application",
        "{closed:?}"
    );
    let times: Vec<f64> = events
        .iter()
        .map(|event| event["time"].as_f64().unwrap())
        .collect();
    assert!(
        times.is_sorted() && times[0] > 1.6e12,
        "milliseconds since 1970"
    );
}

#[test]
fn a_reload_cuts_no_connection() {
    let saker = start("", "");
    let mut client = connect(&saker);
    assert_eq!(client.get("/folder/page.html").field("x-new"), None);
    operate::rewrite(
        &saker,
        &http3_client::site::configuration("", "headers = { X-New = \"1\" }"),
    );
    let said = operate::reload(&saker);
    assert!(said.status.success(), "{}", operate::stderr(&said));
    assert_eq!(client.get("/folder/page.html").field("x-new"), Some("1"));
    assert_eq!(
        connect(&saker).get("/folder/page.html").field("x-new"),
        Some("1")
    );
}

#[test]
fn streams_share_a_bandwidth() {
    let saker = start(
        "",
        "[site.throttle]\nout_per_connection = { rate = \"500kB/s\", burst = \"20kB\" }",
    );
    let mut client = connect(&saker);
    let began = Instant::now();
    let streams: Vec<u64> = (0..30)
        .map(|_| client.open("GET", "/small.bin", &[], true))
        .collect();
    for stream in streams {
        assert!(
            client.response(stream).body == pattern(20_000),
            "another body"
        );
    }
    let took = began.elapsed();
    assert!(
        took > Duration::from_millis(1_000) && took < Duration::from_secs(12),
        "{took:?}"
    );
}

/// RFC 9220: a WebSocket as a stream beside others.
#[test]
fn streams_become_websockets() {
    let saker = start(
        "",
        &PROXY.replace(
            "{backend}",
            &format!("http://{}", http3_client::site::websockets()),
        ),
    );
    let mut client = connect(&saker);
    client.until(|peer| peer.allows_tunnels());
    let pseudo = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/app/socket"),
    ];
    let stream = client.open_with(&pseudo, &[("sec-websocket-version", "13")], false);
    client.until(|peer| peer.responses[&stream].status != 0);
    assert_eq!(client.peer().responses[&stream].status, 200);
    let mut sent = Vec::new();
    for round in 0..20 {
        let message = vec![round; 1 + usize::from(round) * 5000];
        client.send(stream, &message, false);
        sent.extend(message);
        client.until(|peer| peer.responses[&stream].body.len() == sent.len());
    }
    assert_eq!(client.get("/folder/page.html").status, 200);
    client.send(stream, b"", true);
    let got = client.response(stream);
    assert!(got.ended && got.body == sent, "{:?}", got.reset);
    // Who knows nothing of WebSockets has not understood.
    let pseudo = [
        pseudo[0],
        pseudo[1],
        pseudo[2],
        pseudo[3],
        (":path", "/folder/page.html"),
    ];
    let stream = client.open_with(&pseudo, &[("sec-websocket-version", "13")], false);
    assert_eq!(client.response(stream).status, 501);
}

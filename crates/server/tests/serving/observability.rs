//! Observability of a running server: access logs with conditions, masks, and rotation;
//! metrics over TCP; traces; and copies of requests for mirrors.
//!
//! Called by: `cargo test -p saker --test serving observability::`.
//! Caveat: lines, spans, and copies come a moment after the response, so tests poll for them.
//! Out of scope: formats of lines, encodings of spans, and parsing, which unit tests cover.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate::{self, configuration, folder, start_in};
use saker_testkit::{Client, PATIENCE, Saker, require, saker::adjustable_clock, wait_until_or};
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Head and content of a request.
type Received = (String, Vec<u8>);

/// A server that answers 200 to everything, and keeps what it was asked.
struct Recorder {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Received>>>,
    /// Takes requests, and answers none.
    is_silent: Arc<AtomicBool>,
}

impl Recorder {
    fn start() -> Recorder {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let recorder = Recorder {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            is_silent: Arc::default(),
        };
        let (requests, is_silent) = (
            Arc::clone(&recorder.requests),
            Arc::clone(&recorder.is_silent),
        );
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (requests, is_silent) = (Arc::clone(&requests), Arc::clone(&is_silent));
                thread::spawn(move || answer(stream, &requests, &is_silent));
            }
        });
        recorder
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn heads(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|(head, _)| head.clone()).collect()
    }

    fn wait_for(&self, count: usize) -> Vec<(String, Vec<u8>)> {
        wait_until_or(
            || self.requests.lock().unwrap().len() >= count,
            || format!("{count} requests; there are {:?}", self.heads()),
        );
        self.requests.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, requests: &Mutex<Vec<(String, Vec<u8>)>>, is_silent: &AtomicBool) {
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            let mut piece = [0; 4096];
            match stream.read(&mut piece) {
                Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
                _ => return,
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        while bytes.len() < end + length {
            let mut piece = [0; 4096];
            match stream.read(&mut piece) {
                Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
                _ => return,
            }
        }
        let body = bytes[end..end + length].to_vec();
        bytes.drain(..end + length);
        requests.lock().unwrap().push((head, body));
        if is_silent.load(Ordering::SeqCst) {
            continue;
        }
        let response =
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: max-age=60\r\n\r\nok";
        if stream.write_all(response).is_err() {
            return;
        }
    }
}

fn field(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known
            .eq_ignore_ascii_case(name)
            .then(|| value.trim().to_owned())
    })
}

fn get(saker: &Saker, target: &str, fields: &str) -> saker_testkit::Response {
    let mut client = saker.connect().unwrap();
    client
        .send(format!(
            "GET {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"
        ))
        .unwrap();
    client.read_response().unwrap()
}

fn log_lines(saker: &Saker, name: &str, count: usize) -> Vec<String> {
    let path = saker.dir.join(name);
    wait_until_or(
        || path.exists() && operate::lines(&path).len() >= count,
        || format!("{count} lines in {name}"),
    );
    operate::lines(&path)
}

#[test]
fn logs_have_conditions_and_masks() {
    let saker = start_in(
        folder("log-conditions"),
        &configuration(
            "workers = 1",
            r#"access_log = [
  { path = "{dir}/some.log", format = "%r", when = "seen", unless = { header = { X-Quiet = true } } },
  { path = "{dir}/masked.log", format = "%a %q %{Cookie}i", mask = ["query:tok*", "cookie:*", "client"] },
  { path = "{dir}/phones.log", format = "%r", when = { variable = { device = "phone" } } },
]
[map.device]
source = "$http_user_agent"
regex = { "Android|iPhone" = "phone" }
[site.matcher.seen]
path = "/index.html"
query = { a = true }
"#,
        ),
    );
    for (target, fields) in [
        ("/index.html?a=1", ""),
        ("/index.html", "User-Agent: an iPhone\r\n"),
        ("/other?a=2", ""),
        ("/index.html?a=3", "X-Quiet: 1\r\n"),
        ("/%69ndex.html?%61=4", ""),
        ("/index.html?a&token=secret", "Cookie: s=secret\r\n"),
    ] {
        get(&saker, target, fields);
    }
    let masked = log_lines(&saker, "masked.log", 6);
    let phones = log_lines(&saker, "phones.log", 1);
    assert_eq!(phones, ["GET /index.html HTTP/1.1"]);
    assert_eq!(masked[5], "127.0.0.0 ?a&token=*** s=***");
    let some = log_lines(&saker, "some.log", 3);
    assert_eq!(
        some,
        [
            "GET /index.html?a=1 HTTP/1.1",
            "GET /%69ndex.html?%61=4 HTTP/1.1",
            "GET /index.html?a&token=secret HTTP/1.1"
        ]
    );
}

#[test]
fn routes_have_logs_of_their_own() {
    let saker = start_in(
        folder("log-routes"),
        &configuration(
            "workers = 1",
            r#"access_log = { path = "{dir}/site.log", format = "%r" }
error_pages = { 404 = "@missing" }
route = [
  { path = "/health", respond = "well", access_log = "off" },
  { path = "/health.html", access_log = "off" },
  { path = ["/api/*", "/v2/*"], respond = "api", access_log = [{ path = "{dir}/api.log", format = "%r" }, { path = "{dir}/posts.log", format = "%r", when = "post" }], route = [
    { path = "/api/inner", respond = "inner" },
    { path = "/api/quiet", respond = "quiet", access_log = "off" },
    { path = "/api/moved", rewrite = "/elsewhere" },
    { path = "/api/site", respond = "site", access_log = { path = "{dir}/site.log", format = "%r of a route" } } ] },
  { name = "missing", respond = "nothing", access_log = { path = "{dir}/missing.log", format = "%r" } },
  { path = "/last", respond = "last" }]
[site.matcher.post]
method = "POST"
"#,
        ),
    );
    saker.dir.write("www/health.html", "well").unwrap();
    // Each twice: the second comes from the cached route where there is one.
    let targets = [
        "/health",
        "/health.html",
        "/api/x",
        "/v2/x",
        "/api/inner",
        "/api/quiet",
        "/api/moved",
        "/api/site",
        "/missing",
        "/index.html",
        "/last",
    ];
    for target in targets.iter().flat_map(|target| [target, target]) {
        get(&saker, target, "");
    }
    let twice = |lines: &[&str]| -> Vec<String> {
        lines
            .iter()
            .flat_map(|line| [line, line])
            .map(|line| format!("GET {line}"))
            .collect()
    };
    // No route answers `/elsewhere`; the page of an error is no request of its own.
    let expected = twice(&[
        "/api/moved HTTP/1.1",
        "/api/site HTTP/1.1 of a route",
        "/missing HTTP/1.1",
        "/index.html HTTP/1.1",
        "/last HTTP/1.1",
    ]);
    assert_eq!(log_lines(&saker, "site.log", 10), expected);
    let expected = twice(&["/api/x HTTP/1.1", "/v2/x HTTP/1.1", "/api/inner HTTP/1.1"]);
    assert_eq!(log_lines(&saker, "api.log", 6), expected);
    for empty in ["posts.log", "missing.log"] {
        assert!(operate::lines(&saker.dir.join(empty)).is_empty(), "{empty}");
    }
}

/// Lines of a log and of its renamed files, compressed ones included.
fn all_lines(saker: &Saker, name: &str) -> Vec<String> {
    let mut text = String::new();
    for entry in fs::read_dir(&*saker.dir).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        if !file.starts_with(name) || file.ends_with(".tmp") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        match file.ends_with(".gz") {
            true => {
                let mut decoder = flate2::read::GzDecoder::new(&*bytes);
                decoder.read_to_string(&mut text).unwrap();
            }
            false => text.push_str(&String::from_utf8(bytes).unwrap()),
        }
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn rotated_logs_lose_no_line_of_any_worker() {
    let saker = start_in(
        folder("log-rotation"),
        &configuration(
            "workers = 2",
            r#"access_log = { path = "{dir}/a.log", format = "%{X-Number}i end", rotate = { size = "4KiB", keep = 1000, compress = true } }"#,
        ),
    );
    let (clients, each) = (4, 200);
    thread::scope(|scope| {
        for client in 0..clients {
            let saker = &saker;
            scope.spawn(move || {
                for number in 0..each {
                    get(saker, "/", &format!("X-Number: {client}-{number}\r\n"));
                    if number % 50 == 0 {
                        // Reopening in between changes nothing.
                        operate::saker([
                            "reopen-logs",
                            "--state-dir",
                            &saker.dir.join("state").to_string_lossy(),
                        ]);
                    }
                }
            });
        }
    });
    let count = clients * each;
    let has_all = || {
        let renamed = fs::read_dir(&*saker.dir).unwrap().flatten();
        let names: Vec<String> = renamed
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with("a.log."))
            .collect();
        !names.is_empty()
            && names.iter().all(|name| name.ends_with(".gz"))
            && all_lines(&saker, "a.log").len() >= count
    };
    wait_until_or(has_all, || {
        format!("{} of {count} lines", all_lines(&saker, "a.log").len())
    });
    let mut lines = all_lines(&saker, "a.log");
    lines.sort();
    let mut expected: Vec<String> = (0..clients)
        .flat_map(|client| (0..each).map(move |number| format!("{client}-{number} end")))
        .collect();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn old_logs_are_rotated_and_few_are_kept() {
    let dir = folder("log-age");
    adjustable_clock(&dir).unwrap();
    let saker = start_in(
        dir,
        &configuration(
            "workers = 1",
            r#"access_log = { path = "{dir}/a.log", format = "%U", rotate = { age = "1h", keep = 2 } }"#,
        ),
    );
    for number in 0..5 {
        get(&saker, &format!("/{number}"), "");
        let path = saker.dir.join("a.log");
        wait_until_or(
            || path.exists() && operate::lines(&path) == [format!("/{number}")],
            || format!("the line of request {number}"),
        );
        saker.advance_clock(3600).unwrap();
    }
    let renamed = || -> Vec<String> {
        let mut lines = all_lines(&saker, "a.log.");
        lines.sort();
        lines
    };
    wait_until_or(|| renamed() == ["/2", "/3"], || format!("{:?}", renamed()));
}

#[test]
fn copies_go_to_a_mirror_and_change_nothing() {
    let (app, mirror) = (Recorder::start(), Recorder::start());
    let saker = start_in(
        folder("mirror"),
        &configuration(
            "workers = 1",
            &format!(
                r#"[[site.route]]
path = "/none/*"
proxy = "{app}"
mirror = {{ to = "{mirror}", sample = 0 }}

[[site.route]]
path = "/bare/*"
proxy = "{app}"
mirror = {{ to = "{mirror}", body = false }}

[[site.route]]
path = "/dead/*"
proxy = "{app}"
mirror = "http://127.0.0.1:9"

[[site.route]]
path = "/brief/*"
proxy = "{app}"
mirror = {{ to = "{mirror}", timeout = "50ms" }}

[[site.route]]
path = "/*"
proxy = "{app}"
mirror = {{ to = "{mirror}", timeout = "1h" }}
"#,
                app = app.url(),
                mirror = mirror.url()
            ),
        ),
    );
    let post = |target: &str, body: &str| {
        let mut client = saker.connect().unwrap();
        client
            .send(format!(
                "POST {target} HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ))
            .unwrap();
        client.read_response().unwrap()
    };
    assert_eq!(get(&saker, "/x?y=1", "X-A: 1\r\n").text(), "ok");
    assert_eq!(post("/p", "content").text(), "ok");
    assert_eq!(post("/bare/p", "content").text(), "ok");
    assert_eq!(get(&saker, "/none/x", "").text(), "ok");
    assert_eq!(get(&saker, "/dead/x", "").text(), "ok");
    let mut copies = mirror.wait_for(3);
    copies.sort();
    assert_eq!(copies.len(), 3, "{copies:?}");
    assert!(
        copies[0].0.starts_with("GET /x?y=1 HTTP/1.1\r\n"),
        "{copies:?}"
    );
    assert_eq!(field(&copies[0].0, "x-a").as_deref(), Some("1"));
    assert!(copies[1].0.starts_with("POST /bare/p HTTP/1.1\r\n"));
    assert_eq!(copies[1].1, b"");
    assert!(copies[2].0.starts_with("POST /p HTTP/1.1\r\n"));
    assert_eq!(copies[2].1, b"content");
    // A mirror that does not answer, and content that is too long for a copy.
    mirror.is_silent.store(true, Ordering::SeqCst);
    assert_eq!(get(&saker, "/silent", "").text(), "ok");
    let long = "x".repeat((1 << 20) + 1);
    assert_eq!(post("/long", &long).text(), "ok");
    assert_eq!(get(&saker, "/brief/x", "").text(), "ok");
    mirror.wait_for(5);
    let counted = |result: &str| {
        let metrics = operate::saker([
            "status",
            "--prometheus",
            "--state-dir",
            &saker.dir.join("state").to_string_lossy(),
        ]);
        let text = operate::stdout(&metrics);
        let line = format!("saker_mirror_requests_total{{result=\"{result}\"}} ");
        text.lines()
            .find_map(|known| known.strip_prefix(&line)?.parse::<u64>().ok())
            .unwrap_or(u64::MAX)
    };
    wait_until_or(
        // Those of the dead mirror, and of the copy whose time is short.
        || (counted("answered"), counted("failed"), counted("dropped")) == (3, 2, 1),
        || {
            format!(
                "{} {} {}",
                counted("answered"),
                counted("failed"),
                counted("dropped")
            )
        },
    );
}

/// The address of the metrics endpoint, from the error log: the kernel chooses the port.
fn metrics_address(saker: &Saker) -> SocketAddr {
    let find = || {
        saker.server.stderr().lines().find_map(|line| {
            let address = line.strip_suffix(" (metrics)")?.rsplit(' ').next()?;
            address.parse().ok()
        })
    };
    wait_until_or(|| find().is_some(), || saker.server.stderr());
    find().unwrap()
}

fn scrape(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn metrics_are_for_those_who_may_read_them() {
    for (allow, latencies, status) in [
        ("[\"127.0.0.0/8\"]", false, "200"),
        ("[\"192.0.2.0/24\"]", true, "403"),
    ] {
        let top = format!(
            "[metrics]\naddress = \"127.0.0.1:0\"\nallow = {allow}\nlatencies = {latencies}\n\n"
        );
        let text = format!("{top}{}", configuration("workers = 1", ""));
        let saker = start_in(folder("metrics-allow"), &text);
        get(&saker, "/index.html", "");
        let address = metrics_address(&saker);
        let answer = scrape(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        let has_requests = answer.contains("\nsaker_requests_total{protocol=\"http1\"} 1\n");
        assert_eq!(has_requests, status == "200", "{answer}");
        // No histograms where they are not wanted, nor for others.
        assert!(
            !answer.contains("saker_request_duration_seconds_count{"),
            "{answer}"
        );
    }
}

#[test]
fn metrics_over_tcp() {
    let top = "[metrics]\naddress = \"127.0.0.1:0\"\n\n";
    let site = "[[site.route]]\nname = \"img\"\npath = \"/img/*\"\nrespond = \"x\"\n";
    let text = format!("{top}{}", configuration("workers = 2", site));
    let saker = start_in(folder("metrics"), &text);
    let address = metrics_address(&saker);
    for _ in 0..3 {
        get(&saker, "/img/a", "");
        get(&saker, "/index.html", "");
    }
    let plain = || scrape(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(plain().starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
    let lines = [
        "saker_requests_total{protocol=\"http1\"} 6",
        "saker_request_duration_seconds_count{site=\"*\",route=\"img\"} 3",
        "saker_request_duration_seconds_count{site=\"*\",route=\"\"} 3",
    ];
    // A client has its response before the request is counted.
    let are_counted = || {
        let whole = plain();
        let has = |line: &str| whole.lines().any(|own| own == line);
        lines.into_iter().all(has)
    };
    wait_until_or(are_counted, plain);
    let open = scrape(
        address,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n",
    );
    assert!(
        open.contains("# TYPE saker_requests counter\n") && open.ends_with("# EOF\n"),
        "{open}"
    );
    let head = scrape(address, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        ("GET /metrics HTTP/1.1\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
    ] {
        let answer = scrape(address, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
    }
    // The sites' listeners do not serve it.
    assert_eq!(get(&saker, "/metrics", "").status, 404);
    // Idle clients do not keep others out for long: they are bounded, and cut off.
    let idle: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let is_served =
        || scrape(address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 200 ");
    wait_until_or(is_served, || "metrics beside idle clients".into());
    drop(idle);
    // A reload moves it, and refuses an address that can't be had.
    let denied = text.replace("127.0.0.1:0\"", "127.0.0.1:0\"\nallow = [\"192.0.2.0/24\"]");
    operate::rewrite(&saker, &denied);
    assert!(operate::reload(&saker).status.success());
    let answer = scrape(address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    operate::rewrite(&saker, &text.replace("127.0.0.1:0\"", "192.0.2.1:9145\""));
    let refused = operate::reload(&saker);
    assert!(!refused.status.success());
    assert!(
        operate::stderr(&refused).contains("[metrics]"),
        "{refused:?}"
    );
}

/// Spans as `name kind trace parent` by OpenTelemetry's own bindings, if Python has them.
const DECODE: &str = r#"
import sys
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
request = ExportTraceServiceRequest()
request.ParseFromString(sys.stdin.buffer.read())
for resource in request.resource_spans:
    service = [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"][0]
    for scope in resource.scope_spans:
        for span in scope.spans:
            assert span.start_time_unix_nano <= span.end_time_unix_nano
            status = [a.value.int_value for a in span.attributes if a.key == "http.response.status_code"]
            print(service, span.name.replace(" ", "_"), span.kind, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex() or "-", status[0])
"#;

fn decode(body: &[u8]) -> Option<String> {
    let mut python = Command::new(require("python3").ok()?)
        .args(["-c", DECODE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    python.stdin.take()?.write_all(body).ok()?;
    let output = python.wait_with_output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("ModuleNotFoundError") {
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn traces_reach_a_collector() {
    let (app, collector) = (Recorder::start(), Recorder::start());
    let top = format!(
        "[tracing]\nendpoint = \"{}\"\nservice = \"shop\"\ntrust = \"all\"\ntimeout = \"20s\"\nheaders = {{ X-Key = \"k\" }}\n\n",
        collector.url()
    );
    let site = format!(
        "[[site.route]]\nname = \"app\"\npath = \"/app/*\"\nproxy = \"{}\"\n",
        app.url()
    );
    let text = format!("{top}{}", configuration("workers = 1", &site));
    let saker = start_in(folder("traces"), &text);
    let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let good = format!("traceparent: 00-{trace}-{parent}-01\r\ntracestate: a=1\r\n");
    get(&saker, "/app/x", &good);
    let heads = app.wait_for(1);
    let sent = field(&heads[0].0, "traceparent").unwrap();
    assert!(
        sent.starts_with(&format!("00-{trace}-")) && sent.ends_with("-01"),
        "{sent}"
    );
    assert!(
        !sent.contains(parent),
        "the upstream's parent is our span: {sent}"
    );
    assert_eq!(field(&heads[0].0, "tracestate").as_deref(), Some("a=1"));
    // Invalid ones are replaced, and nothing of them goes on.
    get(
        &saker,
        "/app/y",
        &format!("traceparent: 00-{trace}-{parent}-01-x\r\ntracestate: A=1\r\n"),
    );
    let heads = app.wait_for(2);
    let sent = field(&heads[1].0, "traceparent").unwrap();
    assert!(sent.len() == 55 && !sent.contains(trace), "{sent}");
    assert_eq!(field(&heads[1].0, "tracestate"), None);
    // Answered from the route cache.
    for _ in 0..3 {
        get(&saker, "/index.html", &good);
    }
    let spans = || -> Option<Vec<String>> {
        let requests = collector.requests.lock().unwrap().clone();
        let mut all = Vec::new();
        for (_, body) in &requests {
            all.extend(decode(body)?.lines().map(str::to_owned));
        }
        Some(all)
    };
    let requests = collector.wait_for(1);
    assert!(
        requests[0].0.starts_with("POST /v1/traces HTTP/1.1\r\n"),
        "{requests:?}"
    );
    assert_eq!(
        field(&requests[0].0, "content-type").as_deref(),
        Some("application/x-protobuf")
    );
    assert_eq!(field(&requests[0].0, "x-key").as_deref(), Some("k"));
    if spans().is_none() {
        // Without OpenTelemetry's bindings: names and ids are in the bytes.
        let has = |text: &[u8]| {
            let requests = collector.requests.lock().unwrap();
            requests
                .iter()
                .any(|(_, body)| body.windows(text.len()).any(|window| window == text))
        };
        wait_until_or(|| has(b"GET app") && has(b"upstream"), || "spans".into());
        return;
    }
    let count = || spans().unwrap_or_default().len();
    wait_until_or(|| count() >= 7, || format!("{:?}", spans()));
    let spans = spans().unwrap();
    assert_eq!(spans.len(), 7, "{spans:?}");
    let of_trace: Vec<Vec<&str>> = spans
        .iter()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|span| span[3] == trace)
        .collect();
    assert_eq!(of_trace.len(), 5, "{spans:?}");
    let request = of_trace.iter().find(|span| span[1] == "GET_app").unwrap();
    assert_eq!(
        (request[0], request[2], request[5], request[6]),
        ("shop", "2", parent, "200")
    );
    let upstream = of_trace.iter().find(|span| span[1] == "upstream").unwrap();
    assert_eq!((upstream[2], upstream[5]), ("3", request[4]));
    let sent = field(&heads[0].0, "traceparent").unwrap();
    assert!(sent.contains(upstream[4]), "{sent} {upstream:?}");
    let mut ids: Vec<&str> = of_trace.iter().map(|span| span[4]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(
        ids.len(),
        5,
        "spans of cached routes are their own: {spans:?}"
    );
}

#[test]
fn a_dead_collector_costs_nothing_but_spans() {
    let top = "[tracing]\nendpoint = \"http://127.0.0.1:9\"\n\n";
    let text = format!("{top}{}", configuration("workers = 1", ""));
    let saker = start_in(folder("dead-collector"), &text);
    let mut client = Client::connect(saker.server.address()).unwrap();
    for _ in 0..100 {
        assert_eq!(client.get("/index.html").unwrap().status, 200);
    }
    saker
        .server
        .wait_for_stderr("SK0951", Duration::from_secs(60))
        .unwrap();
    assert_eq!(client.get("/index.html").unwrap().status, 200);
}

#[test]
fn untrusted_clients_do_not_choose_traces() {
    let (app, collector) = (Recorder::start(), Recorder::start());
    let top = format!(
        "[tracing]\nendpoint = \"{}\"\nsample = 0\n\n",
        collector.url()
    );
    let site = format!("[[site.route]]\npath = \"/*\"\nproxy = \"{}\"\n", app.url());
    let text = format!("{top}{}", configuration("workers = 1", &site));
    let saker = start_in(folder("untrusted-traces"), &text);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    get(
        &saker,
        "/x",
        &format!("traceparent: 00-{trace}-b7ad6b7169203331-01\r\n"),
    );
    let heads = app.wait_for(1);
    let sent = field(&heads[0].0, "traceparent").unwrap();
    assert!(!sent.contains(trace) && sent.ends_with("-00"), "{sent}");
    assert!(collector.heads().is_empty());
}

/// A collector that does not answer is given up after its time; the later one has all the time of a day.
#[test]
fn a_silent_collector_has_its_time() {
    let collector = Recorder::start();
    collector.is_silent.store(true, Ordering::SeqCst);
    let start = |name: &str, time: &str| {
        let top = format!(
            "[tracing]\nendpoint = \"{}\"\nservice = \"{name}\"\ntimeout = \"{time}\"\n\n",
            collector.url()
        );
        let text = format!("{top}{}", configuration("workers = 1", ""));
        let saker = start_in(folder(name), &text);
        get(&saker, "/index.html", "");
        saker
    };
    // The patient one begins to wait before the other one.
    let patient = start("trace-patient", "1m");
    collector.wait_for(1);
    let hasty = start("trace-hasty", "100ms");
    collector.wait_for(2);
    let given_up = "the collector does not answer in time";
    hasty.server.wait_for_stderr(given_up, PATIENCE).unwrap();
    assert!(!patient.server.stderr().contains(given_up));
}

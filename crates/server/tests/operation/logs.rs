//! Access and error logs as the server writes them: every field, every line, whatever happens to
//! the disk or comes from a client.

use crate::operate;
use crate::operate::{Load, PATIENCE, configuration, folder, lines, saker, start};
use saker_testkit::{Client, Saker, TempDir};
use serde_json::Value;
use std::{fs, io::Read, net::SocketAddr, path::Path, process::Command};

/// Stops the server and returns its folder, whose logs are complete then.
fn finished(saker: Saker) -> TempDir {
    let Saker { server, dir } = saker;
    assert!(server.stop().expect("stopped").success());
    dir
}

/// The one response to bytes after which the server closes.
fn exchange(saker: &Saker, request: &str) -> Vec<u8> {
    let mut client = saker.connect().expect("connected");
    client.send(request).expect("sent");
    client.read_to_close(PATIENCE).expect("closed")
}

#[test]
fn every_field_of_the_usual_formats() {
    let site = "access_log = [{ path = \"common\", format = \"common\" }, { path = \"combined\", format = \"combined\" }, \
                { path = \"vhost\", format = \"vhost_combined\" }, { path = \"json\", format = \"json\" }]";
    let configuration = configuration("workers = 1", site)
        .replace("names = [\"*\"]", "names = [\"www.example\", \"*\"]");
    let saker = start("logs-formats", &configuration);
    let port = saker.server.address().port();
    let request = "GET /?a=1 HTTP/1.1\r\nHost: www.example\r\nReferer: http://r.example/x\r\nUser-Agent: Test/1 (a \"b\")\r\nConnection: close\r\n\r\n";
    // The second is answered from the resolved resource, the third has no content, the fourth no
    // file, the fifth no right method.
    let responses = [
        exchange(&saker, request),
        exchange(&saker, request),
        exchange(&saker, &request.replacen("GET", "HEAD", 1)),
        exchange(&saker, &request.replacen("/?a=1", "/none", 1)),
        exchange(&saker, &request.replacen("GET", "PUT", 1)),
    ];
    let dir = finished(saker);
    let body = |at: usize| {
        responses[at].len()
            - responses[at]
                .windows(4)
                .position(|end| end == b"\r\n\r\n")
                .expect("a head")
            - 4
    };
    let expected = [
        ("GET /?a=1 HTTP/1.1", "200", "13".to_owned()),
        ("GET /?a=1 HTTP/1.1", "200", "13".to_owned()),
        ("HEAD /?a=1 HTTP/1.1", "200", "-".to_owned()),
        ("GET /none HTTP/1.1", "404", body(3).to_string()),
        ("PUT /?a=1 HTTP/1.1", "405", body(4).to_string()),
    ];
    let (common, combined, vhost, json) = (
        lines(&dir.join("common")),
        lines(&dir.join("combined")),
        lines(&dir.join("vhost")),
        lines(&dir.join("json")),
    );
    assert_eq!(
        [common.len(), combined.len(), vhost.len(), json.len()],
        [5; 4]
    );
    for (at, (request, status, bytes)) in expected.iter().enumerate() {
        let (start, rest) = common[at].split_once(" [").expect("a time");
        let (time, rest) = rest.split_once("] ").expect("its end");
        assert_eq!(start, "127.0.0.1 - -");
        assert!(
            time.len() == 26 && time.as_bytes()[2] == b'/' && time.as_bytes()[11] == b':',
            "{time}"
        );
        assert_eq!(rest, format!("\"{request}\" {status} {bytes}"));
        assert_eq!(
            combined[at],
            format!(
                "{} \"http://r.example/x\" \"Test/1 (a \\\"b\\\")\"",
                common[at]
            )
        );
        assert!(
            vhost[at].starts_with(&format!("www.example:{port} 127.0.0.1 - - [")),
            "{}",
            vhost[at]
        );
        check_json(&json[at], request, status, bytes, responses[at].len());
    }
}

fn check_json(line: &str, request: &str, status: &str, bytes: &str, bytes_out: usize) {
    let object: Value = serde_json::from_str(line).expect(line);
    let words: Vec<&str> = request.split(' ').collect();
    let texts = [
        ("client", "127.0.0.1"),
        ("site", "www.example"),
        ("host", "www.example"),
        ("method", words[0]),
        ("protocol", "HTTP/1.1"),
        ("referer", "http://r.example/x"),
        ("user_agent", "Test/1 (a \"b\")"),
        ("connection", "close"),
    ];
    for (name, text) in texts {
        assert_eq!(object[name], text, "{name} in {line}");
    }
    assert_eq!(object["status"].to_string(), status, "{line}");
    assert_eq!(
        object["bytes"].to_string(),
        bytes.replace('-', "0"),
        "{line}"
    );
    assert_eq!(object["bytes_out"], bytes_out, "{line}");
    assert!(
        object["bytes_in"].as_u64() > Some(100) && object["duration_ms"].as_f64().is_some(),
        "{line}"
    );
}

#[test]
fn every_field_of_a_format_of_ones_own() {
    let format =
        "%h|%v|%m|%U|%q|%>s|%b|%B|%D|%{Host}i|%{X-None}i|%{Content-Type}o|%X|%H|%p|%k|%I|%O|%%";
    let saker = start(
        "logs-custom",
        &configuration(
            "workers = 1",
            &format!("access_log = {{ path = \"log\", format = '{format}' }}"),
        ),
    );
    let port = saker.server.address().port();
    let mut client = saker.connect().expect("connected");
    let request = "GET /a%20b?x=y HTTP/1.1\r\nHost: Some.Name:1\r\n\r\n";
    saker.dir.write("www/a b", "hello").expect("written");
    let mut sizes = Vec::new();
    for _ in 0..2 {
        client.send(request).expect("sent");
        let response = client.read_response().expect("answered");
        let fields: usize = response
            .fields
            .iter()
            .map(|(name, value)| name.len() + value.len() + 4)
            .sum();
        sizes.push("HTTP/1.1 200 OK\r\n\r\n".len() + fields + response.body.len());
    }
    client.send("POST /a%20b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\n12345").expect("sent");
    client.read_to_close(PATIENCE).expect("closed");
    let dir = finished(saker);
    let logged = lines(&dir.join("log"));
    assert_eq!(logged.len(), 3);
    for (at, size) in sizes.iter().enumerate() {
        let mut fields: Vec<&str> = logged[at].split('|').collect();
        let took: u64 = fields.remove(8).parse().expect("microseconds");
        assert!(took < 60_000_000, "{took}");
        let (port, count, bytes_in, bytes_out) = (
            port.to_string(),
            at.to_string(),
            request.len().to_string(),
            size.to_string(),
        );
        let expected = [
            "127.0.0.1",
            "-",
            "GET",
            "/a b",
            "?x=y",
            "200",
            "5",
            "5",
            "some.name:1",
            "-",
            "application/octet-stream",
            "+",
            "HTTP/1.1",
            &port,
            &count,
            &bytes_in,
            &bytes_out,
            "%",
        ];
        assert_eq!(fields, expected, "line {at}");
    }
    assert!(
        logged[2].contains("|POST|/a b||405|") && logged[2].contains("|-|HTTP/1.1|"),
        "{}",
        logged[2]
    );
}

#[test]
fn what_a_client_sends_cannot_forge_a_line() {
    let saker = start(
        "logs-injection",
        &configuration(
            "workers = 1",
            "access_log = [\"access.log\", { path = \"json\", format = \"json\" }]",
        ),
    );
    let head = "Host: x\r\nUser-Agent: a\"\tb\u{1b}[2J\u{e9}\r\nReferer: \\\"\r\nConnection: close\r\n\r\n";
    let requests = [
        format!("GET /%0a%0d%00\"%22 HTTP/1.1\r\n{head}"),
        format!("GET /\u{1b}[2J\"\\ HTTP/1.1\r\n{head}"),
        "GET / HTTP/1.1\r\nHost: x\r\nX: a\nb\r\n\r\n".into(),
        "\u{0}\u{1}garbage\"\\\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a\rInjected: yes\r\n\r\n".into(),
    ];
    for request in &requests {
        let response = exchange(&saker, request);
        assert!(
            response.starts_with(b"HTTP/1.1 4"),
            "{request:?}: {}",
            String::from_utf8_lossy(&response)
        );
    }
    let dir = finished(saker);
    let raw = fs::read(dir.join("access.log")).expect("a log");
    assert!(
        raw.iter().all(|byte| matches!(byte, b'\n' | b' '..=b'~')),
        "{}",
        String::from_utf8_lossy(&raw)
    );
    let logged = lines(&dir.join("access.log"));
    assert_eq!(logged.len(), requests.len(), "{logged:#?}");
    for line in &logged {
        // With escaped quotes out of the way, exactly three fields are quoted.
        assert_eq!(
            line.replace("\\\\", "")
                .replace("\\\"", "")
                .matches('"')
                .count(),
            6,
            "{line}"
        );
    }
    for line in lines(&dir.join("json")) {
        let object: Value = serde_json::from_str(&line).expect(&line);
        assert!(object["status"].as_u64() >= Some(400), "{line}");
    }
}

#[test]
fn malformed_requests_have_their_line() {
    let saker = start(
        "logs-malformed",
        &configuration(
            "workers = 1\nlog_level = \"info\"",
            "access_log = \"access.log\"",
        ),
    );
    let requests = [
        ("GET / HTTP/1.1\r\n\r\n", "\"GET / HTTP/1.1\" 400 "),
        (
            "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
            "\"GET  / HTTP/1.1\" 400 ",
        ),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "\"GET / HTTP/1.1\" 400 ",
        ),
        (
            "GET / HTTP/9.9\r\nHost: x\r\n\r\n",
            "\"GET / HTTP/9.9\" 505 ",
        ),
    ];
    for (request, _) in requests {
        exchange(&saker, request);
    }
    saker
        .server
        .wait_for_stderr("SK0401", PATIENCE)
        .expect("the error log has them too");
    let dir = finished(saker);
    let logged = lines(&dir.join("access.log"));
    assert_eq!(logged.len(), requests.len(), "{logged:#?}");
    for ((_, expected), line) in requests.iter().zip(&logged) {
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn four_workers_write_whole_lines_and_all_of_them() {
    let saker = start(
        "logs-workers",
        &configuration(
            "workers = 4",
            "access_log = [\"access.log\", { path = \"json\", format = \"json\" }]",
        ),
    );
    let load = Load::start(saker.server.address(), 16, "/", "<p>hello</p>\n");
    operate::wait_until("requests", || {
        load.requests() >= 20_000 || load.has_failed()
    });
    let requests = load.finish().expect("no error");
    let counted = operate::ask(&saker.dir.join("state"), "status").expect("status");
    let dir = finished(saker);
    let logged = lines(&dir.join("access.log"));
    assert_eq!(logged.len() as u64, requests);
    for line in &logged {
        assert!(
            line.starts_with("127.0.0.1 - - [")
                && line.ends_with("] \"GET / HTTP/1.1\" 200 13 \"-\" \"-\""),
            "{line:?}"
        );
    }
    let objects = lines(&dir.join("json"));
    assert_eq!(objects.len() as u64, requests);
    assert!(objects.iter().all(|line| {
        serde_json::from_str::<Value>(line).is_ok_and(|object| object["status"] == 200)
    }));
    assert_eq!(
        counted["counters"]["requests_total{protocol=\"http1\"}"], requests,
        "{counted}"
    );
}

#[test]
fn sites_share_a_log_and_have_their_own() {
    let text = configuration("workers = 2", "access_log = \"shared.log\"")
        + "\n[[site]]\nnames = [\"b.example\"]\nroot = \"{dir}/www\"\naccess_log = [\"shared.log\", \"b.log\"]\n\n[[site]]\nnames = [\"c.example\"]\nroot = \"{dir}/www\"\n";
    let saker = start("logs-shared", &text);
    let mut client = saker.connect().expect("connected");
    for host in ["a.example", "b.example", "b.example", "c.example"] {
        assert_eq!(
            client
                .request("GET", "/", &[("Host", host)])
                .expect("answered")
                .status,
            200
        );
    }
    drop(client);
    let dir = finished(saker);
    assert_eq!(
        (
            lines(&dir.join("shared.log")).len(),
            lines(&dir.join("b.log")).len()
        ),
        (3, 2)
    );
}

#[test]
fn a_log_program_gets_every_line() {
    let site = "access_log = '|sh -c \"echo started >> {dir}/starts; exec cat >> {dir}/lines\"'";
    let saker = start("logs-program", &configuration("workers = 2", site));
    let load = Load::start(saker.server.address(), 4, "/", "<p>hello</p>\n");
    operate::wait_until("requests", || load.requests() >= 5000 || load.has_failed());
    let requests = load.finish().expect("no error");
    let dir = finished(saker);
    operate::wait_until("the program to finish", || {
        lines(&dir.join("lines")).len() as u64 >= requests
    });
    let logged = lines(&dir.join("lines"));
    assert_eq!(logged.len() as u64, requests);
    assert!(
        logged
            .iter()
            .all(|line| line.ends_with("\"GET / HTTP/1.1\" 200 13 \"-\" \"-\"")),
        "a torn line"
    );
    assert_eq!(lines(&dir.join("starts")).len(), 1);
}

#[test]
fn a_log_program_that_cannot_start_keeps_the_server_from_starting() {
    let dir = folder("logs-no-program");
    let text = configuration("", "access_log = \"|/no/such/program\"")
        .replace("{dir}", &dir.to_string_lossy())
        .replace("{address}", "127.0.0.1:0");
    let path = dir.write("saker.toml", text).expect("written");
    let output = saker(["run".as_ref(), "-c".as_ref(), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        operate::stderr(&output).contains("cannot open access log |/no/such/program: "),
        "{}",
        operate::stderr(&output)
    );
}

/// A small file system of its own, for as long as this lives.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Option<SmallDisk<'a>> {
        fs::create_dir_all(at).expect("made");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "saker-test"])
            .arg(at)
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_stops_the_log_and_nothing_else() {
    let dir = folder("logs-full");
    let disk = dir.join("disk");
    let Some(_mounted) = SmallDisk::mount(&disk) else {
        eprintln!("not tested: a small file system can only be mounted by root");
        return;
    };
    let saker = operate::start_in(
        dir,
        &configuration("workers = 2", "access_log = \"disk/access.log\""),
    );
    let log = disk.join("access.log");
    let load = Load::start(saker.server.address(), 4, "/", "<p>hello</p>\n");
    saker
        .server
        .wait_for_stderr("SK0601", PATIENCE)
        .expect("the disk fills up, and the error log says so");
    let before = load.requests();
    operate::wait_until("requests on a full disk", || {
        load.requests() > before + 5000 || load.has_failed()
    });
    // Free space again: half of another file is cut off, at the end of a line.
    assert!(!saker.server.stderr().contains("SK0602"));
    remount(&disk, "8m");
    saker
        .server
        .wait_for_stderr("SK0602", PATIENCE)
        .expect("it goes on");
    let requests = load.finish().expect("requests are answered all the while");
    let state = saker.dir.join("state");
    operate::wait_until("the last batch", || {
        let status = operate::ask(&state, "status").expect("status");
        let count = |name: &str| status["counters"][name].as_u64().unwrap_or(0);
        count("log_lines_written_total") + count("log_lines_dropped_total") == requests
    });
    let dropped =
        operate::ask(&state, "status").expect("status")["counters"]["log_lines_dropped_total"]
            .as_u64()
            .expect("a count");
    let text = saker.server.stderr();
    assert_eq!(
        (
            text.matches("SK0601").count(),
            text.matches("SK0602").count()
        ),
        (1, 1),
        "{text}"
    );
    assert!(
        text.contains(&format!("{dropped} lines were lost")),
        "{dropped}: {text}"
    );
    let logged = lines(&log);
    assert_eq!(logged.len() as u64, requests - dropped);
    for line in &logged {
        assert!(
            line.starts_with("127.0.0.1 - - [")
                && line.ends_with("] \"GET / HTTP/1.1\" 200 13 \"-\" \"-\""),
            "{line:?}"
        );
    }
    drop(saker.server);
}

fn remount(at: &Path, size: &str) {
    let remounted = Command::new("mount")
        .args(["-o", &format!("remount,size={size}")])
        .arg(at)
        .status()
        .expect("mount runs");
    assert!(remounted.success());
}

#[test]
fn the_log_on_standard_output_is_whole() {
    let dir = folder("logs-stdout");
    let address = SocketAddr::from(([127, 0, 0, 1], saker_testkit::free_port().expect("port")));
    let state = dir.join("state").to_string_lossy().into_owned();
    let serve = operate::serve(&["--http", "{address}", "--workers", "1", "--access-log", "-"])
        .arguments(&["--state-dir", &state, "{dir}/www"]);
    let mut child = serve
        .command(&dir, address)
        .expect("written")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let mut client = Client::connect_when_up(address).expect("connected");
    (0..3).for_each(|_| assert_eq!(client.get("/").expect("answered").status, 200));
    // Written at the latest when the server stops.
    drop(client);
    assert!(saker(["stop", "--state-dir", &state]).status.success());
    let mut text = String::new();
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_to_string(&mut text)
        .expect("read");
    child.wait().expect("ended");
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("\"GET / HTTP/1.1\" 200 13 "))
            .count(),
        3,
        "{text}"
    );
}

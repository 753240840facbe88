//! Apache's directives about connections: protocols, PROXY headers, time limits, requests at a
//! time; logs and certificates of TLS.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, Pebble, ServerProcess, TempDir, apache2::load_modules, free_port, require,
    wait_until_or, wait_until_settled,
};
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
    time::{Duration, Instant},
};

const MODULES: &[&str] = &[
    "mpm_event",
    "authz_core",
    "ssl",
    "http2",
    "remoteip",
    "reqtimeout",
    "log_config",
    "rewrite",
    "headers",
    "md",
    "watchdog",
];

struct Server {
    process: ServerProcess,
    dir: TempDir,
    address: SocketAddr,
}

impl Server {
    /// `conf` stands in the server; `{dir}` and `{port}` are filled in.
    fn start(name: &str, dir: TempDir, conf: &str) -> Server {
        dir.write("www/page.txt", "page\n").unwrap();
        let port = free_port().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let text = format!(
            "ServerRoot {{dir}}\nServerName {name}.test\nListen {address}\nDocumentRoot {{dir}}/www\nPidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\n{}{conf}\n",
            load_modules(MODULES)
        );
        let process = operate::apache(&text).workers(2).at(address).start_in(&dir);
        Server {
            process,
            dir,
            address,
        }
    }

    fn new(name: &str, conf: &str) -> Server {
        Server::start(name, TempDir::new(name).unwrap(), conf)
    }

    fn client(&self) -> Client {
        Client::connect(self.address).unwrap()
    }
}

fn curl(arguments: &[&str]) -> Output {
    Command::new(require("curl").unwrap())
        .args(["-sS", "-m", "30", "-o", "/dev/null"])
        .args(arguments)
        .output()
        .unwrap()
}

/// `2` or `1.1`, as curl tells of the version that was spoken; empty where nothing was.
fn version(server: &Server, how: &str) -> String {
    let output = curl(&[
        how,
        "-w",
        "%{http_version}",
        &format!("http://{}/page.txt", server.address),
    ]);
    if output.status.success() {
        String::from_utf8(output.stdout).unwrap()
    } else {
        String::new()
    }
}

#[test]
fn protocols() {
    let server = Server::new("protocols-0", "");
    assert_eq!(
        (
            version(&server, "--http2"),
            version(&server, "--http2-prior-knowledge")
        ),
        ("1.1".into(), String::new()),
        "Apache's default is http/1.1"
    );
    let server = Server::new("protocols-1", "Protocols http/1.1");
    assert_eq!(
        (
            version(&server, "--http2"),
            version(&server, "--http2-prior-knowledge")
        ),
        ("1.1".into(), String::new())
    );
    let server = Server::new("protocols-2", "Protocols h2c http/1.1\nH2Upgrade off");
    assert_eq!(
        (
            version(&server, "--http2"),
            version(&server, "--http2-prior-knowledge")
        ),
        ("1.1".into(), "2".into())
    );
    let server = Server::new("protocols-3", "Protocols h2c http/1.1\nH2Direct off");
    assert_eq!(
        (
            version(&server, "--http2"),
            version(&server, "--http2-prior-knowledge")
        ),
        ("2".into(), String::new())
    );
    // Apache's default; and through a proxy that is believed, nothing by upgrade.
    let server = Server::new("protocols-4", "");
    assert_eq!(
        (
            version(&server, "--http2"),
            version(&server, "--http2-prior-knowledge")
        ),
        ("1.1".into(), String::new())
    );
    let server = Server::new(
        "protocols-5",
        "Protocols h2c http/1.1\nRemoteIPHeader X-Forwarded-For\nRemoteIPTrustedProxy 127.0.0.1",
    );
    assert_eq!(
        (
            version(&server, "--http2"),
            version(&server, "--http2-prior-knowledge")
        ),
        ("1.1".into(), "2".into())
    );
}

#[test]
fn no_upgrade_behind_the_proxy_protocol() {
    let server = Server::new(
        "protocols-preface",
        "Protocols h2c http/1.1\nRemoteIPProxyProtocol On",
    );
    let output = curl(&[
        "--http2",
        "--haproxy-protocol",
        "-w",
        "%{http_version}",
        &format!("http://{}/page.txt", server.address),
    ]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1.1");
}

/// The heads of an answer, without their other lines.
fn heads(server: &Server, how: &str, path: &str) -> String {
    let output = Command::new(require("curl").unwrap())
        .args(["-sS", "-m", "30", "-i", "-o", "-", how])
        .arg(format!("http://{}{path}", server.address))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let is_shown = |line: &&str| {
        ["HTTP/", "link:", "x-hint:"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let lines = text.lines().filter(is_shown).map(str::trim_end);
    lines.collect::<Vec<_>>().join("|")
}

/// Variables of mod_http2 for programs: each request has its stream, and streams their connection.
#[test]
fn programs_know_their_stream() {
    let dir = TempDir::new("http2-variables").unwrap();
    let program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s\\n' \
        \"$HTTP2,$H2PUSH,$H2_PUSH,$H2_STREAM_ID,$H2_STREAM_TAG\"\n";
    let path = dir.write("www/bin/show", program).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    let conf = format!(
        "{}Protocols h2c http/1.1\nScriptSock {{dir}}/cgisock\nScriptAlias /bin/ {{dir}}/www/bin/\n",
        load_modules(&["alias", "cgid"])
    );
    let server = Server::start("http2-variables", dir, &conf);
    let url = |at: u32| format!("http://{}/bin/show?{at}", server.address);
    let shown = |program: &str| {
        let output = Command::new(require(program).unwrap())
            .args([url(1), url(2)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // curl speaks HTTP/1.1.
    assert_eq!(shown("curl"), ",,,,\n,,,,\n");
    let connection = || {
        let text = shown("nghttp");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        let of = |line: &[&str]| {
            assert_eq!(line[..3], ["on", "off", "off"], "{text}");
            let (connection, stream) = line[4].split_once('-').unwrap();
            assert_eq!(stream, line[3], "{text}");
            let number: u32 = stream.parse().unwrap();
            assert_eq!(number % 2, 1, "a client's stream: {text}");
            (connection.to_owned(), number)
        };
        let (one, other) = (of(&lines[0]), of(&lines[1]));
        assert_eq!(one.0, other.0, "one connection: {text}");
        assert_ne!(one.1, other.1, "two streams: {text}");
        one.0
    };
    assert_ne!(connection(), connection());
}

/// The same variables in logs, of which no two requests share a line.
#[test]
fn logs_know_the_stream() {
    let log = "LogFormat \"%U %{HTTP2}e %{H2_STREAM_ID}e\" streams\nCustomLog {dir}/streams.log streams\n\
        <Location /denied>\nRequire all denied\n</Location>\n";
    let server = Server::new("http2-logs", &format!("Protocols h2c http/1.1\n{log}"));
    let pages = ["/page.txt?1", "/page.txt?2", "/page.txt?3", "/denied"];
    let urls = pages.map(|page| format!("http://{}{page}", server.address));
    for program in ["nghttp", "curl"] {
        let output = Command::new(require(program).unwrap())
            .args(&urls)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let mut lines = Vec::new();
    wait_until_or(
        || {
            let text = fs::read_to_string(server.dir.join("streams.log")).unwrap_or_default();
            lines = text.lines().map(str::to_owned).collect();
            lines.len() == 8
        },
        || "not eight lines".into(),
    );
    let of_pages = |text: &str| {
        let mut streams: Vec<String> = lines
            .iter()
            .filter_map(|line| line.strip_prefix(&format!("/page.txt {text} ")))
            .map(str::to_owned)
            .collect();
        streams.sort();
        streams
    };
    assert_eq!(of_pages("-"), ["-"; 3], "{lines:?}");
    let mut streams = of_pages("on");
    assert!(
        streams
            .iter()
            .all(|stream| stream.parse::<u32>().is_ok_and(|number| number % 2 == 1)),
        "{lines:?}"
    );
    streams.dedup();
    assert_eq!(streams.len(), 3, "{lines:?}");
    // A request that is refused does not come to the fixups, in which mod_http2 sets them.
    let denied = lines.iter().filter(|line| *line == "/denied - -").count();
    assert_eq!(denied, 2, "{lines:?}");
}

#[test]
fn early_hints() {
    let conf = "Protocols h2c http/1.1\nH2EarlyHints On\nH2EarlyHint X-Hint outer\n\
        <Location /page.txt>\nH2PushResource /a.css critical\nH2PushResource add /b.js\nH2EarlyHint X-Hint inner\n</Location>\n\
        <Location /denied>\nRequire all denied\n</Location>\n\
        RewriteEngine On\nRewriteRule ^/moved$ /page.txt [L]\n";
    let server = Server::new("early-hints", conf);
    let links = "link: </a.css>; rel=preload; critical|link: </b.js>; rel=preload";
    let all = format!("HTTP/2 103|{links}|x-hint: outer|x-hint: inner|HTTP/2 200");
    let http2 = "--http2-prior-knowledge";
    // Twice, so that the second one could come from what is cached.
    for _ in 0..2 {
        assert_eq!(heads(&server, http2, "/page.txt"), all);
    }
    // A location is about the path that the client has sent.
    let moved = "HTTP/2 103|x-hint: outer|HTTP/2 200";
    assert_eq!(heads(&server, http2, "/moved"), moved);
    assert_eq!(heads(&server, "--http1.1", "/page.txt"), "HTTP/1.1 200 OK");
    assert_eq!(heads(&server, http2, "/denied"), "HTTP/2 403");
    let off = Server::new("early-hints-off", &conf.replace("Hints On", "Hints Off"));
    assert_eq!(heads(&off, http2, "/page.txt"), "HTTP/2 200");
}

#[test]
fn requests_over_http2_are_counted_as_by_apache() {
    let conf = "Protocols h2c http/1.1\nMaxKeepAliveRequests 20\nLimitRequestFields 5\n\
        LimitRequestLine 30\n";
    let server = Server::new("http2-counts", conf);
    let connections = |how: &str| {
        let url = format!("http://{}/page.txt?[1-50]", server.address);
        let output = curl(&[how, "-w", "%{num_connects}\n", &url]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .map(|count| count.parse::<u32>().unwrap())
            .sum::<u32>()
    };
    assert_eq!(
        (
            connections("--http1.1"),
            connections("--http2-prior-knowledge")
        ),
        (3, 1)
    );
    let status = |path: &str, fields: &[&str]| {
        let url = format!("http://{}{path}", server.address);
        let mut arguments = vec!["--http2-prior-knowledge", "-w", "%{http_code}"];
        fields
            .iter()
            .for_each(|field| arguments.extend(["-H", *field]));
        arguments.push(&url);
        String::from_utf8(curl(&arguments).stdout).unwrap()
    };
    // User-Agent and Accept are two more.
    assert_eq!(status("/page.txt", &["a: 1", "b: 2", "c: 3"]), "200");
    assert_eq!(
        status("/page.txt", &["a: 1", "b: 2", "c: 3", "d: 4"]),
        "431"
    );
    let query = |bytes: usize| format!("/page.txt?{}", "x".repeat(bytes - "/page.txt?".len()));
    assert_eq!(status(&query(30), &[]), "200");
    assert_eq!(status(&query(31), &[]), "414");
    let server = Server::new(
        "http2-no-count",
        "Protocols h2c http/1.1\nLimitRequestFields 0\n",
    );
    let many: Vec<String> = (0..300).map(|at| format!("x{at}: 1")).collect();
    let url = format!("http://{}/page.txt", server.address);
    for how in ["--http1.1", "--http2-prior-knowledge"] {
        let mut arguments = vec![how, "-w", "%{http_code}"];
        many.iter()
            .for_each(|field| arguments.extend(["-H", field]));
        arguments.push(&url);
        assert_eq!(curl(&arguments).stdout, b"200", "{how}");
    }
}

#[test]
fn prefaces_from_everybody_but_those_who_are_named() {
    let log = "CustomLog {dir}/access.log \"%a\"\n";
    let server = Server::new("preface", &format!("RemoteIPProxyProtocol On\n{log}"));
    let mut client = server.client();
    client
        .send("PROXY TCP4 192.0.2.7 127.0.0.1 4000 80\r\nGET /page.txt HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 200);
    let mut client = server.client();
    client
        .send("GET /page.txt HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    assert!(client.read_response().is_err(), "without a preface");
    let dir = server.dir.join("access.log");
    server.process.stop().unwrap();
    assert_eq!(fs::read_to_string(dir).unwrap(), "192.0.2.7\n");
    let server = Server::new(
        "no-preface",
        "RemoteIPProxyProtocol On\nRemoteIPProxyProtocolExceptions 10.0.0.0/8 127.0.0.0/255.0.0.0",
    );
    assert_eq!(server.client().get("/page.txt").unwrap().status, 200);
}

#[test]
fn a_head_that_takes_too_long() {
    let server = Server::new("slow", "RequestReadTimeout header=1 body=10,MinRate=500");
    let (began, mut client) = (Instant::now(), server.client());
    client.send("GET /page.txt HTTP/1.1\r\nHost: ").unwrap();
    assert_eq!(client.read_response().unwrap().status, 408);
    assert!(
        began.elapsed() > Duration::from_millis(700),
        "{:?}",
        began.elapsed()
    );
}

/// One place, and many who want it: all are answered, whatever their worker.
#[test]
fn one_request_at_a_time_is_enough_for_all() {
    let conf = "MaxRequestWorkers 1\nListenBacklog 64\nSendBufferSize 65536\nReceiveBufferSize 65536\nGracefulShutdownTimeout 5\n\
                RewriteEngine On\nRewriteCond %{HTTP:X} .\nRewriteRule . - [E=x:1]\nHeader set X %{x}e";
    let server = Server::new("one", conf);
    let address = server.address;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(move || many(address))).collect();
        clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
    });
}

fn many(address: SocketAddr) {
    let mut client = Client::connect(address).unwrap();
    for _ in 0..50 {
        assert_eq!(
            client
                .request("GET", "/page.txt", &[("X", "y")])
                .unwrap()
                .status,
            200
        );
    }
}

/// This authority has no profiles; where the profile may be another one, that doesn't matter (see the
/// next test).
#[test]
fn a_profile_that_is_mandatory() {
    let pebble = Pebble::new().unwrap();
    let conf = format!(
        "Listen 127.0.0.1:{http}\nListen 127.0.0.1:{tls}\nMDCertificateAgreement accepted\nMDContactEmail me@a.example\n\
         MDCertificateAuthority {directory}\nMDCACertificateFile {ca}\nMDProfile shortlived\nMDProfileMandatory on\n\
         MDomain a.example\n\
         <VirtualHost *:{tls}>\n    ServerName a.example\n    DocumentRoot {{dir}}/www\n    SSLEngine on\n</VirtualHost>\n",
        http = pebble.http_port,
        tls = pebble.tls_port,
        directory = pebble.directory(),
        ca = pebble.directory_ca().display()
    );
    let server = Server::start("mandatory", TempDir::new("mandatory").unwrap(), &conf);
    let log = server.dir.join("error.log");
    let said = || fs::read_to_string(&log).unwrap_or_default();
    wait_until_or(
        || said().contains("it offers no profiles, and not shortlived"),
        || format!("{}{}", said(), server.process.stderr()),
    );
}

/// Ordered from a real authority over HTTP, served at once, and asked for over plain HTTP no more.
#[test]
fn managed_domains() {
    let pebble = Pebble::new().unwrap();
    let conf = format!(
        "Listen 127.0.0.1:{http}\nListen 127.0.0.1:{tls}\nMDCertificateAgreement accepted\nMDContactEmail me@a.example\n\
         MDCertificateAuthority {directory}\nMDCACertificateFile {ca}\nMDCAChallenges http-01\nMDProfile shortlived\n\
         <MDomainSet a.example b.example>\n    MDMember c.example\n    MDRequireHttps permanent\n</MDomainSet>\n\
         LogFormat \"%{{SSL_PROTOCOL}}x %{{SSL_TLS_SNI}}x %{{SSL_CLIENT_S_DN}}x\" tls\n\
         <VirtualHost *:{http}>\n    ServerName a.example\n    ServerAlias d.example\n    DocumentRoot {{dir}}/www\n</VirtualHost>\n\
         <VirtualHost *:{tls}>\n    ServerName a.example\n    ServerAlias d.example\n    DocumentRoot {{dir}}/www\n    SSLEngine on\n    CustomLog {{dir}}/tls.log tls\n\
         </VirtualHost>\n",
        http = pebble.http_port,
        tls = pebble.tls_port,
        directory = pebble.directory(),
        ca = pebble.directory_ca().display()
    );
    let server = Server::start("managed", TempDir::new("managed").unwrap(), &conf);
    let log = server.dir.join("error.log");
    let issued = "issued: a.example, b.example, c.example, d.example";
    let said = || fs::read_to_string(&log).unwrap_or_default();
    wait_until_or(
        || said().contains(issued),
        || format!("{}{}", said(), server.process.stderr()),
    );
    let root = pebble.root().unwrap();
    for name in ["a.example", "d.example"] {
        let resolve = format!("{name}:{}:127.0.0.1", pebble.tls_port);
        let url = format!("https://{name}:{}/page.txt", pebble.tls_port);
        let output = curl(&[
            "--resolve",
            &resolve,
            "--cacert",
            &root.to_string_lossy(),
            "-w",
            "%{http_code}",
            &url,
        ]);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "200",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let mut plain = Client::connect(SocketAddr::from(([127, 0, 0, 1], pebble.http_port))).unwrap();
    let redirected = plain
        .request("GET", "/page.txt?q", &[("Host", "a.example")])
        .unwrap();
    let expected = format!("https://a.example:{}/page.txt?q", pebble.tls_port);
    assert_eq!(
        (redirected.status, redirected.field("location")),
        (301, Some(expected.as_str()))
    );
    let lines = server.dir.join("tls.log");
    server.process.stop().unwrap();
    // Two workers write: the order is theirs.
    let text = fs::read_to_string(lines).unwrap();
    let mut logged: Vec<&str> = text.lines().collect();
    logged.sort_unstable();
    assert_eq!(logged, ["TLSv1.3 a.example -", "TLSv1.3 d.example -"]);
}

/// Hosts by name, each with a folder and a rule about access: what one of them costs, its text
/// included.
#[test]
fn ten_thousand_hosts_in_memory() {
    const HOSTS: u64 = 10_000;
    let host = |number: u64| {
        let root = format!("/srv/sites/host{number}/public");
        format!(
            "<VirtualHost *:{{port}}>\n    ServerName host{number}.example.org\n    ServerAlias www.host{number}.example.org\n    DocumentRoot {root}\n    \
             <Directory {root}>\n        Require all granted\n    </Directory>\n</VirtualHost>\n"
        )
    };
    let text: String = (0..HOSTS).map(host).collect();
    let (bare, many) = (
        Server::new("hosts-none", ""),
        Server::new("hosts-many", &text),
    );
    // A server that answers has nearly started; the rest follows at once.
    for server in [&bare, &many] {
        server
            .client()
            .request("GET", "/page.txt", &[("Host", "nobody")])
            .unwrap();
    }
    for server in [&bare, &many] {
        wait_until_settled("memory", || server.process.tree().memory().rss_bytes);
    }
    let bytes = many
        .process
        .tree()
        .memory()
        .rss_bytes
        .saturating_sub(bare.process.tree().memory().rss_bytes);
    let beyond_text = bytes.saturating_sub(text.len() as u64) / HOSTS;
    println!("{beyond_text} bytes for each host");
    assert!(
        beyond_text < 2100,
        "{beyond_text} bytes for each host beyond its text"
    );
}

/// A body that comes more slowly than MinRate asks for is not waited for, however often a piece of
/// it comes; one that is fast enough may take longer than the time said.
#[test]
fn a_body_that_comes_too_slowly() {
    let server = Server::new("drip", "RequestReadTimeout body=3,MinRate=20");
    let upload = |piece: &str| {
        let (began, mut client) = (Instant::now(), server.client());
        client
            .send("POST /page.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n")
            .unwrap();
        let sent = (0..200 / piece.len()).take_while(|_| {
            client.pause(Duration::from_millis(200)).unwrap();
            began.elapsed() < Duration::from_secs(20) && client.send(piece).is_ok()
        });
        (sent.count() * piece.len(), began.elapsed())
    };
    let (sent, time) = upload("x");
    assert!(
        sent < 100 && time < Duration::from_secs(15),
        "{sent} bytes in {time:?}"
    );
    assert_eq!(upload(&"x".repeat(10)).0, 200);
}

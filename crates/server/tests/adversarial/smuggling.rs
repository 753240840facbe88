//! Request smuggling: what the server takes for one request is one request to the origin.
//!
//! The origin is the real nginx or apache2, and its own log is the verdict: a request that it saw
//! and Saker's log doesn't know was smuggled. An attack names `/smuggled-N` where it hides one;
//! behind each, a plain request with a path of its own has to get its own answer.

use crate::{http3_client, operate, tls_site};
use saker_testkit::{
    Client, Saker, ServerProcess, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    frames::{self, Frames, block},
    free_port, require,
};
use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(20);
/// The request that an attack hides; `{n}` tells attacks apart.
const HIDDEN: &str = "GET /smuggled-{n} HTTP/1.1\r\nHost: localhost\r\n\r\n";
const DIGITS: usize = 6;

/// Field lines of the framing; `{hidden}` in bodies is [`HIDDEN`], `{length}` its length.
const TRANSFER_ENCODINGS: &[&str] = &[
    "Transfer-Encoding: chunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding:chunked",
    "Transfer-Encoding:\tchunked",
    "Transfer-Encoding: \x0bchunked",
    "Transfer-Encoding: \x0cchunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunkedx",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding: CHUNKED",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding:\r\n chunked",
    "Transfer-Encoding\r\n: chunked",
    " Transfer-Encoding: chunked",
    "X: y\r\n Transfer-Encoding: chunked",
    "X: y\nTransfer-Encoding: chunked",
    "X: y\rTransfer-Encoding: chunked",
    "Transfer_Encoding: chunked",
    "Transfer-Encoding\0: chunked",
    "Transfer-Encoding: chunked\0",
    "Transfer-Encoding: ",
    "Transfer-encoding: chunked\r\nTransfer-Encoding: x",
    "TE: chunked",
    "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
    "Connection: Content-Length\r\nTransfer-Encoding: chunked",
];

const LENGTHS: &[&str] = &[
    "Content-Length: {length}",
    "Content-Length: 0",
    "Content-Length: 5\r\nContent-Length: 0",
    "Content-Length: 0\r\nContent-Length: 5",
    "Content-Length: 0, 0",
    "Content-Length: 0,{length}",
    "Content-Length: +{length}",
    "Content-Length: -1",
    "Content-Length: 0x10",
    "Content-Length: {length} ",
    "Content-Length: \x0b{length}",
    "Content-Length : {length}",
    "Content-Length:\r\n {length}",
    "Content_Length: {length}",
    "Content-Length: 18446744073709551617",
    "Content-Length: 1e1",
    "Content-Length: 0_0",
    "Content-Length:",
    "Connection: Content-Length\r\nContent-Length: {length}",
    "X: y\nContent-Length: {length}",
    "Content-Length: 0\0{length}",
    "Content-Length: {length}\r\nExpect: 100-continue",
    "Content-Length: {length}\r\nExpect: 100-Continue, x",
];

/// Contents for the first; what is behind the last chunk is another request only to those that see
/// chunks.
const BODIES: &[&str] = &[
    "0\r\n\r\n{hidden}",
    "{hidden}",
    "1\r\nx\r\n0\r\n\r\n{hidden}",
    "0\n\n{hidden}",
    "0\r\nX: y\r\n\r\n{hidden}",
    "0;a=\"\r\n\r\n{hidden}",
    "0;\n{hidden}",
    "0x0\r\n\r\n{hidden}",
    "00000000000000000\r\n\r\n{hidden}",
    "+0\r\n\r\n{hidden}",
    " 0\r\n\r\n{hidden}",
    "0 \r\n\r\n{hidden}",
    "10000000000000000\r\n{hidden}",
    "1\r\nxy\r\n0\r\n\r\n{hidden}",
    "1\r\nx0\r\n\r\n{hidden}",
    "0\r\n\r{hidden}",
    "-1\r\n{hidden}",
    "0\r\nContent-Length: {length}\r\n\r\n{hidden}",
    "0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{hidden}",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Nginx,
    Apache,
}

struct Chain {
    origin: Origin,
    _server: ServerProcess,
    saker: Saker,
    /// With TLS, for HTTP/3.
    secure: SocketAddr,
    log: Logs,
}

impl Chain {
    fn start(origin: Origin) -> Chain {
        let dir = TempDir::new("smuggling").unwrap();
        dir.write("www/index.html", "front\n").unwrap();
        fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
        tls_site::certificate(&dir, "site", "localhost");
        let log = dir.join("origin.log");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let server = match origin {
            Origin::Nginx => nginx(&dir, address),
            Origin::Apache => apache(&dir, address),
        };
        let secure = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let configuration = format!(
            "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n\
             [[listener]]\naddress = \"{{address}}\"\n\n[[listener]]\naddress = \"{secure}\"\ntls = true\n\n\
             [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\naccess_log = {{ path = \"{{dir}}/saker.log\", format = \"%r\" }}\n[site.tls]\ncertificate = \"{{dir}}/site.pem\"\nkey = \"{{dir}}/site.key\"\n\n\
             [[site.route]]\npath = \"/*\"\nproxy = \"http://{address}\"\n"
        );
        let saker = operate::start_in(dir, &configuration);
        Chain {
            origin,
            _server: server,
            log: Logs {
                origin: log,
                own: saker.dir.join("saker.log"),
            },
            saker,
            secure,
        }
    }

    fn address(&self) -> SocketAddr {
        self.saker.server.address()
    }

    /// A plain request after an attack; complains where it gets another's answer.
    fn follow(&self, name: &str, number: usize) -> Option<String> {
        let path = format!("/other-{number}");
        match Client::connect(self.address()).unwrap().get(&path) {
            Ok(response) if response.field("x-path") == Some(&path) => None,
            Ok(response) => Some(format!(
                "{:?} {name}: {path} got {} with {:?}",
                self.origin, response.status, response.fields
            )),
            Err(error) => Some(format!(
                "{:?} {name}: {path} got no answer: {error}",
                self.origin
            )),
        }
    }

    /// Sends the bytes, then a plain request on this connection and one on another.
    fn attack(&self, name: &str, bytes: &[u8], number: usize) -> Option<String> {
        let mut client = Client::connect(self.address()).unwrap();
        let follower =
            format!("GET /own-{number} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        // A server that has closed already refuses the second piece; that is all right.
        let _ = client
            .send(bytes)
            .and_then(|()| client.send(&follower))
            .and_then(|()| client.finish_sending());
        if let Err(error) = client.read_to_close(PATIENCE) {
            return Some(format!("{:?} {name}: {error}", self.origin));
        }
        self.follow(name, number)
    }

    /// Fails on what went wrong, and on what the logs tell apart.
    fn judge(&self, wrong: Vec<String>) {
        let origin = || fs::read_to_string(self.saker.dir.join("origin.err")).unwrap_or_default();
        assert!(
            wrong.is_empty(),
            "{}\norigin: {}",
            wrong.join("\n"),
            origin()
        );
        let smuggled = self.smuggled();
        assert!(smuggled.is_empty(), "{}", smuggled.join("\n"));
    }

    /// Requests that the origin saw more often than Saker.
    fn smuggled(&self) -> Vec<String> {
        // Lines are written when requests end: these are the last.
        Client::connect(self.address())
            .unwrap()
            .get("/last-of-all")
            .unwrap();
        operate::wait_until("both logs", || {
            self.log.count(&self.log.origin, "/last-of-all") > 0
                && self.log.count(&self.log.own, "/last-of-all") > 0
        });
        let seen = fs::read_to_string(&self.log.origin).unwrap();
        // The head of an attack may be on its way before its content turns out wrong.
        let paths: BTreeSet<&str> = seen
            .lines()
            .filter(|line| !line.contains("/first"))
            .map(path_of)
            .collect();
        assert!(
            paths.iter().filter(|path| path.contains("/other-")).count() > 10,
            "{:?} was hardly asked",
            self.origin
        );
        let more = |path: &&&str| {
            self.log.count(&self.log.origin, path) > self.log.count(&self.log.own, path)
        };
        paths
            .iter()
            .filter(more)
            .map(|path| format!("{:?} saw {path}", self.origin))
            .collect()
    }
}

/// Path in a request line.
fn path_of(line: &str) -> &str {
    line.split(' ').nth(1).unwrap_or(line)
}

struct Logs {
    origin: PathBuf,
    own: PathBuf,
}

impl Logs {
    fn count(&self, log: &Path, path: &str) -> usize {
        fs::read_to_string(log)
            .unwrap_or_default()
            .lines()
            .filter(|line| path_of(line) == path)
            .count()
    }
}

fn nginx(dir: &TempDir, address: SocketAddr) -> ServerProcess {
    let text = format!(
        "daemon off;\npid {{dir}}/nginx.pid;\nerror_log {{dir}}/nginx.err;\nworker_processes 1;\nevents {{ worker_connections 256; }}\nhttp {{\n\
         client_body_temp_path {{dir}}/body;\nproxy_temp_path {{dir}}/p;\nfastcgi_temp_path {{dir}}/f;\nuwsgi_temp_path {{dir}}/u;\nscgi_temp_path {{dir}}/s;\n\
         log_format line '$request';\naccess_log {{dir}}/origin.log line;\nkeepalive_requests 100000;\n\
         server {{ listen {address}; location / {{ add_header X-Path $request_uri always; return 200 \"x\\n\"; }} }}\n}}\n"
    );
    let file = dir
        .write("nginx.conf", text.replace("{dir}", &dir.to_string_lossy()))
        .unwrap();
    let mut command = Command::new(require("nginx").unwrap());
    if rustix::process::geteuid().is_root() {
        command.args(["-g", "user root;"]);
    }
    ServerProcess::start(
        command
            .arg("-e")
            .arg(dir.join("nginx.err"))
            .arg("-c")
            .arg(&file),
        address,
    )
    .unwrap()
}

fn apache(dir: &TempDir, address: SocketAddr) -> ServerProcess {
    let user = unprivileged_user();
    let modules = load_modules(&["mpm_event", "authz_core", "headers"]);
    let text = format!(
        "ServerRoot {{dir}}\nServerName localhost\nListen {address}\nPidFile {{dir}}/origin.pid\nDefaultRuntimeDir {{dir}}\nErrorLog {{dir}}/origin.err\n{modules}{user}\
         MaxKeepAliveRequests 0\nHttpProtocolOptions Unsafe\nDocumentRoot {{dir}}/www\nRequire all granted\nLogFormat %r line\nCustomLog {{dir}}/origin.log line\n\
         Header always set X-Path \"expr=%{{REQUEST_URI}}\"\n"
    );
    let text = text.replace(
        "Require all granted\n",
        "<Location />\nRequire all granted\n</Location>\n",
    );
    let file = dir
        .write("origin.conf", text.replace("{dir}", &dir.to_string_lossy()))
        .unwrap();
    start_apache2(&file, address).unwrap()
}

/// `{length}` is that of the hidden request.
fn filled(text: &str, number: usize) -> String {
    let hidden = HIDDEN.replace("{n}", &format!("{number:0DIGITS$}"));
    text.replace("{length}", &hidden.len().to_string())
        .replace("{hidden}", &hidden)
}

/// Framings × contents, both versions; with a length beside the coding, and alone.
fn http1_attacks() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |method: &str, version: &str, lines: &str, body: &str| {
        let number = all.len();
        let text = format!(
            "{method} /first HTTP/{version}\r\nHost: localhost\r\n{}\r\n\r\n{}",
            filled(lines, number),
            filled(body, number)
        );
        all.push((
            format!("{method} {version} {lines:?} {body:?}"),
            text.into_bytes(),
        ));
    };
    for coding in TRANSFER_ENCODINGS {
        add("POST", "1.1", coding, BODIES[0]);
        add(
            "POST",
            "1.1",
            &format!("Content-Length: {{length}}\r\n{coding}"),
            BODIES[0],
        );
        add(
            "POST",
            "1.0",
            &format!("{coding}\r\nContent-Length: 4\r\nConnection: keep-alive"),
            BODIES[0],
        );
    }
    for length in LENGTHS {
        add("POST", "1.1", length, BODIES[1]);
        add("GET", "1.1", length, BODIES[1]);
        add(
            "POST",
            "1.1",
            &format!("{length}\r\nTransfer-Encoding: chunked"),
            BODIES[0],
        );
    }
    for body in BODIES {
        add("POST", "1.1", TRANSFER_ENCODINGS[0], body);
        add("GET", "1.1", TRANSFER_ENCODINGS[0], body);
    }
    all
}

/// Fields of HTTP/2 and HTTP/3 that become lines of HTTP/1.1 towards the origin: pseudo-fields,
/// fields, and the content behind them.
type Multiplexed = (
    Vec<(&'static str, String)>,
    Vec<(&'static str, String)>,
    String,
);

fn multiplexed_attacks() -> Vec<Multiplexed> {
    const PLAIN: [(&str, &str); 4] = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/first"),
    ];
    let (line, head) = ("\r\nX: y", " HTTP/1.1\r\nHost: localhost\r\n\r\n{hidden}");
    let pseudo = [
        (":path", format!("/first{head}")),
        (":path", "/first HTTP/1.1".into()),
        (":path", "/first\n".into()),
        (":path", "".into()),
        (":path", "first".into()),
        (":path", "/first\tx".into()),
        (":path", "*".into()),
        (":method", format!("GET / {head}")),
        (":method", "GET /x".into()),
        (":method", "G\r\nET".into()),
        (":method", "".into()),
        (":authority", format!("localhost{line}")),
        (":authority", "localhost\n".into()),
        (":authority", "a b".into()),
        (":authority", "user@localhost".into()),
        (":scheme", format!("https{line}")),
        (":scheme", "https://x/".into()),
        (":scheme", "".into()),
    ];
    let fields = [
        ("transfer-encoding", "chunked".to_owned()),
        ("transfer-encoding", "identity".into()),
        ("connection", "close".into()),
        ("keep-alive", "x".into()),
        ("upgrade", "h2c".into()),
        ("proxy-connection", "close".into()),
        ("te", "chunked".into()),
        ("content-length", "0".into()),
        ("content-length", "1".into()),
        ("content-length", "999".into()),
        ("content-length", "+5".into()),
        ("content-length", "5, 5".into()),
        ("content-length", "".into()),
        ("x", format!("y\r\nTransfer-Encoding: chunked{line}")),
        ("x", "y\nz".into()),
        ("x", "y\rz".into()),
        ("x", "y\0z".into()),
        ("x", " y".into()),
        ("x", "y ".into()),
        ("x: y\r\ntransfer-encoding", "chunked".into()),
        ("transfer-encoding ", "chunked".into()),
        ("transfer-encoding:", "chunked".into()),
        ("Transfer-Encoding", "chunked".into()),
        ("transfer_encoding", "chunked".into()),
        ("", "x".into()),
        ("x y", "z".into()),
        ("x\n", "z".into()),
        ("host", "other".into()),
        (":path", "/second".into()),
        (":unknown", "x".into()),
    ];
    let contents = ["{hidden}", "0\r\n\r\n{hidden}"];
    let mut all: Vec<Multiplexed> = Vec::new();
    let mut add =
        |pseudo: &[(&'static str, String)], fields: &[(&'static str, String)], content: &str| {
            let number = all.len() + 500_000;
            let fill = |list: &[(&'static str, String)]| {
                list.iter()
                    .map(|(name, value)| (*name, filled(value, number)))
                    .collect()
            };
            all.push((fill(pseudo), fill(fields), filled(content, number)));
        };
    let plain = PLAIN.map(|(name, value)| (name, value.to_owned()));
    for (name, value) in pseudo {
        let changed: Vec<_> = plain
            .iter()
            .map(|(known, kept)| {
                (
                    *known,
                    if *known == name {
                        value.clone()
                    } else {
                        kept.clone()
                    },
                )
            })
            .collect();
        add(&changed, &[], contents[0]);
    }
    for field in fields {
        for content in contents {
            add(&plain, std::slice::from_ref(&field), content);
        }
    }
    all
}

#[test]
fn http1_framing_is_refused_or_read_as_the_origin_reads_it() {
    for origin in [Origin::Nginx, Origin::Apache] {
        let chain = Chain::start(origin);
        let attacks = http1_attacks();
        let wrong: Vec<String> = attacks
            .iter()
            .enumerate()
            .filter_map(|(number, (name, bytes))| chain.attack(name, bytes, number))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        chain.judge(wrong);
    }
}

#[test]
fn http2_fields_become_no_framing() {
    for origin in [Origin::Nginx, Origin::Apache] {
        let chain = Chain::start(origin);
        let mut wrong = Vec::new();
        for (number, (pseudo, fields, content)) in multiplexed_attacks().into_iter().enumerate() {
            let all: Vec<(&str, &str)> = pseudo
                .iter()
                .chain(&fields)
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let mut client = Frames::connect(chain.address()).unwrap();
            let sent = client
                .send(frames::HEADERS, frames::END_HEADERS, 1, &block(&all))
                .and_then(|()| {
                    client.send(frames::DATA, frames::END_STREAM, 1, content.as_bytes())
                });
            let ends = |frame: &frames::Frame| {
                matches!(frame.kind, frames::RST_STREAM | frames::GOAWAY)
                    || (frame.stream == 1 && frame.flags & frames::END_STREAM != 0)
            };
            while sent.is_ok() && client.read().unwrap().is_some_and(|frame| !ends(&frame)) {}
            wrong.extend(chain.follow(&format!("{all:?}"), number));
        }
        chain.judge(wrong);
    }
}

fn borrowed<'l>(list: &'l [(&'static str, String)]) -> Vec<(&'static str, &'l str)> {
    list.iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

#[test]
fn http3_fields_become_no_framing() {
    let chain = Chain::start(Origin::Nginx);
    let mut wrong = Vec::new();
    for (number, (pseudo, fields, content)) in multiplexed_attacks().into_iter().enumerate() {
        let mut client = http3_client::Client::default().connect(&chain.secure.to_string());
        let stream = client.open_with(&borrowed(&pseudo), &borrowed(&fields), false);
        if !client.is_gone() {
            client.send(stream, content.as_bytes(), true);
        }
        client.settle(stream);
        wrong.extend(chain.follow(&format!("{pseudo:?} {fields:?}"), number));
    }
    wrong.extend(chain.smuggled());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

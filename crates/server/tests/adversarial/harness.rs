//! Ways to start servers for attacks, and to send one request over each protocol.
//!
//! Called by: the modules of the suite. Caveat: over h2 and h3 a head is sent as it is given,
//! pseudo-fields included, so that tests may send what clients would not. Out of scope: load.
#![allow(dead_code)]

use crate::{
    http3_client,
    operate::{self},
    tls_site,
};
use saker_testkit::{
    Client, OPENSSL_CLIENT, Saker, ServerProcess, TempDir, apache2::load_modules, free_port,
    require,
};
use std::{
    net::SocketAddr,
    process::{Command, Stdio},
};

pub const PROTOCOLS: [Protocol; 3] = [Protocol::Http1, Protocol::Http2, Protocol::Http3];

/// A protocol, over TLS, except for [`Protocol::Plain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 without TLS.
    Plain,
    Http1,
    Http2,
    Http3,
}

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The first field of that name, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| &**value)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A request: the target and the host as they are to be sent.
#[derive(Clone, Debug)]
pub struct Request<'r> {
    pub method: &'r str,
    /// Path and query, or for HTTP/1 any form.
    pub target: &'r str,
    /// `Host` or `:authority`.
    pub host: &'r str,
    /// The server name of the handshake; `None` sends none.
    pub server_name: Option<&'r str>,
    pub fields: &'r [(&'r str, &'r str)],
    pub body: &'r [u8],
}

impl<'r> Request<'r> {
    pub fn get(host: &'r str, target: &'r str) -> Request<'r> {
        Request {
            method: "GET",
            target,
            host,
            server_name: Some("localhost"),
            fields: &[],
            body: b"",
        }
    }

    pub fn with_fields(self, fields: &'r [(&'r str, &'r str)]) -> Request<'r> {
        Request { fields, ..self }
    }

    pub fn with_server_name(self, server_name: Option<&'r str>) -> Request<'r> {
        Request {
            server_name,
            ..self
        }
    }
}

/// Sends one request on a connection of its own.
pub fn ask(address: SocketAddr, protocol: Protocol, request: &Request<'_>) -> Answer {
    match protocol {
        Protocol::Plain => over_plain(address, request),
        Protocol::Http1 => over_tls(address, request, "http/1.1"),
        Protocol::Http2 => by_curl(address, request),
        Protocol::Http3 => over_http3(address, request),
    }
}

/// The bytes of an HTTP/1.1 request that closes the connection.
pub fn http1_bytes(request: &Request<'_>) -> Vec<u8> {
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
        request.method, request.target, request.host
    );
    for (name, value) in request.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !request.body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
    }
    head.push_str("\r\n");
    [head.as_bytes(), request.body].concat()
}

fn over_plain(address: SocketAddr, request: &Request<'_>) -> Answer {
    let mut client = Client::connect(address).unwrap();
    client.send(http1_bytes(request)).unwrap();
    let response = if request.method == "HEAD" {
        client.read_head_response()
    } else {
        client.read_response()
    };
    let response = response.unwrap();
    Answer {
        status: response.status,
        fields: response.fields,
        body: response.body,
    }
}

/// By OpenSSL's client, which sends any server name or none.
fn over_tls(address: SocketAddr, request: &Request<'_>, alpn: &str) -> Answer {
    read_answer(&tls_exchange(
        address,
        request.server_name,
        alpn,
        &[],
        &http1_bytes(request),
    ))
}

/// Everything that the server sends back to these bytes until it closes.
pub fn tls_exchange(
    address: SocketAddr,
    server_name: Option<&str>,
    alpn: &str,
    arguments: &[&str],
    bytes: &[u8],
) -> Vec<u8> {
    use std::io::Write as _;
    let mut command = Command::new("timeout");
    command
        .args(["20"])
        .arg(require("openssl").unwrap())
        .args(OPENSSL_CLIENT)
        .args(["-quiet", "-connect"])
        .arg(address.to_string());
    match server_name {
        Some(name) => command.args(["-servername", name]),
        None => command.arg("-noservername"),
    };
    if !alpn.is_empty() {
        command.args(["-alpn", alpn]);
    }
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // A handshake that fails ends the client before it has read.
    let _ = input.write_all(bytes);
    let output = child.wait_with_output().unwrap();
    drop(input);
    output.stdout
}

/// The default answer (status 0) where there is none.
pub fn read_answer(bytes: &[u8]) -> Answer {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Answer::default();
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    let fields: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let chunked = fields.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("transfer-encoding") && value.contains("chunked")
    });
    let body = if chunked {
        dechunked(&bytes[end + 4..])
    } else {
        bytes[end + 4..].to_vec()
    };
    Answer {
        status,
        fields,
        body,
    }
}

fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..line])
            .ok()
            .and_then(|size| usize::from_str_radix(size.trim(), 16).ok())
            .unwrap_or(0);
        if size == 0 || rest.len() < line + 2 + size + 2 {
            break;
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 2 + size + 2..];
    }
    body
}

/// HTTP/2 over TLS by curl; the connection's server name is the URL's.
fn by_curl(address: SocketAddr, request: &Request<'_>) -> Answer {
    let name = request.server_name.unwrap_or("127.0.0.1");
    let mut command = Command::new(require("curl").unwrap());
    command.args([
        "-sk",
        "-i",
        "-m",
        "20",
        "--http2",
        "--path-as-is",
        "--raw",
        "-X",
        request.method,
        "-H",
    ]);
    command
        .arg(format!("Host: {}", request.host))
        .args(["--connect-to", &format!("::{address}")]);
    if request.method == "HEAD" {
        command.arg("-I");
    }
    for (field, value) in request.fields {
        command.args([
            "-H",
            &if value.is_empty() {
                format!("{field};")
            } else {
                format!("{field}: {value}")
            },
        ]);
    }
    if !request.body.is_empty() {
        command.args(["--data-binary", "@-"]);
    }
    command.arg(format!(
        "https://{name}:{}{}",
        address.port(),
        request.target
    ));
    let output = with_input(command, request.body);
    read_answer(&output)
}

fn with_input(mut command: Command, input: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(pipe.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output.stdout
}

fn over_http3(address: SocketAddr, request: &Request<'_>) -> Answer {
    let mut client = http3_client::Client::default();
    client.name = request.server_name.unwrap_or("127.0.0.1").to_owned();
    let mut connection = client.connect(&address.to_string());
    let pseudo = [
        (":method", request.method),
        (":scheme", "https"),
        (":authority", request.host),
        (":path", request.target),
    ];
    let stream = connection.open_with(&pseudo, request.fields, request.body.is_empty());
    if !request.body.is_empty() {
        connection.send(stream, request.body, true);
    }
    let response = connection.response(stream);
    Answer {
        status: response.status,
        fields: response.fields,
        body: response.body,
    }
}

/// By the native configuration: `more` stands before the listener, `site` in `[[site]]` and below
/// it. Speaks h1, h2 and h3 over TLS with `site.pem`.
pub fn native(dir: TempDir, more: &str, site: &str) -> Saker {
    tls_site::certificate(&dir, "site", "localhost");
    crate::operate::start_in(dir, &http3_client::site::configuration(more, site))
}

const APACHE_MODULES: &[&str] = &[
    "mpm_event",
    "authz_core",
    "authz_host",
    "authn_core",
    "authn_file",
    "auth_basic",
    "alias",
    "rewrite",
    "dir",
    "mime",
    "env",
    "setenvif",
    "headers",
    "filter",
    "include",
    "substitute",
    "actions",
    "autoindex",
    "negotiation",
    "proxy",
    "proxy_http",
    "proxy_fcgi",
    "cgi",
    "cache",
    "cache_disk",
    "ssl",
    "socache_shmcb",
    "deflate",
    "http2",
    "expires",
    "ext_filter",
    "sed",
    "access_compat",
    "authz_user",
    "reqtimeout",
    "proxy_ajp",
    "remoteip",
    "proxy_html",
    "xml2enc",
    "dav",
    "dav_fs",
    "request",
    "session",
    "session_cookie",
    "session_crypto",
    "auth_form",
];

/// A server by Apache's configuration, on a port without TLS and one with.
pub struct ApacheSite {
    pub server: ServerProcess,
    pub dir: TempDir,
    pub plain: SocketAddr,
    /// h1, h2 and h3.
    pub tls: SocketAddr,
}

impl ApacheSite {
    pub fn ask(&self, protocol: Protocol, request: &Request<'_>) -> Answer {
        ask(
            if protocol == Protocol::Plain {
                self.plain
            } else {
                self.tls
            },
            protocol,
            request,
        )
    }
}

/// `conf` stands in the main server, and with it in the virtual host on the port with TLS; `www` in
/// `dir` is the document root, with `AllowOverride All`. `{dir}`, `{plain}` and `{tls}` (addresses)
/// are filled in.
pub fn apache(dir: TempDir, conf: &str) -> ApacheSite {
    apache_with(dir, conf, |_| {})
}

/// The same; `prepare` changes how the server is started.
pub fn apache_with(
    dir: TempDir,
    conf: &str,
    prepare: impl Fn(&mut Command) + 'static,
) -> ApacheSite {
    tls_site::certificate(&dir, "site", "localhost");
    let port = || SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let (plain, tls) = (port(), port());
    let modules = load_modules(APACHE_MODULES);
    let text = format!(
        "ServerRoot {{dir}}\nServerName localhost\nListen {plain}\nListen {tls}\nPidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\n{modules}\
         Protocols h2 http/1.1 h3\nTypesConfig /etc/mime.types\nDocumentRoot {{dir}}/www\n<Directory {{dir}}/www>\nAllowOverride All\nOptions All\nRequire all granted\n</Directory>\n\
         {conf}\n<VirtualHost {tls}>\nServerName localhost\nDocumentRoot {{dir}}/www\nSSLEngine on\nSSLCertificateFile {{dir}}/site.pem\nSSLCertificateKeyFile {{dir}}/site.key\n{conf}\n</VirtualHost>\n"
    );
    let text = text
        .replace("{plain}", &plain.to_string())
        .replace("{tls}", &tls.to_string());
    let server = operate::apache(&text)
        .prepared(prepare)
        .at(plain)
        .start_in(&dir);
    ApacheSite {
        server,
        dir,
        plain,
        tls,
    }
}

#[test]
fn every_way_of_asking_has_an_answer() {
    let dir = || crate::operate::folder("harness");
    let (native, apache) = (native(dir(), "", ""), apache(dir(), ""));
    for address in [native.server.address(), apache.tls] {
        for protocol in PROTOCOLS {
            let answer = ask(address, protocol, &Request::get("localhost", "/"));
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (200, "<p>hello</p>\n"),
                "{protocol:?}: {answer:?}"
            );
        }
    }
    assert_eq!(
        apache
            .ask(Protocol::Plain, &Request::get("localhost", "/"))
            .status,
        200
    );
}

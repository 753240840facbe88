//! Scope of limits: those of the address, of the handshake, and of the requested host, as in
//! apache2 2.4.71, over HTTP/1 and HTTP/2.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, ServerProcess, TempDir, apache2::load_modules, free_port, require, wait_until,
};
use std::{
    net::SocketAddr,
    process::Command,
    time::{Duration, Instant},
};

struct Server {
    _process: ServerProcess,
    _dir: TempDir,
    address: SocketAddr,
    tls: SocketAddr,
}

impl Server {
    /// Two hosts at each of two addresses, the second one of TLS: `a.test` with narrow limits,
    /// `b.test` with wide ones.
    fn start(name: &str) -> Server {
        let dir = TempDir::new(name).unwrap();
        dir.write("www/page.txt", "page\n").unwrap();
        let make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=a.test -addext subjectAltName=DNS:a.test,DNS:b.test";
        let mut openssl = Command::new(require("openssl").unwrap());
        openssl
            .args(make.split(' '))
            .arg("-keyout")
            .arg(dir.join("key.pem"))
            .arg("-out")
            .arg(dir.join("cert.pem"));
        assert!(openssl.output().unwrap().status.success());
        let [address, tls] =
            [0; 2].map(|_| SocketAddr::from(([127, 0, 0, 1], free_port().unwrap())));
        let modules = load_modules(&[
            "mpm_event",
            "authz_core",
            "ssl",
            "http2",
            "reqtimeout",
            "rewrite",
            "headers",
        ]);
        let narrow = "LimitRequestLine 100\nLimitRequestFieldSize 100\nLimitRequestFields 5\nRequestReadTimeout header=1 body=1\n";
        let wide = "LimitRequestLine 1000\nLimitRequestFieldSize 1000\nLimitRequestFields 50\nRequestReadTimeout header=30 body=3\nKeepAliveTimeout 1\n";
        let host = |address: &SocketAddr, name: &str, limits: &str, more: &str| {
            format!(
                "<VirtualHost {address}>\nServerName {name}\nDocumentRoot {{dir}}/www\n{limits}{more}</VirtualHost>\n"
            )
        };
        let engine = "SSLEngine on\nSSLCertificateFile {dir}/cert.pem\nSSLCertificateKeyFile {dir}/key.pem\n";
        let walks = "RewriteEngine on\nRewriteCond %{HTTP:X} .\nRewriteRule . - [E=x:1]\nHeader set X %{x}e\n";
        let hosts = [
            host(&address, "a.test", narrow, ""),
            host(&address, "b.test", wide, ""),
            host(&address, "off.test", "KeepAlive Off\n", walks),
            host(&address, "two.test", "MaxKeepAliveRequests 2\n", ""),
            host(&tls, "a.test", narrow, engine),
            host(&tls, "b.test", wide, engine),
        ];
        let text = format!(
            "ServerRoot {{dir}}\nServerName main.test\nListen {address}\nListen {tls}\nPidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\n{modules}\
             Protocols h2 h2c http/1.1\n{}",
            hosts.concat()
        );
        let process = operate::apache(&text).at(address).start_in(&dir);
        Server {
            _process: process,
            _dir: dir,
            address,
            tls,
        }
    }

    fn status(&self, how: &str, host: &str, path: &str, fields: &[String]) -> String {
        let (scheme, address) = if how.ends_with("tls") {
            ("https", self.tls)
        } else {
            ("http", self.address)
        };
        let version = match how {
            "http2" => "--http2-prior-knowledge",
            "http2 tls" => "--http2",
            _ => "--http1.1",
        };
        let resolve = format!("{host}:{}:127.0.0.1", address.port());
        let mut curl = Command::new(require("curl").unwrap());
        curl.args([
            "-sk",
            "-m",
            "20",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            version,
            "--resolve",
            &resolve,
        ]);
        fields.iter().for_each(|field| {
            curl.args(["-H", field]);
        });
        let output = curl
            .arg(format!("{scheme}://{host}:{}{path}", address.port()))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn sizes() {
    let server = Server::start("limits-sizes");
    let (long, long_field) = (
        format!("/{}", "y".repeat(150)),
        format!("X: {}", "y".repeat(150)),
    );
    let many: Vec<String> = (0..8).map(|number| format!("X{number}: 1")).collect();
    for (how, host, expected) in [
        ("http1", "a.test", "414 400 400 200"),
        ("http1", "b.test", "414 400 400 200"),
        ("http2", "a.test", "414 431 431 200"),
        ("http2", "b.test", "414 431 431 200"),
        ("http1 tls", "a.test", "414 400 400 200"),
        ("http1 tls", "b.test", "414 400 400 200"),
        ("http2 tls", "a.test", "414 431 431 200"),
        ("http2 tls", "b.test", "404 200 200 200"),
    ] {
        let line = server.status(how, host, &long, &[]);
        let field = server.status(how, host, "/page.txt", std::slice::from_ref(&long_field));
        let fields = server.status(how, host, "/page.txt", &many);
        let plain = server.status(how, host, "/page.txt", &[]);
        assert_eq!(
            format!("{line} {field} {fields} {plain}"),
            expected,
            "{how} {host}"
        );
    }
}

/// Longer than the narrow times of a second, shorter than the wide ones.
const BETWEEN: Duration = Duration::from_millis(2500);

#[test]
fn times() {
    let server = Server::start("limits-times");
    let time = |sent: &str| {
        let (began, mut client) = (Instant::now(), Client::connect(server.address).unwrap());
        client.send(sent).unwrap();
        // A file is sent whatever comes of the content; the connection waits for it.
        while client.read_response().is_ok() {}
        began.elapsed()
    };
    // The head's is the first host's, the body's that of the host that is asked. On a busy machine
    // one of several is over in time.
    wait_until("the narrow limit of heads holds", || {
        time("GET /page.txt HTTP/1.1\r\nHost: b.test\r\n") < BETWEEN
    });
    let post = |host: &str| {
        time(&format!(
            "POST /page.txt HTTP/1.1\r\nHost: {host}\r\nContent-Length: 10\r\n\r\na"
        ))
    };
    wait_until("the narrow limit of bodies holds", || {
        post("a.test") < BETWEEN
    });
    let took = post("b.test");
    assert!(took > BETWEEN, "{took:?}");
}

/// Kept and walked answers alike.
#[test]
fn connections_that_stay() {
    let server = Server::start("limits-stay");
    let closes = |host: &str, requests: usize| {
        let mut client = Client::connect(server.address).unwrap();
        let ask = |client: &mut Client| {
            client
                .request("GET", "/page.txt", &[("Host", host)])
                .unwrap()
        };
        let said: Vec<bool> = (0..requests)
            .map(|_| ask(&mut client).field("connection") == Some("close"))
            .collect();
        said
    };
    for _ in 0..3 {
        assert_eq!(closes("off.test", 1), [true]);
        assert_eq!(closes("two.test", 2), [false, true]);
        assert_eq!(closes("a.test", 3), [false; 3]);
    }
    let idle = |host: &str| {
        let mut client = Client::connect(server.address).unwrap();
        assert_eq!(
            client
                .request("GET", "/page.txt", &[("Host", host)])
                .unwrap()
                .status,
            200
        );
        let began = Instant::now();
        assert!(client.read_response().is_err());
        began.elapsed()
    };
    wait_until("the short time is kept", || idle("b.test") < BETWEEN);
    assert!(idle("a.test") > BETWEEN);
}

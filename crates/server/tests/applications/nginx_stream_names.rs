//! Servers of `stream` that share an address, and connections that `http` takes over: what nginx's
//! documentation says of versions from 1.25.5. Error logs of streams are compared with nginx's.
//!
//! Called by: `cargo test -p saker --test applications nginx_stream_names`.
//! Caveat: Debian's nginx is older, so only the lines of logs have it beside them.

use crate::{
    nginx_pair::{Pair, certificate},
    operate,
};
use saker_testkit::{PATIENCE, ServerProcess, TempDir, free_port, require, wait_until};
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Command, Output, Stdio},
};

struct Alone {
    dir: TempDir,
    address: SocketAddr,
    second: SocketAddr,
    _server: ServerProcess,
}

impl Alone {
    /// `{p}` and `{q}` are addresses, and `{dir}` has certificates. What follows `== http` is the
    /// inside of `http`.
    fn start(name: &str, text: &str) -> Alone {
        let dir = TempDir::new(name).unwrap();
        certificate(&dir);
        let [address, second] =
            [0, 1].map(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap())));
        let file = write(&dir, text, &[address, second]);
        let mut saker = Command::new(operate::SAKER);
        saker.env("TMPDIR", dir.temporary_files().unwrap());
        saker.args(["run", "--workers", "1", "--state-dir"]);
        saker.arg(dir.join("state")).arg("--nginx").arg(file);
        let server = ServerProcess::start(&mut saker, address).unwrap();
        Alone {
            dir,
            address,
            second,
            _server: server,
        }
    }

    /// Hears what the server of a name says, over TLS. Without a name, none is sent.
    fn hear(&self, name: &str, options: &[&str]) -> String {
        let mut client = Command::new(require("openssl").unwrap());
        client.args(["s_client", "-quiet", "-connect"]);
        client.arg(self.address.to_string());
        match name {
            "" => client.arg("-noservername"),
            name => client.args(["-servername", name]),
        };
        let output = client.args(options).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("error.log")).unwrap_or_default()
    }
}

fn write(dir: &TempDir, text: &str, addresses: &[SocketAddr]) -> std::path::PathBuf {
    let user = match rustix::process::geteuid().is_root() {
        true => "user www-data;\n",
        false => "",
    };
    let (stream, http) = text.split_once("== http\n").unwrap_or((text, ""));
    let http = match http {
        "" => String::new(),
        http => format!("http {{ access_log off; {http} }}\n"),
    };
    let text = format!(
        "{user}worker_processes 1;\npid {{dir}}/nginx.pid;\nerror_log {{dir}}/error.log info;\n\
         events {{ }}\nstream {{\n{stream}\n}}\n{http}"
    );
    let mut text = text.replace("{dir}", &dir.display().to_string());
    for (word, address) in ["{p}", "{q}"].iter().zip(addresses) {
        text = text.replace(word, &address.to_string());
    }
    let file = dir.join("nginx.conf");
    fs::write(&file, text).unwrap();
    file
}

/// `nginx -t` on the inside of `stream`.
fn tested(name: &str, text: &str) -> Output {
    let dir = TempDir::new(name).unwrap();
    certificate(&dir);
    let file = write(
        &dir,
        text,
        &["127.0.0.1:1001", "127.0.0.1:1002"].map(|text| text.parse().unwrap()),
    );
    std::os::unix::fs::symlink(operate::SAKER, dir.join("nginx")).unwrap();
    let mut command = Command::new(dir.join("nginx"));
    command.args(["-t", "-c"]).arg(file).output().unwrap()
}

const CERTIFICATE: &str = "ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;\n";

#[test]
fn nginx_stream_names_choose_servers() {
    let server = Alone::start(
        "nginx-stream-names",
        &format!(
            "{CERTIFICATE}\
             server {{ listen {{p}} ssl; server_name one.test *.one.test; return first; }}\n\
             server {{ listen {{p}} ssl default_server; server_name _; return default; }}\n\
             server {{ listen {{p}} ssl; server_name stranger.test; return stranger;\n\
             ssl_certificate {{dir}}/stranger.pem; ssl_certificate_key {{dir}}/stranger.key; }}\n\
             server {{ listen {{p}} ssl; server_name ~^n(?<digit>\\d)\\.test$ www.*; return number-$digit; }}\n\
             server {{ listen {{p}} ssl; server_name gone.test; ssl_reject_handshake on; return gone; }}\n\
             server {{ listen {{p}} ssl; server_name closed.test; deny all; return closed; }}\n\
             server {{ listen {{p}} ssl; server_name known.test; ssl_verify_client on; \
             ssl_client_certificate {{dir}}/other.pem; return known; }}"
        ),
    );
    let rows = [
        ("one.test", "first"),
        ("ONE.test", "first"),
        ("a.b.one.test", "first"),
        ("two.test", "default"),
        ("", "default"),
        ("stranger.test", "stranger"),
        ("n7.test", "number-7"),
        ("www.other.test", "number-"),
        ("gone.test", ""),
        ("GONE.test", ""),
        // The server of the name has a rule of its own, which nginx would not ask.
        ("closed.test", ""),
        // No certificate, where one is required.
        ("known.test", ""),
        ("KNOWN.test", ""),
    ];
    for (name, said) in rows {
        assert_eq!(server.hear(name, &[]), said, "{name}\n{}", server.log());
    }
    let path = |name: &str| server.dir.join(name).display().to_string();
    let with = |key: &str, certificate: &str| {
        let (key, certificate) = (path(key), path(certificate));
        server.hear("known.test", &["-key", &key, "-cert", &certificate])
    };
    assert_eq!(with("stranger.key", "stranger.pem"), "");
    for line in [
        "access forbidden by rule while initializing session, client: 127.0.0.1, server: ",
        "client sent no required SSL certificate",
    ] {
        wait_until(line, || server.log().contains(line));
    }
}

#[test]
fn nginx_stream_names_are_read_ahead() {
    let server = Alone::start(
        "nginx-stream-names-ahead",
        &format!(
            "server {{ listen {{p}}; ssl_preread on; proxy_pass 127.0.0.1:1; }}\n\
             server {{ listen {{p}}; server_name page.test; pass {{q}}; }}\n\
             server {{ listen {{p}}; server_name nowhere.test; pass 127.0.0.1:1; }}\n\
             server {{ listen {{p}}; server_name secret.test; deny all; pass {{q}}; }}\n\
             == http\n\
             {CERTIFICATE}\
             server {{ listen {{q}} ssl; return 200 \"$scheme $remote_addr $ssl_server_name\\n\"; }}"
        ),
    );
    let ask = |name: &str| {
        let mut client = Command::new(require("openssl").unwrap());
        client.args([
            "s_client",
            "-quiet",
            "-ign_eof",
            "-servername",
            name,
            "-connect",
        ]);
        client.arg(server.address.to_string());
        client
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut client = client.spawn().unwrap();
        let request = "GET / HTTP/1.0\r\nHost: page.test\r\n\r\n";
        let _ = client.stdin.take().unwrap().write_all(request.as_bytes());
        let output = client.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let page = ask("page.test");
    assert!(
        page.ends_with("https 127.0.0.1 page.test\n"),
        "{page}\n{}",
        server.log()
    );
    assert_eq!(ask("secret.test"), "");
    assert_eq!(ask("nowhere.test"), "");
    wait_until("the log says why", || {
        server.log().contains("found no listener")
    });
}

/// TLS ends in `stream`, and a plain listener of `http` goes on; its PROXY header is that of the client.
#[test]
fn nginx_stream_names_hand_connections_over() {
    let server = Alone::start(
        "nginx-stream-pass",
        &format!(
            "{CERTIFICATE}\
             server {{ listen {{p}} ssl; pass {{q}}; }}\n\
             == http\n\
             server {{ listen {{q}}; location / {{ return 200 \"$https $remote_addr $server_port\\n\"; }}\n\
             location /closed {{ deny all; }} }}"
        ),
    );
    let ask = |target: &str| {
        let mut client = Command::new(require("openssl").unwrap());
        client.args(["s_client", "-quiet", "-ign_eof", "-connect"]);
        client.arg(server.address.to_string());
        client
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut client = client.spawn().unwrap();
        let request = format!("GET {target} HTTP/1.0\r\n\r\n");
        let _ = client.stdin.take().unwrap().write_all(request.as_bytes());
        let output = client.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let page = ask("/");
    let port = server.address.port();
    assert!(
        page.ends_with(&format!("on 127.0.0.1 {port}\n")),
        "{page}\n{}",
        server.log()
    );
    assert!(ask("/closed").starts_with("HTTP/1.1 403 "));
    // The listener is still one of its own.
    let mut stream = TcpStream::connect(server.second).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("\r\n\r\n 127.0.0.1 "), "{text}");
}

#[test]
fn nginx_stream_names_are_checked() {
    let rows = [
        (
            "server { listen {p}; listen {p}; return a; }",
            "a duplicate listen 127.0.0.1:1001",
        ),
        (
            "server { listen {p} default_server; return a; }\nserver { listen {p} default_server; return b; }",
            "a duplicate default server for 127.0.0.1:1001",
        ),
        (
            "server { listen {p}; server_name a*b; return a; }",
            "server name \"a*b\" is invalid",
        ),
        (
            "server { listen {p}; pass {q}; return a; }",
            "\"return\" directive is duplicate",
        ),
        (
            "server { listen {p}; pass nowhere:x; }",
            "invalid address \"nowhere:x\"",
        ),
        (
            "server { listen {p} ssl; return a; }",
            "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
        ),
        (
            "ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;\n\
             server { listen {p} ssl; return a; }\n\
             server { listen {p} ssl; server_name ~^a; ssl_verify_client on; ssl_client_certificate {dir}/other.pem; return b; }",
            "\"ssl_verify_client\" needs a server",
        ),
        (
            "ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;\n\
             server { listen {p} ssl; ssl_verify_client optional; return a; }",
            "no ssl_client_certificate for ssl_verify_client",
        ),
        (
            "server { listen {p}; ssl_preread on; ssl_protocols TLSv1.9; return a; }",
            "invalid value \"TLSv1.9\"",
        ),
    ];
    for (at, (text, message)) in rows.iter().enumerate() {
        let output = tested(&format!("nginx-stream-checked-{at}"), text);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains(message) && !output.status.success(),
            "{text}\n{said}"
        );
    }
    let fine = "server { listen {p}; return a; }\nserver { listen {p}; server_name b; return b; }\n\
                server { listen {p} ssl; server_name c; ssl_reject_handshake on; return c; }\n\
                server { listen {q} udp; return a; }";
    let output = tested(
        "nginx-stream-checked-fine",
        &fine.replace("listen {p} ssl", "listen {p}"),
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Lines about sessions, without times and numbers.
fn lines(pair: &Pair, file: &str, count: usize) -> [Vec<String>; 2] {
    ["nginx", "saker"].map(|folder| {
        let path = pair.dir.join(folder).join(file);
        let mut found = Vec::new();
        wait_until("the log has its lines", || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let text = text
                .replace("127.0.0.2", "127.0.0.1")
                .replace("/saker/", "/nginx/");
            let told = text.lines().filter_map(|line| {
                let (level, rest) = line.split_once(" [")?.1.split_once("] ")?;
                let rest = rest.split_once(": *")?.1.split_once(' ')?.1;
                (level != "info").then(|| format!("[{level}] {rest}"))
            });
            found = told.collect();
            found.len() >= count
        });
        found
    })
}

#[test]
fn nginx_stream_names_error_logs() {
    let silent_upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let [one, two] = [0, 1].map(|_| free_port().unwrap().to_string());
    let given = [
        ("a", silent_upstream.local_addr().unwrap().to_string()),
        ("one", one),
        ("two", two),
    ];
    let pair = Pair::start(
        "nginx-stream-error-log",
        &given,
        "limit_conn_zone $binary_remote_addr zone=z:1m;\n\
         upstream gone { server {dead}; server {dead} backup; }\n\
         server { listen {ip}:{p}; error_log {dir}/own.log; error_log {dir}/crit.log crit; proxy_pass unix:{dir}/missing.sock; }\n\
         server { listen {ip}:{q}; error_log {dir}/own.log; deny all; return x; }\n\
         server { listen {ip}:{one}; error_log {dir}/limit.log warn; limit_conn_log_level warn; limit_conn z 1; proxy_pass {a}; }\n\
         server { listen {ip}:{two}; error_log {dir}/limit.log; limit_conn_dry_run on; limit_conn z 1; return x; }\n\
         server { listen {ip}:{r}; error_log {dir}/own.log; proxy_connect_timeout 1s; proxy_pass {dead}; }",
    );
    let silent = |address: SocketAddr| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        all.len()
    };
    for (at, word) in ["p", "q", "r"].iter().enumerate() {
        let port: u16 = pair.word(word).parse().unwrap();
        pair.both(|address| silent(SocketAddr::new(address.ip(), port)));
        // One after the other, so that the lines are in order.
        let [nginx, saker] = lines(&pair, "own.log", at + 1);
        assert_eq!(saker, nginx);
    }
    let at = |address: SocketAddr, word: &str| {
        SocketAddr::new(address.ip(), pair.word(word).parse().unwrap())
    };
    pair.both(|address| {
        let first = TcpStream::connect(at(address, "one")).unwrap();
        let (_upstream, _) = silent_upstream.accept().unwrap();
        let refused = silent(at(address, "one"));
        let dry = silent(at(address, "two"));
        drop(first);
        (refused, dry)
    });
    let [nginx, saker] = lines(&pair, "limit.log", 2);
    assert_eq!(saker, nginx);
    let [nginx, saker] = lines(&pair, "crit.log", 1);
    assert_eq!(saker, nginx);
    assert!(
        saker.len() == 1 && saker[0].starts_with("[crit] connect() to unix:"),
        "{saker:?}"
    );
    // The process's log has none of them.
    for folder in ["nginx", "saker"] {
        let text = fs::read_to_string(pair.dir.join(folder).join("error.log")).unwrap_or_default();
        assert!(!text.contains("forbidden"), "{text}");
    }
}

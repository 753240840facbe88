//! Changes of files are visible to the next request: on kept connections, of every protocol and
//! every worker, on a busy machine.
//!
//! Each round changes something and sends a request at once over the next connection.
//! Caveat: a late result is rare on an idle machine, so threads keep the processors busy, and there
//! are many rounds. Nothing here depends on the clock.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::http3_client;
use crate::http3_client::Http3;
use crate::operate::{self, folder, start_in};
use crate::tls_site::leaf_certificate;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use saker_testkit::{
    Client, Saker, ServerProcess, TempDir,
    frames::{self, Frames},
    free_port,
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

const WORKERS: usize = 4;
/// Connections per protocol: enough that every worker has some.
const CONNECTIONS: usize = 12;
/// Each of 36 connections sees each of twelve changes twice.
const ROUNDS_HTACCESS: usize = 2 * 36 * 12;
/// Each of 48 connections sees each of four changes three times.
const ROUNDS_STATIC: usize = 3 * 48 * 4;
const ROUNDS_AHEAD: usize = 12 * CONNECTIONS;
const PATIENCE: Duration = Duration::from_secs(60);
/// Bodies that rules choose among.
const BODIES: usize = 8;

/// A connection that stays open.
enum Kept {
    Http1(Client),
    Http2(Box<Frames>, u32),
    Http3(Box<Http3>),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Kept {
    fn http1(address: SocketAddr) -> Kept {
        let mut client = Client::connect(address).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        Kept::Http1(client)
    }

    fn http2(address: SocketAddr) -> Kept {
        let mut frames = Frames::connect(address).unwrap();
        frames.read_until(frames::SETTINGS).unwrap();
        frames.send(frames::SETTINGS, frames::ACK, 0, &[]).unwrap();
        Kept::Http2(Box::new(frames), 1)
    }

    fn tls(address: SocketAddr, dir: &Path) -> Kept {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(dir.join("site.pem")).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions();
        let config = config
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let session =
            ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Kept::Tls(Box::new(StreamOwned::new(session, stream)))
    }

    fn http3(address: SocketAddr) -> Kept {
        Kept::Http3(Box::new(
            http3_client::Client::default().connect(&address.to_string()),
        ))
    }

    fn body(&mut self, path: &str) -> String {
        match self {
            Kept::Http1(client) => client.get(path).unwrap().text(),
            Kept::Http2(frames, stream) => {
                frames.get(*stream, path).unwrap();
                *stream += 2;
                read_data(frames)
            }
            Kept::Http3(client) => client.get(path).text(),
            Kept::Tls(stream) => {
                stream.write_all(request(path).as_bytes()).unwrap();
                stream.flush().unwrap();
                read_sized(&mut **stream)
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Kept::Http1(_) => "HTTP/1.1",
            Kept::Http2(..) => "HTTP/2",
            Kept::Http3(_) => "HTTP/3",
            Kept::Tls(_) => "HTTP/1.1 over TLS",
        }
    }
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn read_data(frames: &mut Frames) -> String {
    let mut seen = Vec::new();
    let data = loop {
        match frames.read().unwrap() {
            Some(frame) if frame.kind == frames::DATA => break frame,
            Some(frame) => seen.push((frame.kind, frame.error_code(), frame.stream)),
            None => panic!("the connection has ended: {seen:?}"),
        }
    };
    String::from_utf8(data.payload).unwrap()
}

fn read_sized(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap_or_else(|| panic!("{head}"));
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// Keeps the processors busy while `work` runs.
fn beside_load(work: impl FnOnce()) {
    let end = AtomicBool::new(false);
    let end = &end;
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                let mut number = 1_u64;
                while !end.load(Ordering::Relaxed) {
                    number = std::hint::black_box(
                        number
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1),
                    );
                }
            });
        }
        // Ended whatever becomes of the work.
        struct End<'e>(&'e AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(end);
        work();
    });
}

/// A folder as sites of Apache's have it, and the files that rules lead to.
fn apache_folder(name: &str) -> TempDir {
    let dir = folder(name);
    for folder in ["www/a/b", "www/other/b", "www/linked"] {
        dir.write(&format!("{folder}/page.html"), "plain").unwrap();
    }
    dir.write("www/other/b/page.html", "other").unwrap();
    for number in 0..BODIES {
        dir.write(
            &format!("www/bodies/{number}.txt"),
            format!("body {number}"),
        )
        .unwrap();
        dir.write(
            &format!("www/releases/{number}/page.html"),
            format!("release {number}"),
        )
        .unwrap();
    }
    symlink("releases/0", dir.join("www/current")).unwrap();
    dir.write("elsewhere/rules", "").unwrap();
    fs::hard_link(
        dir.join("elsewhere/rules"),
        dir.join("www/linked/.htaccess"),
    )
    .unwrap();
    leaf_certificate(&dir, "site", "localhost");
    dir
}

/// The server, and the address of its TLS listener.
fn start_apache(dir: &TempDir) -> (ServerProcess, SocketAddr) {
    let secure = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let modules = [
        "mpm_event",
        "authz_core",
        "rewrite",
        "http2",
        "ssl",
        "socache_shmcb",
    ];
    let load: String = modules
        .iter()
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect();
    let text = format!(
        "ServerRoot {{dir}}\n{load}Listen {{address}}\nListen {secure}\nServerName localhost\nProtocols h2c http/1.1\nKeepAliveTimeout 600\n\
         MaxKeepAliveRequests 0\nPidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\nDocumentRoot {{dir}}/www\n<Directory {{dir}}>\n    AllowOverride All\n</Directory>\n\
         <VirtualHost {secure}>\n    DocumentRoot {{dir}}/www\n    SSLEngine on\n    SSLCertificateFile {{dir}}/site.pem\n    SSLCertificateKeyFile {{dir}}/site.key\n\
         </VirtualHost>\n"
    );
    (
        operate::apache(&text).workers(WORKERS).start_in(dir),
        secure,
    )
}

fn rule(round: usize) -> String {
    format!(
        "RewriteEngine On\nRewriteRule page\\.html$ /bodies/{}.txt [L]\n",
        round % BODIES
    )
}

fn ruled(round: usize) -> String {
    format!("body {}", round % BODIES)
}

/// By rename, as editors and deployments do.
fn replace(dir: &TempDir, name: &str, text: &str) {
    dir.write("www/new", text).unwrap();
    fs::rename(dir.join("www/new"), dir.join(name)).unwrap();
}

fn swap_link(dir: &TempDir, target: &str) {
    symlink(target, dir.join("www/next")).unwrap();
    fs::rename(dir.join("www/next"), dir.join("www/current")).unwrap();
}

fn move_away(dir: &TempDir, from: &str, to: &str) {
    fs::rename(dir.join(from), dir.join(to)).unwrap();
}

/// Changes something; which path shows it, and how.
fn change(dir: &TempDir, round: usize) -> (&'static str, String) {
    const PAGE: &str = "/a/b/page.html";
    let own = "www/a/b/.htaccess";
    match round % 12 {
        0 => {
            dir.write(own, rule(round)).unwrap();
            (PAGE, ruled(round))
        }
        1 => {
            replace(dir, own, &rule(round));
            (PAGE, ruled(round))
        }
        2 => {
            fs::remove_file(dir.join(own)).unwrap();
            (PAGE, "plain".into())
        }
        // In a folder above, which had none.
        3 => {
            dir.write("www/a/.htaccess", rule(round)).unwrap();
            (PAGE, ruled(round))
        }
        4 => {
            move_away(dir, "www/a/.htaccess", "www/a/htaccess.off");
            (PAGE, "plain".into())
        }
        5 => {
            swap_link(dir, &format!("releases/{}", round % BODIES));
            ("/current/page.html", format!("release {}", round % BODIES))
        }
        6 => {
            dir.write("www/text.txt", format!("text {round}")).unwrap();
            ("/text.txt", format!("text {round}"))
        }
        7 => {
            replace(dir, "www/text.txt", &format!("another text {round}"));
            ("/text.txt", format!("another text {round}"))
        }
        // By another of its names.
        8 => {
            dir.write("elsewhere/rules", rule(round)).unwrap();
            ("/linked/page.html", ruled(round))
        }
        9 => {
            move_away(dir, "www/a", "www/away");
            move_away(dir, "www/other", "www/a");
            (PAGE, "other".into())
        }
        10 => {
            move_away(dir, "www/a", "www/other");
            move_away(dir, "www/away", "www/a");
            (PAGE, "plain".into())
        }
        _ => {
            fs::OpenOptions::new()
                .append(true)
                .open(dir.join("www/text.txt"))
                .unwrap()
                .write_all(b", and more")
                .unwrap();
            ("/text.txt", format!("another text {}, and more", round - 4))
        }
    }
}

/// Every connection asks for everything first, so that every worker has it all in memory.
fn warm(kept: &mut [Kept], paths: &[&str]) {
    for connection in kept {
        for path in paths {
            for _ in 0..2 {
                connection.body(path);
            }
        }
    }
}

/// The connection that asks next, and what it has to see. In the end each connection has seen all changes (`ROUNDS_HTACCESS`,
/// `ROUNDS_STATIC`).
fn next(kept: &mut [Kept], round: usize) -> &mut Kept {
    let number = (round * 5 + round / 12) % kept.len();
    &mut kept[number]
}

#[test]
fn htaccess_files_on_kept_connections() {
    let _alone = crate::alone();
    let dir = apache_folder("fresh-htaccess");
    dir.write("www/text.txt", "text").unwrap();
    let (server, secure) = start_apache(&dir);
    let connections = (0..CONNECTIONS).flat_map(|_| {
        [
            Kept::http1(server.address()),
            Kept::http2(server.address()),
            Kept::tls(secure, &dir),
        ]
    });
    let mut kept: Vec<Kept> = connections.collect();
    warm(
        &mut kept,
        &[
            "/a/b/page.html",
            "/current/page.html",
            "/text.txt",
            "/linked/page.html",
        ],
    );
    beside_load(|| {
        for round in 0..ROUNDS_HTACCESS {
            let (path, expected) = change(&dir, round);
            let connection = next(&mut kept, round);
            assert_eq!(
                connection.body(path),
                expected,
                "round {round}, {path}, {}\n{}",
                connection.name(),
                server.stderr()
            );
        }
    });
}

/// Its folder hears nothing of the new name, nor of what is written by it.
#[test]
fn a_name_that_a_file_gets_later() {
    let _alone = crate::alone();
    let dir = apache_folder("fresh-name");
    let (server, _) = start_apache(&dir);
    let mut connection = Kept::http1(server.address());
    for round in 0..10 {
        let (own, later) = (
            dir.join("www/a/b/.htaccess"),
            dir.join(format!("elsewhere/{round}")),
        );
        fs::write(&own, rule(round)).unwrap();
        assert_eq!(connection.body("/a/b/page.html"), ruled(round));
        fs::hard_link(&own, &later).unwrap();
        fs::write(&later, rule(round + 1)).unwrap();
        assert_eq!(
            connection.body("/a/b/page.html"),
            ruled(round + 1),
            "round {round}"
        );
        fs::remove_file(&own).unwrap();
    }
}

fn native(secure: SocketAddr) -> String {
    let listeners = format!(
        "[[listener]]\naddress = \"{{address}}\"\n\n[[listener]]\naddress = \"{secure}\"\ntls = true\n"
    );
    let tls = "[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n";
    format!(
        "[server]\nworkers = {WORKERS}\nstate_dir = \"{{dir}}/state\"\n\n[limits]\nkeep_alive_timeout = \"600s\"\nconnections_per_address = 1000\n\n{listeners}\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\n{tls}"
    )
}

fn start_native(name: &str) -> (Saker, SocketAddr) {
    let secure = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let dir = folder(name);
    leaf_certificate(&dir, "site", "localhost");
    for number in 0..BODIES {
        dir.write(
            &format!("www/releases/{number}/page.html"),
            format!("release {number}"),
        )
        .unwrap();
    }
    symlink("releases/0", dir.join("www/current")).unwrap();
    dir.write("www/text.txt", "text").unwrap();
    (start_in(dir, &native(secure)), secure)
}

#[test]
fn static_files_on_kept_connections() {
    let _alone = crate::alone();
    let (saker, secure) = start_native("fresh-static");
    let address = saker.server.address();
    let dir = &saker.dir;
    let connections = (0..CONNECTIONS).flat_map(|_| {
        [
            Kept::http3(secure),
            Kept::http1(address),
            Kept::http2(address),
            Kept::tls(secure, dir),
        ]
    });
    let mut kept: Vec<Kept> = connections.collect();
    warm(&mut kept, &["/current/page.html", "/text.txt"]);
    beside_load(|| {
        for round in 0..ROUNDS_STATIC {
            let (path, expected) = match round % 4 {
                0 => change(dir, 5 + 12 * round),
                1 => change(dir, 6 + 12 * round),
                2 => change(dir, 7 + 12 * round),
                _ => change(dir, 11 + 12 * (round - 1)),
            };
            let connection = next(&mut kept, round);
            assert_eq!(
                connection.body(path),
                expected,
                "round {round}, {path}, {}",
                connection.name()
            );
        }
    });
}

/// Requests sent behind another one, while the server is about to read that one.
#[test]
fn requests_sent_ahead() {
    let _alone = crate::alone();
    let (saker, _) = start_native("fresh-ahead");
    let text = |round: usize| {
        saker
            .dir
            .write("www/text.txt", format!("text {round}"))
            .unwrap()
    };
    let mut http1: Vec<Client> = (0..CONNECTIONS).map(|_| saker.connect().unwrap()).collect();
    let mut http2: Vec<_> = (0..CONNECTIONS)
        .map(|_| Kept::http2(saker.server.address()))
        .collect();
    beside_load(|| {
        for round in 0..ROUNDS_AHEAD {
            let client = &mut http1[round % CONNECTIONS];
            client.set_timeout(PATIENCE).unwrap();
            client.send(request("/current/page.html")).unwrap();
            text(round);
            client.send(request("/text.txt")).unwrap();
            client.read_response().unwrap();
            assert_eq!(
                client.read_response().unwrap().text(),
                format!("text {round}"),
                "HTTP/1.1, round {round}"
            );
            let Kept::Http2(frames, stream) = &mut http2[round % CONNECTIONS] else {
                panic!()
            };
            frames.get(*stream, "/current/page.html").unwrap();
            text(round + ROUNDS_AHEAD);
            frames.get(*stream + 2, "/text.txt").unwrap();
            let answers = [read_data(frames), read_data(frames)];
            assert!(
                answers.contains(&format!("text {}", round + ROUNDS_AHEAD)),
                "HTTP/2, round {round}: {answers:?}"
            );
            *stream += 4;
        }
    });
}

/// The first read of a connection does not wait for the event loop.
#[test]
fn new_connections() {
    let _alone = crate::alone();
    let (saker, _) = start_native("fresh-new");
    beside_load(|| {
        for round in 0..ROUNDS_AHEAD {
            // One that is accepted just before.
            let other = TcpStream::connect(saker.server.address()).unwrap();
            (&other)
                .write_all(request("/current/page.html").as_bytes())
                .unwrap();
            let mut client = saker.connect().unwrap();
            client.set_timeout(PATIENCE).unwrap();
            saker
                .dir
                .write("www/text.txt", format!("text {round}"))
                .unwrap();
            assert_eq!(
                client.get("/text.txt").unwrap().text(),
                format!("text {round}"),
                "round {round}"
            );
        }
    });
}

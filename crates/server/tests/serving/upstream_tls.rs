//! Servers behind us under TLS: who they have to be, who we are to them, and what is seen of it
//! when that fails.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use crate::tls_site::{certificate, shown, signed};
use crate::upgrades::{Front, WEBSOCKET, backend, switching};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use saker_testkit::TempDir;
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

type Session = StreamOwned<ServerConnection, TcpStream>;

fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// A server with that certificate; with `clients`, those need one of that authority.
fn start(dir: &TempDir, name: &str, clients: Option<&str>) -> (SocketAddr, Arc<AtomicUsize>) {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ClientCertVerifier> = match clients {
        None => Arc::new(NoClientAuth),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates(&dir.join(format!("{authority}.pem"))));
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .unwrap()
        }
    };
    let key = PrivateKeyDer::from_pem_file(dir.join(format!("{name}.key"))).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&dir.join(format!("{name}.pem"))), key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let (config, connections) = (Arc::new(config), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&connections);
    let address = backend(move |stream| {
        counter.fetch_add(1, Ordering::SeqCst);
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        serve(StreamOwned::new(session, stream));
    });
    (address, connections)
}

fn serve(mut session: Session) {
    while let Some(head) = read_head(&mut session) {
        let alpn =
            String::from_utf8_lossy(session.conn.alpn_protocol().unwrap_or_default()).into_owned();
        let name = session.conn.server_name().unwrap_or("none").to_owned();
        if head.starts_with("GET /echo ") {
            session.write_all(switching(&head).as_bytes()).unwrap();
            let mut piece = [0; 5000];
            while let Ok(bytes @ 1..) = session.read(&mut piece) {
                session.write_all(&piece[..bytes]).unwrap();
            }
            session.conn.send_close_notify();
            let _ = session.flush();
            return;
        }
        let body = if head.starts_with("GET /long ") {
            "long ".repeat(400_000)
        } else {
            format!("{alpn} {name}")
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if session.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_head(session: &mut Session) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match session.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// `ssl_module` is loaded; everything goes to that server.
fn front(name: &str, dir: &TempDir, host: &str, port: u16, conf: &str) -> Front {
    let conf = conf
        .replace("{ca}", shown(&dir.join("ca.pem")))
        .replace("{folder}", shown(dir))
        .replace("{port}", &port.to_string());
    let module = "/usr/lib/apache2/modules/mod_ssl.so";
    Front::start(
        name,
        &format!(
            "LoadModule ssl_module {module}\n{conf}\nLoadModule proxy_module modules/mod_proxy.so\nProxyPass / https://{host}:{port}/ upgrade=ANY"
        ),
    )
}

/// Status and content of an answer.
fn answer(front: &Front) -> (u16, String) {
    let answer = front.client().get("/").unwrap();
    (answer.status, answer.text())
}

/// Waits for the reason in the error log.
fn told(front: &Front, reason: &str) {
    let log = || std::fs::read_to_string(front.dir.join("error.log")).unwrap_or_default();
    operate::wait_until(&format!("`{reason}` in the log"), || log().contains(reason));
}

fn folder() -> TempDir {
    let dir = TempDir::new("upstream-tls").unwrap();
    certificate(&dir, "ca", "The House");
    certificate(&dir, "own", "localhost");
    signed(&dir, "localhost", "ca");
    signed(&dir, "elsewhere", "ca");
    dir
}

#[test]
fn who_a_server_has_to_be() {
    let dir = folder();
    let strict = "SSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile {ca}";
    let of_one = |url: &str| {
        format!(
            "LoadModule proxy_module modules/mod_proxy.so\n<Proxy \"{url}\">\n{strict}\n</Proxy>"
        )
    };
    let rows = [
        // By default its certificate needs no trusted issuer; its name and validity are checked
        // nevertheless.
        ("own", "SSLProxyEngine on", 200, ""),
        (
            "own",
            "SSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile {ca}",
            502,
            "no TLS: invalid peer certificate",
        ),
        (
            "localhost",
            "SSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile {ca}",
            200,
            "",
        ),
        (
            "elsewhere",
            "SSLProxyEngine on",
            502,
            "no TLS: invalid peer certificate",
        ),
        (
            "elsewhere",
            "SSLProxyEngine on\nSSLProxyCheckPeerName off",
            200,
            "",
        ),
        (
            "elsewhere",
            "SSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile {ca}",
            502,
            "no TLS: invalid peer certificate",
        ),
        (
            "elsewhere",
            "SSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile {ca}\nSSLProxyCheckPeerName off",
            200,
            "",
        ),
        (
            "own",
            "SSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile {folder}/missing.pem",
            500,
            "missing.pem",
        ),
        ("own", "", 500, "SSLProxyEngine"),
        ("own", "SSLProxyEngine off", 500, "SSLProxyEngine"),
        ("localhost", &of_one("https://localhost:{port}/"), 200, ""),
        (
            "own",
            &of_one("https://localhost:{port}/"),
            502,
            "no TLS: invalid peer certificate",
        ),
        ("own", &of_one("*"), 502, "no TLS: invalid peer certificate"),
        (
            "own",
            &of_one("https://localhost:1/"),
            500,
            "SSLProxyEngine",
        ),
        (
            "own",
            &format!("SSLProxyEngine on\n{}", of_one("https://localhost:1/")),
            200,
            "",
        ),
        (
            "own",
            "SSLProxyEngine on\nSSLProxyProtocol TLSv1.2\nSSLProxyCipherSuite ECDHE-ECDSA-AES256-GCM-SHA384",
            200,
            "",
        ),
    ];
    for (at, (name, conf, status, reason)) in rows.into_iter().enumerate() {
        let (server, _) = start(&dir, name, None);
        let front = front(
            &format!("upstream-tls-{at}"),
            &dir,
            "localhost",
            server.port(),
            conf,
        );
        let (got, text) = answer(&front);
        assert_eq!(got, status, "{name}: {conf}: {text}");
        told(&front, reason);
        if status == 200 {
            assert_eq!(text, "http/1.1 localhost", "what was agreed and asked for");
        }
    }
}

#[test]
fn expired_ones_are_refused_unless_that_does_not_matter() {
    let dir = folder();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut old = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    (old.not_before, old.not_after) = (
        rcgen::date_time_ymd(2020, 1, 1),
        rcgen::date_time_ymd(2021, 1, 1),
    );
    dir.write("old.pem", old.self_signed(&key).unwrap().pem())
        .unwrap();
    dir.write("old.key", key.serialize_pem()).unwrap();
    let (server, _) = start(&dir, "old", None);
    let strict = front(
        "upstream-tls-old",
        &dir,
        "localhost",
        server.port(),
        "SSLProxyEngine on",
    );
    assert_eq!(answer(&strict).0, 502);
    told(&strict, "xpired");
    let lax = front(
        "upstream-tls-lax",
        &dir,
        "localhost",
        server.port(),
        "SSLProxyEngine on\nSSLProxyCheckPeerExpire off",
    );
    assert_eq!(answer(&lax).0, 200);
}

#[test]
fn a_certificate_of_our_own_is_shown() {
    let dir = folder();
    signed(&dir, "we", "ca");
    let both = [
        std::fs::read(dir.join("we.pem")).unwrap(),
        std::fs::read(dir.join("we.key")).unwrap(),
    ]
    .concat();
    dir.write("both.pem", both).unwrap();
    let (server, _) = start(&dir, "localhost", Some("ca"));
    let without = front(
        "upstream-tls-nobody",
        &dir,
        "localhost",
        server.port(),
        "SSLProxyEngine on",
    );
    assert_eq!(answer(&without).0, 502);
    let with = front(
        "upstream-tls-we",
        &dir,
        "localhost",
        server.port(),
        "SSLProxyEngine on\nSSLProxyMachineCertificateFile {folder}/both.pem",
    );
    let (status, text) = answer(&with);
    assert_eq!(status, 200, "{text}");
}

#[test]
fn changed_files_are_read_again() {
    let dir = folder();
    let copy = |name: &str| std::fs::copy(dir.join(name), dir.join("trusted.pem")).unwrap();
    copy("own.pem");
    let (server, _) = start(&dir, "localhost", None);
    let front = Front::start(
        "upstream-tls-changed",
        &format!(
            "LoadModule ssl_module modules/mod_ssl.so\nLoadModule proxy_module modules/mod_proxy.so\nSSLProxyEngine on\nSSLProxyVerify require\n\
             SSLProxyCACertificateFile {}/trusted.pem\nProxyPass / https://localhost:{}/ retry=0",
            shown(&dir),
            server.port()
        ),
    );
    assert_eq!(answer(&front).0, 502);
    dir.write("trusted.pem", "nothing of the kind").unwrap();
    operate::wait_until("the complaint", || {
        assert_eq!(answer(&front).0, 502);
        std::fs::read_to_string(front.dir.join("error.log"))
            .is_ok_and(|log| log.contains("what was read before stays in force"))
    });
    copy("ca.pem");
    operate::wait_until("the new authority", || answer(&front).0 == 200);
}

#[test]
fn long_bodies_and_tunnels() {
    let dir = folder();
    let (server, _) = start(&dir, "own", None);
    let front = front(
        "upstream-tls-long",
        &dir,
        "127.0.0.1",
        server.port(),
        "SSLProxyEngine on",
    );
    for _ in 0..3 {
        let answer = front.client().get("/long").unwrap();
        assert!(answer.status == 200 && answer.body == "long ".repeat(400_000).as_bytes());
    }
    let mut client = front.client();
    assert_eq!(
        client.request("GET", "/echo", WEBSOCKET).unwrap().status,
        101
    );
    for bytes in [1, 100, 70_000] {
        client.send(vec![b'x'; bytes]).unwrap();
        assert!(
            client
                .read_bytes(bytes)
                .unwrap()
                .iter()
                .all(|byte| *byte == b'x')
        );
    }
    client.finish_sending().unwrap();
    assert!(client.closed_within(std::time::Duration::from_secs(10)));
}

#[test]
fn what_is_no_tls_is_told_apart() {
    let plain = backend(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.read(&mut [0; 1000]);
    });
    let dir = folder();
    let front = front(
        "upstream-tls-plain",
        &dir,
        "127.0.0.1",
        plain.port(),
        "SSLProxyEngine on",
    );
    assert_eq!(answer(&front).0, 502);
    told(&front, "no TLS");
}

/// HTTP/2 has to be agreed upon; the site speaks it to itself.
#[test]
fn http2_is_agreed_upon() {
    let dir = folder();
    let port = saker_testkit::free_port().unwrap();
    let (other, _) = start(&dir, "localhost", None);
    let conf = format!(
        "LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\nListen 127.0.0.1:{port} https\nLoadModule proxy_module modules/mod_proxy.so\n\
         SSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile {0}/ca.pem\nProxyPass /in/ h2://localhost:{port}/\n\
         ProxyPass /other/ h2://localhost:{1}/\n<VirtualHost 127.0.0.1:{port}>\nProtocols h2 http/1.1\nSSLEngine on\n\
         SSLCertificateFile {0}/localhost.pem\nSSLCertificateKeyFile {0}/localhost.key\nDocumentRoot {{dir}}/www\n</VirtualHost>",
        shown(&dir),
        other.port()
    );
    let front = Front::start("upstream-tls-h2", &conf);
    let answer = front.client().get("/in/page.txt").unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "page\n"));
    assert!(
        front
            .log(2)
            .iter()
            .any(|line| line.starts_with("GET /page.txt HTTP/2.0 200"))
    );
    assert_eq!(front.client().get("/other/").unwrap().status, 502);
    told(&front, "no TLS");
}

/// A proxy for tunnels that demands credentials; with the first lines of what it was asked.
fn tunnelling() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let address = backend(move |mut stream: TcpStream| {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|bytes| bytes == 1) {
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        log.lock()
            .unwrap()
            .push(head.lines().next().unwrap_or_default().to_owned());
        // `user:secret`
        if !head.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n") {
            let _ = stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
            return;
        }
        let to = TcpStream::connect(
            head.split(' ')
                .nth(1)
                .unwrap()
                .replace("localhost", "127.0.0.1"),
        )
        .unwrap();
        stream
            .write_all(b"HTTP/1.0 200 Connection established\r\nX-Proxy: yes\r\n\r\n")
            .unwrap();
        let (mut from, mut back) = (stream.try_clone().unwrap(), to.try_clone().unwrap());
        let upwards = std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut back);
            let _ = back.shutdown(Shutdown::Write);
        });
        let _ = std::io::copy(&mut &to, &mut stream);
        let _ = stream.shutdown(Shutdown::Both);
        upwards.join().unwrap();
    });
    (address, asked)
}

#[test]
fn through_a_proxy_on_the_way() {
    let dir = folder();
    let (address, _) = start(&dir, "localhost", None);
    let (proxy, asked) = tunnelling();
    let conf = |credentials: &str| {
        format!(
            "SSLProxyEngine on\nSSLProxyCACertificateFile {{ca}}\nProxyRemote https://localhost http://{proxy} {credentials}"
        )
    };
    let front_with = front(
        "tls-through",
        &dir,
        "localhost",
        address.port(),
        &conf("user:secret"),
    );
    assert_eq!(answer(&front_with), (200, "http/1.1 localhost".to_owned()));
    assert_eq!(answer(&front_with).0, 200);
    assert_eq!(
        *asked.lock().unwrap(),
        [format!("CONNECT localhost:{} HTTP/1.1", address.port())],
        "the second over the same tunnel"
    );
    let refused = front(
        "tls-through-not",
        &dir,
        "localhost",
        address.port(),
        &conf(""),
    );
    assert_eq!(answer(&refused).0, 503);
    told(&refused, "the proxy on the way refuses: HTTP/1.1 407");
}

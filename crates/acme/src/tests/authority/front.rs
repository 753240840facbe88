//! A server before Pebble that counts, changes, delays and refuses.

use super::{Authority, loopback};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use saker_testkit::free_port;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// Fate of a request.
pub enum Fate {
    Pass,
    /// An answer of our own.
    Answer(String),
    /// No response at all.
    Hang,
}

type Rule = dyn Fn(&str, &str) -> Fate + Send + Sync;

/// Methods and paths.
type Seen = Mutex<Vec<(String, String)>>;

pub struct Front {
    pub port: u16,
    /// Methods and paths so far.
    pub seen: Arc<Seen>,
    /// Payloads of requests for orders (RFC 8555 section 7.4), as JSON.
    pub orders: Arc<Mutex<Vec<String>>>,
}

impl Front {
    /// `rule` sees method and path.
    pub fn new(
        authority: &Authority,
        rule: impl Fn(&str, &str) -> Fate + Send + Sync + 'static,
    ) -> Front {
        let port = free_port().unwrap();
        let listener = TcpListener::bind(loopback(port)).unwrap();
        let (server, client) = (server_config(authority), client_config(authority));
        let (behind, rule, seen) = (
            authority.port,
            Arc::new(rule) as Arc<Rule>,
            Arc::new(Mutex::new(Vec::new())),
        );
        let (also_seen, orders) = (seen.clone(), Arc::new(Mutex::new(Vec::new())));
        let kept_orders = Arc::clone(&orders);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (server, client, rule, seen, orders) = (
                    server.clone(),
                    client.clone(),
                    rule.clone(),
                    seen.clone(),
                    Arc::clone(&kept_orders),
                );
                thread::spawn(move || {
                    let session = ServerConnection::new(server).unwrap();
                    exchange(
                        StreamOwned::new(session, stream),
                        port,
                        behind,
                        client,
                        &*rule,
                        (&seen, &orders),
                    );
                });
            }
        });
        Front {
            port,
            seen: also_seen,
            orders,
        }
    }

    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }

    pub fn count(&self, path: &str) -> usize {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .filter(|(_, seen)| seen.starts_with(path))
            .count()
    }
}

fn exchange(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    port: u16,
    behind: u16,
    client: Arc<ClientConfig>,
    rule: &Rule,
    (seen, orders): (&Seen, &Mutex<Vec<String>>),
) {
    let Some((request, method, path)) = read_request(&mut stream) else {
        return;
    };
    seen.lock().unwrap().push((method.clone(), path.clone()));
    if path == "/order-plz" {
        orders.lock().unwrap().push(payload(&request));
    }
    let answer = match rule(&method, &path) {
        Fate::Hang => {
            // Until the client gives up.
            let _ = stream.read(&mut [0; 64]);
            return;
        }
        Fate::Answer(answer) => answer.into_bytes(),
        Fate::Pass => {
            let session =
                ClientConnection::new(client, ServerName::try_from("localhost").unwrap()).unwrap();
            let Ok(connection) = TcpStream::connect(loopback(behind)) else {
                return;
            };
            let mut other = StreamOwned::new(session, connection);
            other.write_all(&request).unwrap();
            let mut answer = Vec::new();
            // Pebble closes without an alert now and then.
            let _: Result<usize, _> = other.read_to_end(&mut answer);
            if path == "/dir" {
                with_renewal_info(&answer, port)
            } else {
                answer
            }
        }
    };
    let _: Result<(), _> = stream.write_all(&answer);
    stream.conn.send_close_notify();
    let _: Result<(), _> = stream.flush();
}

fn read_request(stream: &mut impl Read) -> Option<(Vec<u8>, String, String)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        if bytes.len() >= end + 4 + length {
            let line = String::from_utf8_lossy(&bytes[..end])
                .lines()
                .next()?
                .to_owned();
            let mut words = line.split(' ');
            return Some((bytes, words.next()?.into(), words.next()?.into()));
        }
    }
}

/// The payload of a signed request (RFC 7515).
fn payload(request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    let encoded = text.split("\"payload\":\"").nth(1).unwrap();
    let encoded = encoded.split('"').next().unwrap();
    String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(encoded).unwrap()).unwrap()
}

/// Pebble 2.4 is older than ARI and profiles.
fn with_renewal_info(answer: &[u8], port: u16) -> Vec<u8> {
    let text = String::from_utf8_lossy(answer);
    let body = text.split_once("\r\n\r\n").unwrap().1;
    let body = body.replacen(
        '{',
        &format!("{{\"renewalInfo\": \"https://localhost:{port}/renewal\","),
        1,
    );
    let profiles = "\"profiles\": {\"classic\": \"usual\", \"shortlived\": \"six days\"},";
    let body = body.replacen("\"meta\": {", &format!("\"meta\": {{{profiles}"), 1);
    json("200 OK", "", &body).into_bytes()
}

/// `fields`: lines with their ends.
pub fn json(status: &str, fields: &str, body: &str) -> String {
    let kind = if status.starts_with('2') {
        "application/json"
    } else {
        "application/problem+json"
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn server_config(authority: &Authority) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(authority.folder.join("own.pem"))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_file(authority.folder.join("own.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(
        config
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap(),
    )
}

fn client_config(authority: &Authority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority.directory_ca()).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

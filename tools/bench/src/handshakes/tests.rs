//! Against a server that does as it is told.

use super::*;
use crate::certificate::Certificate;
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, ServerSessionMemoryCache},
};
use saker_testkit::TempDir;
use std::net::{TcpListener, TcpStream};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";

/// Starts a server that ends with the tests; returns its address and the load for it.
fn server(dir: &TempDir, with_tickets: bool, answer: &'static [u8]) -> Setting {
    let certificate = Certificate::write(dir).expect("written");
    let files = certificate.files();
    let chain = vec![CertificateDer::from_pem_file(files.chain).expect("chain")];
    let key = PrivateKeyDer::from_pem_file(files.key).expect("key");
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions();
    let mut config = builder
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("certificate");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = if with_tickets {
        ServerSessionMemoryCache::new(100)
    } else {
        Arc::new(NoServerSessionStorage {})
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("address");
    let config = Arc::new(config);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::spawn(move || serve(stream, config, answer));
        }
    });
    Setting {
        resumed: with_tickets,
        chain: files.chain.to_owned(),
        address,
        path: "x".into(),
        connections: 2,
        seconds: 1,
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, answer: &[u8]) -> io::Result<()> {
    let mut stream = StreamOwned::new(
        ServerConnection::new(config).map_err(io::Error::other)?,
        stream,
    );
    let _ = stream.read(&mut [0; 1024])?;
    stream.write_all(answer)?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn client(setting: &Setting, bank: Option<&Arc<Bank>>) -> Arc<ClientConfig> {
    let resumption = bank.map_or_else(Resumption::disabled, |bank| {
        Resumption::store(Arc::<Bank>::clone(bank))
    });
    tls_client::configuration(&setting.chain, "http/1.1", resumption).expect("configured")
}

fn load_some(
    setting: &Setting,
    config: &Arc<ClientConfig>,
    kind: HandshakeKind,
    count: usize,
) -> Tally {
    let started = AtomicUsize::new(0);
    load(setting, config, kind, &|| {
        started.fetch_add(1, Ordering::Relaxed) < count
    })
}

#[test]
fn full_handshakes() {
    let dir = TempDir::new("handshakes").expect("made");
    let setting = server(&dir, true, ANSWER);
    let tally = load_some(&setting, &client(&setting, None), HandshakeKind::Full, 10);
    assert_eq!(
        (tally.errors, tally.latencies.len(), tally.bytes),
        (0, 10, 10 * ANSWER.len()),
        "{:?}",
        tally.first_error
    );
}

#[test]
fn tickets_are_banked_and_then_used() {
    let dir = TempDir::new("handshakes").expect("made");
    let (setting, bank) = (server(&dir, true, ANSWER), Arc::new(Bank::default()));
    let config = client(&setting, Some(&bank));
    let filling = load_some(&setting, &config, HandshakeKind::Full, 10);
    assert!(
        filling.errors == 0 && bank.tickets() >= 10,
        "{:?}",
        filling.first_error
    );
    bank.open();
    let tally = load_some(&setting, &config, HandshakeKind::Resumed, 10);
    assert_eq!(
        (tally.errors, tally.latencies.len()),
        (0, 10),
        "{:?}",
        tally.first_error
    );
}

#[test]
fn a_handshake_of_another_kind_and_another_answer_are_errors() {
    let dir = TempDir::new("handshakes").expect("made");
    let bank = Arc::new(Bank::default());
    bank.open();
    let setting = server(&dir, false, ANSWER);
    let tally = load_some(
        &setting,
        &client(&setting, Some(&bank)),
        HandshakeKind::Resumed,
        3,
    );
    let complaint = tally.first_error.expect("an error").to_string();
    assert_eq!(
        (tally.errors, complaint.as_str()),
        (3, "the handshake was Some(Full) instead of Resumed")
    );
    let missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let setting = server(&dir, true, missing);
    assert_eq!(
        load_some(&setting, &client(&setting, None), HandshakeKind::Full, 3).errors,
        3
    );
}

#[test]
fn nobody_there_is_not_asked_for_long() {
    let dir = TempDir::new("handshakes").expect("made");
    let setting = Setting {
        address: SocketAddr::from(([127, 0, 0, 1], saker_testkit::free_port().expect("port"))),
        ..server(&dir, true, ANSWER)
    };
    let tally = load(
        &setting,
        &client(&setting, None),
        HandshakeKind::Full,
        &|| true,
    );
    assert_eq!(tally.errors, ERRORS_MAX * setting.connections);
}

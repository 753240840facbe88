//! The load against a small server of its own that answers every request with the same bytes.
//!
//! The server is quinn-proto again, without HTTP/3: the bytes of its answers are written out here. That the load gets along with real
//! servers is for the tests of those.

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig, StreamEvent, StreamId,
    crypto::rustls::QuicServerConfig,
};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use saker_load::{
    load,
    plan::{End, Plan, Tickets},
    tally::Tally,
};
use std::{
    collections::HashMap,
    net::{SocketAddr, UdpSocket},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// `:status: 200`, `content-length: 5`, and the content, a frame of an unknown kind before it.
const HELLO: &[u8] = b"\x01\x06\x00\x00\xd9\x54\x015\x21\x01x\x00\x05hello";
const NOT_FOUND: &[u8] = b"\x01\x03\x00\x00\xdb";
const CUT: &[u8] = b"\x01\x06\x00\x00\xd9\x54\x015\x00\x05hel";

struct Server {
    address: SocketAddr,
    chain: PathBuf,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Of requests, heads and frames included.
    bytes: AtomicU64,
    requests: AtomicUsize,
    connections: AtomicUsize,
}

impl Server {
    fn start(answer: &'static [u8]) -> Server {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let chain = std::env::temp_dir().join(format!("saker-load-{}-{number}.pem", std::process::id()));
        std::fs::write(&chain, made.cert.pem()).expect("written");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = tls(made.cert.der().clone(), key);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let (address, seen) = (socket.local_addr().expect("bound"), Arc::<Seen>::default());
        let mut serving = Serving {
            socket,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(config)), true, None),
            connections: HashMap::new(),
            answer,
            seen: Arc::clone(&seen),
        };
        // Ends with the test's process.
        thread::spawn(move || serving.serve());
        Server { address, chain, seen }
    }

    fn plan(&self) -> Plan {
        Plan {
            address: self.address,
            paths: vec!["/".into(), "/other".into()],
            chain: self.chain.clone(),
            connections: 1,
            streams: 1,
            end: End::Requests(1),
            upload_bytes: None,
            think: Duration::ZERO,
            requests_per_connection: None,
            tickets: Tickets::No,
            patience: Duration::from_secs(20),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.chain);
    }
}

fn tls(chain: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> ServerConfig {
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("known").with_no_client_auth();
    let mut config = builder.with_single_cert(vec![chain], key).expect("they belong together");
    config.alpn_protocols = vec![b"h3".to_vec()];
    config.max_early_data_size = u32::MAX;
    let crypto = QuicServerConfig::try_from(config).expect("it has the cipher of QUIC's first packets");
    ServerConfig::with_crypto(Arc::new(crypto))
}

struct Serving {
    socket: UdpSocket,
    endpoint: Endpoint,
    connections: HashMap<ConnectionHandle, Connection>,
    answer: &'static [u8],
    seen: Arc<Seen>,
}

impl Serving {
    fn serve(&mut self) {
        let mut datagram = [0; 2000];
        self.socket.set_read_timeout(Some(Duration::from_millis(1))).expect("set");
        loop {
            if let Ok((length, from)) = self.socket.recv_from(&mut datagram) {
                self.receive(&datagram[..length], from);
            }
            for handle in self.connections.keys().copied().collect::<Vec<_>>() {
                self.turn(handle);
            }
        }
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr) {
        let (now, mut out) = (Instant::now(), Vec::new());
        match self.endpoint.handle(now, from, None, None, BytesMut::from(datagram), &mut out) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let (handle, connection) = self.endpoint.accept(incoming, now, &mut out, None).expect("a good client");
                self.connections.insert(handle, connection);
                self.seen.connections.fetch_add(1, Ordering::Relaxed);
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.handle_event(event);
                }
            }
            _ => {}
        }
    }

    fn turn(&mut self, handle: ConnectionHandle) {
        let (now, mut out) = (Instant::now(), Vec::new());
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        if connection.poll_timeout().is_some_and(|time| time <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(stream) = connection.streams().accept(Dir::Bi) {
                        answer(connection, stream, self.answer, &self.seen);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => answer(connection, id, self.answer, &self.seen),
                _ => {}
            }
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut out) {
            let _ = self.socket.send_to(&out[..transmit.size], transmit.destination);
            out.clear();
        }
        if connection.is_drained() {
            self.connections.remove(&handle);
        }
    }
}

/// Reads what has come, and answers at the end.
fn answer(connection: &mut Connection, stream: StreamId, answer: &'static [u8], seen: &Seen) {
    let mut incoming = connection.recv_stream(stream);
    let Ok(mut chunks) = incoming.read(true) else { return };
    let is_ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => _ = seen.bytes.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed),
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    let _ = chunks.finalize();
    if is_ended {
        seen.requests.fetch_add(1, Ordering::Relaxed);
        let mut outgoing = connection.send_stream(stream);
        outgoing.write_chunks(&mut [Bytes::from_static(answer)]).expect("there is room");
        outgoing.finish().expect("once");
    }
}

fn passed(tally: &Tally, requests: u64) {
    assert!(tally.errors.is_empty() && tally.requests() == requests, "{tally}");
    assert_eq!(tally.bytes_received, requests * 5);
    assert!(tally.latencies.longest() > Duration::ZERO);
}

#[test]
fn every_request_is_made_once_and_timed() {
    let server = Server::start(HELLO);
    let tally = load(&Plan { connections: 5, streams: 4, end: End::Requests(203), ..server.plan() }).expect("ran");
    passed(&tally, 203);
    assert_eq!((tally.handshakes, server.seen.requests.load(Ordering::Relaxed)), (5, 203));
}

#[test]
fn connections_end_after_so_many_requests_and_others_follow() {
    let server = Server::start(HELLO);
    let plan = Plan { connections: 2, streams: 3, requests_per_connection: Some(5), end: End::Requests(40), ..server.plan() };
    let tally = load(&plan).expect("ran");
    passed(&tally, 40);
    assert_eq!((tally.handshakes, server.seen.connections.load(Ordering::Relaxed)), (8, 8));
}

#[test]
fn content_goes_up() {
    let server = Server::start(HELLO);
    let tally = load(&Plan { streams: 2, upload_bytes: Some(300_000), end: End::Requests(6), ..server.plan() }).expect("ran");
    passed(&tally, 6);
    assert_eq!(tally.bytes_sent, 1_800_000);
    let seen = server.seen.bytes.load(Ordering::Relaxed);
    assert!((1_800_000..1_801_000).contains(&seen), "{seen}");
}

#[test]
fn tickets_are_used_for_early_data() {
    let server = Server::start(HELLO);
    let plan = Plan { requests_per_connection: Some(1), end: End::Requests(10), ..server.plan() };
    let without = load(&plan).expect("ran");
    passed(&without, 10);
    assert_eq!((without.handshakes, without.early), (10, 0));
    let with = load(&Plan { tickets: Tickets::EarlyData, ..plan }).expect("ran");
    passed(&with, 10);
    // The first had nothing to go by, and some are over before their ticket is there.
    assert!(with.handshakes == 10 && (2..10).contains(&with.early), "{with}");
}

#[test]
fn a_visitor_thinks_between_requests() {
    let server = Server::start(HELLO);
    let tally = load(&Plan { think: Duration::from_millis(50), end: End::Requests(5), ..server.plan() }).expect("ran");
    passed(&tally, 5);
    assert!(tally.time >= Duration::from_millis(200), "{tally}");
}

#[test]
fn a_time_can_be_set_instead_of_a_number() {
    let server = Server::start(HELLO);
    let end = End::Time { warm_up: Duration::from_millis(100), counted: Duration::from_millis(300) };
    let tally = load(&Plan { streams: 2, end, ..server.plan() }).expect("ran");
    assert!(tally.errors.is_empty() && tally.requests() > 0 && tally.handshakes == 0, "{tally}");
    assert!(tally.time >= Duration::from_millis(300) && tally.time < Duration::from_secs(3), "{tally}");
    let in_all = server.seen.requests.load(Ordering::Relaxed) as u64;
    assert!(in_all > tally.requests(), "the warm-up is not counted");
}

#[test]
fn idle_connections_stay_and_answer_again() {
    let server = Server::start(HELLO);
    let look = || server.seen.requests.load(Ordering::Relaxed);
    let (asked, errors) = saker_load::idle(server.address, "/", &server.chain, 30, Duration::from_millis(100), 10, look).expect("ran");
    assert_eq!((asked, errors, server.seen.requests.load(Ordering::Relaxed)), (30, 0, 33));
}

#[test]
fn what_goes_wrong_is_an_error_with_its_name() {
    for (answer, name) in
        [(NOT_FOUND, "status 404"), (CUT, "the stream ended within a frame"), (b"", "the stream ended without a response")]
    {
        let server = Server::start(answer);
        let tally = load(&Plan { end: End::Requests(3), ..server.plan() }).expect("ran");
        assert_eq!((tally.requests(), tally.errors.get(name)), (0, Some(&3)), "{tally}");
    }
}

#[test]
fn nobody_there_is_an_error_after_a_while() {
    let server = Server::start(HELLO);
    let silent = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let address = silent.local_addr().expect("bound");
    let tally = load(&Plan { address, patience: Duration::from_millis(200), ..server.plan() }).expect("ran");
    assert_eq!((tally.requests(), tally.errors_in_all()), (0, 1), "{tally}");
}

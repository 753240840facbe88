//! A small server that answers every request with the same bytes: quinn-proto without HTTP/3, whose
//! frames are written out here.
#![allow(dead_code, reason = "each test program uses a part of it")]

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ServerConfig, StreamEvent, StreamId, crypto::rustls::QuicServerConfig,
};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use saker_load::plan::{End, Plan, Tickets};
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
pub const HELLO: &[u8] = b"\x01\x06\x00\x00\xd9\x54\x015\x21\x01x\x00\x05hello";
pub const NOT_FOUND: &[u8] = b"\x01\x03\x00\x00\xdb";
pub const CUT: &[u8] = b"\x01\x06\x00\x00\xd9\x54\x015\x00\x05hel";

pub struct Server {
    pub address: SocketAddr,
    pub chain: PathBuf,
    pub seen: Arc<SeenRequests>,
}

#[derive(Default)]
pub struct SeenRequests {
    /// Bytes of requests, heads and frames included.
    pub bytes: AtomicU64,
    pub requests: AtomicUsize,
    pub connections: AtomicUsize,
}

impl Server {
    pub fn start(answer: &'static [u8]) -> Server {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let chain =
            std::env::temp_dir().join(format!("saker-load-{}-{number}.pem", std::process::id()));
        std::fs::write(&chain, made.cert.pem()).expect("written");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = tls(made.cert.der().clone(), key);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let (address, seen) = (
            socket.local_addr().expect("bound"),
            Arc::<SeenRequests>::default(),
        );
        let mut serving = Serving {
            socket,
            endpoint: Endpoint::new(
                Arc::new(EndpointConfig::default()),
                Some(Arc::new(config)),
                true,
                None,
            ),
            connections: HashMap::new(),
            answer,
            seen: Arc::clone(&seen),
        };
        // Ends with the test's process.
        thread::spawn(move || serving.serve());
        Server {
            address,
            chain,
            seen,
        }
    }

    pub fn plan(&self) -> Plan {
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
            padding: false,
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
    let builder =
        rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("known")
        .with_no_client_auth();
    let mut config = builder
        .with_single_cert(vec![chain], key)
        .expect("they belong together");
    config.alpn_protocols = vec![b"h3".to_vec()];
    config.max_early_data_size = u32::MAX;
    let crypto =
        QuicServerConfig::try_from(config).expect("it has the cipher of QUIC's first packets");
    ServerConfig::with_crypto(Arc::new(crypto))
}

struct Serving {
    socket: UdpSocket,
    endpoint: Endpoint,
    connections: HashMap<ConnectionHandle, Connection>,
    answer: &'static [u8],
    seen: Arc<SeenRequests>,
}

impl Serving {
    fn serve(&mut self) {
        let mut datagram = [0; 2000];
        self.socket
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("set");
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
        match self
            .endpoint
            .handle(now, from, None, None, BytesMut::from(datagram), &mut out)
        {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let (handle, connection) = self
                    .endpoint
                    .accept(incoming, now, &mut out, None)
                    .expect("a good client");
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
        let Some(connection) = self.connections.get_mut(&handle) else {
            return;
        };
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
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => {
                    answer(connection, id, self.answer, &self.seen)
                }
                _ => {}
            }
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut out) {
            let _ = self
                .socket
                .send_to(&out[..transmit.size], transmit.destination);
            out.clear();
        }
        if connection.is_drained() {
            self.connections.remove(&handle);
        }
    }
}

/// Reads what has come, and answers at the end.
fn answer(
    connection: &mut Connection,
    stream: StreamId,
    answer: &'static [u8],
    seen: &SeenRequests,
) {
    let mut incoming = connection.recv_stream(stream);
    let Ok(mut chunks) = incoming.read(true) else {
        return;
    };
    let is_ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => {
                _ = seen
                    .bytes
                    .fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed)
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    let _ = chunks.finalize();
    if is_ended {
        seen.requests.fetch_add(1, Ordering::Relaxed);
        let mut outgoing = connection.send_stream(stream);
        outgoing
            .write_chunks(&mut [Bytes::from_static(answer)])
            .expect("there is room");
        outgoing.finish().expect("once");
    }
}

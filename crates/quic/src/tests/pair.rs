//! Two endpoints and the network between them, in memory and in a time of its own.

use crate::{
    Admission, ClientCrypto, Connection, Endpoint, Event, Id, Place, Read, Secrets, ServerCrypto,
    Settings, Settled, Sink, Written,
};
use bytes::Bytes;
use quinn_proto::ClientConfig;
use rustls::{
    RootCertStore,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::{NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions},
};
use saker_net::{Arrival, Departure};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

pub const SERVER: &str = "192.0.2.1:443";
pub const CLIENT: &str = "198.51.100.7:50000";
/// Bytes that IP and UDP put before a datagram.
const HEADER_BYTES: usize = 28;

static IDENTITY: LazyLock<rcgen::CertifiedKey<rcgen::KeyPair>> =
    LazyLock::new(|| rcgen::generate_simple_self_signed(vec!["example.org".into()]).unwrap());

pub struct Packet {
    pub due: Instant,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub ecn: u8,
    pub bytes: Vec<u8>,
}

/// Simulated path: packets pass one after the other, take a while, and some are lost.
pub struct Path {
    pub latency: Duration,
    pub bytes_per_s: Option<f64>,
    /// Packets that may wait to be sent; further ones are dropped.
    pub queue_packets: usize,
    /// Longer datagrams are dropped without a word.
    pub datagram_bytes_max: usize,
    /// Packets per thousand that are lost, and that are held back for `held_back`.
    pub lost: u64,
    pub late: u64,
    pub held_back: Duration,
    pub chance: u64,
    pub leaving: VecDeque<Instant>,
}

impl Default for Path {
    fn default() -> Path {
        let (latency, held_back) = (Duration::from_millis(10), Duration::from_millis(3));
        let (bytes_per_s, queue_packets, datagram_bytes_max) = (None, usize::MAX, usize::MAX);
        Path {
            latency,
            bytes_per_s,
            queue_packets,
            datagram_bytes_max,
            lost: 0,
            late: 0,
            held_back,
            chance: 7,
            leaving: VecDeque::new(),
        }
    }
}

impl Path {
    pub fn new(mbit_per_s: f64, latency: Duration, queue_packets: usize) -> Path {
        Path {
            latency,
            bytes_per_s: Some(mbit_per_s * 1e6 / 8.0),
            queue_packets,
            ..Path::default()
        }
    }

    /// Returns the time at which a packet of so many bytes arrives, if it does.
    fn arrival(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        if bytes > self.datagram_bytes_max {
            return None;
        }
        while self.leaving.front().is_some_and(|left| *left <= now) {
            self.leaving.pop_front();
        }
        let mut left = self.leaving.back().copied().unwrap_or(now);
        if let Some(rate) = self.bytes_per_s {
            if self.leaving.len() > self.queue_packets {
                return None;
            }
            left += Duration::from_secs_f64((bytes + HEADER_BYTES) as f64 / rate);
            self.leaving.push_back(left);
        }
        let held_back = if self.happens(self.late) {
            self.held_back
        } else {
            Duration::ZERO
        };
        (!self.happens(self.lost)).then_some(left + self.latency + held_back)
    }

    /// By a generator of its own (Knuth's), so that every run is the same.
    fn happens(&mut self, of_thousand: u64) -> bool {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % 1000 < of_thousand
    }
}

/// One side's network card.
pub struct Card {
    pub address: SocketAddr,
    pub queue: VecDeque<Packet>,
    pub path: Path,
    pub now: Instant,
    pub sent_bytes: usize,
    pub sent: usize,
    /// Every n-th packet is lost.
    pub lose_each: usize,
    /// Refuses so many sends.
    pub refuse: usize,
    pub ecn_seen: BTreeSet<u8>,
}

impl Card {
    fn new(address: &str, now: Instant) -> Card {
        let address = address.parse().unwrap();
        let (queue, ecn_seen) = (VecDeque::new(), BTreeSet::new());
        Card {
            address,
            queue,
            path: Path::default(),
            now,
            sent_bytes: 0,
            sent: 0,
            lose_each: 0,
            refuse: 0,
            ecn_seen,
        }
    }
}

impl Sink for Card {
    fn send(&mut self, departure: Departure<'_>) -> bool {
        if self.refuse > 0 {
            self.refuse -= 1;
            return false;
        }
        self.ecn_seen.insert(departure.ecn);
        for datagram in departure.bytes.chunks(departure.datagram_bytes) {
            self.sent += 1;
            self.sent_bytes += datagram.len();
            if self.lose_each == 0 || !self.sent.is_multiple_of(self.lose_each) {
                let Some(due) = self.path.arrival(self.now, datagram.len()) else {
                    continue;
                };
                let packet = Packet {
                    due,
                    from: self.address,
                    to: departure.peer,
                    ecn: departure.ecn,
                    bytes: datagram.to_vec(),
                };
                let at = self.queue.partition_point(|other| other.due <= due);
                self.queue.insert(at, packet);
            }
        }
        true
    }

    fn datagrams_at_once(&self) -> usize {
        16
    }
}

/// Application on one side: reads everything, sends what it is told to, and as a server echoes what
/// it receives.
#[derive(Default)]
pub struct Peer {
    pub echoes: bool,
    pub reads: bool,
    pub events: Vec<Event>,
    pub received: BTreeMap<u64, Vec<u8>>,
    pub ended: BTreeSet<u64>,
    pub early: BTreeSet<u64>,
    sending: BTreeMap<u64, Bytes>,
}

impl Peer {
    pub fn client() -> Peer {
        Peer {
            reads: true,
            ..Peer::default()
        }
    }

    pub fn send(&mut self, stream: u64, bytes: impl Into<Bytes>) {
        self.sending.insert(stream, bytes.into());
    }

    pub fn has(&self, event: &Event) -> bool {
        self.events.contains(event)
    }

    pub fn lost(&self) -> Option<&crate::Lost> {
        self.events.iter().find_map(|event| {
            if let Event::Lost(lost) = event {
                Some(lost)
            } else {
                None
            }
        })
    }

    pub fn turn(&mut self, connection: &mut Connection) {
        while let Some(event) = connection.poll_event() {
            self.events.push(event);
        }
        while let Some(stream) = connection.accept(true) {
            self.received.entry(stream).or_default();
            if connection.is_early() {
                self.early.insert(stream);
            }
        }
        if self.reads {
            self.read(connection);
        }
        self.write(connection);
    }

    fn read(&mut self, connection: &mut Connection) {
        let open: Vec<u64> = self
            .received
            .keys()
            .copied()
            .filter(|stream| !self.ended.contains(stream))
            .collect();
        for stream in open {
            let received = self.received.get_mut(&stream).unwrap();
            match connection.read(stream, usize::MAX, |bytes| {
                received.extend_from_slice(&bytes)
            }) {
                Read::End => drop(self.ended.insert(stream)),
                Read::Blocked => continue,
                other => panic!("{other:?}"),
            }
            if self.echoes {
                let bytes = Bytes::from(self.received[&stream].clone());
                self.send(stream, bytes);
            }
        }
    }

    fn write(&mut self, connection: &mut Connection) {
        self.sending.retain(|stream, rest| {
            let mut chunk = rest.slice(..rest.len().min(64 << 10));
            let written = connection.write_chunk(*stream, &mut chunk);
            if let Written::Bytes(taken) = written {
                let _ = rest.split_to(taken);
            }
            match written {
                Written::Bytes(_) | Written::Blocked if !rest.is_empty() => true,
                Written::Bytes(_) => !connection.finish(*stream),
                Written::Blocked => true,
                Written::Stopped(_) | Written::Gone => false,
            }
        });
    }
}

#[derive(Default)]
pub struct Admitting {
    pub admits: bool,
    pub is_silent: bool,
}

impl Admission<Peer> for Admitting {
    fn admit(&mut self, _: SocketAddr) -> Option<Peer> {
        self.admits.then(|| Peer {
            echoes: true,
            reads: true,
            ..Peer::default()
        })
    }

    fn is_for_another(&self, _: &[u8]) -> bool {
        self.is_silent
    }
}

pub struct Pair {
    pub now: Instant,
    pub server: Endpoint<Peer>,
    pub client: Endpoint<Peer>,
    pub server_card: Card,
    pub client_card: Card,
    pub door: Admitting,
    pub secrets: Secrets,
    pub settings: Settings,
    pub client_config: ClientConfig,
    /// The server has no turn for so long after each: other processes have theirs.
    pub server_sleeps: Duration,
    server_awakes: Instant,
    sessions: Arc<dyn StoresServerSessions>,
}

impl Pair {
    pub fn new(settings: Settings) -> Pair {
        Pair::with_sessions(settings, Arc::new(NoServerSessionStorage {}))
    }

    pub fn with_early_data(settings: Settings) -> Pair {
        Pair::with_sessions(settings, ServerSessionMemoryCache::new(16))
    }

    fn with_sessions(settings: Settings, sessions: Arc<dyn StoresServerSessions>) -> Pair {
        let now = Instant::now();
        let secrets = Secrets::random().unwrap();
        let server = Endpoint::server(&settings, &secrets, server_crypto(&sessions), PLACE, true);
        let client = Endpoint::client(&Settings::default(), &Secrets::random().unwrap(), true);
        let (server_card, client_card) = (Card::new(SERVER, now), Card::new(CLIENT, now));
        let client_config = client_config();
        let door = Admitting {
            admits: true,
            is_silent: false,
        };
        let server_sleeps = Duration::ZERO;
        Pair {
            now,
            server,
            client,
            server_card,
            client_card,
            door,
            secrets,
            settings,
            client_config,
            server_sleeps,
            server_awakes: now,
            sessions,
        }
    }

    /// Another server process' worth of memory, with the same secrets.
    pub fn replace_server(&mut self) {
        self.server = Endpoint::server(
            &self.settings,
            &self.secrets,
            server_crypto(&self.sessions),
            PLACE,
            true,
        );
    }

    pub fn connect(&mut self) -> Id {
        let address = self.server_card.address;
        self.client
            .connect(
                self.now,
                self.client_config.clone(),
                address,
                "example.org",
                Peer::client(),
            )
            .unwrap()
    }

    pub fn established(settings: Settings) -> (Pair, Id) {
        Pair::established_over(settings, Path::default().latency)
    }

    /// So far from each other.
    pub fn established_over(settings: Settings, latency: Duration) -> (Pair, Id) {
        let mut pair = Pair::new(settings);
        pair.server_card.path.latency = latency;
        pair.client_card.path.latency = latency;
        let id = pair.connect();
        pair.run(Duration::from_millis(500));
        assert!(
            pair.client(id).1.has(&Event::Established),
            "{:?}",
            pair.client(id).1.events
        );
        (pair, id)
    }

    pub fn client(&mut self, id: Id) -> (&mut Connection, &mut Peer) {
        self.client
            .connection(id, self.now)
            .expect("the client's connection")
    }

    /// The server's only connection.
    pub fn server(&mut self) -> (&mut Connection, &mut Peer) {
        let id = self
            .server
            .ids()
            .next()
            .expect("a connection on the server");
        self.server.connection(id, self.now).unwrap()
    }

    /// Sends on a new stream, and returns its number.
    pub fn send(&mut self, id: Id, bytes: impl Into<Bytes>) -> u64 {
        let (connection, peer) = self.client(id);
        let stream = connection.open(true).unwrap();
        peer.send(stream, bytes);
        peer.received.insert(stream, Vec::new());
        self.client.wake(id);
        stream
    }

    pub fn run(&mut self, for_time: Duration) {
        let end = self.now + for_time;
        loop {
            self.step();
            let due = |card: &Card, limit: Option<Instant>| {
                card.queue
                    .front()
                    .map(|packet| packet.due)
                    .into_iter()
                    .chain(limit)
                    .min()
            };
            let of_server = due(&self.client_card, self.server.next_limit())
                .map(|due| due.max(self.server_awakes));
            let of_client = due(&self.server_card, self.client.next_limit());
            let Some(next) = of_server
                .into_iter()
                .chain(of_client)
                .min()
                .filter(|next| *next <= end)
            else {
                break;
            };
            self.now = self.now.max(next);
        }
        self.now = end;
    }

    fn step(&mut self) {
        let now = self.now;
        (self.server_card.now, self.client_card.now) = (now, now);
        if now >= self.server_awakes {
            let to_server = take_due(&mut self.client_card.queue, now, self.server_card.address);
            deliver(
                &mut self.server,
                to_server,
                now,
                &mut self.door,
                &mut self.server_card,
            );
            turn(&mut self.server, now, &mut self.server_card);
            self.server_awakes = now + self.server_sleeps;
        }
        let to_client = take_due(&mut self.server_card.queue, now, self.client_card.address);
        deliver(
            &mut self.client,
            to_client,
            now,
            &mut Admitting::default(),
            &mut self.client_card,
        );
        turn(&mut self.client, now, &mut self.client_card);
    }
}

pub const PLACE: Place = Place {
    worker: 2,
    workers: 5,
};

fn take_due(queue: &mut VecDeque<Packet>, now: Instant, to: SocketAddr) -> Vec<Packet> {
    let due = queue.iter().take_while(|packet| packet.due <= now).count();
    // Packets to an address without a receiver are lost.
    queue
        .drain(..due)
        .filter(|packet| packet.to == to)
        .collect()
}

fn deliver(
    endpoint: &mut Endpoint<Peer>,
    packets: Vec<Packet>,
    now: Instant,
    door: &mut Admitting,
    card: &mut Card,
) {
    for packet in packets {
        let (peer, local) = (packet.from, Some(packet.to.ip()));
        let arrival = Arrival {
            peer,
            local,
            ecn: packet.ecn,
            datagram_bytes: packet.bytes.len(),
            bytes: &packet.bytes,
        };
        endpoint.receive(now, arrival, door, card);
    }
}

fn turn(endpoint: &mut Endpoint<Peer>, now: Instant, card: &mut Card) {
    endpoint.expire(now);
    while !endpoint.flush(card) {}
    while let Some(id) = endpoint.next_with_work() {
        let Some((connection, peer)) = endpoint.connection(id, now) else {
            continue;
        };
        peer.turn(connection);
        if endpoint.settle(id, now, card) == Settled::Full {
            while !endpoint.flush(card) {}
        }
    }
}

fn server_crypto(sessions: &Arc<dyn StoresServerSessions>) -> ServerCrypto {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(
        IDENTITY.signing_key.serialize_der(),
    ));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(vec![IDENTITY.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h3".to_vec()];
    config.max_early_data_size = u32::MAX;
    config.session_storage = Arc::clone(sessions);
    ServerCrypto::new(Arc::new(Arc::new(config)), || None).unwrap()
}

pub fn client_crypto() -> ClientCrypto {
    let mut roots = RootCertStore::empty();
    roots.add(IDENTITY.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h3".to_vec()];
    config.enable_early_data = true;
    ClientCrypto::new(Arc::new(config)).unwrap()
}

pub fn client_config() -> ClientConfig {
    client_config_with(Arc::new(client_crypto()))
}

pub fn client_config_with(crypto: Arc<dyn quinn_proto::crypto::ClientConfig>) -> ClientConfig {
    let mut config = ClientConfig::new(crypto);
    config.transport_config(Arc::new(
        Settings {
            stream_window_bytes: 64 << 20,
            connection_window_bytes: 64 << 20,
            ..Settings::default()
        }
        .transport(),
    ));
    config
}

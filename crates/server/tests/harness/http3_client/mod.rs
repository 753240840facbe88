//! An HTTP/3 client that a test can read top to bottom: one connection over a UDP socket of its
//! own, driven until the wanted response is complete.
//!
//! QUIC and HTTP/3 are Saker's own crates in client role; below them a test can write to every
//! stream and end it. The socket may be exchanged for another (migration), and tickets are kept for
//! the next connection (0-RTT).
// Each test program uses its part; a test that fails may say so as it likes.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

pub mod site;

use bytes::Bytes;
use quinn_proto::{ClientConfig, IdleTimeout, TokenMemoryCache, TransportConfig};
use rustls::{
    NamedGroup,
    client::{
        ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
        Tls13ClientSessionValue,
    },
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use saker_http3::{
    Connection as Machine, ErrorCode, Event as Meaning, HeadStore, Indexing, Limits, Outgoing,
};
use saker_net::{Arrival, Departure};
use saker_quic::{
    Admission, ClientCrypto, Connection, Endpoint, Event, Id, Lost, Read, Secrets, Settings, Sink,
    Written,
};
use saker_tls_verifier::{CertificatePolicy, Presented, ServerVerifier};
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Time limit of each step of a test.
const PATIENCE: Duration = Duration::from_secs(60);
const DATAGRAM_BYTES: usize = 65_536;

/// State shared by connections: configuration and session tickets.
#[derive(Clone)]
pub struct Client {
    tls: Arc<rustls::ClientConfig>,
    tickets: Arc<Tickets>,
    /// Proofs of the address, from earlier connections.
    tokens: Arc<TokenMemoryCache>,
    pub name: String,
    pub limits: Limits,
    pub settings: Settings,
    /// Packets are padded to the path's MTU.
    pub pads: bool,
}

impl Default for Client {
    fn default() -> Client {
        Client::new(None)
    }
}

/// A client's certificate and its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Client {
    /// A client whose packets are padded.
    pub fn padding() -> Client {
        Client {
            pads: true,
            ..Client::default()
        }
    }

    /// Shows the certificate of `NAME.pem` and `NAME.key` where it is asked for one.
    pub fn who_shows(dir: &Path, name: &str) -> Client {
        let chain = CertificateDer::pem_file_iter(dir.join(format!("{name}.pem")))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        Client::new(Some((
            chain,
            PrivateKeyDer::from_pem_file(dir.join(format!("{name}.key"))).unwrap(),
        )))
    }

    /// The same client at another address: it has its tickets, and no proof of where it is.
    pub fn without_tokens(&self) -> Client {
        Client {
            tokens: Arc::default(),
            ..self.clone()
        }
    }

    fn new(identity: Option<Identity>) -> Client {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap();
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(ServerVerifier::new(AnyCertificate, provider));
        let mut tls = match identity {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
            None => builder.with_no_client_auth(),
        };
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls.enable_early_data = true;
        let tickets = Arc::new(Tickets {
            sessions: ClientSessionMemoryCache::new(256),
            received: AtomicUsize::new(0),
        });
        tls.resumption = Resumption::store(Arc::<Tickets>::clone(&tickets));
        Client {
            tls: Arc::new(tls),
            tickets,
            tokens: Arc::default(),
            name: "localhost".into(),
            limits: Limits::default(),
            settings: Settings::default(),
            pads: false,
        }
    }
}

impl Client {
    /// Begins a handshake; what is asked before it is over goes as early data where there is a
    /// ticket.
    pub fn begin(&self, server: &str) -> Http3 {
        let secrets = Secrets::random().unwrap();
        let mut endpoint = Endpoint::client(&self.settings, &secrets, true);
        let socket = bind();
        let mut config =
            ClientConfig::new(Arc::new(ClientCrypto::new(Arc::clone(&self.tls)).unwrap()));
        let mut transport = TransportConfig::default();
        // The shorter one of both sides' holds (RFC 9000 section 10.1).
        let idle = Duration::from_millis(self.settings.idle_timeout_ms);
        transport.max_idle_timeout(IdleTimeout::try_from(idle).ok());
        transport.pad_to_mtu(self.pads);
        config.transport_config(Arc::new(transport));
        config.token_store(Arc::clone(&self.tokens) as _);
        let server: SocketAddr = server.parse().unwrap();
        let peer = Peer {
            machine: Some(Machine::client(self.limits)),
            ..Peer::default()
        };
        let id = endpoint
            .connect(Instant::now(), config, server, &self.name, peer)
            .unwrap();
        let mut http3 = Http3 {
            socket,
            endpoint,
            id,
            lost: None,
            gone: false,
            authority: self.name.clone(),
            counted: (0, 0),
        };
        http3.turns();
        http3
    }

    /// Tickets received so far, over all connections.
    pub fn tickets_received(&self) -> usize {
        self.tickets.received.load(Ordering::Relaxed)
    }

    /// Connects and waits for a ticket, so that the next connection may send early data.
    pub fn connect_for_ticket(&self, server: &str) -> Http3 {
        let before = self.tickets_received();
        let mut http3 = self.begin(server);
        http3.until(|peer| peer.is_established && self.tickets_received() > before);
        http3
    }

    /// A connection that is ready.
    pub fn connect(&self, server: &str) -> Http3 {
        let mut http3 = self.begin(server);
        http3.until(|peer| peer.is_established);
        http3
    }
}

fn bind() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// Session store that counts the tickets it received, so that a test can wait for one.
#[derive(Debug)]
struct Tickets {
    sessions: ClientSessionMemoryCache,
    received: AtomicUsize,
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.sessions.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.sessions.set_tls12_session(server, session);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.sessions.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.sessions.insert_tls13_ticket(server, ticket);
        self.received.fetch_add(1, Ordering::Relaxed);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions.take_tls13_ticket(server)
    }
}

/// Received part of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub informational: Vec<u16>,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    pub ended: bool,
    /// The server reset the stream, with this code.
    pub reset: Option<u64>,
    /// The server wants no more of the request, with this code.
    pub stopped: Option<u64>,
    /// Arrival of the first content.
    pub began: Option<Instant>,
    pub done: Option<Instant>,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn is_over(&self) -> bool {
        self.ended || self.reset.is_some()
    }
}

/// The client's side of a connection.
#[derive(Default)]
pub struct Peer {
    machine: Option<Machine>,
    pub is_established: bool,
    pub responses: BTreeMap<u64, Response>,
    pub goaway: Option<u64>,
    /// Content is left with QUIC.
    pub is_lazy: bool,
    /// Our control, encoder and decoder streams, those that have been opened.
    pub control: [Option<u64>; 3],
    unsent: BTreeMap<u64, (Vec<u8>, bool)>,
    behind: BTreeMap<u64, Vec<u8>>,
    lost: Option<Lost>,
    head: HeadStore,
}

pub struct Http3 {
    socket: UdpSocket,
    endpoint: Endpoint<Peer>,
    id: Id,
    pub lost: Option<Lost>,
    gone: bool,
    pub authority: String,
    /// Datagrams sent and received.
    pub counted: (usize, usize),
}

impl Http3 {
    /// A whole exchange.
    pub fn get(&mut self, path: &str) -> Response {
        self.ask("GET", path, &[], b"")
    }

    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        let stream = self.open(method, path, fields, body.is_empty());
        if !body.is_empty() {
            self.send(stream, body, true);
        }
        self.response(stream)
    }

    /// Sends a head; the stream.
    pub fn open(&mut self, method: &str, path: &str, fields: &[(&str, &str)], ends: bool) -> u64 {
        let authority = self.authority.clone();
        let pseudo = [
            (":method", method),
            (":scheme", "https"),
            (":authority", &authority),
            (":path", path),
        ];
        self.open_with(&pseudo, fields, ends)
    }

    pub fn open_with(
        &mut self,
        pseudo: &[(&str, &str)],
        fields: &[(&str, &str)],
        ends: bool,
    ) -> u64 {
        let (connection, peer) = self
            .endpoint
            .connection(self.id, Instant::now())
            .expect("a connection");
        let stream = connection.open(true).expect("a stream");
        let mut out = Vec::new();
        let machine = peer.machine.as_mut().unwrap();
        let opened = machine.open(stream, ends, &mut out, |head| {
            pseudo
                .iter()
                .for_each(|(name, value)| head.pseudo(name.as_bytes(), value.as_bytes()));
            fields.iter().for_each(|(name, value)| {
                head.field(name.as_bytes(), value.as_bytes(), Indexing::Add)
            });
        });
        opened.expect("no stream to be had");
        peer.responses.insert(stream, Response::default());
        self.write(stream, &out, ends);
        stream
    }

    /// Content.
    pub fn send(&mut self, stream: u64, content: &[u8], ends: bool) {
        let peer = self.peer();
        let mut out = Vec::new();
        let machine = peer.machine.as_mut().unwrap();
        machine.begin_data(stream, content.len() as u64, ends, &mut out);
        out.extend_from_slice(content);
        self.write(stream, &out, ends);
    }

    /// Any bytes on any stream.
    pub fn write(&mut self, stream: u64, bytes: &[u8], ends: bool) {
        let (unsent, end) = self.peer().unsent.entry(stream).or_default();
        unsent.extend_from_slice(bytes);
        *end |= ends;
        self.touch();
    }

    /// A unidirectional stream, for bytes of all kinds.
    pub fn open_raw(&mut self, bidirectional: bool) -> u64 {
        let stream = self.connection().open(bidirectional).expect("a stream");
        self.peer().responses.insert(stream, Response::default());
        stream
    }

    pub fn response(&mut self, stream: u64) -> Response {
        self.until(|peer| peer.responses.get(&stream).is_some_and(Response::is_over));
        self.peer_ended(stream)
    }

    fn peer_ended(&mut self, stream: u64) -> Response {
        self.peer()
            .responses
            .get(&stream)
            .cloned()
            .unwrap_or_default()
    }

    pub fn reset(&mut self, stream: u64, code: ErrorCode) {
        self.connection().reset(stream, code.into());
        self.connection().stop(stream, code.into());
        self.touch();
    }

    pub fn stop(&mut self, stream: u64, code: ErrorCode) {
        self.connection().stop(stream, code.into());
        self.touch();
    }

    pub fn close(&mut self) {
        self.connection().close(ErrorCode::NoError.into(), "");
        self.touch();
    }

    /// From another port from now on.
    pub fn move_away(&mut self) {
        self.socket = bind();
        self.connection().ping();
        self.touch();
    }

    pub fn connection(&mut self) -> &mut Connection {
        self.endpoint
            .connection(self.id, Instant::now())
            .expect("the connection is gone")
            .0
    }

    pub fn is_gone(&self) -> bool {
        self.gone
    }

    pub fn peer(&mut self) -> &mut Peer {
        self.endpoint
            .connection(self.id, Instant::now())
            .expect("the connection is gone")
            .1
    }

    /// Leaves content with QUIC, so that the server's window closes.
    pub fn be_lazy(&mut self, is_lazy: bool) {
        self.peer().is_lazy = is_lazy;
        let streams: Vec<u64> = self.peer().responses.keys().copied().collect();
        let (connection, peer) = self
            .endpoint
            .connection(self.id, Instant::now())
            .expect("the connection is gone");
        if !is_lazy {
            streams
                .into_iter()
                .for_each(|stream| peer.read(stream, connection));
        }
        self.touch();
    }

    /// Drives the connection until this holds.
    pub fn until(&mut self, mut holds: impl FnMut(&Peer) -> bool) {
        let patience = Instant::now() + PATIENCE;
        loop {
            if self.gone {
                let lost = &self.lost;
                panic!("the connection is gone: {lost:?}");
            }
            if holds(self.peer()) {
                return;
            }
            assert!(
                Instant::now() < patience,
                "nothing more comes; so far: {:?}",
                short(&self.peer().responses)
            );
            self.step(patience);
        }
    }

    /// Drives the connection until the stream is over, be it with the connection.
    pub fn settle(&mut self, stream: u64) {
        let patience = Instant::now() + PATIENCE;
        while !self.gone
            && !self
                .peer()
                .responses
                .get(&stream)
                .is_some_and(Response::is_over)
        {
            assert!(
                Instant::now() < patience,
                "nothing more comes; so far: {:?}",
                short(&self.peer().responses)
            );
            self.step(patience);
        }
    }

    /// Drives the connection until it is over; how.
    pub fn until_lost(&mut self) -> Lost {
        let patience = Instant::now() + PATIENCE;
        loop {
            if let Some(lost) = &self.lost {
                return lost.clone();
            }
            assert!(Instant::now() < patience, "the connection stays");
            self.step(patience);
        }
    }

    /// Drives the connection for some time.
    pub fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.gone {
            self.step(end);
        }
    }

    fn touch(&mut self) {
        self.endpoint.wake(self.id);
        self.turns();
    }

    /// Waits for a datagram or a time limit, and sees what follows.
    fn step(&mut self, until: Instant) {
        let now = Instant::now();
        let limit = self
            .endpoint
            .next_limit()
            .map_or(until, |limit| limit.min(until));
        let wait = limit
            .saturating_duration_since(now)
            .clamp(Duration::from_millis(1), Duration::from_millis(200));
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let mut datagram = vec![0; DATAGRAM_BYTES];
        match self.socket.recv_from(&mut datagram) {
            Ok((bytes, peer)) => {
                self.counted.1 += 1;
                let arrival = Arrival {
                    peer,
                    local: None,
                    ecn: 0,
                    datagram_bytes: bytes.max(1),
                    bytes: &datagram[..bytes],
                };
                self.endpoint.receive(
                    Instant::now(),
                    arrival,
                    &mut Shut,
                    &mut Card(&self.socket, &mut self.counted.0),
                );
            }
            // A refused port is told by the next call.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => panic!("{error}"),
        }
        self.endpoint.expire(Instant::now());
        self.turns();
    }

    fn turns(&mut self) {
        while let Some(id) = self.endpoint.next_with_work() {
            let now = Instant::now();
            if let Some((connection, peer)) = self.endpoint.connection(id, now) {
                peer.turn(connection);
                if self.lost.is_none() {
                    self.lost.clone_from(&peer.lost);
                }
            }
            let settled =
                self.endpoint
                    .settle(id, now, &mut Card(&self.socket, &mut self.counted.0));
            self.gone |= settled == saker_quic::Settled::Gone || self.lost.is_some();
        }
    }
}

fn short(responses: &BTreeMap<u64, Response>) -> Vec<(u64, u16, usize, bool)> {
    responses
        .iter()
        .map(|(stream, response)| {
            (
                *stream,
                response.status,
                response.body.len(),
                response.ended,
            )
        })
        .collect()
}

impl Peer {
    /// RFC 9220 section 3.
    pub fn allows_tunnels(&self) -> bool {
        self.machine
            .as_ref()
            .is_some_and(Machine::peer_allows_extended_connect)
    }

    fn turn(&mut self, connection: &mut Connection) {
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Established => self.is_established = true,
                Event::Opened { bidirectional } => {
                    while let Some(stream) = connection.accept(bidirectional) {
                        self.machine.as_mut().unwrap().opened(stream).unwrap();
                        self.read(stream, connection);
                    }
                }
                Event::Readable(stream) => self.read(stream, connection),
                Event::Stopped { stream, code } => {
                    self.unsent.remove(&stream);
                    self.responses.entry(stream).or_default().stopped = Some(code);
                }
                Event::Lost(lost) => self.lost = Some(lost),
                Event::Hello | Event::Writable(_) | Event::Delivered(_) | Event::MayOpen { .. } => {
                }
            }
        }
        self.say(connection);
        for stream in self.unsent.keys().copied().collect::<Vec<_>>() {
            self.flush(stream, connection);
        }
    }

    fn say(&mut self, connection: &mut Connection) {
        let machine = self.machine.as_mut().unwrap();
        for (place, which) in self.control.iter_mut().zip(Outgoing::ALL) {
            if machine.outgoing(which).is_empty() {
                continue;
            }
            if place.is_none() {
                *place = connection.open(false);
            }
            let Some(stream) = *place else { continue };
            while let Written::Bytes(bytes @ 1..) =
                connection.write(stream, machine.outgoing(which))
            {
                machine.sent(which, bytes);
            }
        }
    }

    fn flush(&mut self, stream: u64, connection: &mut Connection) {
        let Some((bytes, ends)) = self.unsent.get_mut(&stream) else {
            return;
        };
        while let Written::Bytes(taken @ 1..) = connection.write(stream, bytes) {
            bytes.drain(..taken);
        }
        if bytes.is_empty() {
            if *ends {
                connection.finish(stream);
            }
            self.unsent.remove(&stream);
        }
    }

    fn read(&mut self, stream: u64, connection: &mut Connection) {
        if self.is_lazy && stream & 2 == 0 {
            return;
        }
        let mut bytes = self.behind.remove(&stream).unwrap_or_default();
        let read = connection.read(stream, usize::MAX, |chunk: Bytes| {
            bytes.extend_from_slice(&chunk)
        });
        if let Read::Reset(code) = read {
            self.responses.entry(stream).or_default().reset = Some(code);
        }
        self.digest(stream, bytes, read == Read::End, connection);
    }

    fn digest(&mut self, stream: u64, mut bytes: Vec<u8>, ends: bool, connection: &mut Connection) {
        let mut machine = self.machine.take().unwrap();
        let mut head = std::mem::take(&mut self.head);
        let mut unblocked = Vec::new();
        let mut at = 0;
        loop {
            let (used, meaning) = match machine.receive(stream, &bytes[at..], ends, 0, &mut head) {
                Ok(received) => received,
                Err(fault) => panic!("the server's fault: {fault}"),
            };
            match meaning {
                Some(Meaning::Unblocked { stream }) => unblocked.push(stream),
                Some(meaning) => self.note(meaning, &head),
                None if used == 0 => break,
                None => {}
            }
            at += used;
        }
        bytes.drain(..at);
        if !bytes.is_empty() {
            self.behind.insert(stream, bytes);
        }
        (self.machine, self.head) = (Some(machine), head);
        unblocked
            .into_iter()
            .for_each(|stream| self.read(stream, connection));
    }

    fn note(&mut self, meaning: Meaning<'_>, head: &HeadStore) {
        let now = Instant::now();
        let fields = || {
            head.view()
                .fields()
                .map(|(name, value)| (text(name), text(value)))
                .collect()
        };
        match meaning {
            Meaning::Head { stream, end_stream } => {
                let response = self.responses.entry(stream).or_default();
                (response.status, response.fields) = (head.status().0, fields());
                response.end(end_stream);
            }
            Meaning::Informational { stream } => self
                .responses
                .entry(stream)
                .or_default()
                .informational
                .push(head.status().0),
            Meaning::Data {
                stream,
                data,
                end_stream,
            } => {
                let response = self.responses.entry(stream).or_default();
                response.began.get_or_insert(now);
                response.body.extend_from_slice(data);
                response.end(end_stream);
            }
            Meaning::Trailers { stream } => {
                let response = self.responses.entry(stream).or_default();
                response.trailers = fields();
                response.end(true);
            }
            Meaning::GoAway { first_refused } => self.goaway = Some(first_refused),
            Meaning::Reset { stream, code } => {
                self.responses.entry(stream).or_default().reset = Some(code.into())
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Response {
    fn end(&mut self, ends: bool) {
        if ends {
            self.ended = true;
            self.done.get_or_insert(Instant::now());
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Card<'s>(&'s UdpSocket, &'s mut usize);

impl Sink for Card<'_> {
    fn send(&mut self, departure: Departure<'_>) -> bool {
        for datagram in departure.bytes.chunks(departure.datagram_bytes.max(1)) {
            *self.1 += 1;
            // What the kernel does not take is lost, as packets may be.
            let _ = self.0.send_to(datagram, departure.peer);
        }
        true
    }

    fn datagrams_at_once(&self) -> usize {
        1
    }
}

/// Clients accept no connections.
struct Shut;

impl Admission<Peer> for Shut {
    fn admit(&mut self, _: SocketAddr) -> Option<Peer> {
        None
    }
}

/// Accepts any certificate: the port identifies the server.
#[derive(Debug)]
struct AnyCertificate;

impl CertificatePolicy for AnyCertificate {
    fn check(&self, _: &Presented<'_>) -> Result<(), rustls::Error> {
        Ok(())
    }
}

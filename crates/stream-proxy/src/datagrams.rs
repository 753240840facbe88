//! Sessions over UDP: the datagrams of a client that go to one member, and those that come back.
//!
//! Called by: the UDP listeners of `saker-serving`, one [`DatagramServer`] per address and worker.
//! Caveat: the addresses of datagrams may be forged. A session costs a socket, so their number is
//! limited as that of connections is; a datagram that has no place is dropped, as networks do.
//! A PROXY header is read from trusted peers alone, and from the datagram alone that begins a session:
//! the later ones are the client's, whatever they look like.
//! Out of scope: DTLS.

use crate::{
    StreamContext,
    attempt::Attempt,
    complaint::complain,
    held_peers::HeldPeers,
    idle::IdleLimit,
    rules::Action,
    session::{Session, SessionProtocol},
    status, steps,
};
use saker_config::model::{Address, StreamServer, Upstream};
use saker_gateway::{Busy, Choice, Failure, StreamMember};
use saker_net::{
    Arrivals, BoundUdp, Departure, UdpSocket, clock,
    proxy_preface::{self, Named},
};
use saker_rate_limits::Counted;
use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};
use tokio::{io::ReadBuf, sync::Notify};

/// Datagrams of a client that wait until its session has a member.
const WAITING_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 128 << 10;
/// Datagrams of a member that are passed on before others get their turn.
const TURN_DATAGRAMS_MAX: usize = 64;
/// Longest datagram (udp(7)).
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Longest content of a datagram over IPv4. One that a PROXY header makes longer is dropped.
const CONTENT_BYTES_MAX: usize = 65_507;

/// The listener's part in sessions, which is not the engine's.
pub trait DatagramListening {
    /// Returns the state of the sessions that begin now; `None`: there are no streams any more.
    fn context(&self) -> Option<Rc<StreamContext>>;

    /// The settings in force for the address; `None`: it is no longer configured.
    fn server(&self) -> Option<Arc<StreamServer>>;

    /// Admits a session of a client; it is counted until the result is dropped. `None`: refused.
    fn admit(&self, client: SocketAddr) -> Option<Admission>;

    /// Reports a datagram of a trusted peer that names no client, though it has to.
    fn refuse_preface(&self, peer: SocketAddr);

    /// Writes the lines about a session that has ended.
    fn log(&self, session: &mut Session);
}

/// An admitted session: its number, and its place.
pub struct Admission {
    pub number: u64,
    pub place: Counted,
}

/// A peer at one of our addresses.
type PeerKey = (SocketAddr, Option<IpAddr>);
/// A client at one of our addresses: a peer, or whom it names.
type SessionKey = (PeerKey, Named);

/// A UDP address of a worker.
pub struct DatagramServer {
    pub address: Arc<Address>,
    local: SocketAddr,
    socket: UdpSocket,
    listening: Box<dyn DatagramListening>,
    sessions: RefCell<HashMap<SessionKey, Rc<SessionQueue>>>,
    /// The client that each trusted peer has named for its session, as long as that takes datagrams.
    named: RefCell<HashMap<PeerKey, Named>>,
    held: HeldPeers<PeerKey>,
    is_closed: Cell<bool>,
    /// Another process receives from the socket.
    is_left: Cell<bool>,
    wake: Notify,
}

/// Datagrams of a client, for the task of its session.
#[derive(Default)]
struct SessionQueue {
    waiting: RefCell<VecDeque<Vec<u8>>>,
    waker: RefCell<Option<Waker>>,
    /// Datagrams of the client so far.
    received: Cell<u64>,
}

impl DatagramServer {
    /// Starts receiving. Must be called in the worker's event loop.
    ///
    /// # Errors
    /// The socket cannot be registered.
    pub fn start(
        address: Arc<Address>,
        socket: BoundUdp,
        listening: Box<dyn DatagramListening>,
    ) -> io::Result<Rc<DatagramServer>> {
        let socket = UdpSocket::register(socket)?;
        let server = Rc::new(DatagramServer {
            local: socket.local_address()?,
            address,
            socket,
            listening,
            sessions: RefCell::default(),
            named: RefCell::default(),
            held: HeldPeers::default(),
            is_closed: Cell::new(false),
            is_left: Cell::new(false),
            wake: Notify::new(),
        });
        tokio::task::spawn_local(Rc::clone(&server).run());
        Ok(server)
    }

    /// Begins no further session. Those that are open go on.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.wake.notify_one();
    }

    /// Receives nothing more, because another process does from the same socket. What has been
    /// received by then is served here. What members still
    /// send goes to the clients of open sessions; what clients send begins sessions there.
    pub fn leave(&self) {
        self.is_left.set(true);
        self.wake.notify_one();
    }

    /// Closes the socket once no session needs it.
    pub fn is_unused(&self) -> bool {
        self.is_closed.get() && self.sessions.borrow().is_empty()
    }

    async fn run(self: Rc<Self>) {
        let mut arrivals = Arrivals::default();
        while !self.is_unused() && !self.is_left.get() {
            tokio::select! {
                received = poll_fn(|cx| self.socket.poll_receive(cx, &mut arrivals)) => {
                    if received.is_err() {
                        break;
                    }
                }
                () = self.wake.notified() => continue,
            }
            for arrival in arrivals.iter() {
                let key = (arrival.peer, arrival.local);
                for datagram in arrival.datagrams() {
                    self.take(key, datagram);
                }
            }
            if arrivals.is_full() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// The session that a datagram belongs to, and its content. `None`: it is dropped.
    fn content<'d>(&self, peer: PeerKey, datagram: &'d [u8]) -> Option<(SessionKey, &'d [u8])> {
        let server = self.listening.server()?;
        if !is_trusted(&server, peer) {
            return Some(((peer, None), datagram));
        }
        if let Some(named) = self.named.borrow().get(&peer) {
            return Some(((peer, *named), datagram));
        }
        let now_ms = clock::monotonic_ms();
        if self.held.holds(&peer, now_ms) {
            return None;
        }
        match proxy_preface::parse_datagram(datagram) {
            Ok(Some((length, named))) => {
                let content = datagram.get(length..).unwrap_or_default();
                Some(((peer, named), content))
            }
            Ok(None) | Err(_) => {
                self.listening.refuse_preface(peer.0);
                self.hold_refused(peer, &server);
                None
            }
        }
    }

    /// The next datagram of a trusted peer's port may be the refused client's own.
    fn hold_refused(&self, peer: PeerKey, server: &StreamServer) {
        if has_later_datagrams(server) {
            let idle_ms = server.idle_timeout_ms;
            self.held.refuse(peer, idle_ms, clock::monotonic_ms());
        }
    }

    /// Takes a datagram of a peer.
    fn take(self: &Rc<Self>, peer: PeerKey, datagram: &[u8]) {
        let Some((key, datagram)) = self.content(peer, datagram) else {
            return;
        };
        let known = self.sessions.borrow().get(&key).cloned();
        let queue = match known {
            Some(queue) => queue,
            None => match self.begin(key) {
                Some(queue) => queue,
                None => {
                    let server = self.listening.server();
                    if let Some(server) = server.filter(|server| is_trusted(server, peer)) {
                        self.hold_refused(peer, &server);
                    }
                    return;
                }
            },
        };
        let mut waiting = queue.waiting.borrow_mut();
        let bytes: usize = waiting.iter().map(Vec::len).sum();
        if waiting.len() >= WAITING_MAX || bytes >= WAITING_BYTES_MAX {
            return;
        }
        waiting.push_back(datagram.to_vec());
        drop(waiting);
        queue.received.set(queue.received.get() + 1);
        // The next datagram begins another session, if this one has all of its own.
        if let Some(server) = self.listening.server()
            && server
                .datagrams_in_max
                .is_some_and(|max| queue.received.get() >= max)
        {
            self.sessions.borrow_mut().remove(&key);
            self.named.borrow_mut().remove(&peer);
        }
        if let Some(waker) = queue.waker.take() {
            waker.wake();
        }
    }

    /// Begins a session, unless it is refused.
    fn begin(self: &Rc<Self>, key: SessionKey) -> Option<Rc<SessionQueue>> {
        if self.is_closed.get() {
            return None;
        }
        let server = self.listening.server()?;
        let ((peer, local), named) = key;
        let context = self.listening.context()?;
        let client = named.map_or(peer, |(client, _)| client);
        let admission = self.listening.admit(client)?;
        let is_trusted = is_trusted(&server, key.0);
        let local = SocketAddr::new(local.unwrap_or(self.local.ip()), self.local.port());
        let mut session = Session::new(
            server,
            SessionProtocol::Udp,
            admission.number,
            Arc::clone(&self.address),
            peer,
            local,
        );
        session.proxied = named;
        let limits = match admitted(&context, &mut session) {
            Ok(limits) => limits,
            Err(status) => {
                session.status = status;
                self.listening.log(&mut session);
                return None;
            }
        };
        let queue = Rc::<SessionQueue>::default();
        self.sessions.borrow_mut().insert(key, Rc::clone(&queue));
        if is_trusted {
            self.named.borrow_mut().insert(key.0, named);
        }
        let running = Running {
            server: Rc::clone(self),
            key,
            queue: Rc::clone(&queue),
            session,
            ends_at_peer: false,
            _places: (admission.place, limits),
        };
        tokio::task::spawn_local(running.run(context));
        Some(queue)
    }
}

fn is_trusted(server: &StreamServer, peer: PeerKey) -> bool {
    server.preface_from.includes(Some(peer.0.ip()))
}

/// Returns false if each datagram is a session of its own, so that each has to begin with a header.
fn has_later_datagrams(server: &StreamServer) -> bool {
    server.datagrams_in_max != Some(1)
}

/// Asks the rules whether a session may begin.
fn admitted(context: &StreamContext, session: &mut Session) -> Result<Vec<Counted>, u16> {
    context.rules.settle_client(session);
    steps::log_beginning(session);
    let limits = context.rules.limit(session)?;
    match context.rules.is_allowed(session) {
        true => {
            context.rules.prepare(session);
            Ok(limits)
        }
        false => Err(status::FORBIDDEN),
    }
}

/// A session with its task.
struct Running {
    server: Rc<DatagramServer>,
    key: SessionKey,
    queue: Rc<SessionQueue>,
    session: Session,
    /// It has ended as its peer's does: after all of its datagrams, or by the time.
    ends_at_peer: bool,
    _places: (Counted, Vec<Counted>),
}

/// A member that datagrams go to.
struct Way {
    socket: tokio::net::UdpSocket,
    member: StreamMember,
    began_ms: u64,
    /// Header before the first datagram.
    preface: Vec<u8>,
    /// Datagrams to the member, and from it.
    sent: u64,
    received: u64,
    _busy: Busy,
}

impl Running {
    async fn run(mut self, context: Rc<StreamContext>) {
        // The first datagram has come, for variables that tell so.
        let first_bytes = self.queue.waiting.borrow().front().map_or(0, Vec::len);
        self.session.bytes_received = first_bytes as u64;
        let action = context.rules.action(&mut self.session).settled().await;
        if !matches!(action, Action::Return(_)) {
            self.session.bytes_received = 0;
        }
        match action {
            Action::End(status) => self.session.status = status,
            Action::Return(text) => {
                self.reply(&text);
                self.queue.waiting.borrow_mut().pop_front();
            }
            Action::Proxy(upstream, key) => match self.connect(&context, &upstream, &key).await {
                Some(way) => self.relay(&context, way).await,
                None => self.session.status = status::BAD_GATEWAY,
            },
        }
        self.session.end(status::OK);
    }

    async fn connect(
        &mut self,
        context: &StreamContext,
        upstream: &Arc<Upstream>,
        key: &[u8],
    ) -> Option<Way> {
        let mut tried = Vec::new();
        self.session.has_target = true;
        loop {
            let choice = Choice {
                client: self.session.client.ip(),
                target: b"",
                key,
                route: None,
            };
            let chosen = context.members.choose(upstream, &choice, &mut tried);
            let member = chosen
                .map_err(|failure| complain(&self.session, &upstream.name, &failure))
                .ok()?;
            let mut attempt = Attempt {
                address: member.to_string().into(),
                ..Attempt::default()
            };
            match member.connect_datagrams().await {
                Ok((socket, busy)) => {
                    if let Ok(address) = socket.peer_addr() {
                        attempt.address = address.to_string().into();
                    }
                    attempt.connect_ms = Some(0);
                    self.session.attempts.push(attempt);
                    steps::log_connected(&self.session, socket.local_addr().ok());
                    return Some(Way {
                        socket,
                        member,
                        began_ms: clock::monotonic_ms(),
                        preface: Vec::new(),
                        sent: 0,
                        received: 0,
                        _busy: busy,
                    });
                }
                Err(failure) => {
                    member.fail();
                    complain(&self.session, &attempt.address, &failure);
                    self.session.attempts.push(attempt);
                    tried.push(member.number);
                }
            }
        }
    }

    /// Passes datagrams on until the session is over.
    async fn relay(&mut self, context: &StreamContext, mut way: Way) {
        let limit = IdleLimit::new(&context.deadlines, self.session.server.idle_timeout_ms);
        if let Some(version) = self.session.preface {
            let mut preface = Vec::with_capacity(64);
            let source = Some((self.session.client, self.session.local));
            proxy_preface::encode_datagram(version, source, &mut preface);
            way.preface = preface;
        }
        let failure = poll_fn(|cx| self.poll(cx, &mut way, &limit, context)).await;
        match failure {
            None => {
                way.member.succeed();
                self.ends_at_peer = true;
                self.log_end(&way, &limit);
            }
            Some(failure) => {
                way.member.fail();
                self.session.status = status::BAD_GATEWAY;
                let address = way.member.to_string();
                let failure = match failure.kind() {
                    io::ErrorKind::TimedOut => Failure::Timeout,
                    _ => Failure::Io(failure),
                };
                complain(&self.session, &address, &failure);
            }
        }
        if let Some(attempt) = self.session.attempts.last_mut() {
            attempt.session_ms = clock::monotonic_ms().saturating_sub(way.began_ms);
        }
    }

    fn log_end(&self, way: &Way, limit: &IdleLimit) {
        if !steps::are_wanted(&self.session) {
            return;
        }
        let end = match limit.is_over() {
            true => "timed out",
            false => "done",
        };
        let bytes = self.session.bytes_text().unwrap_or_default();
        let (sent, received) = (way.sent, way.received);
        steps::log(
            &self.session,
            format_args!("udp {end}, packets from/to client:{sent}/{received}, {bytes}"),
        );
    }

    /// Ready when the session is over; with an error if the member is to blame.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        way: &mut Way,
        limit: &IdleLimit,
        context: &StreamContext,
    ) -> Poll<Option<io::Error>> {
        match self.poll_send(cx, way, limit) {
            Poll::Ready(Err(error)) => return Poll::Ready(Some(error)),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        match self.poll_receive(cx, way, limit, context) {
            Poll::Ready(Err(error)) => return Poll::Ready(Some(error)),
            Poll::Ready(Ok(())) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        let server = &self.session.server;
        ready!(limit.poll(cx));
        let expected = server.datagrams_out_max.unwrap_or_default();
        let is_silent = way.received < expected.saturating_mul(way.sent);
        Poll::Ready(is_silent.then(|| io::ErrorKind::TimedOut.into()))
    }

    /// Sends what the client has sent.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        way: &mut Way,
        limit: &IdleLimit,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut waiting = self.queue.waiting.borrow_mut();
            let Some(datagram) = waiting.front() else {
                *self.queue.waker.borrow_mut() = Some(cx.waker().clone());
                return Poll::Pending;
            };
            let (sent, bytes) = (datagram.len(), way.preface.len() + datagram.len());
            if way.preface.is_empty() {
                ready!(way.socket.poll_send(cx, datagram))?;
            } else if bytes <= CONTENT_BYTES_MAX {
                let whole = [way.preface.as_slice(), datagram].concat();
                ready!(way.socket.poll_send(cx, &whole))?;
                way.preface.clear();
            } else {
                // As if the network had dropped it: the member is not to blame.
                waiting.pop_front();
                continue;
            }
            waiting.pop_front();
            way.sent += 1;
            self.session.bytes_received += sent as u64;
            if let Some(attempt) = self.session.attempts.last_mut() {
                attempt.bytes_sent += sent as u64;
            }
            limit.push();
        }
    }

    /// Passes on what the member sends. Ready when the session has all that it waits for.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        way: &mut Way,
        limit: &IdleLimit,
        context: &StreamContext,
    ) -> Poll<io::Result<()>> {
        for _ in 0..TURN_DATAGRAMS_MAX {
            if self.is_complete(way) {
                return Poll::Ready(Ok(()));
            }
            let mut scratch = context.scratch.borrow_mut();
            scratch.resize(crate::READ_BYTES_MAX.max(DATAGRAM_BYTES_MAX), 0);
            let mut place = ReadBuf::new(&mut scratch);
            ready!(way.socket.poll_recv(cx, &mut place))?;
            let datagram = place.filled();
            way.received += 1;
            self.session.bytes_sent += datagram.len() as u64;
            if let Some(attempt) = self.session.attempts.last_mut() {
                let since_ms = clock::monotonic_ms().saturating_sub(way.began_ms);
                attempt.first_byte_ms.get_or_insert(since_ms);
                attempt.bytes_received += datagram.len() as u64;
            }
            limit.push();
            send(&self.server.socket, self.key.0, datagram);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Returns true if the client has sent, and got, all that the settings expect.
    fn is_complete(&self, way: &Way) -> bool {
        let server = &self.session.server;
        let is_heard = server.datagrams_in_max.is_none_or(|max| way.sent >= max);
        let answers = server
            .datagrams_out_max
            .is_some_and(|max| way.received >= max.saturating_mul(way.sent));
        way.sent > 0 && is_heard && answers && self.queue.waiting.borrow().is_empty()
    }

    fn reply(&mut self, text: &[u8]) {
        send(&self.server.socket, self.key.0, text);
        self.session.bytes_sent += text.len() as u64;
    }
}

/// Sends a datagram to a client. One that the full queue does not take is lost.
fn send(socket: &UdpSocket, (peer, local): PeerKey, datagram: &[u8]) {
    socket.send(Departure {
        peer,
        local,
        ecn: 0,
        datagram_bytes: datagram.len(),
        bytes: datagram,
    });
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut sessions = self.server.sessions.borrow_mut();
        let is_own = |queue: &Rc<SessionQueue>| Rc::ptr_eq(queue, &self.queue);
        if sessions.get(&self.key).is_some_and(is_own) {
            sessions.remove(&self.key);
        }
        let mut named = self.server.named.borrow_mut();
        let is_last = named.get(&self.key.0) == Some(&self.key.1);
        if is_last && !sessions.contains_key(&self.key) {
            named.remove(&self.key.0);
            let (held, peer) = (&self.server.held, self.key.0);
            match self.ends_at_peer {
                true if has_later_datagrams(&self.session.server) => {
                    held.linger(peer, clock::monotonic_ms());
                }
                true => {}
                false => self.server.hold_refused(peer, &self.session.server),
            }
        }
        drop((sessions, named));
        self.server.wake.notify_one();
        // A panic may hold the logs.
        if !std::thread::panicking() {
            self.session.end(status::INTERNAL_ERROR);
            self.server.listening.log(&mut self.session);
        }
    }
}

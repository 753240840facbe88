//! All connections of one socket: datagrams to connections, who gets in, who has work, whose time
//! is up, and what leaves.
//!
//! A turn of the loop: [`Endpoint::receive`] for each batch that came, [`Endpoint::expire`],
//! [`Endpoint::wake`] for those that something else has news for; then, until
//! [`Endpoint::next_with_work`] has none, the driver's turn on [`Endpoint::connection`] and
//! [`Endpoint::settle`], which sends; at last sleep until [`Endpoint::next_limit`]. Everything of a
//! batch is taken in before anything is sent. `G` is what the server keeps for each connection, and
//! is dropped with it. The difficulty is handshakes: their senders may be made up, so they are
//! counted, proved by Retry when there are many, and forgotten without a word when they do not come
//! to an end.

use crate::{
    Connection, ConnectionStats, Counts, Recording, Secrets, ServerCrypto, Settings,
    connection_stats::{Sample, micros},
    counts::Reply,
    id::{Id, Place},
    qlog::Trace,
    receive_window::Promised,
    second_version,
    send_backlog::{Heading, SendBacklog},
    sink::Sink,
    time_limits::{Armed, TimeLimits},
};
use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, ConnectError, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointEvent,
    Incoming, ServerConfig, Transmit,
};
use saker_net::{Arrival, steering, udp::SEND_BYTES_MAX};
use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

/// Datagrams that one connection may send before others have their turn.
const TURN_DATAGRAMS_MAX: usize = 128;
/// Longest delay that pacing makes up for after a late wake-up, also limited to a fraction of a
/// round trip, because the delay inflates the RTT that packets appear to have; applied in steps
/// shorter than the interval for which quinn-proto's pacing saves up.
const LATE_MAX: Duration = Duration::from_millis(20);
const LATE_ROUND_TRIPS: u32 = 8;
const LATE_STEP: Duration = Duration::from_millis(1);

/// Admission control for new connections.
pub trait Admission<G> {
    /// `None`: it is refused. The address may not be the sender's own yet.
    fn admit(&mut self, peer: SocketAddr) -> Option<G>;

    /// Returns true if one that is not admitted gets no answer, because another process answers its
    /// client's next packets. The id is the one that the client chose first.
    fn is_for_another(&self, _connection_id: &[u8]) -> bool {
        false
    }

    /// True if one that was admitted is to be recorded (qlog); the id is the one that the client
    /// chose first.
    fn recording(&mut self, _connection_id: &[u8]) -> Option<Recording> {
        None
    }
}

/// Result of settling a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Open,
    /// It is over, and forgotten.
    Gone,
    /// The sink is full: [`Endpoint::flush`] when it is not, and then the next turn.
    Full,
}

pub struct Endpoint<G> {
    inner: quinn_proto::Endpoint,
    /// Its server's part is that for IPv6; clients over IPv4 get this one.
    over_ipv4: Option<Arc<ServerConfig>>,
    /// Parts of the server configuration, for local addresses that get one of their own.
    server: Option<(ServerCrypto, Arc<ServerConfig>)>,
    settings: Settings,
    place: Place,
    slots: Vec<Option<Box<Slot<G>>>>,
    serial: u64,
    /// Those with work, each once.
    work: VecDeque<Id>,
    limits: TimeLimits,
    /// Handshakes in the order in which they began, with the moment at which they are forgotten.
    handshakes: VecDeque<(Instant, Id)>,
    handshakes_open: usize,
    handshakes_unproved: usize,
    out: Vec<u8>,
    send_backlog: SendBacklog,
    promised: Promised,
    pub counts: Counts,
    pub connection_stats: ConnectionStats,
}

struct Slot<G> {
    serial: u64,
    connection: Connection,
    guest: G,
    stage: Stage,
    has_work: bool,
    armed: Armed,
    peer: SocketAddr,
    sample: Sample,
    trace: Option<Box<Trace>>,
    /// The time limit that gives it this turn, where that is past.
    was_due: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Handshake { proved: bool },
    Established,
}

impl<G> Endpoint<G> {
    /// `whole`: the socket's packets are never cut apart, so that the path's limit can be looked
    /// for.
    pub fn server(
        settings: &Settings,
        secrets: &Secrets,
        crypto: ServerCrypto,
        place: Place,
        whole: bool,
    ) -> Endpoint<G> {
        let config = Arc::new(Settings::endpoint(secrets, place));
        let mut endpoint = Endpoint::new(
            settings.clone(),
            place,
            quinn_proto::Endpoint::new(config, None, whole, None),
        );
        endpoint.replace_server(settings, secrets, crypto);
        endpoint
    }

    /// Without a server: for tests and load generators.
    pub fn client(settings: &Settings, secrets: &Secrets, whole: bool) -> Endpoint<G> {
        let place = Place {
            worker: 0,
            workers: 1,
        };
        let config = Arc::new(Settings::endpoint(secrets, place));
        Endpoint::new(
            settings.clone(),
            place,
            quinn_proto::Endpoint::new(config, None, whole, None),
        )
    }

    fn new(settings: Settings, place: Place, inner: quinn_proto::Endpoint) -> Endpoint<G> {
        Endpoint {
            inner,
            over_ipv4: None,
            server: None,
            settings,
            place,
            slots: Vec::new(),
            serial: 0,
            work: VecDeque::new(),
            limits: TimeLimits::default(),
            handshakes: VecDeque::new(),
            handshakes_open: 0,
            handshakes_unproved: 0,
            out: Vec::new(),
            send_backlog: SendBacklog::default(),
            promised: Promised::default(),
            connection_stats: ConnectionStats::default(),
            counts: Counts::default(),
        }
    }

    /// For connections that begin from now on; those that are open keep what they have.
    pub fn replace_server(&mut self, settings: &Settings, secrets: &Secrets, crypto: ServerCrypto) {
        self.settings = settings.clone();
        let server = settings.server(secrets, crypto.clone());
        self.over_ipv4 = Some(Arc::new(settings.over_ipv4(&server)));
        let server = Arc::new(server);
        self.server = Some((crypto, Arc::clone(&server)));
        self.inner.set_server_config(Some(server));
    }

    /// No connections begin any more.
    pub fn close_door(&mut self) {
        self.inner.set_server_config(None);
    }

    pub fn len(&self) -> usize {
        self.inner.open_connections()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in datagrams; answers at once only those that belong to no connection.
    pub fn receive(
        &mut self,
        now: Instant,
        arrival: Arrival<'_>,
        admission: &mut impl Admission<G>,
        sink: &mut impl Sink,
    ) {
        self.counts.bytes_in += arrival.bytes.len() as u64;
        // One block for all of them: what is kept of a datagram is a part of it.
        let mut bytes = BytesMut::from(arrival.bytes);
        while !bytes.is_empty() {
            self.counts.datagrams_in += 1;
            let datagram = bytes.split_to(arrival.datagram_bytes.min(bytes.len()));
            self.receive_one(now, arrival, datagram, admission, sink);
        }
    }

    fn receive_one(
        &mut self,
        now: Instant,
        arrival: Arrival<'_>,
        mut bytes: BytesMut,
        admission: &mut impl Admission<G>,
        sink: &mut impl Sink,
    ) {
        second_version::translate(&mut bytes);
        self.out.clear();
        let (ecn, length) = (EcnCodepoint::from_bits(arrival.ecn), bytes.len());
        let worker = steering::worker(&bytes, self.place.workers);
        match self
            .inner
            .handle(now, arrival.peer, arrival.local, ecn, bytes, &mut self.out)
        {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(Some(slot)) = self.slots.get_mut(handle.0) else {
                    return;
                };
                slot.connection.now = now;
                slot.trace
                    .iter_mut()
                    .for_each(|trace| trace.received(now, length));
                slot.connection.inner.handle_event(event);
                let id = Id {
                    slot: handle.0,
                    serial: slot.serial,
                };
                self.wake(id);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.knock(now, incoming, length, admission, sink)
            }
            // While the sockets of an address change, the kernel may lead a packet to another
            // worker than its own, which would know it.
            Some(DatagramEvent::Response(_))
                if matches!(Reply::of(&self.out), Reply::StatelessReset)
                    && worker.is_some_and(|worker| worker != self.place.worker) => {}
            Some(DatagramEvent::Response(transmit)) => {
                self.counts.reply(Reply::of(&self.out));
                self.reply(&transmit, sink);
            }
            None => {}
        }
    }

    /// A client's first packet.
    fn knock(
        &mut self,
        now: Instant,
        incoming: Incoming,
        length: usize,
        admission: &mut impl Admission<G>,
        sink: &mut impl Sink,
    ) {
        self.out.clear();
        let proved = incoming.remote_address_validated();
        if self.handshakes_open >= self.settings.handshakes_max {
            self.counts.handshakes_refused += 1;
            return self.inner.ignore(incoming);
        }
        if !proved
            && incoming.may_retry()
            && self.handshakes_unproved >= self.settings.handshakes_unproved_max
        {
            return self.retry(incoming, sink);
        }
        let Some(guest) = admission.admit(incoming.remote_address()) else {
            self.counts.handshakes_refused += 1;
            if admission.is_for_another(incoming.orig_dst_cid()) {
                return self.inner.ignore(incoming);
            }
            let transmit = self.inner.refuse(incoming, &mut self.out);
            return self.reply(&transmit, sink);
        };
        let (connection_id, peer, local) = (
            *incoming.orig_dst_cid(),
            incoming.remote_address(),
            incoming.local_ip(),
        );
        let config = self
            .over_ipv4
            .clone()
            .filter(|_| peer.ip().to_canonical().is_ipv4());
        let config = self.config_at(local, config.as_ref()).or(config);
        match self.inner.accept(incoming, now, &mut self.out, config) {
            Ok((handle, connection)) => {
                let id = self.enter(now, handle, connection, guest, proved);
                let trace = admission
                    .recording(&connection_id)
                    .map(|recording| Trace::begin(recording, now, &connection_id, peer, local));
                if let (Some(slot), Some(mut trace)) = (self.slot(id), trace) {
                    trace.received(now, length);
                    slot.trace = Some(Box::new(trace));
                }
            }
            Err(error) => {
                self.counts.handshakes_failed += 1;
                if let Some(transmit) = error.response {
                    self.reply(&transmit, sink);
                }
            }
        }
    }

    /// `base`, but for the address that the client has connected to, where that makes a difference.
    fn config_at(
        &self,
        local: Option<IpAddr>,
        base: Option<&Arc<ServerConfig>>,
    ) -> Option<Arc<ServerConfig>> {
        let (crypto, server) = self.server.as_ref()?;
        let crypto = crypto.at(local)?;
        let mut config = ServerConfig::clone(base.unwrap_or(server));
        config.crypto = Arc::new(crypto);
        Some(Arc::new(config))
    }

    fn retry(&mut self, incoming: Incoming, sink: &mut impl Sink) {
        self.counts.retries += 1;
        if let Ok(transmit) = self.inner.retry(incoming, &mut self.out) {
            if second_version::is(&self.out) {
                second_version::translate_retry(&mut self.out);
            }
            self.reply(&transmit, sink);
        }
    }

    /// Sends a reply outside of any connection. If the sink is full, the reply is dropped like any
    /// lost packet: the client sends again.
    fn reply(&mut self, transmit: &Transmit, sink: &mut impl Sink) {
        if self.send_backlog.is_empty() && sink.send(heading(transmit).departure(&self.out)) {
            self.counts.datagrams_out += 1;
            self.counts.bytes_out += self.out.len() as u64;
        }
    }

    fn enter(
        &mut self,
        now: Instant,
        handle: ConnectionHandle,
        inner: quinn_proto::Connection,
        guest: G,
        proved: bool,
    ) -> Id {
        self.serial += 1;
        let id = Id {
            slot: handle.0,
            serial: self.serial,
        };
        let peer = inner.remote_address();
        let connection = Connection::new(inner, now, &self.settings, proved);
        let stage = Stage::Handshake { proved };
        let (armed, sample, serial) = (Armed::default(), Sample::default(), self.serial);
        let slot = Slot {
            serial,
            connection,
            guest,
            stage,
            has_work: false,
            armed,
            peer,
            sample,
            trace: None,
            was_due: None,
        };
        if self.slots.len() <= handle.0 {
            self.slots.resize_with(handle.0 + 1, || None);
        }
        if let Some(place) = self.slots.get_mut(handle.0) {
            *place = Some(Box::new(slot));
        }
        self.counts.handshakes += 1;
        self.handshakes_open += 1;
        self.handshakes_unproved += usize::from(!proved);
        self.handshakes.push_back((
            now + Duration::from_millis(self.settings.handshake_timeout_ms),
            id,
        ));
        self.wake(id);
        id
    }

    /// Client's side.
    pub fn connect(
        &mut self,
        now: Instant,
        config: ClientConfig,
        peer: SocketAddr,
        name: &str,
        guest: G,
    ) -> Result<Id, ConnectError> {
        let (handle, connection) = self.inner.connect(now, config, peer, name)?;
        Ok(self.enter(now, handle, connection, guest, true))
    }

    /// Gives a connection a turn; what is gone is left alone.
    pub fn wake(&mut self, id: Id) {
        let Some(slot) = self.slot(id) else { return };
        if !std::mem::replace(&mut slot.has_work, true) {
            self.work.push_back(id);
        }
    }

    /// Every connection, as at the end of the server.
    pub fn wake_all(&mut self) {
        let ids: Vec<Id> = self.ids().collect();
        ids.into_iter().for_each(|id| self.wake(id));
    }

    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.slots.iter().enumerate().filter_map(|(slot, one)| {
            one.as_ref().map(|one| Id {
                slot,
                serial: one.serial,
            })
        })
    }

    /// Handles all time limits that have passed at `now`.
    pub fn expire(&mut self, now: Instant) {
        while let Some((_, id)) = self.limits.pop(now) {
            let Some(slot) = self.slot(id) else { continue };
            slot.armed.is_up();
            slot.connection.now = now;
            if let Some(due) = slot
                .connection
                .inner
                .poll_timeout()
                .filter(|due| *due <= now)
            {
                slot.was_due = slot.was_due.or(Some(due));
                slot.connection.inner.handle_timeout(now);
                self.wake(id);
            } else {
                self.arm(id);
            }
        }
        while self.handshakes.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, id)) = self.handshakes.pop_front() {
                self.give_up_handshake(id);
            }
        }
    }

    /// Drops a connection whose handshake took too long. Sends nothing: a peer this silent is
    /// probably gone, and its address may be spoofed.
    fn give_up_handshake(&mut self, id: Id) {
        if self
            .slot(id)
            .is_some_and(|slot| slot.stage != Stage::Established)
        {
            let _ = self
                .inner
                .handle_event(ConnectionHandle(id.slot), EndpointEvent::drained());
            self.forget(id);
        }
    }

    /// Returns the time at which [`Endpoint::expire`] must be called next.
    pub fn next_limit(&mut self) -> Option<Instant> {
        while let Some((_, id)) = self.handshakes.front().copied() {
            if self
                .slot(id)
                .is_some_and(|slot| slot.stage != Stage::Established)
            {
                break;
            }
            self.handshakes.pop_front();
        }
        let handshake = self.handshakes.front().map(|(due, _)| *due);
        self.limits.next().into_iter().chain(handshake).min()
    }

    /// The next connection with work.
    pub fn next_with_work(&mut self) -> Option<Id> {
        while let Some(id) = self.work.pop_front() {
            if let Some(slot) = self.slot(id) {
                slot.has_work = false;
                return Some(id);
            }
        }
        None
    }

    /// Number of turns there are to give, some perhaps to connections that are gone.
    pub fn work_len(&self) -> usize {
        self.work.len()
    }

    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    pub fn connection(&mut self, id: Id, now: Instant) -> Option<(&mut Connection, &mut G)> {
        let slot = self.slot(id)?;
        slot.connection.now = now;
        Some((&mut slot.connection, &mut slot.guest))
    }

    /// After a driver's turn: sends what there is to send, and sees to time limits and the end.
    pub fn settle(&mut self, id: Id, now: Instant, sink: &mut impl Sink) -> Settled {
        self.exchange_events(id);
        if self.slot(id).is_none() {
            return Settled::Gone;
        }
        self.note_progress(id);
        let settled = self.transmit(id, now, sink);
        self.exchange_events(id);
        if self
            .slot(id)
            .is_some_and(|slot| slot.connection.inner.is_drained())
        {
            self.forget(id);
            return Settled::Gone;
        }
        self.look_at(id, now);
        self.arm(id);
        settled
    }

    /// `false`: the sink is still full.
    pub fn flush(&mut self, sink: &mut impl Sink) -> bool {
        self.send_backlog.flush(sink)
    }

    /// Between the connection and those that it shares ids with.
    fn exchange_events(&mut self, id: Id) {
        let Some(Some(slot)) = self
            .slots
            .get_mut(id.slot)
            .filter(|slot| slot.as_ref().is_some_and(|slot| slot.serial == id.serial))
        else {
            return;
        };
        while let Some(event) = slot.connection.inner.poll_endpoint_events() {
            if let Some(event) = self.inner.handle_event(ConnectionHandle(id.slot), event) {
                slot.connection.inner.handle_event(event);
            }
        }
    }

    fn note_progress(&mut self, id: Id) {
        let Some(Some(slot)) = self.slots.get_mut(id.slot) else {
            return;
        };
        slot.connection
            .widen(&mut self.promised, self.settings.promised_bytes_max);
        let peer = slot.connection.peer();
        let has_moved = std::mem::replace(&mut slot.peer, peer) != peer;
        slot.connection.adapt();
        let stage = slot.stage;
        let is_over = !slot.connection.is_early() && !slot.connection.is_closed();
        let was_early = slot.connection.inner.has_0rtt() || slot.connection.inner.accepted_0rtt();
        if let (Stage::Handshake { proved }, true) = (stage, is_over) {
            slot.stage = Stage::Established;
            self.leave_handshake(proved);
            self.counts.early_data_connections += u64::from(was_early);
        }
        self.counts.migrations += u64::from(has_moved);
    }

    fn leave_handshake(&mut self, proved: bool) {
        self.handshakes_open = self.handshakes_open.saturating_sub(1);
        self.handshakes_unproved = self
            .handshakes_unproved
            .saturating_sub(usize::from(!proved));
    }

    fn transmit(&mut self, id: Id, now: Instant, sink: &mut impl Sink) -> Settled {
        if !self.send_backlog.is_empty() {
            self.wake(id);
            return Settled::Full;
        }
        let mut datagrams = 0;
        let Some(Some(slot)) = self.slots.get_mut(id.slot) else {
            return Settled::Gone;
        };
        let mut at = slot.paced_from(now);
        while datagrams < TURN_DATAGRAMS_MAX {
            self.out.clear();
            let Some(Some(slot)) = self.slots.get_mut(id.slot) else {
                return Settled::Gone;
            };
            let connection = &mut slot.connection.inner;
            let at_once = sink
                .datagrams_at_once()
                .min(SEND_BYTES_MAX / usize::from(connection.current_mtu()).max(1))
                .max(1);
            let Some(transmit) = connection.poll_transmit(at, at_once, &mut self.out) else {
                if at < now {
                    at = now.min(at + LATE_STEP);
                    continue;
                }
                return Settled::Open;
            };
            let heading = heading(&transmit);
            let count = self.out.len().div_ceil(heading.datagram_bytes.max(1));
            datagrams += count;
            self.counts.datagrams_out += count as u64;
            self.counts.bytes_out += self.out.len() as u64;
            slot.trace
                .iter_mut()
                .for_each(|trace| trace.sent(now, self.out.len(), heading.datagram_bytes));
            if !sink.send(heading.departure(&self.out)) {
                self.send_backlog.keep(heading, &self.out);
                self.wake(id);
                return Settled::Full;
            }
        }
        // Others are to have their turn.
        self.wake(id);
        Settled::Open
    }

    fn arm(&mut self, id: Id) {
        let Some(Some(slot)) = self.slots.get_mut(id.slot) else {
            return;
        };
        let due = slot.connection.inner.poll_timeout();
        self.limits.arm(&mut slot.armed, id, due);
    }

    fn forget(&mut self, id: Id) {
        let Some(mut slot) = self.slots.get_mut(id.slot).and_then(Option::take) else {
            return;
        };
        let figures = slot.connection.figures();
        let Connection {
            now,
            lost,
            closed_with,
            ..
        } = &slot.connection;
        slot.trace
            .iter_mut()
            .for_each(|trace| trace.end(*now, lost.as_ref(), *closed_with));
        slot.sample.take(
            *now,
            &figures,
            false,
            &mut self.connection_stats,
            &mut self.counts,
        );
        slot.connection.give_back(&mut self.promised);
        if let Stage::Handshake { proved } = slot.stage {
            self.leave_handshake(proved);
            self.counts.handshakes_failed += 1;
        } else {
            self.counts.ended += 1;
            self.counts.ended_rtt_us += micros(figures.rtt);
        }
    }

    fn look_at(&mut self, id: Id, now: Instant) {
        let Some(Some(slot)) = self.slots.get_mut(id.slot) else {
            return;
        };
        let is_established = slot.stage == Stage::Established;
        if is_established && slot.sample.is_due(now) {
            slot.sample.take(
                now,
                &slot.connection.figures(),
                true,
                &mut self.connection_stats,
                &mut self.counts,
            );
        }
        if let Some(trace) = &mut slot.trace {
            trace.progress(now, slot.connection.figures(), slot.peer, is_established);
        }
    }

    fn slot(&mut self, id: Id) -> Option<&mut Slot<G>> {
        self.slots
            .get_mut(id.slot)?
            .as_deref_mut()
            .filter(|slot| slot.serial == id.serial)
    }
}

impl<G> Slot<G> {
    /// quinn-proto's pacing keeps two milliseconds' worth, and timers and processors that others
    /// have are later than that: so it is asked for every moment since the time that it wanted to
    /// be woken at, as if it had been.
    fn paced_from(&mut self, now: Instant) -> Instant {
        let Some(due) = self.was_due.take() else {
            return now;
        };
        let back = (self.connection.rtt() / LATE_ROUND_TRIPS).min(LATE_MAX);
        now.checked_sub(back)
            .map_or(now, |earliest| due.max(earliest))
    }
}

fn heading(transmit: &Transmit) -> Heading {
    Heading {
        peer: transmit.destination,
        local: transmit.src_ip,
        ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
        datagram_bytes: transmit.segment_size.unwrap_or(transmit.size),
    }
}

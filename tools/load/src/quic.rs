//! QUIC connections of a client, many of them in one thread: quinn-proto, a UDP socket for each
//! connection, epoll, one turn at a time.
//!
//! A socket for each, because that is how clients come in life: connections that shared one would
//! reach the server in fewer, fuller reads. The one difficulty is what to look at in a turn: only
//! connections that got packets, whose time has come, or that were used are ever touched, so that a
//! thousand idle ones cost nothing. Absent on purpose: a way to wait for room in a socket's send
//! buffer other than waiting right there.

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, Event,
    Transmit, TransportConfig, VarInt, crypto::rustls::QuicClientConfig,
};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, Timespec, epoll, poll},
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::{self, IoSliceMut},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::OwnedFd,
    sync::Arc,
    time::Instant,
};

/// The largest that the kernel coalesces.
const READ_BYTES: usize = 65_536;
const READS_AT_ONCE: usize = 4;
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Packets of a connection in one system call.
const SEGMENTS_MAX: usize = 44;
const ROOM_TIMEOUT_S: i64 = 5;

/// Slot of a connection while it exists; reused afterwards.
pub type Id = usize;

pub struct Quic {
    endpoint: Endpoint,
    config: ClientConfig,
    epoll: OwnedFd,
    connections: Vec<Option<Held>>,
    /// The earliest first; entries that no longer hold are skipped.
    timers: BinaryHeap<Reverse<(Instant, Id)>>,
    /// Something was done to them: to be sent for, and then asked what has happened.
    touched: Vec<Id>,
    events: Vec<epoll::Event>,
    reads: Vec<Vec<u8>>,
    out: Vec<u8>,
}

struct Held {
    quic: Connection,
    handle: ConnectionHandle,
    socket: UdpSocket,
    state: UdpSocketState,
    is_touched: bool,
    timer: Option<Instant>,
}

impl Quic {
    pub fn new(tls: rustls::ClientConfig, transport: TransportConfig) -> Result<Quic, String> {
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        Ok(Quic {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None),
            config,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| error.to_string())?,
            connections: Vec::new(),
            timers: BinaryHeap::new(),
            touched: Vec::new(),
            events: Vec::with_capacity(1024),
            reads: vec![vec![0; READ_BYTES]; READS_AT_ONCE],
            out: Vec::with_capacity(READ_BYTES),
        })
    }

    /// Begins a handshake; events tell how it went.
    pub fn connect(&mut self, remote: SocketAddr, name: &str) -> io::Result<Id> {
        let (socket, state) = socket_for(remote)?;
        let now = Instant::now();
        let (handle, quic) = self
            .endpoint
            .connect(now, self.config.clone(), remote, name)
            .map_err(io::Error::other)?;
        let id = handle.0;
        self.watch(&socket, id)?;
        if self.connections.len() <= id {
            self.connections.resize_with(id + 1, || None);
        }
        self.connections[id] = Some(Held {
            quic,
            handle,
            socket,
            state,
            is_touched: false,
            timer: None,
        });
        self.touch(id);
        Ok(id)
    }

    /// The connection, to be used; what that makes of it is sent in the next turn. `None` when it
    /// is over.
    pub fn connection(&mut self, id: Id) -> Option<&mut Connection> {
        self.touch(id);
        Some(&mut self.connections.get_mut(id)?.as_mut()?.quic)
    }

    /// Tells the server and forgets it at once.
    pub fn close(&mut self, id: Id, code: u32) {
        if let Some(quic) = self.connection(id) {
            quic.close(Instant::now(), VarInt::from_u32(code), bytes::Bytes::new());
            self.send(id);
        }
    }

    /// Goes on from another port, as a client whose address was translated anew, or whose network
    /// changed.
    pub fn move_to_another_port(&mut self, id: Id) -> io::Result<()> {
        let Some(Some(held)) = self.connections.get_mut(id) else {
            return Ok(());
        };
        let (socket, state) = socket_for(held.quic.remote_address())?;
        (held.socket, held.state) = (socket, state);
        held.quic.local_address_changed();
        let socket = held.socket.try_clone()?;
        self.watch(&socket, id)?;
        self.touch(id);
        Ok(())
    }

    /// Sends what is to be sent, waits for packets until `latest`, and takes them. `each` gets the
    /// connections to which something happened, with what did; what it does to them is sent at
    /// once.
    pub fn turn(
        &mut self,
        latest: Instant,
        mut each: impl FnMut(&mut Quic, Id, &mut Vec<Event>),
    ) -> io::Result<()> {
        self.hand_out(&mut each);
        self.wait(latest)?;
        let now = Instant::now();
        for index in 0..self.events.len() {
            let id = self.events[index].data.u64() as Id;
            self.receive(id, now);
        }
        self.time_out(now);
        self.hand_out(&mut each);
        Ok(())
    }

    fn hand_out(&mut self, each: &mut impl FnMut(&mut Quic, Id, &mut Vec<Event>)) {
        let mut happened = Vec::new();
        let mut batch = Vec::new();
        while !self.touched.is_empty() {
            std::mem::swap(&mut batch, &mut self.touched);
            for id in batch.drain(..) {
                let Some(Some(held)) = self.connections.get_mut(id) else {
                    continue;
                };
                happened.extend(std::iter::from_fn(|| held.quic.poll()));
                if !happened.is_empty() {
                    each(self, id, &mut happened);
                    happened.clear();
                }
                if let Some(Some(held)) = self.connections.get_mut(id) {
                    held.is_touched = false;
                }
                self.send(id);
            }
        }
    }

    fn touch(&mut self, id: Id) {
        if let Some(Some(held)) = self.connections.get_mut(id)
            && !held.is_touched
        {
            held.is_touched = true;
            self.touched.push(id);
        }
    }

    fn watch(&self, socket: &UdpSocket, id: Id) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            socket,
            epoll::EventData::new_u64(id as u64),
            epoll::EventFlags::IN,
        )?)
    }

    fn wait(&mut self, latest: Instant) -> io::Result<()> {
        let until = self
            .timers
            .peek()
            .map_or(latest, |Reverse((first, _))| latest.min(*first));
        let time = Timespec::try_from(until.saturating_duration_since(Instant::now()))
            .map_err(io::Error::other)?;
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, id: Id, now: Instant) {
        let mut metas = [RecvMeta::default(); READS_AT_ONCE];
        let mut reads = std::mem::take(&mut self.reads);
        while let Some(Some(held)) = self.connections.get_mut(id) {
            let mut slices: Vec<IoSliceMut<'_>> =
                reads.iter_mut().map(|read| IoSliceMut::new(read)).collect();
            let Ok(count) =
                held.state
                    .recv(UdpSockRef::from(&held.socket), &mut slices, &mut metas)
            else {
                break;
            };
            for (read, meta) in reads.iter().zip(&metas).take(count) {
                self.take_datagrams(&read[..meta.len], meta, now);
            }
            if count < READS_AT_ONCE {
                break;
            }
        }
        self.reads = reads;
    }

    fn take_datagrams(&mut self, bytes: &[u8], meta: &RecvMeta, now: Instant) {
        let mut rest = BytesMut::from(bytes);
        while !rest.is_empty() {
            let datagram = rest.split_to(meta.stride.clamp(1, rest.len()));
            let ecn = meta
                .ecn
                .and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
            self.out.clear();
            // Stateless resets are ignored: a client answers nothing.
            if let Some(DatagramEvent::ConnectionEvent(handle, event)) =
                self.endpoint
                    .handle(now, meta.addr, meta.dst_ip, ecn, datagram, &mut self.out)
                && let Some(Some(held)) = self.connections.get_mut(handle.0)
            {
                held.quic.handle_event(event);
                self.touch(handle.0);
            }
        }
    }

    fn time_out(&mut self, now: Instant) {
        while let Some(&Reverse((time, id))) =
            self.timers.peek().filter(|Reverse((time, _))| *time <= now)
        {
            self.timers.pop();
            if let Some(Some(held)) = self.connections.get_mut(id)
                && held.timer == Some(time)
            {
                held.timer = None;
                held.quic.handle_timeout(now);
                self.touch(id);
            }
        }
    }

    /// All that a connection has to say to the endpoint, to the server and to the clock.
    fn send(&mut self, id: Id) {
        let now = Instant::now();
        let Some(Some(held)) = self.connections.get_mut(id) else {
            return;
        };
        let segments = held.state.max_gso_segments().min(SEGMENTS_MAX);
        while let Some(event) = held.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(held.handle, event) {
                held.quic.handle_event(event);
            }
        }
        loop {
            self.out.clear();
            let Some(transmit) = held.quic.poll_transmit(now, segments, &mut self.out) else {
                break;
            };
            held.send(&transmit, &self.out);
        }
        if held.quic.is_drained() {
            self.connections[id] = None;
            return;
        }
        let timer = held.quic.poll_timeout();
        if let Some(time) = timer.filter(|_| timer != held.timer) {
            self.timers.push(Reverse((time, id)));
        }
        held.timer = timer;
    }
}

impl Held {
    /// A datagram that can't be sent counts as lost.
    fn send(&self, transmit: &Transmit, bytes: &[u8]) {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit
                .ecn
                .and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: None,
        };
        let is_full = |outcome: &io::Result<()>| {
            outcome
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        if is_full(
            &self
                .state
                .try_send(UdpSockRef::from(&self.socket), &transmit),
        ) {
            let time = Timespec {
                tv_sec: ROOM_TIMEOUT_S,
                tv_nsec: 0,
            };
            let _ = poll(
                &mut [PollFd::new(&self.socket, PollFlags::OUT)],
                Some(&time),
            );
            let _ = self
                .state
                .try_send(UdpSockRef::from(&self.socket), &transmit);
        }
    }
}

fn socket_for(remote: SocketAddr) -> io::Result<(UdpSocket, UdpSocketState)> {
    let any: SocketAddr = if remote.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = UdpSocket::bind(any)?;
    // The kernel then drops other senders' packets, and looks up the route once.
    socket.connect(remote)?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    // As large as the machine lets it be.
    let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
    let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
    Ok((socket, state))
}

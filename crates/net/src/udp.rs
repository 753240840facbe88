//! UDP sockets of workers: datagrams in and out in batches, with ECN and the local address of each.
//!
//! One address has a socket per worker (SO_REUSEPORT), and a small program in the kernel picks the
//! one whose worker a connection id names ([`crate::steering`]), so that a connection stays on its
//! worker although its client's address changes.
//! Called by: the server's QUIC loops.
//! Caveat: the kernel wakes a task waiting for room in a send queue for each packet that leaves, so
//! the socket is registered for reading only, and a duplicate for writing while the queue is full.
//! Out of scope: sendmmsg; datagrams for one client leave in one call (GSO), and other clients'
//! packets have nothing in common that one call for many would save.

use crate::{socket_options, steering};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    task::{Context, Poll, ready},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Maximum number of messages per receive call, each of which may hold many datagrams of one client
/// (GRO).
const MESSAGES_MAX: usize = 16;
/// The most that one message can hold (udp(7)).
const MESSAGE_BYTES_MAX: usize = 65_535;
/// Maximum bytes sent at once, with headers: the length field of an IP packet counts them.
pub const SEND_BYTES_MAX: usize = 65_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// For `[::]`: leave IPv4 alone, because another socket has the same port there.
    pub v6_only: bool,
    /// Sizes of the kernel's queues. Values above net.core.rmem_max and wmem_max require
    /// CAP_NET_ADMIN.
    pub receive_buffer_bytes: u32,
    pub send_buffer_bytes: u32,
    /// The connection id of a datagram selects the worker (QUIC); otherwise its addresses do.
    pub steers: bool,
    /// Another socket of this server has a part of the address, or all of it.
    pub shares: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        UdpOptions {
            v6_only: false,
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: 2 << 20,
            steers: true,
            shares: false,
        }
    }
}

/// A socket that no event loop knows yet.
#[derive(Debug)]
pub struct BoundUdp(OwnedFd);

/// Binds one socket per worker, in the order of workers, and has the kernel send each connection's
/// packets to its worker. Returns an error if the address is already in use.
pub fn bind_udp(
    address: SocketAddr,
    workers: usize,
    options: UdpOptions,
) -> io::Result<Vec<BoundUdp>> {
    // SO_REUSEPORT would let a second server of the same user share the port without a word.
    if !options.shares {
        bound(address, options, false)?;
    }
    let first = bound(address, options, true)?;
    let port = first
        .local_addr()?
        .as_socket()
        .map_or(address.port(), |actual| actual.port());
    let address = SocketAddr::new(address.ip(), port);
    let mut sockets = vec![first];
    for _ in 1..workers {
        sockets.push(bound(address, options, true)?);
    }
    // Where there is one, too: a successor's sockets may join the group.
    if let (true, Some(last)) = (options.steers, sockets.last()) {
        steering::attach(last, sockets.len())?;
    }
    Ok(sockets
        .into_iter()
        .map(|socket| BoundUdp(socket.into()))
        .collect())
}

/// Binds sockets behind those of another process, which still has the address. The kernel goes on
/// sending everything to the others until [`steering::lead_beside`] says more.
pub fn bind_udp_beside(
    address: SocketAddr,
    workers: usize,
    options: UdpOptions,
) -> io::Result<Vec<BoundUdp>> {
    (0..workers.max(1))
        .map(|_| Ok(BoundUdp(bound(address, options, true)?.into())))
        .collect()
}

impl BoundUdp {
    /// From a descriptor that another process of this program bound.
    ///
    /// # Errors
    /// The descriptor is no UDP socket.
    pub fn adopt(fd: OwnedFd) -> io::Result<BoundUdp> {
        match rustix::net::sockopt::socket_type(&fd)? {
            rustix::net::SocketType::DGRAM => Ok(BoundUdp(fd)),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// The same socket through another descriptor.
    pub fn try_clone(&self) -> io::Result<BoundUdp> {
        Ok(BoundUdp(self.0.try_clone()?))
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(rustix::net::getsockname(&self.0)?)?)
    }
}

impl AsFd for BoundUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A UDP socket on the event loop of this thread.
#[derive(Debug)]
pub struct UdpSocket {
    fd: AsyncFd<OwnedFd>,
    state: UdpSocketState,
    /// While the send queue is full.
    writing: Option<AsyncFd<OwnedFd>>,
}

/// Datagrams received by one call. Allocated once and reused.
#[derive(Debug)]
pub struct Arrivals {
    storage: Box<[u8]>,
    described: [RecvMeta; MESSAGES_MAX],
    count: usize,
}

/// Datagrams of one client that came one after the other: all have `datagram_bytes`, but the last
/// may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub peer: SocketAddr,
    /// Which of our addresses they were sent to.
    pub local: Option<IpAddr>,
    /// The two ECN bits (RFC 3168 section 5).
    pub ecn: u8,
    pub datagram_bytes: usize,
    pub bytes: &'a [u8],
}

/// Datagrams for one client: all have `datagram_bytes`, but the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    pub peer: SocketAddr,
    pub local: Option<IpAddr>,
    pub ecn: u8,
    pub datagram_bytes: usize,
    pub bytes: &'a [u8],
}

impl UdpSocket {
    /// Must be called inside a tokio runtime with I/O enabled.
    pub fn register(socket: BoundUdp) -> io::Result<UdpSocket> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket.0))?;
        // Arrival times are not used, and the kernel would take them for each packet of the
        // machine.
        socket_options::no_timestamps(&socket.0)?;
        Ok(UdpSocket {
            fd: registered(socket.0, Interest::READABLE)?,
            state,
            writing: None,
        })
    }

    /// Number of datagrams may be sent at once; 1 where the kernel or the network card can't cut
    /// them apart.
    pub fn datagrams_at_once(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// Packets are never cut apart on their way, so the path's limit can be looked for (RFC 8899).
    pub fn keeps_packets_whole(&self) -> bool {
        !self.state.may_fragment()
    }

    /// Takes what is there. Ready with an error only where the socket is of no more use.
    pub fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        arrivals: &mut Arrivals,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            match arrivals.fill(&self.state, self.fd.get_ref()) {
                Ok(()) => {
                    // The queue has just been seen empty: what comes later makes an event of its
                    // own.
                    if arrivals.count < MESSAGES_MAX {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// `false`: the queue is full, and [`UdpSocket::poll_writable`] tells when to try again. Every
    /// other failure is what networks do with packets (a route that is gone, a probe that is too
    /// large for the link), and QUIC treats it as such.
    pub fn send(&self, departure: Departure<'_>) -> bool {
        let segment_size =
            (departure.datagram_bytes < departure.bytes.len()).then_some(departure.datagram_bytes);
        let transmit = Transmit {
            destination: departure.peer,
            ecn: EcnCodepoint::from_bits(departure.ecn),
            contents: departure.bytes,
            segment_size,
            src_ip: departure.local,
        };
        let sent = self
            .state
            .try_send(UdpSockRef::from(self.fd.get_ref()), &transmit);
        !sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Ready when the queue has room again.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let waiting = match self.writing.take() {
            Some(waiting) => waiting,
            None => registered(self.fd.get_ref().try_clone()?, Interest::WRITABLE)?,
        };
        match waiting.poll_write_ready(cx) {
            Poll::Ready(ready) => Poll::Ready(ready.map(drop)),
            Poll::Pending => {
                self.writing = Some(waiting);
                Poll::Pending
            }
        }
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(rustix::net::getsockname(
            self.fd.get_ref(),
        )?)?)
    }
}

impl Default for Arrivals {
    /// The memory is the kernel's zero page until something has come that needs it.
    fn default() -> Self {
        let storage = vec![0; MESSAGES_MAX * MESSAGE_BYTES_MAX].into_boxed_slice();
        Arrivals {
            storage,
            described: [RecvMeta::default(); MESSAGES_MAX],
            count: 0,
        }
    }
}

impl Arrivals {
    /// There may be more where this came from.
    pub fn is_full(&self) -> bool {
        self.count == MESSAGES_MAX
    }

    /// It is a single datagram.
    pub fn is_one(&self) -> bool {
        matches!(self.described.get(..self.count), Some([meta]) if meta.len <= meta.stride)
    }

    pub fn iter(&self) -> impl Iterator<Item = Arrival<'_>> {
        self.storage
            .chunks(MESSAGE_BYTES_MAX)
            .zip(&self.described)
            .take(self.count)
            .filter_map(|(storage, meta)| {
                Some(Arrival {
                    peer: meta.addr,
                    local: meta.dst_ip,
                    ecn: meta.ecn.map_or(0, |codepoint| codepoint as u8),
                    datagram_bytes: meta.stride.max(1),
                    bytes: storage.get(..meta.len)?,
                })
            })
    }

    fn fill(&mut self, state: &UdpSocketState, fd: &OwnedFd) -> io::Result<()> {
        self.count = 0;
        let mut parts = self
            .storage
            .chunks_mut(MESSAGE_BYTES_MAX)
            .map(IoSliceMut::new);
        let mut buffers: [IoSliceMut<'_>; MESSAGES_MAX] =
            std::array::from_fn(|_| parts.next().unwrap_or(IoSliceMut::new(&mut [])));
        self.count = state.recv(UdpSockRef::from(fd), &mut buffers, &mut self.described)?;
        Ok(())
    }
}

impl<'a> Arrival<'a> {
    pub fn datagrams(self) -> impl Iterator<Item = &'a [u8]> {
        // One without content is a datagram, too.
        let empty = self.bytes.is_empty().then_some(self.bytes);
        let full = self.bytes.chunks(self.datagram_bytes);
        empty.into_iter().chain(full)
    }
}

fn bound(address: SocketAddr, options: UdpOptions, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(options.v6_only || !address.ip().is_unspecified())?;
    }
    socket.set_reuse_port(reuse_port)?;
    socket_options::set_udp_buffers(
        &socket,
        options.receive_buffer_bytes,
        options.send_buffer_bytes,
    )?;
    crate::privileged::bind_socket(&socket, address, options.shares)?;
    Ok(socket)
}

#[allow(unsafe_code)]
fn registered(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: assumes that the descriptor stays open and the same until it is deregistered.
    // `AsyncFd` owns the `OwnedFd`, lends it by shared reference only, and deregisters before it
    // drops it. Test: `datagrams_come_and_go_in_batches`.
    unsafe { Ok(AsyncFd::register_with_interest(fd, interest)?) }
}

#[cfg(test)]
mod tests;

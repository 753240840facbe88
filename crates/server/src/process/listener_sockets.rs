//! Binding TCP sockets of listeners: one per worker, beside those of a server that stops or of
//! another listener of this server, and what is said where an address cannot be had.
//!
//! Called by: `listeners`, at the start and at each reload.
//! Out of scope: which addresses there are, and sockets that come from elsewhere (`listeners`).

use super::succession::{GRACE, Predecessor};
use rustix::io::Errno;
use saker_config::model::{Address, Listener};
use saker_net::{Bind, BindOptions, BoundSocket, LocalAddress};
use saker_telemetry::error_log;
use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Ports that are tried for one to propose in place of one that is taken.
const PORTS_TRIED: u16 = 20;
/// Time in addition to that in which a predecessor listens beside its successor.
const PREDECESSOR_CLOSES_MAX: Duration = GRACE.saturating_add(Duration::from_secs(9));
const PREDECESSOR_POLL: Duration = Duration::from_millis(20);

pub fn duplicates(socket: &BoundSocket, workers: usize) -> io::Result<Vec<BoundSocket>> {
    (0..workers).map(|_| socket.try_clone()).collect()
}

/// Opens sockets on one port, one per worker, even if the kernel chooses the port.
pub fn tcp_sockets(
    address: SocketAddr,
    options: BindOptions,
    workers: usize,
) -> io::Result<Vec<BoundSocket>> {
    // SO_REUSEPORT would let a second server of the same user share the port silently, each getting
    // some of the connections. A bind without it fails if any process listens already.
    // Where this server itself has a part of the address, or all of it, that says nothing.
    if !options.shares {
        saker_net::refuse_if_taken(address, options.v6_only)?;
    }
    let first = saker_net::bind(Bind::Tcp(address), options)?;
    let address = match first.local_address()? {
        LocalAddress::Ip(actual) => SocketAddr::new(address.ip(), actual.port()),
        LocalAddress::Unix(_) => address,
    };
    let others = (1..workers).map(|_| saker_net::bind(Bind::Tcp(address), options));
    std::iter::once(Ok(first)).chain(others).collect()
}

/// Shares the port with a server that is stopping. The sockets of two users don't share: then it
/// has to close its own first.
pub fn beside(
    predecessor: &Predecessor,
    address: SocketAddr,
    options: BindOptions,
    workers: usize,
) -> io::Result<Vec<BoundSocket>> {
    let bind = || {
        (0..workers.max(1))
            .map(|_| saker_net::bind(Bind::Tcp(address), options))
            .collect::<io::Result<Vec<_>>>()
    };
    let until = Instant::now() + PREDECESSOR_CLOSES_MAX;
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                predecessor.say_listening();
                std::thread::sleep(PREDECESSOR_POLL);
            }
            outcome => return outcome,
        }
    }
}

/// Tries for an address that is still another server's, and the time between them: nginx's.
const BIND_TRIES: u32 = 5;
const BIND_PAUSE: Duration = Duration::from_millis(500);

/// Binds, in nginx's place again for a while: its scripts start a server when the one before is
/// about to end.
pub fn patiently<T>(mut bind: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let tries = if error_log::speaks_nginx() {
        BIND_TRIES
    } else {
        1
    };
    let mut outcome = bind();
    for _ in 1..tries {
        match &outcome {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            _ => break,
        }
        std::thread::sleep(BIND_PAUSE);
        outcome = bind();
    }
    outcome
}

/// The line about an address that can't be had.
pub fn failure(listener: &Listener, error: &io::Error) -> String {
    let (origin, address) = (&listener.origin, &listener.address);
    if !error_log::speaks_nginx() {
        let way_out = way_out(address, error);
        return format!("{origin}: cannot listen on {address}: {error}{way_out}\n");
    }
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let number = error.raw_os_error().unwrap_or_default();
    format!("bind() to {address} failed ({number}: {text})\n")
}

/// Advice for the operator.
fn way_out(address: &Address, error: &io::Error) -> String {
    let text = match (error.kind(), address) {
        (io::ErrorKind::AddrInUse, Address::Tcp(address)) => {
            let free = free_port_after(*address)
                .map(|free| format!("; {free} is free"))
                .unwrap_or_default();
            return format!("; another program listens there (`ss -ltnp` shows which){free}");
        }
        (io::ErrorKind::AddrInUse, Address::Unix(_)) => {
            "; another program listens there, or something that is not a socket has its name"
        }
        (io::ErrorKind::PermissionDenied, Address::Tcp(_)) => {
            "; ports below 1024 need root or CAP_NET_BIND_SERVICE, others such as 8080 don't"
        }
        (io::ErrorKind::AddrNotAvailable, _) => "; this machine has no such address",
        _ => "",
    };
    text.to_owned()
}

/// The same address with the first port behind it that could be had.
fn free_port_after(address: SocketAddr) -> Option<SocketAddr> {
    let ports = (1..=PORTS_TRIED).filter_map(|step| address.port().checked_add(step));
    ports
        .map(|port| SocketAddr::new(address.ip(), port))
        .find(|address| std::net::TcpListener::bind(address).is_ok())
}

/// `:80` stands for both families; if the kernel has no IPv6, IPv4 is meant.
pub fn is_spare(listener: &Listener, all: &[Listener], error: &io::Error) -> bool {
    let no_ipv6 = error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error());
    let written_once =
        |other: &Listener| other.origin == listener.origin && other.address != listener.address;
    no_ipv6
        && matches!(&listener.address, Address::Tcp(address) if address.is_ipv6())
        && all.iter().any(written_once)
}

/// `[::]:80` takes IPv4 too, unless the configuration has an IPv4 listener of that port.
pub fn has_ipv4_twin(address: &SocketAddr, all: &[Listener]) -> bool {
    all.iter().any(|other| matches!(&other.address, Address::Tcp(other) if other.is_ipv4() && other.port() == address.port()))
}

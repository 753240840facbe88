//! Proxying of TCP connections and UDP datagrams without a look at their content.
//!
//! Called by: the process that binds sockets, the accept path, and `saker-stream-proxy`.
//! Caveat: a TCP listener is a [`Listener`](super::Listener) like any other, whose `stream` leads
//! here; UDP has sockets of its own.
//! Out of scope: where a session goes; the rules of a front end decide that for each one.

use super::Origin;
use saker_net::{Network, proxy_preface::PrefaceVersion};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Settings of the sessions of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamServer {
    /// The number by which the rules of the front end know it.
    pub number: usize,
    /// Connections that begin with a PROXY header.
    pub preface_from: PrefaceFrom,
    pub preface_timeout_ms: u64,
    /// Protocols of TLS sessions that end here (RFC 7301), in order of preference; empty: any.
    pub alpn: Vec<Vec<u8>>,
    pub handshake_timeout_ms: u64,
    /// The ClientHello is read, and passed on, before the target is chosen.
    pub reads_hello: bool,
    pub hello_timeout_ms: u64,
    pub hello_bytes_max: usize,
    pub connect_timeout_ms: u64,
    /// Maximum time without a byte in either direction.
    pub idle_timeout_ms: u64,
    /// Connections to targets begin with a PROXY header, unless rules say otherwise.
    pub sends_preface: Option<PrefaceVersion>,
    /// Bytes per second from and to the client; 0: no limit.
    pub upload_rate: u64,
    pub download_rate: u64,
    /// The end of one direction leaves the other one open.
    pub half_closes: bool,
    /// Datagrams of a client after which a session is over; `None`: any number.
    pub datagrams_in_max: Option<u64>,
    /// Datagrams of the target after which a session is over; `None`: any number.
    pub datagrams_out_max: Option<u64>,
    /// Another member is tried where one takes no connection.
    pub retries: bool,
    /// Members that are tried; 0: all.
    pub tries_max: u64,
    /// Time for all tries; 0: no limit.
    pub tries_ms: u64,
    pub keeps_alive: bool,
    pub origin: Origin,
}

/// The peers whose connections begin with a PROXY header. Such a header is never content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrefaceFrom {
    #[default]
    Nobody,
    Everybody,
    Networks(Vec<Network>),
}

impl PrefaceFrom {
    /// Returns true if a peer's connections begin with it. `peer`: `None` on Unix sockets.
    pub fn includes(&self, peer: Option<IpAddr>) -> bool {
        match self {
            PrefaceFrom::Nobody => false,
            PrefaceFrom::Everybody => true,
            PrefaceFrom::Networks(networks) => peer.is_some_and(|peer| {
                let peer = peer.to_canonical();
                networks.iter().any(|network| network.contains(peer))
            }),
        }
    }
}

/// A UDP address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramListener {
    pub address: SocketAddr,
    pub server: Arc<StreamServer>,
    pub origin: Origin,
}

impl StreamServer {
    pub fn new(number: usize, origin: Origin) -> StreamServer {
        StreamServer {
            number,
            preface_from: PrefaceFrom::Nobody,
            preface_timeout_ms: 30_000,
            alpn: Vec::new(),
            handshake_timeout_ms: 60_000,
            reads_hello: false,
            hello_timeout_ms: 30_000,
            hello_bytes_max: 16 << 10,
            connect_timeout_ms: 60_000,
            idle_timeout_ms: 600_000,
            sends_preface: None,
            upload_rate: 0,
            download_rate: 0,
            half_closes: false,
            datagrams_in_max: None,
            datagrams_out_max: None,
            retries: true,
            tries_max: 0,
            tries_ms: 0,
            keeps_alive: false,
            origin,
        }
    }
}

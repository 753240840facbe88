//! The client of a request and its connection.
//!
//! Called by: drivers, which create one per connection; rules that determine the client behind a
//! trusted proxy.
//! Caveat: trust decisions use [`Client::ip`], the address after trusted proxies.
//! Out of scope: the connection itself (drivers), and limits per address (`saker-rate-limits`).

use saker_config::model::Address;
use saker_rate_limits::ClientAccount;
use saker_telemetry::error_log::LogId;
use saker_tls::SessionInfo;
use std::{
    cell::{Cell, OnceCell},
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    rc::Rc,
    sync::Arc,
};

/// Relation of the connection's peer to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// Not examined: no trusted proxies are configured. Fields about earlier hops are passed on as
    /// they come.
    #[default]
    Unknown,
    /// The peer is the client: it is no trusted proxy, so fields about earlier hops are made up.
    Direct,
    /// The peer is a trusted proxy, which has named the client.
    Proxied,
}

/// Addresses that a PROXY header names, and the one that it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefaceAddresses {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// The other end of the connection: the proxy.
    pub peer: SocketAddr,
    /// Its TLVs, one behind the other (see `saker_net::proxy_preface`).
    pub tlvs: Box<[u8]>,
}

/// The client and its connection. One per connection; behind trusted proxies, one per client.
#[derive(Clone, Debug)]
pub struct Client {
    /// The client's address, as given by a trusted PROXY header if there is one. Unspecified
    /// (`0.0.0.0`) for a Unix socket.
    pub address: SocketAddr,
    /// The local address of the connection.
    pub local: SocketAddr,
    pub listener: Arc<Address>,
    /// The connection uses TLS, or a trusted PROXY header says that it does.
    pub secure: bool,
    /// TLS terminates here, so the handshake was subject to the TLS policy of a site.
    pub tls: bool,
    /// The client speaks HTTP in the clear on a port for TLS, and gets nothing but an error.
    pub speaks_plain: bool,
    /// Parameters of the TLS session; `None` if TLS does not terminate here.
    pub session: Option<Arc<SessionInfo>>,
    /// Usage of the limits per address; `None` if no such limit is configured.
    pub account: Option<ClientAccount>,
    /// The address of the connection's peer, regardless of what rules (mod_remoteip) report as the
    /// client.
    pub peer: SocketAddr,
    pub forwarding: Forwarding,
    /// The PROXY header that the connection began with.
    pub preface: Option<Rc<PrefaceAddresses>>,
    /// The id of error log lines about this connection.
    pub log_id: Rc<LogId>,
    /// The connection's socket, where rules ask the kernel about it; closed with the client.
    pub socket: Option<Rc<OwnedFd>>,
    /// The time when the connection began, by the monotonic clock.
    pub began_ms: u64,
    /// Number of requests on the connection so far, including this one.
    pub requests: Cell<u32>,
    /// Host name of the client by reverse DNS, if rules requested the lookup.
    name: OnceCell<Box<str>>,
    text: OnceCell<Box<str>>,
}

impl Client {
    pub fn new(
        address: SocketAddr,
        local: SocketAddr,
        listener: Arc<Address>,
        secure: bool,
    ) -> Client {
        let log_id = Rc::default();
        Client {
            address,
            local,
            listener,
            secure,
            tls: false,
            speaks_plain: false,
            session: None,
            account: None,
            peer: address,
            forwarding: Forwarding::Unknown,
            preface: None,
            log_id,
            socket: None,
            began_ms: saker_net::clock::monotonic_ms(),
            requests: Cell::new(0),
            name: OnceCell::new(),
            text: OnceCell::new(),
        }
    }

    /// Returns the client of the same connection with another address, which a proxy or a rule
    /// names. The account is not the other address's.
    pub fn with_address(&self, address: SocketAddr) -> Client {
        let listener = Arc::clone(&self.listener);
        let mut named = Client::new(address, self.local, listener, self.secure);
        (named.tls, named.peer, named.forwarding) = (self.tls, self.peer, self.forwarding);
        named.log_id = Rc::clone(&self.log_id);
        named.preface.clone_from(&self.preface);
        named.socket.clone_from(&self.socket);
        named.session.clone_from(&self.session);
        named.requests.set(self.requests.get());
        named
    }

    /// Returns the address that the connection is from: the PROXY header's if there is a trusted
    /// one, whatever a field names as the client.
    pub fn connection_address(&self) -> SocketAddr {
        let named = self.preface.as_ref().map(|preface| preface.source);
        let address = named.unwrap_or(self.peer);
        SocketAddr::new(address.ip().to_canonical(), address.port())
    }

    /// Returns the client address as text, for logs. Formatted on first use.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| self.ip().to_string().into())
    }

    /// Returns the host name of the client, if it was looked up and found.
    pub fn name(&self) -> Option<&str> {
        self.name.get().map(|name| &**name)
    }

    /// Sets the host name of the client. The first call wins.
    pub fn call_it(&self, name: &str) {
        self.name.get_or_init(|| name.into());
    }

    pub fn ip(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }
}

//! Facts about a session, from its beginning to its line in the log.
//!
//! Called by: the listeners, which begin it; rules, which read it.
//! Caveat: the client is the peer until rules believe what a proxy says about it.

use crate::attempt::Attempt;
use saker_ap_expr::Spans;
use saker_config::model::{Address, StreamServer};
use saker_net::{clock, proxy_preface::PrefaceVersion};
use saker_tls::{HelloFacts, SessionInfo};
use std::{borrow::Cow, net::SocketAddr, sync::Arc};

/// The protocol below a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionProtocol {
    Tcp,
    Udp,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    pub server: Arc<StreamServer>,
    pub protocol: SessionProtocol,
    /// Number of the connection in the process.
    pub number: u64,
    /// Address of the listener.
    pub listener: Arc<Address>,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// The client: the peer, or the address that a trusted proxy names.
    pub client: SocketAddr,
    /// Address that the client has connected to.
    pub local: SocketAddr,
    /// Client and destination that a PROXY header names.
    pub proxied: Option<(SocketAddr, SocketAddr)>,
    /// TLS that ends here.
    pub tls: Option<Arc<SessionInfo>>,
    /// TLS that is passed on.
    pub hello: Option<HelloFacts>,
    pub began_ms: u64,
    /// Status of its end; 0: it has not ended.
    pub status: u16,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub attempts: Vec<Attempt>,
    /// The PROXY header that the connection to the target begins with; rules may choose it.
    pub preface: Option<PrefaceVersion>,
    pub variables: SessionVariables,
}

/// Values that rules keep between their answers.
#[derive(Debug, Default)]
pub struct SessionVariables {
    /// By number.
    pub values: Vec<Option<Box<[u8]>>>,
    /// Subject and groups of the last expression that matched.
    pub captures: Option<(Box<[u8]>, Spans)>,
    /// Nesting of tables in evaluation.
    pub depth: u8,
    /// Something could not be evaluated within its limits.
    pub has_failed: bool,
    /// Outcome of limits.
    pub limit_status: Option<&'static str>,
}

impl Session {
    /// Begins a session, whose status is 0 until it has an end.
    pub fn new(
        server: Arc<StreamServer>,
        protocol: SessionProtocol,
        number: u64,
        listener: Arc<Address>,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Session {
        Session {
            preface: server.sends_preface,
            server,
            protocol,
            number,
            listener,
            peer,
            client: peer,
            local,
            proxied: None,
            tls: None,
            hello: None,
            began_ms: clock::monotonic_ms(),
            status: 0,
            bytes_received: 0,
            bytes_sent: 0,
            attempts: Vec::new(),
            variables: SessionVariables::default(),
        }
    }

    /// Returns true if the client has no address of its own.
    pub fn is_unix(&self) -> bool {
        matches!(*self.listener, Address::Unix(_)) && self.client == self.peer
    }

    /// Server name of the TLS handshake, in lowercase without a dot at its end, whether TLS ends
    /// here or is passed on.
    pub fn server_name(&self) -> Option<Cow<'_, str>> {
        if let Some(tls) = &self.tls {
            let name = tls.server_name.as_deref()?;
            return Some(match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                true => Cow::Owned(name.to_ascii_lowercase()),
                false => Cow::Borrowed(name),
            });
        }
        self.hello
            .as_ref()?
            .server_name
            .as_deref()
            .map(Cow::Borrowed)
    }

    /// Notes the end, unless there is another status already.
    pub fn end(&mut self, status: u16) {
        if self.status == 0 {
            self.status = status;
        }
    }

    /// Time since the beginning.
    pub fn age_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.began_ms)
    }
}

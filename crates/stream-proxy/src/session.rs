//! Facts about a session, from its beginning to its line in the log.
//!
//! Called by: the listeners, which begin it; rules, which read it.
//! Caveat: the client is the peer until rules believe what a proxy says about it.

use crate::attempt::Attempt;
use saker_ap_expr::Spans;
use saker_config::model::{Address, StreamServer};
use saker_net::{clock, proxy_preface::PrefaceVersion};
use saker_telemetry::error_log::{ContextItem, LogContext, SiteLog};
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
    /// The session goes to an upstream.
    pub has_target: bool,
    /// The PROXY header that the connection to the target begins with; rules may choose it.
    pub preface: Option<PrefaceVersion>,
    pub variables: SessionVariables,
    /// The server's error log; `None`: the process's.
    pub error_log: Option<Arc<SiteLog>>,
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
            has_target: false,
            variables: SessionVariables::default(),
            error_log: None,
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

    /// Bytes of both ends so far, in the words of nginx's lines. `None`: no upstream has been tried.
    pub(crate) fn bytes_text(&self) -> Option<String> {
        let last = self.attempts.last();
        let (sent, received) = last.map_or((0, 0), |one| (one.bytes_sent, one.bytes_received));
        self.has_target.then(|| {
            format!(
                "bytes from/to client:{}/{}, bytes from/to upstream:{received}/{sent}",
                self.bytes_received, self.bytes_sent
            )
        })
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

impl LogContext for Session {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        let text = |text: String| Some(Cow::Owned(text.into_bytes()));
        match asked {
            ContextItem::Client => text(self.client.to_string()),
            ContextItem::Peer => text(self.peer.to_string()),
            ContextItem::Local => text(self.local.to_string()),
            ContextItem::ConnectionNumber => text(self.number.to_string()),
            ContextItem::SessionEnds => {
                let kind = match self.protocol {
                    SessionProtocol::Tcp => "",
                    SessionProtocol::Udp => "udp ",
                };
                text(match self.is_unix() {
                    true => format!("{kind}client: unix:, server: {}", self.listener),
                    false => {
                        let client = self.client.ip().to_canonical();
                        format!("{kind}client: {client}, server: {}", self.listener)
                    }
                })
            }
            ContextItem::SessionBytes => text(self.bytes_text()?),
            _ => None,
        }
    }

    fn site(&self) -> Option<&SiteLog> {
        self.error_log.as_deref()
    }
}

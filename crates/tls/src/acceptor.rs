//! Acceptor of a listener: makes TLS sessions from its settings and the current certificates.
//!
//! Called by: the driver, for each connection it has accepted; the session's first bytes then go to
//! [`Configurations::answer`].
//! Caveat: certificates may be replaced in mid-handshake; a session keeps the set that it began
//! with.

use crate::{
    configurations::{Configurations, Terms},
    early::EarlySessions,
    identities::Identities,
    quic::QuicConfigurations,
    session::{Agreed, ServerSession, SessionInfo},
    tickets::Tickets,
};
use rustls::Error;
use saker_config::model::Listener;
use std::{
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

/// Makes the TLS sessions of a listener. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Acceptor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    identities: Arc<Identities>,
    terms: Terms,
    configurations: RwLock<Arc<Configurations>>,
}

impl Acceptor {
    /// `alpn`: protocol names in order of preference. A client that offers only others is refused
    /// (RFC 7301 section 3.2).
    pub fn new(
        identities: Arc<Identities>,
        listener: &Listener,
        tickets: Arc<Tickets>,
        alpn: &[&[u8]],
    ) -> Acceptor {
        let alpn: Vec<Vec<u8>> = alpn.iter().map(|name| name.to_vec()).collect();
        let strict_sni = listener.tls.as_ref().is_some_and(|tls| tls.strict_sni);
        let terms = Terms {
            address: listener.address.clone(),
            strict_sni,
            tickets,
            alpn,
        };
        let configurations = RwLock::new(Arc::new(Configurations::new(&identities, &terms)));
        Acceptor(Arc::new(Shared {
            identities,
            terms,
            configurations,
        }))
    }

    /// A session for a connection that has just been accepted. Costs nothing until the first bytes
    /// come. `local`: the address that the client has connected to, by which requests are routed,
    /// too; after a trusted PROXY preface that of the preface.
    pub fn accept(&self, local: IpAddr) -> ServerSession {
        ServerSession::new(self.0.current(), local, None)
    }

    /// The same for a connection of a client whose address is known: the number of certificates that
    /// are made at the handshakes of one network is bounded.
    pub fn accept_from(&self, client: IpAddr, local: IpAddr) -> ServerSession {
        ServerSession::new(self.0.current(), local, Some(client))
    }

    /// For QUIC: the same certificates, demands and tickets, TLS 1.3, ALPN `h3`. To be asked for
    /// again when [`Identities::version`] has changed.
    pub fn for_quic(
        &self,
        early: Option<(&EarlySessions, &[u8])>,
    ) -> Result<QuicConfigurations, Error> {
        QuicConfigurations::new(self.0.current(), early)
    }

    /// Session info of a completed QUIC handshake made by [`Acceptor::for_quic`].
    pub fn session_info_of_quic(&self, agreed: Agreed) -> SessionInfo {
        let current = self.0.current();
        let policy = current.policy(agreed.policy);
        SessionInfo::of_quic(agreed, policy)
    }

    pub fn identities(&self) -> &Arc<Identities> {
        &self.0.identities
    }
}

impl Shared {
    fn current(&self) -> Arc<Configurations> {
        let current = Arc::clone(
            &self
                .configurations
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        );
        if current.version() == self.identities.version() {
            return current;
        }
        let newer = Arc::new(Configurations::new(&self.identities, &self.terms));
        *self
            .configurations
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::clone(&newer);
        newer
    }
}

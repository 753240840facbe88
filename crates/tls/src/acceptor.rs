//! What a listener makes sessions with: its settings, the certificates, and rustls configurations
//! made from them on demand.
//!
//! Place in the walk: a connection is accepted -> [`Acceptor::accept`] -> the session's first bytes
//! -> [`Configurations::answer`]. Which configuration answers is decided by the listener, the local
//! address and the ClientHello's name, before the handshake begins, because sites may differ in
//! what they demand. The difficulty is a swap of certificates in mid-handshake: a session keeps the
//! set that it began with.

use crate::{
    client_hello::{ClientHello, canonical_name},
    early::EarlySessions,
    identities::{Door, Identities, RunTime, Table},
    policy::{Policy, Variant},
    quic::QuicConfigurations,
    session::{Agreed, ServerSession, SessionInfo},
    tickets::{PolicyTickets, Tickets},
};
use rustls::{
    Error, ServerConfig,
    server::{ClientHello as RustlsHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use saker_config::model::{Address, Listener};
use std::{
    cell::RefCell,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, OnceLock, PoisonError, RwLock},
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

/// What a listener brings.
#[derive(Clone, Debug)]
struct Terms {
    address: Address,
    strict_sni: bool,
    tickets: Arc<Tickets>,
    alpn: Vec<Vec<u8>>,
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
        ServerSession::new(self.0.current(), local)
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
        let policy = current.table.with_digest(agreed.policy);
        SessionInfo::of_quic(agreed, policy.map(|policy| &**policy))
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
        if current.version == self.identities.version() {
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

/// One state of the certificates, with a rustls configuration per policy and variant, made when it
/// is first asked for.
#[derive(Debug)]
pub struct Configurations {
    version: u64,
    table: Arc<Table>,
    run_time: Arc<RunTime>,
    terms: Terms,
    made: Vec<[OnceLock<Arc<ServerConfig>>; Variant::COUNT]>,
}

/// Answer to a ClientHello.
pub enum Answer {
    /// With what the site demands; a challenge's answer has no site.
    Configuration(Arc<ServerConfig>, Option<Arc<Policy>>),
    /// A certificate for the name is being made: ask again in a moment.
    NotYet,
    /// The certificate for the name has not come, or may not be made.
    NoCertificate,
    /// Strict SNI, and no name or an unknown one.
    UnrecognizedName,
    /// The site's demands can't be kept, so it must not be served.
    Unusable(String),
}

impl Configurations {
    fn new(identities: &Identities, terms: &Terms) -> Configurations {
        // The version before the table: if the table is newer, it is only fetched once more.
        let version = identities.version();
        let table = identities.table();
        let made = table.policies.iter().map(|_| Default::default()).collect();
        Configurations {
            version,
            table,
            run_time: Arc::clone(identities.run_time()),
            terms: terms.clone(),
            made,
        }
    }

    fn door(&self, local: IpAddr) -> Door<'_> {
        Door {
            listener: &self.terms.address,
            local,
        }
    }

    /// True if the address that a client has connected to counts, and not only the listener.
    pub fn depends_on_local(&self) -> bool {
        self.table.depends_on_local(&self.terms.address)
    }

    pub fn answer(&self, hello: &ClientHello, local: IpAddr) -> Answer {
        let name = hello.server_name.as_deref();
        if hello.acme_challenge
            && let Some(config) = name.and_then(|name| self.run_time.challenge(name))
        {
            return Answer::Configuration(config, None);
        }
        let (index, variant) = match self.choose(hello, local) {
            Ok(chosen) => chosen,
            Err(answer) => return answer,
        };
        match self.configuration(index, variant, local) {
            Ok(config) => Answer::Configuration(config, self.table.policies.get(index).cloned()),
            Err(error) => Answer::Unusable(error.to_string()),
        }
    }

    /// Whose demands hold, and which of its configurations; or what is answered instead.
    pub fn choose(&self, hello: &ClientHello, local: IpAddr) -> Result<(usize, Variant), Answer> {
        let (door, name) = (self.door(local), hello.server_name.as_deref());
        if self.terms.strict_sni && !name.is_some_and(|name| self.table.knows(door, name)) {
            return Err(Answer::UnrecognizedName);
        }
        if let Some(answer) = name.and_then(|name| self.missing(door, name)) {
            return Err(answer);
        }
        let index = self.table.policy(door, name);
        let demands = index.and_then(|index| Some((index, self.table.policies.get(index)?)));
        demands
            .map(|(index, policy)| (index, policy.variant(hello)))
            .ok_or_else(|| Answer::Unusable(unusable().to_string()))
    }

    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.table.policies.iter()
    }

    /// What is answered for a name whose certificate comes by itself and is not there. Another
    /// site's would only be refused, with a warning that means something else.
    fn missing(&self, door: Door<'_>, name: &str) -> Option<Answer> {
        let (is_on_demand, is_automatic) = (
            self.table.is_on_demand(door, name),
            self.table.is_automatic(door, name),
        );
        if !(is_on_demand || is_automatic) || self.table.covers(name, &self.run_time) {
            return None;
        }
        match is_on_demand && self.run_time.demand(name) {
            true => Some(Answer::NotYet),
            false => is_automatic.then_some(Answer::NoCertificate),
        }
    }

    pub fn configuration(
        &self,
        index: usize,
        variant: Variant,
        local: IpAddr,
    ) -> Result<Arc<ServerConfig>, Error> {
        let (policy, made) = self
            .table
            .policies
            .get(index)
            .zip(self.made.get(index))
            .ok_or_else(unusable)?;
        if self.depends_on_local() {
            // Certificates differ by address; there may be any number of them.
            return self.make(index, policy, variant, Some(local)).map(Arc::new);
        }
        let slot = &made[variant.index()];
        if let Some(config) = slot.get() {
            return Ok(Arc::clone(config));
        }
        let config = self.make(index, policy, variant, None)?;
        Ok(Arc::clone(slot.get_or_init(|| Arc::new(config))))
    }

    fn make(
        &self,
        index: usize,
        policy: &Policy,
        variant: Variant,
        local: Option<IpAddr>,
    ) -> Result<ServerConfig, Error> {
        let resolver = Resolver {
            table: Arc::clone(&self.table),
            run_time: Arc::clone(&self.run_time),
            listener: self.terms.address.clone(),
            local: local.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            policy: index,
        };
        let Terms { tickets, alpn, .. } = &self.terms;
        let tickets = PolicyTickets {
            tickets: Arc::clone(tickets),
            policy: policy.digest,
            lifetime_max_s: policy.ticket_lifetime_s,
        };
        policy.server_config(variant, Arc::new(resolver), Arc::new(tickets), alpn)
    }
}

fn unusable() -> Error {
    Error::General(
        "the site's TLS settings can't be used; the error log of the start tells why".into(),
    )
}

thread_local! {
    /// Certificate that the resolver chose last. A handshake step runs on one thread without
    /// yielding, so the value belongs to the caller of that step; rustls does not report it.
    static SHOWN: RefCell<Option<Arc<CertifiedKey>>> = const { RefCell::new(None) };
}

/// The certificate that the step of a handshake just made has chosen, if it chose one.
pub fn take_shown() -> Option<Arc<CertifiedKey>> {
    SHOWN.take()
}

/// Finds the certificate when rustls asks for it.
#[derive(Debug)]
struct Resolver {
    table: Arc<Table>,
    run_time: Arc<RunTime>,
    listener: Address,
    /// Unspecified where it does not count.
    local: IpAddr,
    policy: usize,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: RustlsHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(canonical_name);
        let (door, name) = (
            Door {
                listener: &self.listener,
                local: self.local,
            },
            name.as_deref(),
        );
        // Should rustls read another name than we did, the site's demands must hold all the same.
        if self.table.policy(door, name) != Some(self.policy) {
            return None;
        }
        let chosen = self
            .table
            .choose(door, name, hello.signature_schemes(), &self.run_time);
        SHOWN.set(chosen.clone());
        chosen
    }
}

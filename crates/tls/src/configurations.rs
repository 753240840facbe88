//! rustls configurations of a listener, built on demand from its settings and the certificates.
//!
//! Called by: TLS sessions and QUIC, with a ClientHello. The listener, the local address, and the
//! name in the ClientHello select the configuration before the handshake begins, because sites may
//! differ in their requirements.
//! Caveat: one value stands for one state of the certificates; the acceptor replaces it when they
//! change.

use crate::{
    client_hello::{ClientHello, canonical_name},
    identities::{Identities, LocalEndpoint, RunTime, Table},
    policy::{Policy, PolicyDigest, Variant},
    tickets::{PolicyTickets, Tickets},
};
use rustls::{
    Error, ServerConfig,
    server::{ClientHello as RustlsHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use saker_config::model::Address;
use std::{
    cell::RefCell,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, OnceLock},
};

/// Settings of the listener.
#[derive(Clone, Debug)]
pub struct Terms {
    pub address: Address,
    pub strict_sni: bool,
    pub tickets: Arc<Tickets>,
    pub alpn: Vec<Vec<u8>>,
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
    UnrecognisedName,
    /// The site's demands can't be kept, so it must not be served.
    Unusable(String),
}

impl Configurations {
    pub fn new(identities: &Identities, terms: &Terms) -> Configurations {
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

    /// Version of the certificates, as [`Identities::version`] counts.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The policy with this digest, if there still is one.
    pub fn policy(&self, digest: PolicyDigest) -> Option<&Policy> {
        self.table.with_digest(digest).map(|policy| &**policy)
    }

    fn endpoint(&self, local: IpAddr) -> LocalEndpoint<'_> {
        LocalEndpoint {
            listener: &self.terms.address,
            local,
        }
    }

    /// True if the address that a client has connected to counts, and not only the listener.
    pub fn depends_on_local(&self) -> bool {
        self.table.depends_on_local(&self.terms.address)
    }

    /// `client`: its address, where it is known.
    pub fn answer(&self, hello: &ClientHello, local: IpAddr, client: Option<IpAddr>) -> Answer {
        let name = hello.server_name.as_deref();
        if hello.acme_challenge
            && let Some(config) = name.and_then(|name| self.run_time.challenge(name))
        {
            return Answer::Configuration(config, None);
        }
        let (index, variant) = match self.choose(hello, local, client) {
            Ok(chosen) => chosen,
            Err(answer) => return answer,
        };
        match self.configuration(index, variant, local) {
            Ok(config) => Answer::Configuration(config, self.table.policies.get(index).cloned()),
            Err(error) => Answer::Unusable(error.to_string()),
        }
    }

    /// Whose demands hold, and which of its configurations; or what is answered instead.
    pub fn choose(
        &self,
        hello: &ClientHello,
        local: IpAddr,
        client: Option<IpAddr>,
    ) -> Result<(usize, Variant), Answer> {
        let (endpoint, name) = (self.endpoint(local), hello.server_name.as_deref());
        if self.terms.strict_sni && !name.is_some_and(|name| self.table.knows(endpoint, name)) {
            return Err(Answer::UnrecognisedName);
        }
        if self.table.rejects(endpoint, name) {
            return Err(Answer::UnrecognisedName);
        }
        if let Some(answer) = name.and_then(|name| self.missing(endpoint, name, client)) {
            return Err(answer);
        }
        let index = self.table.policy(endpoint, name);
        let demands = index.and_then(|index| Some((index, self.table.policies.get(index)?)));
        demands
            .map(|(index, policy)| (index, policy.variant(hello)))
            .ok_or_else(|| Answer::Unusable(unusable().to_string()))
    }

    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.table.policies.iter()
    }

    /// Answer for a name with an automatic certificate that is not there yet. Another site's
    /// certificate would only be rejected, with a misleading warning.
    fn missing(
        &self,
        endpoint: LocalEndpoint<'_>,
        name: &str,
        client: Option<IpAddr>,
    ) -> Option<Answer> {
        let (is_on_demand, is_automatic) = (
            self.table.is_on_demand(endpoint, name),
            self.table.is_automatic(endpoint, name),
        );
        if !(is_on_demand || is_automatic) || self.table.has_current(name, &self.run_time) {
            return None;
        }
        match is_on_demand && self.run_time.demand(name, client) {
            true => Some(Answer::NotYet),
            // One that has expired is shown until there is another.
            false => (is_automatic && !self.table.covers(name, &self.run_time))
                .then_some(Answer::NoCertificate),
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
        let (endpoint, name) = (
            LocalEndpoint {
                listener: &self.listener,
                local: self.local,
            },
            name.as_deref(),
        );
        // Should rustls read another name than we did, the site's demands must hold all the same.
        if self.table.policy(endpoint, name) != Some(self.policy) {
            return None;
        }
        let chosen = self
            .table
            .choose(endpoint, name, hello.signature_schemes(), &self.run_time);
        SHOWN.set(chosen.clone());
        chosen
    }
}

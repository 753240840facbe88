//! Demands of a site on a handshake before any certificate is chosen: versions, ciphers, groups,
//! client certificates.
//!
//! Sites with equal demands share a policy, and so a rustls configuration; usually there is one.
//! The difficulty is that a session that was made under one policy must be no way into a site with
//! another: tickets are bound to the digest of a policy, a session carries the digest that its
//! handshake was held to, and requests are only served where it is that of their site now.

use crate::{
    client_hello::Groups,
    client_verification::Judged,
    client_verifier::{self, Loading, Verifier},
    identities::{Files, LoadProblem},
    provider,
};
use aws_lc_rs::digest::{Context, SHA256};
use rustls::{
    Error, ServerConfig, SupportedProtocolVersion,
    crypto::CryptoProvider,
    pki_types::CertificateDer,
    server::{
        NoServerSessionStorage, ProducesTickets, ResolvesServerCert, danger::ClientCertVerifier,
    },
    version::{TLS12, TLS13},
};
use saker_config::model::{CipherOrder, ClientCertificates, Group, Origin, SiteTls, TlsVersion};
use std::{fmt, sync::Arc};

/// Equal for policies that are equal, on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PolicyDigest([u8; 32]);

impl PolicyDigest {
    pub fn of(content: &[u8]) -> PolicyDigest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(aws_lc_rs::digest::digest(&SHA256, content).as_ref());
        PolicyDigest(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// One that [`PolicyDigest::as_bytes`] has given.
    pub fn from_bytes(bytes: [u8; 32]) -> PolicyDigest {
        PolicyDigest(bytes)
    }
}

impl fmt::Debug for PolicyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

static BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

#[derive(Debug)]
pub struct Policy {
    provider: Arc<CryptoProvider>,
    /// The same, without the post-quantum group; `None` if that is all there is.
    classic: Option<Arc<CryptoProvider>>,
    pub groups: Groups,
    minimum_version: TlsVersion,
    without_tls13: bool,
    order: CipherOrder,
    /// The configuration names ciphers: its order holds.
    has_own_ciphers: bool,
    verifier: Option<Arc<Verifier>>,
    without_tickets: bool,
    /// At most; of a session that goes on by a ticket.
    pub ticket_lifetime_s: Option<u32>,
    pub digest: PolicyDigest,
}

/// Which of a policy's configurations answers a hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// The client's order of ciphers holds.
    pub client_order: bool,
    /// Without post-quantum key exchange.
    pub classic: bool,
}

impl Variant {
    pub const COUNT: usize = 4;

    pub fn index(self) -> usize {
        usize::from(self.client_order) + 2 * usize::from(self.classic)
    }
}

impl Policy {
    /// `None` if it can't be had; the problems say why. A site whose demands on clients can't be
    /// kept must not be served.
    pub fn load(
        site: &SiteTls,
        origin: &Origin,
        files: &mut Files,
        problems: &mut Vec<LoadProblem>,
    ) -> Option<Policy> {
        let mut digest = Context::new(&SHA256);
        let demands = demands(site);
        digest.update(&(demands.len() as u64).to_be_bytes());
        digest.update(demands.as_bytes());
        let full = Arc::new(provider::provider(&site.ciphers, &site.groups));
        let verifier = match site.client_certificates {
            ClientCertificates::Off => None,
            _ => Some(Arc::new(client_verifier::load(
                site,
                &full,
                &mut Loading {
                    origin,
                    digest: &mut digest,
                    files,
                    problems,
                },
            )?)),
        };
        let groups = provider::groups_or_default(&site.groups);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.finish().as_ref());
        let policy = Policy {
            provider: full,
            classic: classic(site, groups),
            groups: Groups::of(groups),
            minimum_version: site.minimum_version,
            without_tls13: site.without_tls13,
            order: site.cipher_order,
            has_own_ciphers: !site.ciphers.is_empty(),
            verifier,
            without_tickets: site.without_tickets,
            ticket_lifetime_s: site.ticket_lifetime_s,
            digest: PolicyDigest(bytes),
        };
        if let Err(error) = ServerConfig::builder_with_provider(Arc::clone(&policy.provider))
            .with_protocol_versions(policy.versions())
        {
            problems.push(LoadProblem::error(
                origin.clone(),
                format!("no handshake is possible with these ciphers and groups: {error}"),
            ));
            return None;
        }
        Some(policy)
    }

    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        match self.minimum_version {
            TlsVersion::Tls12 if self.without_tls13 => BOTH.split_at(1).1,
            TlsVersion::Tls12 => BOTH,
            TlsVersion::Tls13 => BOTH.split_at(1).0,
        }
    }

    /// Clients' certificates come after early data, and what ends sooner than a day is not to be
    /// remembered by the server.
    pub fn allows_early_data(&self) -> bool {
        self.verifier.is_none() && !self.without_tickets && self.ticket_lifetime_s.is_none()
    }

    /// Verification result for certificates that a handshake has accepted.
    pub fn judged(&self, chain: &[CertificateDer<'static>]) -> Judged {
        self.verifier
            .as_ref()
            .map_or_else(Judged::default, |verifier| verifier.judged(chain))
    }

    /// For a client that puts ChaCha20 first, and for one that would have to begin anew to use the
    /// post-quantum group.
    pub fn variant(&self, hello: &crate::client_hello::ClientHello) -> Variant {
        let pq = Group::X25519MlKem768;
        let must_begin_anew = hello.groups.has(pq) && !hello.key_shares.has(pq);
        let has_other_share = !hello.key_shares.and(self.groups).is_empty();
        Variant {
            client_order: match self.order {
                CipherOrder::Own => hello.prefers_chacha20 && !self.has_own_ciphers,
                CipherOrder::OwnAlways => false,
                CipherOrder::Client => true,
            },
            classic: must_begin_anew && has_other_share && self.classic.is_some(),
        }
    }

    pub fn server_config(
        &self,
        variant: Variant,
        resolver: Arc<dyn ResolvesServerCert>,
        tickets: Arc<dyn ProducesTickets>,
        alpn: &[Vec<u8>],
    ) -> Result<ServerConfig, Error> {
        let provider = self
            .classic
            .as_ref()
            .filter(|_| variant.classic)
            .unwrap_or(&self.provider);
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(self.versions())?;
        let mut config = match &self.verifier {
            Some(verifier) => builder
                .with_client_cert_verifier(Arc::clone(verifier) as Arc<dyn ClientCertVerifier>),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(resolver);
        if !self.without_tickets {
            config.ticketer = tickets;
        }
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.alpn_protocols = alpn.to_vec();
        config.ignore_client_order = !variant.client_order;
        // A resumed session brings a new ticket, so one is enough for a client with one connection;
        // who wants more can ask (RFC 9149).
        (config.send_tls13_tickets, config.max_tls13_tickets) =
            if self.without_tickets { (0, 0) } else { (1, 4) };
        // Records are sealed and opened in `session`.
        config.enable_secret_extraction = true;
        Ok(config)
    }
}

/// Settings of a site that determine its policy, as text for the digest; the contents of files are
/// added to it separately.
pub fn demands(site: &SiteTls) -> String {
    let versions = (site.minimum_version, site.without_tls13);
    let clients = (
        site.client_certificates,
        site.client_checks.revocation,
        site.client_checks.depth_max,
    );
    let tickets = (site.without_tickets, site.ticket_lifetime_s);
    format!(
        "{:?}",
        (
            versions,
            &site.ciphers,
            site.cipher_order,
            &site.groups,
            clients,
            tickets
        )
    )
}

fn classic(site: &SiteTls, groups: &[Group]) -> Option<Arc<CryptoProvider>> {
    let classic: Vec<Group> = groups
        .iter()
        .copied()
        .filter(|group| *group != Group::X25519MlKem768)
        .collect();
    (!classic.is_empty() && classic.len() < groups.len())
        .then(|| Arc::new(provider::provider(&site.ciphers, &classic)))
}

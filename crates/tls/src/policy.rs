//! What a site demands of a handshake before any certificate is chosen: versions, ciphers, groups, client certificates.
//!
//! Sites with equal demands share a policy, and so a rustls configuration; usually there is one. The difficulty is that a session that was
//! made under one policy must be no way into a site with another: tickets are bound to the digest of a policy, and
//! `Identities::may_serve` tells whether a connection may be used for another host.

use crate::{
    client_hello::Groups,
    der,
    identities::{Files, LoadProblem},
    provider,
};
use aws_lc_rs::digest::{Context, SHA256};
use rustls::{
    Error, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, CertificateRevocationListDer, pem::PemObject},
    server::{NoServerSessionStorage, ProducesTickets, ResolvesServerCert, WebPkiClientVerifier, danger::ClientCertVerifier},
    version::{TLS12, TLS13},
};
use saker_config::model::{ClientCertificates, Group, Origin, SiteTls, TlsVersion};
use std::{fmt, path::Path, sync::Arc};

/// Equal for policies that are equal, on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PolicyDigest([u8; 32]);

impl PolicyDigest {
    #[cfg(test)]
    pub fn of(content: &[u8]) -> PolicyDigest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(aws_lc_rs::digest::digest(&SHA256, content).as_ref());
        PolicyDigest(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PolicyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
    /// The configuration names ciphers: its order holds.
    has_own_order: bool,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
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
    /// `None` if it can't be had; the problems say why. A site whose demands on clients can't be kept must not be served.
    pub fn load(site: &SiteTls, origin: &Origin, files: &mut Files, problems: &mut Vec<LoadProblem>) -> Option<Policy> {
        let mut digest = Context::new(&SHA256);
        digest.update(format!("{:?}", (site.minimum_version, &site.ciphers, &site.groups, site.client_certificates)).as_bytes());
        let full = Arc::new(provider::provider(&site.ciphers, &site.groups));
        let verifier = match site.client_certificates {
            ClientCertificates::Off => None,
            demand => Some(verifier(demand, site, origin, &full, &mut digest, files, problems)?),
        };
        let groups = provider::groups_or_default(&site.groups);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.finish().as_ref());
        let policy = Policy {
            provider: full,
            classic: classic(site, groups),
            groups: Groups::of(groups),
            minimum_version: site.minimum_version,
            has_own_order: !site.ciphers.is_empty(),
            verifier,
            digest: PolicyDigest(bytes),
        };
        if let Err(error) = ServerConfig::builder_with_provider(Arc::clone(&policy.provider)).with_protocol_versions(policy.versions()) {
            problems.push(LoadProblem::error(origin.clone(), format!("no handshake is possible with these ciphers and groups: {error}")));
            return None;
        }
        Some(policy)
    }

    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        match self.minimum_version {
            TlsVersion::Tls12 => BOTH,
            TlsVersion::Tls13 => BOTH.split_at(1).0,
        }
    }

    /// For a client that puts ChaCha20 first, and for one that would have to begin anew to use the post-quantum group.
    pub fn variant(&self, hello: &crate::client_hello::ClientHello) -> Variant {
        let pq = Group::X25519MlKem768;
        let must_begin_anew = hello.groups.has(pq) && !hello.key_shares.has(pq);
        let has_other_share = !hello.key_shares.and(self.groups).is_empty();
        Variant {
            client_order: hello.prefers_chacha20 && !self.has_own_order,
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
        let provider = self.classic.as_ref().filter(|_| variant.classic).unwrap_or(&self.provider);
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(self.versions())?;
        let mut config = match &self.verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(resolver);
        config.ticketer = tickets;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.alpn_protocols = alpn.to_vec();
        config.ignore_client_order = !variant.client_order;
        // A resumed session brings a new ticket, so one is enough for a client with one connection; who wants more can ask (RFC 9149).
        config.send_tls13_tickets = 1;
        config.max_tls13_tickets = 4;
        // Records are sealed and opened in `session`.
        config.enable_secret_extraction = true;
        Ok(config)
    }
}

fn classic(site: &SiteTls, groups: &[Group]) -> Option<Arc<CryptoProvider>> {
    let classic: Vec<Group> = groups.iter().copied().filter(|group| *group != Group::X25519MlKem768).collect();
    (!classic.is_empty() && classic.len() < groups.len()).then(|| Arc::new(provider::provider(&site.ciphers, &classic)))
}

/// Revocation is checked for the whole chain; a list that is missing or out of date refuses, as OpenSSL has it.
fn verifier(
    demand: ClientCertificates,
    site: &SiteTls,
    origin: &Origin,
    provider: &Arc<CryptoProvider>,
    digest: &mut Context,
    files: &mut Files,
    problems: &mut Vec<LoadProblem>,
) -> Option<Arc<dyn ClientCertVerifier>> {
    let Some(authorities) = &site.client_ca else {
        let problem = "client certificates are asked for, and no authority to check them against is named";
        problems.push(LoadProblem::error(origin.clone(), problem.into()).with_help("name a file with `client-ca`"));
        return None;
    };
    let roots = roots(authorities, origin, digest, files, problems)?;
    let mut lists = Vec::new();
    for path in &site.client_crl {
        lists.extend(revocation_lists(path, origin, digest, files, problems)?);
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    if !lists.is_empty() {
        builder = builder.with_crls(lists).enforce_revocation_expiration();
    }
    if demand == ClientCertificates::Optional {
        builder = builder.allow_unauthenticated();
    }
    builder
        .build()
        .map_err(|error| problems.push(LoadProblem::error(origin.clone(), format!("client certificates can't be checked: {error}"))))
        .ok()
}

fn roots(path: &Path, origin: &Origin, digest: &mut Context, files: &mut Files, problems: &mut Vec<LoadProblem>) -> Option<RootCertStore> {
    let pem = files.read(path, origin, "authorities", problems)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let added = certificate.map_err(|error| error.to_string()).and_then(|certificate| {
            digest.update(&certificate);
            roots.add(certificate).map_err(|error| error.to_string())
        });
        if let Err(error) = added {
            problems.push(LoadProblem::error(origin.clone(), format!("{} has an authority that can't be used: {error}", path.display())));
            return None;
        }
    }
    if roots.is_empty() {
        problems.push(
            LoadProblem::error(origin.clone(), format!("{} has no certificates", path.display())).with_help("authorities are given in PEM"),
        );
        return None;
    }
    Some(roots)
}

fn revocation_lists(
    path: &Path,
    origin: &Origin,
    digest: &mut Context,
    files: &mut Files,
    problems: &mut Vec<LoadProblem>,
) -> Option<Vec<CertificateRevocationListDer<'static>>> {
    let pem = files.read(path, origin, "revocation lists", problems)?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&pem).collect();
    let lists = lists.ok().filter(|lists| !lists.is_empty());
    let Some(lists) = lists else {
        problems.push(LoadProblem::error(origin.clone(), format!("{} has no revocation lists in PEM", path.display())));
        return None;
    };
    for list in &lists {
        digest.update(list);
        if der::revocation_list_next_update(list).is_some_and(|until| until < crate::identities::now()) {
            let problem = format!("{} is out of date: client certificates of its authority are refused", path.display());
            problems.push(LoadProblem::warning(origin.clone(), problem));
        }
    }
    Some(lists)
}

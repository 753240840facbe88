//! The site that a handshake is for, its policy, and the certificate that is shown. Immutable: a
//! change makes a new table.
//!
//! Listener, local address and server name lead to the site as they do for requests
//! ([`HostTable`]). Among the site's certificates those that cover the name come first, and the
//! cheaper signature before the dearer, as far as the client can check it. Certificates of other
//! sites may be shown where the site has none; another site's policy never takes the place of its
//! own.

use super::{Certificate, RunTime, of_handshake::OfHandshake};
use crate::{
    policy::{Policy, PolicyDigest},
    unix_time::now,
};
use rustls::{SignatureScheme, sign::CertifiedKey};
use saker_config::{
    HostTable,
    host_table::Choice,
    model::{Address, Automatic, HandshakeCertificate, SiteName},
};
use std::{collections::HashMap, net::IpAddr, sync::Arc};

#[derive(Debug)]
pub struct Table {
    hosts: Arc<HostTable>,
    /// By their index in the model; `None`: no listener with TLS leads to the site.
    sites: Vec<Option<Site>>,
    /// All certificates by the names they cover, wildcards with their star.
    by_name: HashMap<String, Vec<Arc<Certificate>>>,
    pub policies: Vec<Arc<Policy>>,
}

#[derive(Debug)]
struct Site {
    certificates: Vec<Arc<Certificate>>,
    /// `None`: its demands can't be kept, so it is not served.
    policy: Option<usize>,
    automatic: Automatic,
    rejects_handshakes: bool,
    /// Found in each handshake, in place of all others.
    of_handshakes: Vec<OfHandshake>,
    /// Name whose certificate is used for clients that send no SNI.
    first_name: Option<String>,
}

/// Server side of a connection: a listener, and a local address.
#[derive(Clone, Copy, Debug)]
pub struct LocalEndpoint<'a> {
    pub listener: &'a Address,
    pub local: IpAddr,
}

impl Table {
    pub fn new(hosts: Arc<HostTable>) -> Table {
        Table {
            hosts,
            sites: Vec::new(),
            by_name: HashMap::new(),
            policies: Vec::new(),
        }
    }

    /// `index`: of the site in the model.
    pub fn add(
        &mut self,
        index: usize,
        names: &[SiteName],
        mut certificates: Vec<Arc<Certificate>>,
        policy: Option<usize>,
        automatic: Automatic,
    ) {
        certificates.sort_by_key(|certificate| certificate.rank());
        for certificate in &certificates {
            for name in &certificate.facts.dns_names {
                let all = self.by_name.entry(name.clone()).or_default();
                if !all.iter().any(|other| Arc::ptr_eq(other, certificate)) {
                    all.push(Arc::clone(certificate));
                }
            }
        }
        let first_name = names.iter().find_map(|name| match name {
            SiteName::Exact(name) => Some(name.clone()),
            _ => None,
        });
        // Every local certificate is for this machine; who asks for an address names no host (RFC
        // 6066 section 3).
        let first_name =
            first_name.or_else(|| (automatic == Automatic::Local).then(|| "localhost".to_owned()));
        if self.sites.len() <= index {
            self.sites.resize_with(index + 1, || None);
        }
        self.sites[index] = Some(Site {
            certificates,
            policy,
            automatic,
            rejects_handshakes: false,
            of_handshakes: Vec::new(),
            first_name,
        });
    }

    /// Has a site's certificates looked for in each handshake.
    pub fn find_in_handshakes(&mut self, index: usize, all: &[HandshakeCertificate]) {
        if let Some(Some(site)) = self.sites.get_mut(index) {
            site.of_handshakes = all.iter().cloned().map(OfHandshake::new).collect();
        }
    }

    /// Has handshakes for a site refused.
    pub fn reject(&mut self, index: usize) {
        if let Some(Some(site)) = self.sites.get_mut(index) {
            site.rejects_handshakes = true;
        }
    }

    /// Returns true if the site of the name, or the first site without one, refuses handshakes.
    pub fn rejects(&self, endpoint: LocalEndpoint<'_>, name: Option<&str>) -> bool {
        self.select(endpoint, name)
            .is_some_and(|(site, _)| site.rejects_handshakes)
    }

    fn select(&self, endpoint: LocalEndpoint<'_>, name: Option<&str>) -> Option<(&Site, Choice)> {
        let (index, choice) =
            self.hosts
                .select_by_server_name(endpoint.listener, endpoint.local, name)?;
        Some((self.sites.get(index)?.as_ref()?, choice))
    }

    /// The site that claims the name, and how.
    fn claimed(&self, endpoint: LocalEndpoint<'_>, name: &str) -> Option<(&Site, Choice)> {
        self.select(endpoint, Some(name))
            .filter(|(_, choice)| *choice != Choice::FirstSite)
    }

    pub fn knows(&self, endpoint: LocalEndpoint<'_>, name: &str) -> bool {
        self.claimed(endpoint, name).is_some()
    }

    /// Index of the policy that a handshake is held to.
    pub fn policy(&self, endpoint: LocalEndpoint<'_>, name: Option<&str>) -> Option<usize> {
        self.select(endpoint, name)?.0.policy
    }

    /// The policy of a site by its index in the model. `None`: it is not served over TLS.
    pub fn site_policy(&self, index: usize) -> Option<PolicyDigest> {
        let policy = self.sites.get(index)?.as_ref()?.policy?;
        self.policies.get(policy).map(|policy| policy.digest)
    }

    /// The policy that all sites have in common, where they do.
    pub fn common_policy(&self) -> Option<PolicyDigest> {
        let mut all = self
            .sites
            .iter()
            .map(|site| site.as_ref().and_then(|site| site.policy));
        let first = all.next()??;
        all.all(|other| other == Some(first))
            .then(|| self.policies.get(first).map(|policy| policy.digest))
            .flatten()
    }

    pub fn with_digest(&self, digest: PolicyDigest) -> Option<&Arc<Policy>> {
        self.policies.iter().find(|policy| policy.digest == digest)
    }

    pub fn depends_on_local(&self, listener: &Address) -> bool {
        self.hosts.depends_on_local(listener)
    }

    /// True if the certificate for this name is to be made when it is asked for.
    pub fn is_on_demand(&self, endpoint: LocalEndpoint<'_>, name: &str) -> bool {
        self.claimed(endpoint, name)
            .is_some_and(|(site, _)| site.automatic == Automatic::OnDemand)
    }

    /// True if the name belongs to a site whose certificates all come by themselves. A catch-all
    /// claims it only where certificates are made on demand: else its names are not known.
    pub fn is_automatic(&self, endpoint: LocalEndpoint<'_>, name: &str) -> bool {
        self.claimed(endpoint, name)
            .is_some_and(|(site, choice)| match site.automatic {
                Automatic::On => choice != Choice::CatchAll && site.certificates.is_empty(),
                Automatic::OnDemand => site.certificates.is_empty(),
                Automatic::Off | Automatic::Local => false,
            })
    }

    /// True if a certificate is there that covers the name.
    pub fn covers(&self, name: &str, run_time: &RunTime) -> bool {
        !self.named(name).is_empty() || !run_time.installed(name).is_empty()
    }

    /// True if such a certificate is there whose time is not over. A handshake asks for another one
    /// in place of what was made on demand and has expired.
    pub fn has_current(&self, name: &str, run_time: &RunTime) -> bool {
        let is_current = |one: &Arc<Certificate>| now() <= one.facts.not_after;
        !self.named(name).is_empty() || run_time.installed(name).iter().any(is_current)
    }

    /// Selects the certificate for a name that the client's signature schemes can verify.
    pub fn choose(
        &self,
        endpoint: LocalEndpoint<'_>,
        name: Option<&str>,
        schemes: &[SignatureScheme],
        run_time: &RunTime,
    ) -> Option<Arc<CertifiedKey>> {
        let (site, choice) = self.select(endpoint, name)?;
        if !site.of_handshakes.is_empty() {
            let all = site.of_handshakes.iter();
            let found: Vec<_> = all.filter_map(|one| one.find(name)).collect();
            return best(&found, schemes).map(|certificate| certificate.shown());
        }
        let own = if choice == Choice::FirstSite {
            &[][..]
        } else {
            &site.certificates
        };
        let found = name.and_then(|name| self.for_name(own, name, schemes, run_time));
        let found = found
            .or_else(|| best(&site.certificates, schemes))
            .or_else(|| installed_for(site, schemes, run_time));
        let fallback = self.select(endpoint, None).map(|(site, _)| site);
        let of_fallback = |site: &Site| {
            best(&site.certificates, schemes).or_else(|| installed_for(site, schemes, run_time))
        };
        let found = found.or_else(|| fallback.and_then(of_fallback));
        let of_any = || {
            self.sites
                .iter()
                .flatten()
                .find_map(|site| best(&site.certificates, schemes))
        };
        found.or_else(of_any).map(|certificate| certificate.shown())
    }

    fn for_name(
        &self,
        own: &[Arc<Certificate>],
        name: &str,
        schemes: &[SignatureScheme],
        run_time: &RunTime,
    ) -> Option<Arc<Certificate>> {
        let covering = own.iter().filter(|certificate| certificate.covers(name));
        best(covering, schemes)
            .or_else(|| best(&run_time.installed(name), schemes))
            .or_else(|| best(self.named(name), schemes))
    }

    /// Certificates of any site that cover the name.
    fn named(&self, name: &str) -> &[Arc<Certificate>] {
        let wildcard = || {
            name.split_once('.')
                .and_then(|(_, parent)| self.by_name.get(&format!("*.{parent}")))
        };
        self.by_name
            .get(name)
            .or_else(wildcard)
            .map_or(&[], Vec::as_slice)
    }
}

fn installed_for(
    site: &Site,
    schemes: &[SignatureScheme],
    run_time: &RunTime,
) -> Option<Arc<Certificate>> {
    best(&run_time.installed(site.first_name.as_deref()?), schemes)
}

/// The first that the client can check. If it can check none, the first: the handshake then fails
/// with rustls' reason.
fn best<'c>(
    certificates: impl IntoIterator<Item = &'c Arc<Certificate>>,
    schemes: &[SignatureScheme],
) -> Option<Arc<Certificate>> {
    let mut first = None;
    for certificate in certificates {
        if certificate.can_sign(schemes) {
            return Some(Arc::clone(certificate));
        }
        first.get_or_insert(certificate);
    }
    first.cloned()
}

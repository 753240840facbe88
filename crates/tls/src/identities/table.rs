//! Which site a server name means, and which certificate is shown for it. Immutable: a change makes a new table.
//!
//! Names of sites decide first, as they do for requests: exact ones, then the longest wildcard, then the catch-all. Among the site's
//! certificates those that cover the name come first, and the cheaper signature before the dearer, as far as the client can check it.

use super::{Certificate, RunTime};
use crate::policy::Policy;
use rustls::{SignatureScheme, sign::CertifiedKey};
use saker_config::model::{Automatic, SiteName};
use std::{collections::HashMap, sync::Arc};

#[derive(Debug, Default)]
pub struct Table {
    sites: Vec<Site>,
    exact: HashMap<String, usize>,
    /// By what follows the star and its dot.
    wildcards: HashMap<String, usize>,
    any: Option<usize>,
    /// All certificates by the names they cover, wildcards with their star.
    by_name: HashMap<String, Vec<Arc<Certificate>>>,
    pub policies: Vec<Arc<Policy>>,
    has_unusable: bool,
}

#[derive(Debug)]
struct Site {
    certificates: Vec<Arc<Certificate>>,
    /// `None`: its demands can't be kept, so it is not served.
    policy: Option<usize>,
    automatic: Automatic,
    /// What is shown to clients that name no host.
    first_name: Option<String>,
}

impl Table {
    /// The first site that claims a name has it.
    pub fn add(&mut self, names: &[SiteName], mut certificates: Vec<Arc<Certificate>>, policy: Option<usize>, automatic: Automatic) {
        self.has_unusable |= policy.is_none();
        certificates.sort_by_key(|certificate| certificate.rank());
        let site = self.sites.len();
        for name in names {
            match name {
                SiteName::Exact(name) => drop(self.exact.entry(name.to_ascii_lowercase()).or_insert(site)),
                SiteName::Wildcard(parent) => drop(self.wildcards.entry(parent.to_ascii_lowercase()).or_insert(site)),
                SiteName::Any => drop(self.any.get_or_insert(site)),
            }
        }
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
        // Every local certificate is for this machine; who asks for an address names no host (RFC 6066 section 3).
        let first_name = first_name.or_else(|| (automatic == Automatic::Local).then(|| "localhost".to_owned()));
        self.sites.push(Site { certificates, policy, automatic, first_name });
    }

    /// The site that a name means, if any claims it.
    fn claimed(&self, name: &str) -> Option<usize> {
        self.exact.get(name).copied().or_else(|| self.by_wildcard(name)).or(self.any)
    }

    fn by_wildcard(&self, name: &str) -> Option<usize> {
        let parents = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        if self.wildcards.is_empty() { None } else { parents.filter_map(|parent| self.wildcards.get(parent)).next().copied() }
    }

    /// Where the name is unknown or missing: the first catch-all, or else the first site.
    fn site(&self, name: Option<&str>) -> Option<&Site> {
        let found = name.and_then(|name| self.claimed(name)).or(self.any).unwrap_or(0);
        self.sites.get(found)
    }

    pub fn knows(&self, name: &str) -> bool {
        self.claimed(name).is_some()
    }

    pub fn policy(&self, name: Option<&str>) -> Option<usize> {
        self.site(name)?.policy
    }

    /// Whether all sites demand the same of a handshake.
    pub fn is_uniform(&self) -> bool {
        self.policies.len() == 1 && !self.has_unusable
    }

    /// Whether the sites of both names do; in lower case.
    pub fn have_same_policy(&self, name: Option<&str>, other: &str) -> bool {
        self.policy(Some(other)).is_some_and(|policy| self.policy(name) == Some(policy))
    }

    /// Whether the certificate for this name is to be made when it is asked for.
    pub fn is_on_demand(&self, name: &str) -> bool {
        self.claimed(name).and_then(|site| self.sites.get(site)).is_some_and(|site| site.automatic == Automatic::OnDemand)
    }

    /// Whether the name belongs to a site whose certificates all come by themselves. A catch-all claims it only where certificates are made
    /// on demand: else its names are not known.
    pub fn is_automatic(&self, name: &str) -> bool {
        let named = self.exact.get(name).copied().or_else(|| self.by_wildcard(name));
        let site = named.or(self.any).and_then(|site| self.sites.get(site));
        site.is_some_and(|site| match site.automatic {
            Automatic::On => named.is_some() && site.certificates.is_empty(),
            Automatic::OnDemand => site.certificates.is_empty(),
            Automatic::Off | Automatic::Local => false,
        })
    }

    /// Whether a certificate is there that covers the name.
    pub fn covers(&self, name: &str, run_time: &RunTime) -> bool {
        !self.named(name).is_empty() || !run_time.installed(name).is_empty()
    }

    /// What is shown for a name to a client that can check these signatures.
    pub fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme], run_time: &RunTime) -> Option<Arc<CertifiedKey>> {
        let fallback = self.site(None)?;
        let found = match name {
            Some(name) => self.for_name(name, schemes, run_time),
            None => None,
        };
        let site = self.site(name)?;
        let found = found.or_else(|| best(&site.certificates, schemes)).or_else(|| self.installed_for(site, schemes, run_time));
        let found = found.or_else(|| best(&fallback.certificates, schemes)).or_else(|| self.installed_for(fallback, schemes, run_time));
        found.or_else(|| self.sites.iter().find_map(|site| best(&site.certificates, schemes))).map(|certificate| certificate.shown())
    }

    fn for_name(&self, name: &str, schemes: &[SignatureScheme], run_time: &RunTime) -> Option<Arc<Certificate>> {
        let own = self.claimed(name).and_then(|site| self.sites.get(site)).map_or(&[][..], |site| &site.certificates);
        let covering = own.iter().filter(|certificate| certificate.covers(name));
        best(covering, schemes).or_else(|| best(&run_time.installed(name), schemes)).or_else(|| best(self.named(name), schemes))
    }

    fn installed_for(&self, site: &Site, schemes: &[SignatureScheme], run_time: &RunTime) -> Option<Arc<Certificate>> {
        best(&run_time.installed(site.first_name.as_deref()?), schemes)
    }

    /// Certificates of any site that cover the name.
    fn named(&self, name: &str) -> &[Arc<Certificate>] {
        let wildcard = || name.split_once('.').and_then(|(_, parent)| self.by_name.get(&format!("*.{parent}")));
        self.by_name.get(name).or_else(wildcard).map_or(&[], Vec::as_slice)
    }
}

/// The first that the client can check. If it can check none, the first: the handshake then fails with rustls' reason.
fn best<'c>(certificates: impl IntoIterator<Item = &'c Arc<Certificate>>, schemes: &[SignatureScheme]) -> Option<Arc<Certificate>> {
    let mut first = None;
    for certificate in certificates {
        if certificate.can_sign(schemes) {
            return Some(Arc::clone(certificate));
        }
        first.get_or_insert(certificate);
    }
    first.cloned()
}

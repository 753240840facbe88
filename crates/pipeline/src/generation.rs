//! One loaded configuration, ready to serve; shared by all workers and replaced whole by a reload.

use crate::{Client, DerivedSites};
use saker_config::{
    HostTable, Model,
    model::{ClientCertificates, Limits, Origin, Site},
};
use saker_dynamic_vhosts::Hosts;
use saker_rate_limits::{SessionCounts, SiteAccounts};
use saker_tls::Identities;
use std::{any::Any, net::IpAddr, sync::Arc};

/// See [`Generation::front_end`].
pub type FrontEnd = Arc<dyn Any + Send + Sync>;

#[derive(Debug)]
pub struct Generation {
    /// Sequence number, starting at 1.
    pub number: u64,
    pub model: Model,
    pub hosts: Arc<HostTable>,
    /// TLS policies of the sites; `None` if the generation accepts no connections.
    pub identities: Option<Arc<Identities>>,
    /// At least one site requires client certificates.
    pub requires_certificates: bool,
    /// At least one limit counts by address. If false, no per-address state is allocated.
    pub throttles: bool,
    /// At least one site overrides the limits of the model.
    pub limits_differ: bool,
    /// Rate-limit state of the sites, in the order of `model.sites`.
    pub site_accounts: Arc<[SiteAccounts]>,
    /// Open sessions of the streams, in the order of `model.streams`.
    pub session_counts: Vec<Arc<SessionCounts>>,
    /// Resolver of the hosts of sites with `lookup`.
    pub known_hosts: Option<Arc<Hosts>>,
    /// Sites derived from host names.
    pub derived: DerivedSites,
    /// State of another front end, opaque to the pipeline; its rules downcast it.
    pub front_end: Option<FrontEnd>,
    /// Placeholder until the site of a request is known.
    pub no_site: Arc<Site>,
}

impl Generation {
    pub fn new(number: u64, model: Model) -> Generation {
        let hosts = Arc::new(HostTable::new(&model));
        Generation::with_hosts(number, model, hosts)
    }

    /// Creates a generation with the host table of the same model.
    pub fn with_hosts(number: u64, model: Model, hosts: Arc<HostTable>) -> Generation {
        let looks_up = model.sites.iter().any(|site| {
            site.by_host
                .as_ref()
                .is_some_and(|by_host| by_host.is_looked_up)
        });
        let throttles = looks_up
            || model.guard.counts()
            || model
                .all_settings()
                .any(|(_, settings)| settings.may(|settings| !settings.throttle.is_idle()));
        let site_accounts = model
            .sites
            .iter()
            .map(|site| SiteAccounts::new(site))
            .collect();
        let session_counts = model.streams.iter().map(|_| Arc::default()).collect();
        let limits_differ = model.sites.iter().any(|site| site.limits.is_some());
        let (derived, no_site) = (
            DerivedSites::new(model.hosts.entries_max),
            Arc::new(no_site()),
        );
        let requires_certificates = model
            .sites
            .iter()
            .any(|site| site.tls.client_certificates == ClientCertificates::Required);
        Generation {
            number,
            model,
            hosts,
            identities: None,
            requires_certificates,
            throttles,
            limits_differ,
            site_accounts,
            session_counts,
            known_hosts: None,
            derived,
            front_end: None,
            no_site,
        }
    }

    pub fn with_known_hosts(mut self, known_hosts: Option<Arc<Hosts>>) -> Generation {
        self.known_hosts = known_hosts;
        self
    }

    /// Goes on with the counts of open sessions of the streams that an earlier generation has by the
    /// same names.
    pub fn with_sessions_of(mut self, earlier: &Generation) -> Generation {
        let names = self.model.streams.iter().map(|stream| &stream.name);
        for (name, counts) in names.zip(&mut self.session_counts) {
            let mut all = earlier.model.streams.iter();
            let known = all.position(|stream| stream.name == *name);
            if let Some(known) = known.and_then(|at| earlier.session_counts.get(at)) {
                *counts = Arc::clone(known);
            }
        }
        self
    }

    pub fn with_front_end(mut self, front_end: Option<FrontEnd>) -> Generation {
        self.front_end = front_end;
        self
    }

    /// Returns the limits of the site that `host` (the server name of the handshake) selects;
    /// `None` if the limits of the model apply.
    pub fn connection_limits(&self, client: &Client, host: &[u8]) -> Option<&Arc<Limits>> {
        if !self.limits_differ {
            return None;
        }
        let (first, _) = self
            .hosts
            .select(&client.listener, client.local.ip(), host)?;
        self.model.sites.get(first)?.limits.as_ref()
    }

    /// Returns true if the client is exempt from limits.
    pub fn is_exempt(&self, address: IpAddr) -> bool {
        let exempt = &self.model.guard.exempt;
        !exempt.is_empty() && exempt.contains(address)
    }

    /// The same for a client, whose address is only looked at where any is exempt.
    pub fn exempts(&self, client: &Client) -> bool {
        !self.model.guard.exempt.is_empty() && self.is_exempt(client.ip())
    }

    /// Returns the limits of requests for the site.
    pub fn site_limits(&self, index: usize) -> &Limits {
        self.model
            .sites
            .get(index)
            .and_then(|site| site.limits.as_deref())
            .unwrap_or(&self.model.limits)
    }
}

fn no_site() -> Site {
    Site::new(Origin::built_in())
}

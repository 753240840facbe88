//! One loaded configuration, ready to serve; shared by all workers and replaced whole by a reload.

use crate::{Client, HostTable, throttle::Account};
use saker_config::{
    Model,
    model::{Limits, Origin, Site},
};
use std::{any::Any, sync::Arc};

/// What all connections to one site have used of its bandwidth.
#[derive(Debug, Default)]
pub struct SiteAccounts {
    pub out_bytes: Account,
    pub in_bytes: Account,
}

/// See [`Generation::front_end`].
pub type FrontEnd = Arc<dyn Any + Send + Sync>;

#[derive(Debug)]
pub struct Generation {
    /// Counts up from 1.
    pub number: u64,
    pub model: Model,
    pub hosts: HostTable,
    /// Whether any site throttles: where none does, no account is opened.
    pub throttles: bool,
    /// Whether any site has limits of its own.
    pub limits_differ: bool,
    /// In the order of `model.sites`.
    pub site_accounts: Arc<[SiteAccounts]>,
    /// What another front-end keeps beside the model; whoever makes the rules knows what it is.
    pub front_end: Option<FrontEnd>,
    /// Stands in until the host of a request is known.
    pub no_site: Arc<Site>,
}

impl Generation {
    pub fn new(number: u64, model: Model) -> Generation {
        let hosts = HostTable::new(&model);
        let throttles = model
            .sites
            .iter()
            .any(|site| !site.settings.throttle.is_idle() || site.routes.iter().any(|route| !route.settings.throttle.is_idle()));
        let site_accounts = model.sites.iter().map(|_| SiteAccounts::default()).collect();
        let limits_differ = model.sites.iter().any(|site| site.limits.is_some());
        Generation { number, model, hosts, throttles, limits_differ, site_accounts, front_end: None, no_site: Arc::new(no_site()) }
    }

    pub fn with_front_end(mut self, front_end: Option<FrontEnd>) -> Generation {
        self.front_end = front_end;
        self
    }

    /// The limits of connections to this address, or of those whose handshake was for that host; `None`: those of the model.
    pub fn connection_limits(&self, client: &Client, host: &[u8]) -> Option<&Arc<Limits>> {
        if !self.limits_differ {
            return None;
        }
        let (first, _) = self.hosts.select(&client.listener, client.local.ip(), host)?;
        self.model.sites.get(first)?.limits.as_ref()
    }

    /// Those of requests for the site.
    pub fn site_limits(&self, index: usize) -> &Limits {
        self.model.sites.get(index).and_then(|site| site.limits.as_deref()).unwrap_or(&self.model.limits)
    }
}

fn no_site() -> Site {
    Site::new(Origin::built_in())
}

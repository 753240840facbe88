//! Usage of a site's limits by all of its clients.
//!
//! Called by: phases and drivers, by the site's index in the model.
//! Caveat: one set per generation; a reload begins with empty accounts.
//! Out of scope: accounts of hosts that a database describes (`HostAccounts` of the configuration).

use crate::{Account, Usage, usage::Usages};
use saker_config::model::{LimitName, Site, SiteName, limit_number};
use std::sync::{Arc, atomic::AtomicU64};

/// The accounts of one site.
#[derive(Debug, Default)]
pub struct SiteAccounts {
    /// The site in names of limits.
    pub number: u32,
    pub out_bytes: Account,
    pub in_bytes: Account,
    /// Requests that wait for a place at an upstream.
    pub dynamic_waiting: Arc<AtomicU64>,
    usages: Usages,
}

impl SiteAccounts {
    pub fn new(site: &Site) -> SiteAccounts {
        let number = match site.names.first() {
            Some(SiteName::Exact(name)) => limit_number(&[name.as_bytes()]),
            // No host name begins with a dot.
            Some(SiteName::Wildcard(name)) => limit_number(&[b".", name.as_bytes()]),
            Some(SiteName::Any) | None => 0,
        };
        SiteAccounts {
            number,
            ..SiteAccounts::default()
        }
    }

    /// The usage of one of the site's limits by all clients.
    pub fn usage(&self, name: LimitName) -> Arc<Usage> {
        self.usages.of(name)
    }
}

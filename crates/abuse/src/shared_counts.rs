//! Charges of this server that the others of its cluster are told, and names of accounts that all of
//! them have.
//!
//! Called by: `together`, for each charge; the server's cluster, which sends batches.
//! Caveat: nothing waits for the other servers. Without a cluster that shares limits there is no
//! [`SharedCounts`], and a charge costs one look more. Accounts are named by what all servers have
//! in common: addresses, first names of sites, and keyed hashes of values, which tell nothing to
//! those who read the engine.
//! Out of scope: the accounts themselves (`together`).

use crate::mac;
use saker_config::model::{KeyLimit, RequestRate, Site, SiteName};
use saker_pipeline::Generation;
use saker_rate_limits::{AccountName, Admission, Unsent, requests};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};
use xxhash_rust::xxh3::xxh3_64;

/// Sites by the hashes of their first names, in one configuration.
#[derive(Default)]
struct Sites {
    generation: Option<Arc<Generation>>,
    by_hash: HashMap<u64, usize>,
}

/// Charges of this server, and the sites that those of the others are for.
pub struct SharedCounts {
    unsent: Unsent,
    /// Key of the hashes of values.
    key: [u8; 32],
    sites: RwLock<Sites>,
}

impl fmt::Debug for SharedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCounts").finish_non_exhaustive()
    }
}

impl SharedCounts {
    pub fn new(key: [u8; 32]) -> SharedCounts {
        SharedCounts {
            unsent: Unsent::default(),
            key,
            sites: RwLock::default(),
        }
    }

    /// Charges of the others go to the sites of this configuration from now on.
    pub fn set_generation(&self, generation: &Arc<Generation>) {
        let sites = generation.model.sites.iter().enumerate();
        let by_hash = sites.map(|(at, site)| (site_hash(site), at)).collect();
        *self.sites.write().unwrap_or_else(PoisonError::into_inner) = Sites {
            generation: Some(Arc::clone(generation)),
            by_hash,
        };
    }

    /// Charges of this server that have not been sent, as one batch.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.unsent.take()
    }

    /// Adds a charge that is to be sent.
    pub fn add_amount(&self, name: AccountName, amount: u64) {
        self.unsent.add(name, amount);
    }

    /// Forgets what has not been sent: it is of the past when the engine answers again.
    pub fn clear(&self) {
        self.unsent.clear();
    }

    /// Name of the account of a key's value.
    pub fn key_hash(&self, site: &Site, limit: &KeyLimit, value: &[u8]) -> [u64; 2] {
        let (said, place) = (&limit.said, limit.place.0.to_le_bytes());
        let length = (said.len() as u64).to_le_bytes();
        let message = [
            &site_hash(site).to_le_bytes(),
            &place[..],
            &length[..],
            said.as_bytes(),
            value,
        ]
        .concat();
        let code = mac::hmac_sha256(&self.key, &message);
        let word = |at: usize| {
            u64::from_le_bytes(std::array::from_fn(|byte| {
                code.get(8 * at + byte).copied().unwrap_or_default()
            }))
        };
        [word(0), word(1)]
    }

    /// Calls `charge` with the site of this name in the configuration in force.
    pub fn with_site(&self, hash: u64, charge: impl FnOnce(&Generation, usize)) {
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        if let (Some(generation), Some(at)) = (&sites.generation, sites.by_hash.get(&hash)) {
            charge(generation, *at);
        }
    }
}

impl SharedCounts {
    /// Adds what a request that was not refused has cost.
    pub fn add(&self, name: AccountName, rate: &RequestRate, admission: Admission) {
        if !matches!(admission, Admission::Refuse { .. }) {
            self.unsent.add(name, requests::cost_ns(rate));
        }
    }
}

/// Name of a site between servers.
pub fn site_hash(site: &Site) -> u64 {
    match site.names.first() {
        Some(SiteName::Exact(name)) => xxh3_64(name.as_bytes()),
        // No host name begins with a dot.
        Some(SiteName::Wildcard(name)) => xxh3_64(format!(".{name}").as_bytes()),
        Some(SiteName::Any) | None => 0,
    }
}

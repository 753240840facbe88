//! Usage of a site's limits by all of its clients.
//!
//! Called by: phases and drivers, by the site's index in the model.
//! Caveat: one set per generation; a reload begins with empty accounts.
//! Out of scope: accounts of hosts that a database describes (`HostAccounts` of the configuration).

use crate::{Account, Counted, Places};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The accounts of one site.
#[derive(Debug, Default)]
pub struct SiteAccounts {
    pub out_bytes: Account,
    pub in_bytes: Account,
    pub requests: Account,
    /// Requests that are being answered.
    pub at_a_time: Arc<AtomicU64>,
    /// Places at upstreams.
    pub dynamic: Arc<Places>,
    /// Requests that wait for a place at an upstream.
    pub dynamic_waiting: Arc<AtomicU64>,
}

impl SiteAccounts {
    /// Counts a request that is being answered, unless `max` are.
    pub fn begin_request(&self, max: u64) -> Option<Counted> {
        let count = Arc::clone(&self.at_a_time);
        count
            .fetch_update(Relaxed, Relaxed, |now| (now < max).then_some(now + 1))
            .ok()?;
        Some(Counted::new(move || {
            count.fetch_sub(1, Relaxed);
        }))
    }
}

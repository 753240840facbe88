//! Upstreams that are made for a request: of an address with variables, or of resolved names.
//!
//! Called by: `proxy`.
//! Caveat: an upstream is known by its address in memory, so the same one has to be found again for
//! its turns and failures to be kept.

use saker_config::model::Upstream;
use saker_dns::Resolved;
use saker_nginx_model::modules::resolver::Found;
use std::{cell::RefCell, collections::HashMap, sync::Arc};

/// Upstreams that a worker keeps; beyond that all are forgotten.
const UPSTREAMS_MAX: usize = 1024;

/// Addresses of names, in order.
pub type FoundKey = Box<[(Box<str>, Box<[Resolved]>)]>;

/// Returns what upstreams of found addresses are known by.
pub fn key_of(found: &Found) -> FoundKey {
    let entries = found.iter();
    let mut entries: Vec<_> = entries
        .map(|(name, found)| (name.clone(), Box::from(&found[..])))
        .collect();
    entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    entries.into()
}

/// Location, text of the target, and the addresses of its names.
type Key = (usize, Box<str>, FoundKey);

/// Upstreams that were made of addresses: the same ones keep their turns and failures.
#[derive(Default)]
pub struct MadeUpstreams(RefCell<HashMap<Key, Arc<Upstream>, foldhash::fast::RandomState>>);

impl MadeUpstreams {
    /// Returns the upstream of a target, made if it is new. `owner`: what the settings belong to.
    pub fn get(
        &self,
        owner: usize,
        target: &str,
        found: &Found,
        make: impl FnOnce() -> Option<Upstream>,
    ) -> Option<Arc<Upstream>> {
        let key = (owner, Box::from(target), key_of(found));
        if let Some(known) = self.0.borrow().get(&key) {
            return Some(Arc::clone(known));
        }
        let made = Arc::new(make()?);
        let mut all = self.0.borrow_mut();
        if all.len() >= UPSTREAMS_MAX {
            all.clear();
        }
        all.insert(key, Arc::clone(&made));
        Some(made)
    }
}

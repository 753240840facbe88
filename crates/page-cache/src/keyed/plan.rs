//! The plan for a request whose response is cached under a key of the configuration, and its zone.
//!
//! Called by: the rules of a front end, which make a plan per request.
//! Caveat: a plan belongs to one upstream request; the forwarder takes it out of the exchange.

use crate::result_fields::CacheResult;
use saker_cache_rules::keyed::Terms;
use saker_cache_store::KeyHash;
use saker_pipeline::{Exchange, Response};
use std::{
    collections::HashMap,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

/// A plan, in the extensions of the exchange.
pub struct CachePlan {
    pub zone: Arc<CacheZone>,
    pub key: Vec<u8>,
    pub terms: Arc<Terms>,
    /// The page is not looked up; the response may be stored.
    pub is_bypassed: bool,
    /// Ranges of pages are sent. False where filters change the content afterwards.
    pub has_ranges: bool,
    /// The request is for a part of a response, which the key names.
    pub is_part: bool,
    /// The request is for a part so far behind that the upstream is asked for that alone, unless
    /// there is a page.
    pub is_far_part: bool,
    pub judge: Rc<dyn StoreJudge>,
}

/// Decisions of the front end that need the response.
pub trait StoreJudge {
    /// Returns true if the response is not to be stored.
    fn forbids(&self, exchange: &mut Exchange, response: &Response) -> bool;

    /// Gives the state of the rules to the request of an update.
    fn copy_state(&self, exchange: &Exchange, update: &mut Exchange);
}

/// The result, in the extensions of the exchange (`$upstream_cache_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedResult(pub CacheResult);

/// The age of the stored page that answers, in seconds (`$upstream_cache_age`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedAge(pub i64);

impl KeyedResult {
    /// Returns true if a stored page has answered.
    pub fn is_from_cache(self) -> bool {
        matches!(
            self.0,
            CacheResult::Hit
                | CacheResult::Stale
                | CacheResult::Updating
                | CacheResult::Revalidated
        )
    }
}

/// A named part of the cache, shared by all workers.
#[derive(Debug)]
pub struct CacheZone {
    pub name: Box<str>,
    /// Requests per key that has no page yet, where that counts.
    uses: Mutex<HashMap<KeyHash, u32>>,
    keys_max: usize,
}

impl CacheZone {
    pub fn new(name: &str, keys_max: usize) -> CacheZone {
        CacheZone {
            name: name.into(),
            uses: Mutex::default(),
            keys_max: keys_max.max(1),
        }
    }

    /// Counts a request for a key, and returns the number of requests so far.
    pub fn count(&self, hash: KeyHash) -> u32 {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() >= self.keys_max && !uses.contains_key(&hash) {
            // Those that were asked for least make room.
            uses.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
            if uses.len() >= self.keys_max {
                uses.clear();
            }
        }
        let count = uses.entry(hash).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Forgets a key, whose page has been stored.
    pub fn forget(&self, hash: KeyHash) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.remove(&hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_counted_in_bounds() {
        let zone = CacheZone::new("z", 2);
        assert_eq!((zone.count(KeyHash(1)), zone.count(KeyHash(1))), (1, 2));
        assert_eq!(zone.count(KeyHash(2)), 1);
        // The one that was asked for once goes.
        assert_eq!(zone.count(KeyHash(3)), 1);
        assert_eq!(zone.uses.lock().unwrap().len(), 2);
        zone.forget(KeyHash(3));
        assert_eq!(zone.uses.lock().unwrap().len(), 1);
    }
}

//! Looks for the page of a request, and decides what happens without one.
//!
//! Called by: `forwarder`.
//! Caveat: the decisions and their words are nginx's: an expired page is used while another request
//! updates it only where the terms say so; of requests for a missing page, one asks only where they
//! have a lock.

use super::{entry, plan::CachePlan};
use crate::{
    cache::PageCache,
    clock::{monotonic_ms, now_ms},
    page::Page,
    result_fields::CacheResult,
};
use saker_cache_rules::keyed::LockTerms;
use saker_cache_store::{FetchPermit, LockOutcome, Validity};
use saker_http::HeadView;
use std::{rc::Rc, time::Duration};

/// The outcome.
pub enum Found {
    /// This page answers.
    Answer(Rc<Page>, CacheResult),
    /// This page answers, and is updated by the holder of the permit.
    Update(Rc<Page>, FetchPermit),
    Ask(Fetch),
}

/// A request to the upstream, and what becomes of its response.
pub struct Fetch {
    pub result: CacheResult,
    /// An expired page.
    pub old: Option<Rc<Page>>,
    /// Others wait, or use the expired page, until this is dropped.
    pub permit: Option<FetchPermit>,
    /// The response may be stored.
    pub stores: bool,
}

impl Fetch {
    pub fn new(result: CacheResult) -> Fetch {
        Fetch {
            result,
            old: None,
            permit: None,
            stores: true,
        }
    }
}

/// Looks up the page of a key.
pub async fn look_up(
    cache: &Rc<PageCache>,
    plan: &CachePlan,
    key: &[u8],
    head: HeadView<'_>,
) -> Found {
    let mut is_counted = false;
    loop {
        if let Some(page) = entry::find(cache, key, head).await {
            return judge(cache, plan, key, page);
        }
        let mut fetch = Fetch::new(CacheResult::Miss);
        if plan.terms.uses_min > 1 && !is_counted {
            is_counted = true;
            fetch.stores = plan.zone.count(cache.store.hash(key)) >= plan.terms.uses_min;
        }
        let Some(lock) = plan.terms.lock.filter(|_| fetch.stores) else {
            return Found::Ask(fetch);
        };
        let hash = cache.store.hash(key);
        match cache.store.cache_lock().acquire(hash, monotonic_ms()) {
            LockOutcome::Leader(permit) => {
                fetch.permit = Some(permit);
                return Found::Ask(fetch);
            }
            LockOutcome::Bypass => return Found::Ask(fetch),
            LockOutcome::Follower(mut ends) => {
                let wait = Duration::from_millis(wait_ms(lock));
                match tokio::time::timeout(wait, ends.ended(monotonic_ms)).await {
                    Ok(true) => {}
                    // The client of the other request is slow.
                    Ok(false) => return Found::Ask(fetch),
                    Err(_) => {
                        fetch.stores = lock.age_ms < lock.timeout_ms;
                        return Found::Ask(fetch);
                    }
                }
            }
        }
    }
}

fn wait_ms(lock: LockTerms) -> u64 {
    lock.timeout_ms.min(lock.age_ms)
}

/// Decides about a page that was found.
fn judge(cache: &Rc<PageCache>, plan: &CachePlan, key: &[u8], page: Rc<Page>) -> Found {
    let now_s = now_ms() / 1000;
    let until_s = |ms: i64| ms / 1000;
    let is_valid = cache.validity(&page) == Validity::Valid;
    if is_valid && now_s <= until_s(page.life.fresh_until_ms) {
        return Found::Answer(page, CacheResult::Hit);
    }
    let mut fetch = Fetch::new(CacheResult::Expired);
    let may_wait = plan.terms.stale.while_updating
        || now_s <= until_s(page.life.stale_while_revalidate_until_ms);
    if may_wait {
        let hash = cache.store.hash(&[key, b"\0update"].concat());
        match cache.store.cache_lock().acquire(hash, monotonic_ms()) {
            LockOutcome::Leader(permit) if plan.terms.updates_in_background => {
                return Found::Update(page, permit);
            }
            LockOutcome::Leader(permit) => fetch.permit = Some(permit),
            LockOutcome::Follower(_) | LockOutcome::Bypass => {
                return Found::Answer(page, CacheResult::Updating);
            }
        }
    }
    fetch.old = Some(page);
    Found::Ask(fetch)
}

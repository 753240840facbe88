//! Refetches pages before clients miss them: purged ones, and those near the end of their lifetime.
//!
//! Called by: `handler`, once a second. Candidates are the pages in a worker's memory, which are
//! the popular ones.
//! Caveat: a purge may cover everything, and the application is busy then. So few requests run at a
//! time, a bounded number follows each purge, the most requested pages come first, and clients have
//! priority.
//! Out of scope: the requests themselves (`background_fetch`).

use crate::{
    background_fetch,
    cache::{Cached, PageCache},
    pacing::yield_to_clients,
    page::Page,
    refetch_queue::QueuedRefetch,
    replay_request::ReplayRequest,
    stats::Stat,
};
use saker_cache_store::Validity;
use std::{cmp::Reverse, collections::HashMap, rc::Rc};

/// Concurrent refetches of a worker.
const AT_A_TIME: usize = 2;

/// Maximum length of the queue.
const WAITING_MAX: usize = 100_000;

pub fn tick(cache: &Rc<PageCache>) {
    if !cache.store.is_serving() {
        // Pages that are suspended were not purged.
        return;
    }
    let purge_seq = cache.store.purge_seq();
    if cache.again.seen.replace(purge_seq) == purge_seq {
        return;
    }
    let mut waiting = cache.again.waiting.borrow_mut();
    for (page, replay) in purged(cache) {
        if waiting.len() < WAITING_MAX {
            page.is_renewed.set(true);
            waiting.push_back(QueuedRefetch {
                site: page.site.clone(),
                replay,
            });
        }
    }
    while cache.again.under_way.get() < AT_A_TIME.min(waiting.len()) {
        cache.again.under_way.set(cache.again.under_way.get() + 1);
        tokio::task::spawn_local(work(Rc::clone(cache)));
    }
}

/// Purged pages in memory, most requested first, as many of each site as it allows.
fn purged(cache: &PageCache) -> Vec<(Rc<Page>, Rc<ReplayRequest>)> {
    let memory = cache.memory.borrow();
    let pages = memory.values().filter_map(|held| match &held.kept {
        Cached::Page(page) if !page.is_renewed.get() => {
            Some((Rc::clone(page), page.replay.get().cloned()?))
        }
        Cached::Page(_) | Cached::Vary(_) | Cached::Search(_) => None,
    });
    let mut pages: Vec<_> = pages
        .filter(|(page, _)| cache.validity(page) != Validity::Valid)
        .collect();
    pages.sort_by_key(|(page, _)| Reverse(page.hits.get()));
    let mut counts: HashMap<Box<[u8]>, usize> = HashMap::new();
    pages.retain(|(page, replay)| {
        let count = counts.entry(page.site.clone()).or_default();
        *count += 1;
        *count <= replay.refetched_max.div_ceil(cache.workers)
    });
    pages
}

async fn work(cache: Rc<PageCache>) {
    loop {
        yield_to_clients(&cache.counters).await;
        let next = cache.again.waiting.borrow_mut().pop_front();
        let (Some(QueuedRefetch { site, replay }), Some(services)) =
            (next, cache.services.upgrade())
        else {
            break;
        };
        cache.worker_stats.of(&site).add(Stat::Refreshes, 1);
        // The application decides whether it is stored.
        let _ = background_fetch::replay(&services, &replay).await;
    }
    cache.again.under_way.set(cache.again.under_way.get() - 1);
}

//! Pages that are made anew before anybody misses them: those that were purged, and those whose
//! time is nearly over.
//!
//! Place: looked for once a second by each worker ([`tick`]), among the pages that it has in
//! memory, which are those in demand; made by requests of the cache's own (`errand`, `refresh`).
//! Difficulty: a purge may be of everything, and the application is busy then. So there are few at
//! a time, a bounded number after each purge, those first that were asked for most, and visitors
//! come before them.

use super::{Kept, PageCache, errand::Recipe, page::Page, tally::Count, warm::run::make_way};
use saker_cache_store::Standing;
use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    rc::Rc,
};

/// Requests of a worker at a time.
const AT_A_TIME: usize = 2;
/// Waiting to be made.
const WAITING_MAX: usize = 100_000;
/// As often must a page have been asked for that is made anew ahead of time.
const HOT_HITS: u32 = 3;

/// A page that is to be made again, and its site.
struct Wanted {
    site: Box<[u8]>,
    recipe: Rc<Recipe>,
}

/// What a worker has to make again.
#[derive(Default)]
pub struct Again {
    waiting: RefCell<VecDeque<Wanted>>,
    under_way: Cell<usize>,
    /// The store's number when it was last looked.
    seen: Cell<u64>,
}

pub fn tick(cache: &Rc<PageCache>) {
    let moment = cache.store.moment();
    if cache.again.seen.replace(moment) == moment {
        return;
    }
    let mut waiting = cache.again.waiting.borrow_mut();
    for (page, recipe) in purged(cache) {
        if waiting.len() < WAITING_MAX {
            page.is_renewed.set(true);
            waiting.push_back(Wanted {
                site: page.site.clone(),
                recipe,
            });
        }
    }
    while cache.again.under_way.get() < AT_A_TIME.min(waiting.len()) {
        cache.again.under_way.set(cache.again.under_way.get() + 1);
        tokio::task::spawn_local(work(Rc::clone(cache)));
    }
}

/// Whether a page in demand is near its end.
pub fn is_due(page: &Page, percent: u64, now_ms: i64) -> bool {
    if percent == 0 || page.is_renewed.get() || page.hits.get() < HOT_HITS {
        return false;
    }
    let whole = page.life.fresh_until_ms.saturating_sub(page.life.stored_ms);
    let left = page.life.fresh_until_ms.saturating_sub(now_ms);
    left.saturating_mul(100) < whole.saturating_mul(i64::try_from(percent).unwrap_or(100))
}

/// Those in memory that purges have taken, most wanted first, as many of each site as it wants.
fn purged(cache: &PageCache) -> Vec<(Rc<Page>, Rc<Recipe>)> {
    let tier = cache.tier.borrow();
    let pages = tier.values().filter_map(|held| match &held.kept {
        Kept::Page(page) if !page.is_renewed.get() => {
            Some((Rc::clone(page), page.recipe.get().cloned()?))
        }
        Kept::Page(_) | Kept::Sign(_) => None,
    });
    let mut pages: Vec<_> = pages
        .filter(|(page, _)| cache.standing(page) != Standing::Valid)
        .collect();
    pages.sort_by_key(|(page, _)| Reverse(page.hits.get()));
    let mut counts: HashMap<Box<[u8]>, usize> = HashMap::new();
    pages.retain(|(page, recipe)| {
        let count = counts.entry(page.site.clone()).or_default();
        *count += 1;
        *count <= recipe.refetched_max.div_ceil(cache.workers)
    });
    pages
}

async fn work(cache: Rc<PageCache>) {
    loop {
        make_way(&cache.counters).await;
        let next = cache.again.waiting.borrow_mut().pop_front();
        let (Some(Wanted { site, recipe }), Some(services)) = (next, cache.services.upgrade())
        else {
            break;
        };
        cache.tallies.of(&site).add(Count::Refreshes, 1);
        // Whether it was kept is the application's to say.
        let _ = recipe.follow(&services).await;
    }
    cache.again.under_way.set(cache.again.under_way.get() - 1);
}

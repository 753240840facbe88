//! The page cache in the walk: a handler that looks up, before programs and servers are asked, and
//! a filter that keeps what they answered.
//!
//! Place in the walk: [`LookUp`] stands before the gateway in the list of handlers, [`Keep`] behind
//! the filters that change content and before compression. What is found once for a path without a
//! look at the request is answered from then on without a walk ([`plan`]). The rules are
//! `saker_cache_rules`'s, the entries `saker_cache_store`'s; here is what ties them to requests.
//!
//! The difficulty is to be certain whose a page is. The key has everything that led to the page,
//! see [`key`]; and while a page is made, purges may come: an entry carries what had been purged
//! when its making began.

mod again;
pub mod bans;
mod decide;
pub mod errand;
mod esi;
mod explain;
mod keep;
pub mod key;
mod look_up;
mod page;
pub mod parts;
mod plan;
mod prepare;
mod purge;
pub mod record;
mod refresh;
mod settings;
pub mod tally;
mod tee;
mod tier;
mod told;
pub mod visit;
pub mod warm;
mod write;

pub use decide::Refusal;
pub use explain::Explain;

use crate::static_files::{content::Content, multipart::Boundaries};
use page::{Page, Parts, Told};
use record::{Record, Sign};
use saker_cache_store::{EntryHead, Found, Standing, Store, TagMark, Version};
use saker_http::{Fields, Status, fields::known_name};
use saker_net::{
    Network,
    jobs::{self, JobKind},
};
use saker_pipeline::{
    Body, Chunk, ErrorDocumentCache, Exchange, Filter, Handled, Handler, LocalFuture, Response,
    ResponseHead, Services,
};
use saker_telemetry::{Counters, Metric};
use settings::AllTerms;
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::Arc,
};
use tally::{Count, Tallies, Tally};
use tier::Tier;

/// Contents up to this size are kept in memory; larger ones go out by sendfile, as files do.
const MEMORY_BYTES_MAX: u64 = 16 << 10;
/// An open file weighs as much at least.
const FILE_WEIGHT_BYTES: usize = 8 << 10;
/// Entries that are made anew behind their visitors' backs at a time.
const REFRESHES_MAX: usize = 64;

/// One per worker and generation.
pub struct PageCache {
    store: Arc<Store>,
    tier: RefCell<Tier<Held>>,
    terms: AllTerms,
    boundaries: Rc<Boundaries>,
    /// For requests of its own.
    services: Weak<Services>,
    refreshes: Cell<usize>,
    /// Who may purge any site's entries by request.
    purgers: Vec<Network>,
    scratch: RefCell<Vec<u8>>,
    counters: Arc<Counters>,
    tallies: Arc<Tallies>,
    bans: bans::Bans,
    again: again::Again,
    /// How many there are.
    workers: usize,
}

/// What a worker's cache is made of.
pub struct Share {
    pub store: Arc<Store>,
    /// This worker's share of the memory.
    pub memory_bytes_max: usize,
    pub counters: Arc<Counters>,
    pub tallies: Arc<Tallies>,
    /// How many there are.
    pub workers: usize,
}

/// What the tier has under a key, as long as the store has the same.
struct Held {
    kept: Kept,
    id: u64,
    version: Cell<Version>,
}

#[derive(Clone)]
enum Kept {
    Page(Rc<Page>),
    Sign(Rc<Sign>),
}

impl PageCache {
    pub fn new(share: Share, purgers: Vec<Network>, services: Weak<Services>) -> Rc<PageCache> {
        Rc::new(PageCache {
            store: share.store,
            tier: RefCell::new(Tier::new(share.memory_bytes_max)),
            terms: AllTerms::default(),
            boundaries: Rc::default(),
            services,
            refreshes: Cell::new(0),
            purgers,
            scratch: RefCell::default(),
            counters: share.counters,
            tallies: share.tallies,
            bans: bans::Bans::default(),
            again: again::Again::default(),
            workers: share.workers.max(1),
        })
    }

    /// What there is under a key, in memory or on the disk. What was purged is not there.
    async fn find(&self, key: &[u8]) -> Option<Kept> {
        if let Some(kept) = self.in_memory(key) {
            return Some(kept);
        }
        let found = self.sound(key).await?;
        let (id, version) = (found.id, found.version);
        let kept = self.taken(found)?;
        self.hold(key, &kept, id, version);
        self.current(kept)
    }

    /// An entry of the store. The content of a large one is looked at once, beside the worker.
    async fn sound(&self, key: &[u8]) -> Option<Found> {
        let found = self.store.find(key, MEMORY_BYTES_MAX)?;
        let hash = self.store.hash(key);
        if matches!(found.content, saker_cache_store::Content::Memory(_))
            || self.store.is_known_sound(hash, false)
        {
            return Some(found);
        }
        let looking = jobs::run(JobKind::PageCache, None, move |_| {
            found.content.is_sound().then_some(found)
        });
        // A job that was not done says nothing about the entry.
        let looked = looking.await.ok()?;
        match looked {
            Some(_) => drop(self.store.is_known_sound(hash, true)),
            None => self.store.give_up(
                hash,
                saker_cache_store::Coding::Identity,
                "its content is damaged",
            ),
        }
        looked
    }

    fn in_memory(&self, key: &[u8]) -> Option<Kept> {
        let tier = self.tier.borrow();
        let held = tier.find(key)?;
        if !self.store.is_current(held.version.get()) {
            // Another key with the same number may have changed, and not this one.
            held.version.set(self.store.version_if_there(key, held.id)?);
        }
        let kept = held.kept.clone();
        drop(tier);
        self.current(kept)
    }

    /// Unless it was purged.
    fn current(&self, kept: Kept) -> Option<Kept> {
        match &kept {
            Kept::Page(page) => (self.standing(page) != Standing::Gone).then_some(kept),
            Kept::Sign(_) => Some(kept),
        }
    }

    fn standing(&self, page: &Page) -> Standing {
        page.standing(&self.store, |ban| self.bans.is_about(ban, page))
    }

    /// From the store into memory.
    fn taken(&self, found: Found) -> Option<Kept> {
        let Found {
            head, id, content, ..
        } = found;
        match Record::decode(&head.rules)? {
            Record::Sign(sign) => Some(Kept::Sign(Rc::new(sign))),
            Record::Part { .. } => None,
            Record::Page {
                by,
                is_private,
                is_template,
                life,
            } => {
                let marks = visit::marks(&head);
                let mut fields = Fields::new();
                for (name, value) in head.fields {
                    fields.append(known_name(&String::from_utf8_lossy(&name)), value);
                }
                let EntryHead {
                    key,
                    site,
                    tags,
                    status,
                    moment,
                    ..
                } = head;
                let parts = Parts {
                    tags: tags.into(),
                    site: site.into(),
                    key: key.into(),
                    id,
                    status: Status(status),
                    fields,
                    by,
                    is_private,
                    is_template,
                    life,
                    marks,
                    moment,
                    content: content_of(content),
                    boundaries: Rc::clone(&self.boundaries),
                };
                Some(Kept::Page(Rc::new(Page::new(parts))))
            }
        }
    }

    /// The page as the store has it now, where another one may have come since it was found.
    async fn newest(&self, page: &Page) -> Option<Rc<Page>> {
        match self.find(&page.key).await? {
            Kept::Page(page) => Some(page),
            Kept::Sign(_) => None,
        }
    }

    /// What another worker, or this one, has made since a page was read. Where there is such, it
    /// takes the page's place in memory.
    fn take_newer(&self, page: &Page) -> bool {
        let Some(found) = self.store.find(&page.key, MEMORY_BYTES_MAX) else {
            return false;
        };
        let is_sound = matches!(found.content, saker_cache_store::Content::Memory(_))
            || self.store.is_known_sound(self.store.hash(&page.key), false);
        if found.id == page.id || !is_sound {
            return false;
        }
        let (id, version) = (found.id, found.version);
        let Some(kept) = self.taken(found) else {
            return false;
        };
        self.hold(&page.key, &kept, id, version);
        true
    }

    /// Puts into this worker's memory what the store had under that version.
    fn hold(&self, key: &[u8], kept: &Kept, id: u64, version: Version) {
        if let (Kept::Page(page), Some(Kept::Page(old))) =
            (kept, self.tier.borrow().find(key).map(|held| &held.kept))
        {
            // What was in demand is so still, and less so each time that nobody asks.
            page.hits.set(page.hits.get().max(old.hits.get() / 2));
            if let (None, Some(recipe)) = (page.recipe.get(), old.recipe.get()) {
                let _ = page.recipe.set(Rc::clone(recipe));
            }
        }
        let bytes = match kept {
            Kept::Page(page) => weight(page),
            Kept::Sign(sign) => {
                size_of::<Sign>()
                    + sign
                        .fields
                        .iter()
                        .map(|name| name.len() + 32)
                        .sum::<usize>()
            }
        };
        self.tier.borrow_mut().insert(
            key,
            Held {
                kept: kept.clone(),
                id,
                version: Cell::new(version),
            },
            bytes,
        );
    }

    fn count(&self, metric: Metric) {
        self.counters.increment(metric);
    }

    /// An answer that was made of a page.
    fn count_answer(&self, tally: Option<&Tally>, page: &Page, told: Told, content: Option<&Body>) {
        page.hits.set(page.hits.get().saturating_add(1));
        let (metric, count) = match told {
            Told::Hit => (Metric::PageCacheHits, Count::Hits),
            Told::Stale => (Metric::PageCacheStale, Count::Stale),
        };
        self.count(metric);
        let Some(tally) = tally else { return };
        tally.add(count, 1);
        if let Some(body) = content {
            let from = if matches!(body, Body::Memory(_)) {
                Count::MemoryBytes
            } else {
                Count::FileBytes
            };
            tally.add(from, body.length().unwrap_or(0));
        }
    }

    fn recount(&self, page: &Page) {
        self.tier.borrow_mut().recount(&page.key, weight(page));
    }
}

fn weight(page: &Page) -> usize {
    page.memory_bytes() + page.identity.content.descriptors() * FILE_WEIGHT_BYTES
}

fn content_of(content: saker_cache_store::Content) -> Content {
    match content {
        saker_cache_store::Content::Memory(bytes) => Content::Memory(Chunk::from(bytes)),
        saker_cache_store::Content::File {
            file,
            offset,
            length,
            ..
        } => Content::File {
            file: Rc::new(file),
            offset,
            length,
            check: None,
        },
    }
}

/// The handler.
pub struct LookUp(pub Rc<PageCache>);

impl Handler for LookUp {
    fn name(&self) -> &'static str {
        "page_cache"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        if !exchange.settings.cache.is_on {
            // An application that is told of a cache may switch it on.
            look_up::tell(exchange);
            return Box::pin(std::future::ready(Handled::Declined));
        }
        Box::pin(look_up::look_up(&self.0, exchange))
    }

    fn tick(&self, now_ms: u64) {
        self.0.store.flights().tick(now_ms);
        again::tick(&self.0);
    }
}

/// The filter.
pub struct Keep(pub Rc<PageCache>);

impl Keep {
    /// A hit that is to be put together.
    fn is_waiting(exchange: &Exchange) -> bool {
        exchange.extensions.get::<esi::Waiting>().is_some()
    }
}

impl Filter for Keep {
    fn name(&self) -> &'static str {
        "page_cache"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        Keep::is_waiting(exchange)
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        let is_known =
            Keep::is_waiting(exchange) || exchange.extensions.get::<visit::Visit>().is_some();
        match is_known {
            true => Box::pin(keep::keep(&self.0, exchange, response)),
            false => Box::pin(std::future::ready(())),
        }
    }
}

impl ErrorDocumentCache for Keep {
    /// How deep it is in pages: an error document of a part may ask for that very part.
    fn begin(&self, exchange: &mut Exchange, page: &mut Exchange) {
        if let Some(fragment) = exchange.extensions.remove::<esi::fragment::Fragment>() {
            return page.extensions.insert(fragment);
        }
        let visit = exchange.extensions.get::<visit::Visit>();
        if let Some(inside) = visit.and_then(|visit| visit.inside.clone()) {
            page.extensions.insert(esi::fragment::Fragment {
                inside,
                answered: esi::fragment::Answered::ByAnyone,
            });
        }
    }

    fn keep<'a>(
        &'a self,
        page: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        match matches!(response.head, ResponseHead::Built(_)) || self.takes_ready(page) {
            true => self.apply(page, response),
            false => Box::pin(std::future::ready(())),
        }
    }
}

fn mark(scope: &[u8], tag: &[u8]) -> TagMark {
    TagMark::new(scope, tag)
}

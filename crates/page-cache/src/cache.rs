//! The cache of one worker: finds entries in its memory and in the store, and keeps them in step.
//!
//! Called by: the look-up, the store filter, purges, refetching and the cached route.
//! Caveat: another worker may replace or purge an entry at any time; an entry in memory is used
//! only while the store has the same one (`Store::is_current`).
//! Out of scope: HTTP; what an entry means for a request is decided by `lookup` and
//! `store_response`.

use crate::{
    bans::Bans,
    memory_cache::MemoryCache,
    page::{Page, PageParts},
    page_links::LinkMemory,
    peer_access::{PeerAccess, PeerPages},
    record::{self, Record, VaryRecord},
    refetch_queue::RefetchQueue,
    result_fields::HitStatus,
    search_variance::SearchRule,
    settings::SettingsCache,
    stats::{SiteStats, Stat, WorkerStats},
    tags::{marks, private_probe},
};
use saker_cache_store::{EntryHead, Store, StoredEntry, Validity, Version};
use saker_content::{Content, byteranges::Boundaries};
use saker_http::Status;
use saker_net::{
    Network,
    jobs::{self, JobKind},
};
use saker_pipeline::{Body, Chunk, Fetcher, Services};
use saker_telemetry::{Counters, Metric};
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::Arc,
};

/// Contents up to this size are kept in memory; larger ones are sent with sendfile, like files.
pub const MEMORY_BYTES_MAX: u64 = 16 << 10;

/// Minimum weight of an open file in the memory cache.
const FILE_WEIGHT_BYTES: usize = 8 << 10;

/// Maximum number of refreshes at a time.
pub const REFRESHES_MAX: usize = 64;

/// One per worker and generation.
pub struct PageCache {
    pub store: Arc<Store>,
    pub memory: RefCell<MemoryCache<MemoryEntry>>,
    pub settings: SettingsCache,
    pub boundaries: Rc<Boundaries>,
    /// For background fetches.
    pub services: Weak<Services>,
    pub refreshes: Cell<usize>,
    /// Networks that may purge entries of any site by request.
    pub purgers: Vec<Network>,
    pub scratch: RefCell<Vec<u8>>,
    pub counters: Arc<Counters>,
    pub worker_stats: Arc<WorkerStats>,
    pub bans: Bans,
    pub again: RefetchQueue,
    pub page_links: LinkMemory,
    /// Number of workers.
    pub workers: usize,
    /// Other servers of the cluster that hand out pages.
    pub peers: Option<PeerAccess>,
}

/// Everything that a worker's cache is built from.
pub struct Share {
    pub store: Arc<Store>,
    /// This worker's share of the memory, in bytes.
    pub memory_bytes_max: usize,
    pub counters: Arc<Counters>,
    pub worker_stats: Arc<WorkerStats>,
    /// Number of workers.
    pub workers: usize,
    /// Pages that the servers of the cluster hand each other.
    pub peers: Option<Arc<PeerPages>>,
}

/// An entry in memory, valid as long as the store has the same one.
pub struct MemoryEntry {
    pub kept: Cached,
    pub id: u64,
    pub version: Cell<Version>,
}

#[derive(Clone)]
pub enum Cached {
    Page(Rc<Page>),
    Vary(Rc<VaryRecord>),
    Search(Rc<SearchRule>),
}

impl PageCache {
    /// `fetcher`: the way to the other servers of the cluster.
    pub fn new(
        share: Share,
        purgers: Vec<Network>,
        services: Weak<Services>,
        fetcher: Rc<dyn Fetcher>,
    ) -> Rc<PageCache> {
        let peers = share.peers.map(|pages| PeerAccess { pages, fetcher });
        Rc::new(PageCache {
            store: share.store,
            memory: RefCell::new(MemoryCache::new(share.memory_bytes_max)),
            settings: SettingsCache::default(),
            boundaries: Rc::default(),
            services,
            refreshes: Cell::new(0),
            purgers,
            scratch: RefCell::default(),
            counters: share.counters,
            worker_stats: share.worker_stats,
            bans: Bans::default(),
            again: RefetchQueue::default(),
            page_links: LinkMemory::default(),
            workers: share.workers.max(1),
            peers,
        })
    }

    /// The entry of a key, in memory or on disk, unless it was purged.
    pub async fn find(&self, key: &[u8]) -> Option<Cached> {
        if let Some(kept) = self.in_memory(key) {
            return Some(kept);
        }
        let found = self.sound(key).await?;
        let (id, version) = (found.id, found.version);
        let kept = self.taken(found)?;
        self.hold(key, &kept, id, version);
        self.current(kept)
    }

    /// An entry of the store. The content of a large one is verified once, on the blocking pool.
    pub async fn sound(&self, key: &[u8]) -> Option<StoredEntry> {
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
        // A job that did not run says nothing about the entry.
        let looked = looking.await.ok()?;
        match looked {
            Some(_) => drop(self.store.is_known_sound(hash, true)),
            None => self.store.discard(
                hash,
                saker_cache_store::Coding::Identity,
                "its content does not match its checksum",
            ),
        }
        looked
    }

    pub fn in_memory(&self, key: &[u8]) -> Option<Cached> {
        let memory = self.memory.borrow();
        let held = memory.find(key)?;
        if !self.store.is_current(held.version.get()) {
            // Another key with the same version number may have changed.
            held.version.set(self.store.version_if_there(key, held.id)?);
        }
        let kept = held.kept.clone();
        drop(memory);
        self.current(kept)
    }

    /// The entry, unless it was purged.
    pub fn current(&self, kept: Cached) -> Option<Cached> {
        match &kept {
            Cached::Page(page) => (self.validity(page) != Validity::Gone).then_some(kept),
            Cached::Vary(_) | Cached::Search(_) => Some(kept),
        }
    }

    pub fn validity(&self, page: &Page) -> Validity {
        page.validity(&self.store, |ban| self.bans.is_about(ban, page))
    }

    /// Decodes an entry of the store.
    pub fn taken(&self, found: StoredEntry) -> Option<Cached> {
        let StoredEntry {
            head, id, content, ..
        } = found;
        match Record::decode(&head.rules)? {
            Record::Vary(vary_record) => Some(Cached::Vary(Rc::new(vary_record))),
            Record::Search(rule) => Some(Cached::Search(Rc::new(rule))),
            Record::Part { .. } => None,
            Record::Page {
                by,
                is_private,
                is_template,
                life,
            } => {
                let marks = marks(&head);
                let fields = record::of_stored(head.fields);
                let EntryHead {
                    key,
                    site,
                    tags,
                    status,
                    purge_seq,
                    ..
                } = head;
                let parts = PageParts {
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
                    purge_seq,
                    content: content_of(content),
                    boundaries: Rc::clone(&self.boundaries),
                };
                Some(Cached::Page(Rc::new(Page::new(parts))))
            }
        }
    }

    /// The page as the store has it now; it may have been replaced since it was found.
    pub async fn newest(&self, page: &Page) -> Option<Rc<Page>> {
        match self.find(&page.key).await? {
            Cached::Page(page) => Some(page),
            Cached::Vary(_) | Cached::Search(_) => None,
        }
    }

    /// Loads a newer page that any worker has stored since this one was read. `true`: it has taken
    /// the page's place in memory.
    pub fn take_newer(&self, page: &Page) -> bool {
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

    /// Puts into this worker's memory what the store has under that version.
    pub fn hold(&self, key: &[u8], kept: &Cached, id: u64, version: Version) {
        if let (Cached::Page(page), Some(Cached::Page(old))) =
            (kept, self.memory.borrow().find(key).map(|held| &held.kept))
        {
            // A popular page stays popular, less so with each renewal without a request.
            page.hits.set(page.hits.get().max(old.hits.get() / 2));
            if let (None, Some(replay)) = (page.replay.get(), old.replay.get()) {
                let _ = page.replay.set(Rc::clone(replay));
            }
        }
        let bytes = match kept {
            Cached::Page(page) => weight(page),
            Cached::Search(rule) => size_of::<SearchRule>() + rule.text().len() * 2,
            Cached::Vary(vary_record) => {
                size_of::<VaryRecord>()
                    + vary_record
                        .fields
                        .iter()
                        .map(|name| name.len() + 32)
                        .sum::<usize>()
            }
        };
        self.memory.borrow_mut().insert(
            key,
            MemoryEntry {
                kept: kept.clone(),
                id,
                version: Cell::new(version),
            },
            bytes,
        );
    }

    pub fn count(&self, metric: Metric) {
        self.counters.increment(metric);
    }

    /// Counts a response made from a page.
    pub fn count_answer(
        &self,
        stats: Option<&SiteStats>,
        page: &Page,
        hit: HitStatus,
        content: Option<&Body>,
    ) {
        page.hits.set(page.hits.get().saturating_add(1));
        let (metric, count) = match hit {
            HitStatus::Hit => (Metric::PageCacheHits, Stat::Hits),
            HitStatus::Stale => (Metric::PageCacheStale, Stat::Stale),
            HitStatus::Completed => (Metric::PageCacheMisses, Stat::Misses),
        };
        self.count(metric);
        self.worker_stats.paths.hit(&page.site, &page.key);
        let Some(stats) = stats else { return };
        stats.add(count, 1);
        if let Some(body) = content {
            let from = if matches!(body, Body::Memory(_)) {
                Stat::MemoryBytes
            } else {
                Stat::FileBytes
            };
            stats.add(from, body.length().unwrap_or(0));
        }
    }

    pub fn recount(&self, page: &Page) {
        self.memory.borrow_mut().recount(&page.key, weight(page));
    }
}

fn weight(page: &Page) -> usize {
    page.memory_bytes() + page.identity.content.descriptors() * FILE_WEIGHT_BYTES
}

pub fn content_of(content: saker_cache_store::Content) -> Content {
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

impl PageCache {
    /// True if some client of a site may have private entries.
    pub fn has_private(&self, scope: &[u8]) -> bool {
        self.store.may_have(private_probe(scope))
    }
}

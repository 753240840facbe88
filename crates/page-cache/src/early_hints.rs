//! 103 Early Hints (RFC 8297) from what stored pages linked: a browser loads style sheets and
//! connects to other hosts while the application still works on the page.
//!
//! Called by: the look-up, for requests that go to the application; `write`, for pages that are
//! stored.
//! Caveat: hints come from shared pages only, and only for requests that would select the very same
//! page, so no client is told what another one's page links. A purge of the page forgets them.
//! Browsers take hints over HTTP/2 and HTTP/3, for navigations; no others are sent.
//! Out of scope: hints that the application itself sends (the gateway passes them on).

use crate::{cache::PageCache, page::Page, request::CacheRequest, tags::marks};
use saker_cache_rules::rules::preload_links::preload_links;
use saker_cache_store::{EntryHead, TagMark, Validity};
use saker_http::{Fields, HeadView, Method, Status, Version, fields::known_name};
use saker_pipeline::Exchange;
use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
};

/// Pages whose links a worker remembers, and bytes of keys and links together.
const PAGES_MAX: usize = 4_096;
const BYTES_MAX: usize = 1 << 20;

/// The links of pages that were stored, by key: for pages that have left the cache since.
#[derive(Default)]
pub struct EarlyHints(RefCell<Remembered>);

#[derive(Default)]
struct Remembered {
    pages: HashMap<Box<[u8]>, PageLinks>,
    /// Keys, the oldest first. A page that is stored again keeps its place.
    order: VecDeque<Box<[u8]>>,
    bytes: usize,
}

struct PageLinks {
    links: Vec<Vec<u8>>,
    /// A purge by one of these forgets the links.
    marks: Box<[TagMark]>,
    purge_seq: u64,
}

impl EarlyHints {
    /// Remembers what a page links.
    pub fn remember(&self, head: &EntryHead, links: Vec<Vec<u8>>) {
        let mut remembered = self.0.borrow_mut();
        if links.is_empty() {
            return remembered.forget(&head.key);
        }
        let page = PageLinks {
            links,
            marks: marks(head),
            purge_seq: head.purge_seq,
        };
        remembered.put(&head.key, page);
    }

    /// The links of the page with that key, unless it was purged.
    fn links(&self, cache: &PageCache, key: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut remembered = self.0.borrow_mut();
        let page = remembered.pages.get(key)?;
        let validity = cache
            .store
            .validity(page.purge_seq, page.marks.iter().copied(), |_| true);
        if validity == Validity::Gone {
            remembered.forget(key);
            return None;
        }
        Some(page.links.clone())
    }
}

impl Remembered {
    fn put(&mut self, key: &[u8], page: PageLinks) {
        let bytes = weight(key, &page);
        if bytes > BYTES_MAX {
            return;
        }
        match self.pages.insert(key.into(), page) {
            Some(old) => self.bytes -= weight(key, &old),
            None => self.order.push_back(key.into()),
        }
        self.bytes += bytes;
        while self.pages.len() > PAGES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            if let Some(page) = self.pages.remove(&oldest) {
                self.bytes -= weight(&oldest, &page);
            }
        }
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(page) = self.pages.remove(key) {
            self.bytes -= weight(key, &page);
            self.order.retain(|known| **known != *key);
        }
    }
}

fn weight(key: &[u8], page: &PageLinks) -> usize {
    let links: usize = page.links.iter().map(|link| link.len() + 24).sum();
    // The key is there twice.
    2 * key.len() + links + page.marks.len() * size_of::<TagMark>() + size_of::<PageLinks>()
}

/// The links of a response that is being stored as a shared page.
pub fn of_stored(request: &CacheRequest, fields: &Fields, is_private: bool) -> Vec<Vec<u8>> {
    let is_wanted = request.settings.config.sends_early_hints && !is_private && !request.is_query;
    match is_wanted && request.include.is_none() {
        true => preload_links(fields),
        false => Vec::new(),
    }
}

/// Sends what the page linked before. `found`: the stored page, which can't be used for this
/// request.
pub fn send(
    cache: &PageCache,
    exchange: &mut Exchange,
    request: &CacheRequest,
    found: Option<&Page>,
) {
    let view = exchange.head.view();
    if !request.settings.config.sends_early_hints || request.is_own() || !navigates(view) {
        return;
    }
    let Some(sink) = exchange.upstream.interim.clone() else {
        return;
    };
    let links = match found {
        Some(page) if page.is_private => return,
        Some(page) => preload_links(&page.fields),
        None => {
            let key = match &request.vary_record {
                Some(vary_record) => request.variant_key(vary_record, view),
                None => request.make_first_key(view),
            };
            key.and_then(|key| cache.early_hints.links(cache, &key))
                .unwrap_or_default()
        }
    };
    if links.is_empty() {
        return;
    }
    let mut fields = Fields::new();
    for link in links {
        fields.append(known_name("Link"), link);
    }
    sink.send_interim(Status::EARLY_HINTS, &fields);
    exchange.trace("cache", None, || "103: what the page linked before".into());
}

/// True for a browser that opens the page itself, over a protocol on which browsers take hints.
/// Fetch Metadata (`Sec-Fetch-*`) can't be set by scripts.
fn navigates(view: HeadView<'_>) -> bool {
    view.method() == Method::Get
        && matches!(view.version(), Version::Http2 | Version::Http3)
        && view.first("Sec-Fetch-Mode") == Some(b"navigate")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize) -> PageLinks {
        PageLinks {
            links: vec![vec![b'a'; bytes]],
            marks: Box::default(),
            purge_seq: 0,
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut remembered = Remembered::default();
        for number in 0..PAGES_MAX + 10 {
            remembered.put(number.to_string().as_bytes(), page(10));
        }
        assert_eq!(remembered.pages.len(), PAGES_MAX);
        assert!(!remembered.pages.contains_key(&b"0"[..]));
        (0..PAGES_MAX)
            .for_each(|number| remembered.put(number.to_string().as_bytes(), page(4_000)));
        assert!(remembered.bytes <= BYTES_MAX && remembered.pages.len() > 200);
        let sum: usize = remembered
            .pages
            .iter()
            .map(|(key, page)| weight(key, page))
            .sum();
        assert_eq!(sum, remembered.bytes);
        assert_eq!(remembered.order.len(), remembered.pages.len());
        let keys: Vec<Box<[u8]>> = remembered.pages.keys().cloned().collect();
        keys.iter().for_each(|key| remembered.forget(key));
        assert_eq!((remembered.bytes, remembered.order.len()), (0, 0));
        remembered.put(b"huge", page(BYTES_MAX));
        assert!(remembered.pages.is_empty());
    }
}

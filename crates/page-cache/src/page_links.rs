//! The links of stored pages, remembered by key after the pages have left the cache.
//!
//! Called by: `early_hints`.
//! Caveat: bounded, and each worker has its own. A purge of the page forgets its links.
//! Out of scope: which pages' links are remembered, and who gets them.

use crate::tags::marks;
use saker_cache_store::{EntryHead, Store, TagMark, Validity};
use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
};

/// Pages whose links a worker remembers, and bytes of keys and links together.
const PAGES_MAX: usize = 4_096;
const BYTES_MAX: usize = 1 << 20;

/// The links of pages that were stored, by key: for pages that have left the cache since.
#[derive(Default)]
pub struct LinkMemory(RefCell<Remembered>);

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

impl LinkMemory {
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
    pub fn links(&self, store: &Store, key: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut remembered = self.0.borrow_mut();
        let page = remembered.pages.get(key)?;
        let validity = store.validity(page.purge_seq, page.marks.iter().copied(), |_| true);
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

//! x

use saker_cache_rules::names;
use saker_cache_store::{EntryHead, TagMark};

/// Tags of a visitor's own begin so in an entry's head.
pub const PRIVATE: u8 = b'P';

pub fn mark(scope: &[u8], tag: &[u8]) -> TagMark {
    TagMark::new(scope, tag)
}

/// What purges go by, of an entry's head.
pub fn marks(head: &EntryHead) -> Box<[TagMark]> {
    let private = private_scope(&head.site, &head.key);
    let mark = |tag: &Vec<u8>| match (tag.split_first(), &private) {
        (Some((&PRIVATE, tag)), Some(scope)) => mark(scope, tag),
        _ => mark(&head.site, tag),
    };
    head.tags.iter().map(mark).collect()
}

/// Of the visitor whose alone an entry is, by its key.
pub fn private_scope(site: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    const VISITOR: &[u8] = b"\0visitor ";
    let at = memchr::memmem::rfind(key, VISITOR)?;
    Some(names::private_scope(site, &key[at + VISITOR.len()..]))
}

/// Set by every private entry of a site.
pub fn private_probe(scope: &[u8]) -> saker_cache_store::TagMark {
    mark(&names::private_scope(scope, b""), names::ALL)
}

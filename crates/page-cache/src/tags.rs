//! Tags of entries, with the scopes in which they are purged.
//!
//! Called by: `prepare`, `purge`, `cache` and the server's cache commands.
//! Caveat: tags of private entries have the scope of their client; on disk they begin with
//! [`PRIVATE`].
//! Out of scope: fields that name tags (`saker_cache_rules`).

use saker_cache_rules::names;
use saker_cache_store::{EntryHead, TagMark};

/// First byte of a private tag in an entry's head.
pub const PRIVATE: u8 = b'P';

pub fn mark(scope: &[u8], tag: &[u8]) -> TagMark {
    TagMark::new(scope, tag)
}

/// The marks by which an entry can be purged.
pub fn marks(head: &EntryHead) -> Box<[TagMark]> {
    let private = private_scope(&head.site, &head.key);
    let mark = |tag: &Vec<u8>| match (tag.split_first(), &private) {
        (Some((&PRIVATE, tag)), Some(scope)) => mark(scope, tag),
        _ => mark(&head.site, tag),
    };
    head.tags.iter().map(mark).collect()
}

/// The scope of the client that owns a private entry, from its key.
pub fn private_scope(site: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    const IDENTITY_MARK: &[u8] = b"\0visitor ";
    let at = memchr::memmem::rfind(key, IDENTITY_MARK)?;
    Some(names::private_scope(site, &key[at + IDENTITY_MARK.len()..]))
}

/// Set by every private entry of a site.
pub fn private_probe(scope: &[u8]) -> saker_cache_store::TagMark {
    mark(&names::private_scope(scope, b""), names::ALL)
}

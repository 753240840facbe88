//! The tags by which pages are purged and shown by URL.
//!
//! Called by: purges, and the server's cache commands.
//! Caveat: a page that answers several URLs of a path (`No-Vary-Search`) has the tag of the
//! query that represents all of them.
//! Out of scope: the spelling of URLs in keys (`key`).

use crate::{record::Record, search_variance::rule_key};
use saker_cache_rules::names;
use saker_cache_store::Store;

/// The tags of pages that answer a URL: its own, and that of the URLs it is equivalent to.
pub fn url_tags(store: &Store, url: &[u8]) -> Vec<Vec<u8>> {
    let at = memchr::memchr(b'?', url);
    let path = &url[..at.unwrap_or(url.len())];
    let mut tags = vec![names::url_tag(url)];
    let record = store
        .find(&rule_key(path), 0)
        .and_then(|found| Record::decode(&found.head.rules));
    if let Some(Record::Search(rule)) = record {
        let query = rule.query(at.map(|at| &url[at + 1..]));
        tags.push(names::url_tag(&[path, b"?", &query].concat()));
    }
    tags
}

//! Invalidation of what a request has written to files.
//!
//! Called by: the storing filter, for responses of handlers that note their changes
//! (`ChangedPaths`).
//! Caveat: what lies below a collection is banned by its path, whatever its query.
//! Out of scope: unsafe requests to upstreams (`purge`).

use crate::{bans, cache::PageCache, key::KeyBase, purge, shared_purges::implied_by_url};
use saker_cache_rules::lscache::query::KeyEdits;
use saker_cache_store::Purge;
use saker_http::{Status, escape};
use saker_pipeline::{ChangedPaths, Exchange};

/// Invalidates the pages of the paths that the request has changed.
pub fn invalidate(cache: &PageCache, exchange: &mut Exchange, status: Status) {
    let Some(changed) = exchange.extensions.remove::<ChangedPaths>() else {
        return;
    };
    let edits = KeyEdits::default();
    let base = KeyBase::of(exchange, &edits).filter(|_| status.is_success());
    let Some(base) = base else {
        return;
    };
    let mut purges = Vec::new();
    for changed in &changed.0 {
        let mut target = Vec::new();
        escape::uri_path(&changed.path, &mut target);
        let url = base.url_of(exchange, &target, &edits);
        purges.extend(implied_by_url(&cache.store, &base.scope, &url));
        if changed.is_tree {
            purges.extend(below(&base.scope, &target));
        }
    }
    purge::carry_out(cache, purges);
}

/// The bans of everything below a collection.
fn below(scope: &[u8], target: &[u8]) -> Vec<Purge> {
    let path = target.strip_suffix(b"/").unwrap_or(target);
    let mut pattern = b"^".to_vec();
    for byte in path {
        if !byte.is_ascii_alphanumeric() && *byte != b'/' {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'/');
    let expression = format!("req.url ~ {}", bans::quoted(&pattern));
    bans::by_expression(scope, &expression).map_or_else(|_| Vec::new(), |(bans, _)| bans)
}

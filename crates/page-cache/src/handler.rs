//! The handler that looks up pages.
//!
//! Called by: the pipeline, before programs and upstreams.
//! Caveat: where the cache is off it only announces itself, since applications may switch it on.
//! Out of scope: the look-up itself (`lookup`).

use crate::{announce, cache::PageCache, lookup, refetch};
use saker_pipeline::{Exchange, Handled, Handler, LocalFuture};
use std::rc::Rc;

/// Answers requests from the cache.
pub struct LookupHandler(pub Rc<PageCache>);

impl Handler for LookupHandler {
    fn name(&self) -> &'static str {
        "page_cache"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        if !exchange.routing.settings.cache.is_on {
            // An application that knows of the cache may switch it on.
            announce::tell(exchange);
            return Handled::Declined.ready();
        }
        Box::pin(lookup::look_up(&self.0, exchange))
    }

    fn tick(&self, now_ms: u64) {
        self.0.store.cache_lock().tick(now_ms);
        refetch::tick(&self.0);
    }
}

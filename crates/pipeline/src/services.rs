//! What a worker has at hand for every request. One per worker and generation; never crosses
//! threads.
//!
//! Called by: the phases and `respond`. Made by the server's registry.
//! Caveat: the order of handlers and filters is the registry's, and matters.
//! Out of scope: what only one feature needs, which that feature was given when it was made.

use crate::{
    AbuseControl, ErrorDocumentCache, Filter, Forwarder, Generation, Handler, Inspector,
    LocalFuture, SiteRules,
};
use saker_telemetry::Counters;
use std::{rc::Rc, sync::Arc, time::Duration};

/// Returns the key authorization that is to be found at a path.
pub type FindChallenge = dyn Fn(&[u8]) -> Option<String>;

pub struct Services {
    pub generation: Arc<Generation>,
    pub handlers: ContentHandlers,
    /// In the order in which they are applied.
    pub filters: Rc<[Box<dyn Filter>]>,
    /// Those that belong to the content wherever that goes, pages that include it too.
    pub content_filters: Rc<[Box<dyn Filter>]>,
    /// Answers the questions of the phases for each site.
    pub rules: SiteRules,
    pub abuse: Rc<dyn AbuseControl>,
    pub inspector: Rc<dyn Inspector>,
    /// `None`: there is no page cache.
    pub error_document_cache: Option<Rc<dyn ErrorDocumentCache>>,
    /// The worker's counters.
    pub counters: Arc<Counters>,
    /// Waits; the pipeline knows no runtime.
    pub sleep: fn(Duration) -> LocalFuture<'static, ()>,
    /// Monotonic nanoseconds, for rate limits.
    pub now_ns: fn() -> u64,
    /// What a certificate authority is to find at this path (below
    /// [`CHALLENGES`](crate::phases::CHALLENGES)); `None`: what the site has there.
    pub challenge: Box<FindChallenge>,
}

/// Who makes content, in the order of the content phase.
pub struct ContentHandlers {
    /// Routes that answer by themselves, scripts that are found by the names of files. Not asked
    /// where rules have chosen an upstream.
    pub routes: Box<[Box<dyn Handler>]>,
    /// The page cache.
    pub cache: Option<Box<dyn Handler>>,
    /// Files; also asked where a program has left its response to a file.
    pub files: Box<[Box<dyn Handler>]>,
    /// Proxy routes, and all upstream requests.
    pub gateway: Rc<dyn Forwarder>,
}

impl ContentHandlers {
    /// Once a second.
    pub fn tick(&self, now_ms: u64) {
        let all = self.routes.iter().chain(&self.cache);
        let all = all.chain(&self.files);
        all.for_each(|handler| handler.tick(now_ms));
        self.gateway.tick(now_ms);
    }
}

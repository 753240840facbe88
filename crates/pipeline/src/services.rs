//! Services that a worker provides to every request. One instance per worker and generation; never
//! crosses threads.
//!
//! Called by: the phases and `respond`. Built by the server's registry.
//! Caveat: the order of handlers, filters, and loggers is significant; the registry sets it.
//! Out of scope: dependencies of a single feature, which it receives when it is constructed.

use crate::{
    AbuseControl, ErrorDocumentCache, Filter, Forwarder, Generation, Handler, Inspector,
    LocalFuture, Loggers, SiteRules,
};
use saker_telemetry::Counters;
use std::{rc::Rc, sync::Arc, time::Duration};

/// Returns the key authorization for a challenge path.
pub type FindChallenge = dyn Fn(&[u8]) -> FoundChallenge;

/// The key authorization of a challenge.
pub enum FoundChallenge {
    /// The site serves the path.
    None,
    Known(String),
    /// Another server has to be asked.
    Look(LocalFuture<'static, Option<String>>),
}

pub struct Services {
    pub generation: Arc<Generation>,
    pub handlers: ContentHandlers,
    /// Response filters, in the order in which they run.
    pub filters: Rc<[Box<dyn Filter>]>,
    /// Filters that are part of the content itself; they also run for subrequests.
    pub content_filters: Rc<[Box<dyn Filter>]>,
    /// Loggers, in the order in which they are called.
    pub loggers: Rc<Loggers>,
    /// The rules of each site.
    pub rules: SiteRules,
    pub abuse: Rc<dyn AbuseControl>,
    pub inspector: Rc<dyn Inspector>,
    /// `None` without a page cache.
    pub error_document_cache: Option<Rc<dyn ErrorDocumentCache>>,
    /// The worker's counters.
    pub counters: Arc<Counters>,
    /// Returns a future that completes after the delay. Injected because the pipeline does not
    /// depend on a runtime.
    pub sleep: fn(Duration) -> LocalFuture<'static, ()>,
    /// Looks up the key authorization of a pending ACME challenge by its path below
    /// [`CHALLENGES`](crate::phases::CHALLENGES).
    pub challenge: Box<FindChallenge>,
}

/// Content handlers, in the order of the content phase.
pub struct ContentHandlers {
    /// Routes with fixed answers, and scripts found by file name. Skipped if rules have chosen an
    /// upstream.
    pub routes: Box<[Box<dyn Handler>]>,
    /// The page cache.
    pub cache: Option<Box<dyn Handler>>,
    /// Static files; also serves the files that a program names in its response (X-Sendfile,
    /// X-Accel-Redirect).
    pub files: Box<[Box<dyn Handler>]>,
    /// Proxy routes, and all upstream requests.
    pub gateway: Rc<dyn Forwarder>,
}

impl ContentHandlers {
    /// Runs periodic maintenance. Called once a second.
    pub fn tick(&self, now_ms: u64) {
        let all = self.routes.iter().chain(&self.cache);
        let all = all.chain(&self.files);
        all.for_each(|handler| handler.tick(now_ms));
        self.gateway.tick(now_ms);
    }
}

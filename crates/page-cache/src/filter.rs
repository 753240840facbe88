//! The filter that stores responses and assembles templates.
//!
//! Called by: the pipeline, after the filters that change content and before compression.
//! Caveat: it also sees error documents, so that a failed fetch can be replaced.
//! Out of scope: the decisions (`store_response`).

use crate::{
    cache::PageCache,
    changed_paths,
    esi::{
        fragment::{FragmentAnswer, FragmentRequest},
        page_response::PendingAssembly,
    },
    request::CacheRequest,
    store_response,
};
use saker_cache_rules::lscache::visible;
use saker_pipeline::{ErrorDocumentCache, Exchange, Filter, LocalFuture, Response, ResponseHead};
use std::rc::Rc;

/// Stores responses and assembles templates.
pub struct StoreFilter(pub Rc<PageCache>);

impl StoreFilter {
    /// True for a hit that is still to be assembled.
    fn is_pending(exchange: &Exchange) -> bool {
        exchange.extensions.get::<PendingAssembly>().is_some()
    }
}

impl Filter for StoreFilter {
    fn name(&self) -> &'static str {
        "page_cache"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        StoreFilter::is_pending(exchange)
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        changed_paths::invalidate(&self.0, exchange, response.status);
        let is_known = StoreFilter::is_pending(exchange)
            || exchange.extensions.get::<CacheRequest>().is_some();
        match is_known {
            true => Box::pin(store_response::store_response(&self.0, exchange, response)),
            false => saker_pipeline::done(),
        }
    }
}

impl ErrorDocumentCache for StoreFilter {
    /// Passes on the nesting of a fragment: an error document for a fragment may include that very
    /// fragment.
    fn begin(&self, exchange: &mut Exchange, page: &mut Exchange) {
        if let Some(fragment) = exchange.extensions.remove::<FragmentRequest>() {
            return page.extensions.insert(fragment);
        }
        let request = exchange.extensions.get::<CacheRequest>();
        if let Some(include) = request.and_then(|request| request.include.clone()) {
            page.extensions.insert(FragmentRequest {
                include,
                answered: FragmentAnswer::ByAnyone,
            });
        }
    }

    fn keep<'a>(
        &'a self,
        page: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        if !matches!(response.head, ResponseHead::Built(_)) && !self.takes_ready(page) {
            return saker_pipeline::done();
        }
        Box::pin(async move {
            self.apply(page, response).await;
            visible::hide_control(response.fields_mut());
        })
    }
}

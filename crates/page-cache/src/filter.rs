//! The filter that stores responses and assembles templates.
//!
//! Called by: the pipeline, after the filters that change content and before compression.
//! Caveat: it also sees error documents, so that a failed fetch can be replaced.
//! Out of scope: the decisions (`store_response`).

use crate::{
    cache::PageCache,
    esi::{
        fragment::{FragmentAnswer, FragmentRequest},
        page_response::PendingAssembly,
    },
    request::CacheRequest,
    store_response,
};
use saker_pipeline::{Exchange, Filter, LocalFuture, Response};
use std::{any::Any, rc::Rc};

/// Stores responses and assembles templates.
pub struct StoreFilter(pub Rc<PageCache>);

impl Filter for StoreFilter {
    fn name(&self) -> &'static str {
        "page_cache"
    }

    /// True for a hit that is still to be assembled.
    fn takes_ready(&self, exchange: &Exchange) -> bool {
        exchange
            .page_cache
            .as_ref()
            .is_some_and(|state| state.is::<PendingAssembly>())
    }

    fn sees_stand_ins(&self) -> bool {
        true
    }

    /// Passes on the nesting of a fragment: an error document for a fragment may include that very
    /// fragment.
    fn left_to_stand_in(&self, exchange: &mut Exchange) -> Option<Box<dyn Any>> {
        let state = exchange.page_cache.take()?;
        if state.is::<FragmentRequest>() {
            return Some(state);
        }
        let include = state
            .downcast_ref::<CacheRequest>()
            .and_then(|request| request.include.clone());
        exchange.page_cache = Some(state);
        let part = |include| FragmentRequest {
            include,
            answered: FragmentAnswer::ByAnyone,
        };
        include.map(|include| Box::new(part(include)) as Box<dyn Any>)
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        match exchange.page_cache.is_some() {
            true => Box::pin(store_response::store_response(&self.0, exchange, response)),
            false => Box::pin(std::future::ready(())),
        }
    }
}

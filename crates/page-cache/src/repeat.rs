//! The forwarder that repeats a validation whose answer is about another page (RFC 9111 section
//! 4.3.4): the stored page is obsolete, and the upstream is asked for the whole one.
//!
//! Called by: the content phase, for every upstream request; requests that validate no page go on to
//! the gateway as they are.
//! Caveat: it repeats once. An upstream that answers 304 to a request without conditions has failed.
//! Out of scope: pages under keys of the configuration (`keyed`), whose rules believe every 304.

use crate::{cache::PageCache, query_content, request::CacheRequest};
use saker_cache_rules::rules::validation::{self, Answer};
use saker_http::KnownField::{self, IfModifiedSince, IfNoneMatch};
use saker_http::Status;
use saker_pipeline::{
    Exchange, Forwarder, Handled, LocalFuture, RequestBody, Response, UpstreamRequest,
};
use std::rc::Rc;

/// A forwarder that repeats validations without their conditions.
pub struct RepeatingForwarder {
    inner: Rc<dyn Forwarder>,
    cache: Rc<PageCache>,
}

impl RepeatingForwarder {
    pub fn new(inner: Rc<dyn Forwarder>, cache: Rc<PageCache>) -> RepeatingForwarder {
        RepeatingForwarder { inner, cache }
    }

    async fn validate(
        &self,
        exchange: &mut Exchange,
        request: Box<UpstreamRequest>,
        content: Box<dyn RequestBody>,
    ) -> Handled {
        let again = request.clone();
        let handled = self.inner.forward(exchange, request).await;
        let is_unrelated =
            matches!(&handled, Handled::Answered(answer) if is_unrelated(exchange, answer));
        if !is_unrelated {
            return handled;
        }
        exchange.trace("cache", None, || {
            "the 304 is about another page; asking without conditions".into()
        });
        self.drop_conditions(exchange);
        exchange.body = content;
        exchange.upstream.is_answered_by_program = false;
        let handled = self.inner.forward(exchange, again).await;
        match handled {
            Handled::Answered(answer) if answer.status == Status::NOT_MODIFIED => {
                exchange.upstream.is_answered_by_program = false;
                Handled::Answered(Response::new(Status::BAD_GATEWAY))
            }
            handled => handled,
        }
    }

    /// Makes the request one for a page that is not stored.
    fn drop_conditions(&self, exchange: &mut Exchange) {
        let is_left = |name: &[u8]| {
            !matches!(
                KnownField::classify(name),
                Some(IfNoneMatch | IfModifiedSince)
            )
        };
        exchange.head = exchange.head.edited(is_left, []);
        let store = &self.cache.store;
        if let Some(request) = exchange.extensions.get_mut::<CacheRequest>() {
            request.validates = false;
            request.purge_seq = store.purge_seq();
            if let Some(old) = &request.old {
                // The next validation would bring the same answer. An entry that began later stays.
                let _ = store.remove_older(&old.key, request.number);
            }
        }
    }
}

impl Forwarder for RepeatingForwarder {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn route(&self, exchange: &mut Exchange) -> Option<Box<UpstreamRequest>> {
        self.inner.route(exchange)
    }

    fn forward<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        request: Box<UpstreamRequest>,
    ) -> LocalFuture<'a, Handled> {
        let cached = exchange.extensions.get_mut::<CacheRequest>();
        match cached.filter(|cached| cached.validates) {
            Some(cached) => {
                let content = query_content::body(std::mem::take(&mut cached.content));
                Box::pin(self.validate(exchange, request, content))
            }
            None => self.inner.forward(exchange, request),
        }
    }

    fn tick(&self, now_ms: u64) {
        self.inner.tick(now_ms);
    }
}

/// Returns true if a response to a validation is about a page that is not the stored one.
fn is_unrelated(exchange: &Exchange, answer: &Response) -> bool {
    if answer.status != Status::NOT_MODIFIED {
        return false;
    }
    let cached = exchange.extensions.get::<CacheRequest>();
    cached
        .and_then(|cached| cached.old.as_ref())
        .is_some_and(|old| {
            validation::judge_answer(&old.fields, answer.status, answer.fields())
                == Answer::Unrelated
        })
}

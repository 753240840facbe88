//! The forwarder around the gateway: answers from pages, and stores what upstreams answer.
//!
//! Called by: the content phase, for every upstream request; without a plan it is the gateway.
//! Caveat: it decides before rules see an error, so that an expired page can take the error's place.
//! Out of scope: filters, which see the response of a page like that of an upstream.

use super::{
    answer, entry,
    fetch::head as upstream_head,
    look_up::{Fetch, Found, look_up},
    plan::{CachePlan, CachedAge, KeyedResult},
    store::{self, Place},
    update,
};
use crate::{
    cache::PageCache,
    clock::{monotonic_ms, now_ms},
    page::Page,
    refusal::Refusal,
    result_fields::{CacheResult, HitStatus},
    stats::Stat,
};
use saker_cache_rules::keyed::Lifetime;
use saker_http::{Fields, Method, RequestHead, Status};
use saker_pipeline::{
    Body, Chunk, ClientAbort, Exchange, Forwarder, Handled, LocalFuture, ProxyOptions, Response,
    UpstreamRequest,
};
use saker_telemetry::Metric;
use std::{rc::Rc, sync::Arc};

/// Time in which requests do not wait for a page that could not be stored, in milliseconds.
const PASS_MS: u64 = 2_000;

/// A forwarder that caches what its requests have a [`CachePlan`] for.
pub struct KeyedForwarder {
    inner: Rc<dyn Forwarder>,
    cache: Option<Rc<PageCache>>,
}

impl KeyedForwarder {
    pub fn new(inner: Rc<dyn Forwarder>, cache: Option<Rc<PageCache>>) -> KeyedForwarder {
        KeyedForwarder { inner, cache }
    }
}

impl Forwarder for KeyedForwarder {
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
        let plan = exchange.extensions.remove::<CachePlan>();
        exchange.extensions.remove::<KeyedResult>();
        let method = exchange.head.view().method();
        let is_cached = |plan: &CachePlan| match method {
            Method::Get | Method::Head => true,
            Method::Post => plan.terms.caches_post,
            _ => false,
        };
        match (&self.cache, plan.filter(is_cached)) {
            (Some(cache), Some(plan)) => {
                let keyed = KeyedRequest {
                    inner: Rc::clone(&self.inner),
                    cache: Rc::clone(cache),
                    plan,
                };
                Box::pin(keyed.run(exchange, request))
            }
            _ => self.inner.forward(exchange, request),
        }
    }

    fn tick(&self, now_ms: u64) {
        self.inner.tick(now_ms);
    }
}

/// A request with its plan.
pub struct KeyedRequest {
    pub inner: Rc<dyn Forwarder>,
    pub cache: Rc<PageCache>,
    pub plan: CachePlan,
}

impl KeyedRequest {
    async fn run(self, exchange: &mut Exchange, call: Box<UpstreamRequest>) -> Handled {
        let Some(key) = entry::entry_key(&self.plan.zone.name, &self.plan.key) else {
            return self.inner.forward(exchange, call).await;
        };
        let place = Place::new(&self.cache, exchange, key);
        let found = match self.plan.is_bypassed {
            true => Found::Ask(Fetch::new(CacheResult::Bypass)),
            false => {
                let head = exchange.head.view();
                look_up(&self.cache, &self.plan, &place.key, head).await
            }
        };
        match found {
            Found::Answer(page, result) => {
                Handled::Answered(self.answer(exchange, &call.manner, &page, result))
            }
            Found::Update(page, permit) if !exchange.body.is_end() => {
                // No update can repeat its content.
                let fetch = Fetch {
                    old: Some(page),
                    permit: Some(permit),
                    ..Fetch::new(CacheResult::Expired)
                };
                self.ask(exchange, call, &place, fetch).await
            }
            Found::Update(page, permit) => {
                let result = CacheResult::Stale;
                let response = self.answer(exchange, &call.manner, &page, result);
                let judge = Rc::clone(&self.plan.judge);
                let (cache, site) = (Rc::clone(&self.cache), place.site.clone());
                let fetch = Fetch {
                    old: Some(page),
                    permit: Some(permit),
                    ..Fetch::new(CacheResult::Expired)
                };
                let carry_out = |mut update| -> LocalFuture<'static, Handled> {
                    Box::pin(async move { self.ask(&mut update, call, &place, fetch).await })
                };
                update::begin(&cache, &*judge, exchange, &site, carry_out);
                Handled::Answered(response)
            }
            Found::Ask(fetch) if self.plan.is_far_part && fetch.old.is_none() => {
                exchange.extensions.insert(KeyedResult(fetch.result));
                self.inner.forward(exchange, call).await
            }
            Found::Ask(fetch) => self.ask(exchange, call, &place, fetch).await,
        }
    }

    /// Makes the response of a page.
    fn answer(
        &self,
        exchange: &mut Exchange,
        manner: &ProxyOptions,
        page: &Page,
        result: CacheResult,
    ) -> Response {
        exchange.trace("cache", None, || {
            format!(
                "answered from the zone `{}` ({result:?})",
                self.plan.zone.name
            )
        });
        exchange.extensions.insert(KeyedResult(result));
        let age_ms = now_ms().saturating_sub(page.life.stored_ms);
        exchange.extensions.insert(CachedAge(age_ms.max(0) / 1000));
        let is_replaced = is_overridden(manner, page.status);
        exchange.upstream.is_answered_by_program = !is_replaced;
        exchange.upstream.is_replaced = is_replaced;
        let mut response = answer::whole(page);
        if !is_replaced && matches!(response.body, Body::Empty) && !page.status.forbids_content() {
            // A redirect or an error without content is no reason to make a page.
            response.body = Body::Memory(Chunk::from(Vec::new()));
        }
        let hit = match result {
            CacheResult::Hit | CacheResult::Revalidated => HitStatus::Hit,
            _ => HitStatus::Stale,
        };
        let stats = self.cache.worker_stats.of(&page.site);
        let is_sent = exchange.head.view().method() != Method::Head;
        let content = is_sent.then_some(&response.body);
        self.cache.count_answer(Some(&stats), page, hit, content);
        self.apply(exchange, &mut response, None);
        response
    }

    fn apply(&self, exchange: &Exchange, response: &mut Response, storing: Option<&Rc<PageCache>>) {
        let (head, now) = (exchange.head.view(), exchange.now);
        let files = &exchange.routing.settings.files;
        let boundaries = &self.cache.boundaries;
        answer::apply(
            head,
            response,
            self.plan.has_ranges,
            (boundaries, storing),
            (now, files),
        );
    }

    /// Asks the upstream.
    pub async fn ask(
        &self,
        exchange: &mut Exchange,
        call: Box<UpstreamRequest>,
        place: &Place,
        mut fetch: Fetch,
    ) -> Handled {
        let asked = exchange.head.clone();
        exchange.head = upstream_head(&asked, &self.plan.terms, fetch.old.as_deref());
        // The response may serve others.
        exchange.upstream.client_abort.set(ClientAbort::Ignored);
        exchange.upstream.is_answered_by_program = false;
        exchange.extensions.insert(KeyedResult(fetch.result));
        let manner = Arc::clone(&call.manner);
        let handled = self.inner.forward(exchange, call).await;
        let Handled::Answered(mut response) = handled else {
            // Another path answers, under the client's conditions.
            exchange.head = asked;
            return handled;
        };
        exchange.head = asked;
        if response.tunnel.is_some() {
            return Handled::Answered(response);
        }
        let is_made = exchange.upstream.is_answered_by_program;
        let is_heard = is_made || exchange.upstream.is_replaced;
        if let Some(old) = fetch.old.take() {
            if self.takes_place(&old, response.status, is_heard) {
                let stale = self.answer(exchange, &manner, &old, CacheResult::Stale);
                return Handled::Answered(stale);
            }
            let terms = &self.plan.terms;
            if terms.revalidates && is_made && response.status == Status::NOT_MODIFIED {
                let response = self.revalidated(exchange, &manner, (&old, &response), place);
                return Handled::Answered(response);
            }
        }
        let stored = self
            .lifetime(exchange, &manner, &response, &fetch)
            .and_then(|lifetime| {
                let permit = fetch.permit.take();
                let head = exchange.head.view();
                let is_bare = head.method() == Method::Head && !self.plan.terms.converts_head;
                let content = is_bare.then(|| std::mem::take(&mut response.body));
                let length = content.as_ref().and_then(Body::length);
                if let Some(length) = length {
                    let length = length.to_string().into_bytes();
                    response.fields_mut().set("Content-Length", length);
                }
                let entry = (&mut response, lifetime);
                let stored = store::store(&self.cache, &self.plan, place, head, entry, permit);
                if let Some(content) = content {
                    response.fields_mut().remove("Content-Length");
                    response.body = content;
                }
                stored
            });
        self.report(exchange, &mut fetch, (place, response.fields()), &stored);
        if stored.is_err() && manner.is_like_nginx && !manner.outlives_client {
            exchange.upstream.client_abort.set(ClientAbort::EndOfStream);
        }
        self.finish(exchange, response, place, stored.is_ok()).await
    }

    /// Returns true if an expired page takes the place of a failed response. `is_heard`: the
    /// upstream has answered.
    fn takes_place(&self, old: &Page, status: Status, is_heard: bool) -> bool {
        let stale = &self.plan.terms.stale;
        let is_named = match is_heard {
            true => return stale.statuses.contains(&status.0),
            false if status == Status::GATEWAY_TIMEOUT => stale.after_timeout,
            false => stale.after_error && is_of_gateway(status),
        };
        let is_within = now_ms() <= old.life.stale_if_error_until_ms;
        is_named || is_within && status.is_error()
    }

    /// Renews an expired page that the upstream has confirmed.
    fn revalidated(
        &self,
        exchange: &mut Exchange,
        manner: &ProxyOptions,
        (old, confirmed): (&Page, &Response),
        place: &Place,
    ) -> Response {
        let (terms, now_s) = (&self.plan.terms, now_ms() / 1000);
        let said = terms.said(confirmed.fields(), now_s);
        let lifetime = said.and_then(|said| match said {
            Some(lifetime) => Ok(Some(lifetime)),
            None => terms.said(&old.fields, now_s),
        });
        let lifetime = lifetime.map(|said| said.or_else(|| terms.by_status(old.status, now_s)));
        if let Ok(Some(lifetime)) = lifetime {
            let mut renewed = answer::whole(old);
            let head = exchange.head.view();
            let entry = (&mut renewed, lifetime);
            let stored = store::store(&self.cache, &self.plan, place, head, entry, None);
            if let Err(why) = stored {
                exchange.trace("cache", None, || format!("not renewed: {}", why.sentence));
            }
        }
        self.answer(exchange, manner, old, CacheResult::Revalidated)
    }

    /// Decides whether the response is stored, and for how long.
    fn lifetime(
        &self,
        exchange: &mut Exchange,
        manner: &ProxyOptions,
        response: &Response,
        fetch: &Fetch,
    ) -> Result<Lifetime, Refusal> {
        let refused = |sentence: &'static str| Err(Refusal::new("rules", sentence));
        let terms = &self.plan.terms;
        let is_head = exchange.head.view().method() == Method::Head;
        let is_heard = exchange.upstream.is_answered_by_program || exchange.upstream.is_replaced;
        if !fetch.stores {
            return refused("it was not asked for often enough, or waited for too long");
        }
        if !is_heard {
            return refused("no upstream answered");
        }
        if is_head && !terms.converts_head && !terms.keys_have_method {
            return refused("a response to HEAD has no content");
        }
        if response.status == Status::NOT_MODIFIED {
            return refused("it answers a condition, which was not asked about");
        }
        let left = exchange.upstream.left_fields.as_ref();
        let said = left.and_then(|fields| fields.first("X-Accel-Buffering"));
        let is_told_not_to = said.is_some_and(|said| said.eq_ignore_ascii_case(b"no"));
        if manner.is_unbuffered || is_told_not_to && manner.trust.heeds("X-Accel-Buffering") {
            return refused("responses are not buffered");
        }
        let judged = terms.judge(response.status, response.fields(), now_ms() / 1000);
        let lifetime = judged.or_else(refused)?;
        let rule = exchange.routing.settings.files.modified_since;
        let is_unwanted =
            || answer::is_unwanted(exchange.head.view(), response, exchange.now, rule);
        if matches!(response.body, Body::Stream(_)) && update::is_full(&self.cache) && is_unwanted()
        {
            return refused("too many responses are read for the cache alone");
        }
        match self.plan.judge.forbids(exchange, response) {
            true => refused("the configuration says not to store it"),
            false => Ok(lifetime),
        }
    }

    fn report(
        &self,
        exchange: &mut Exchange,
        fetch: &mut Fetch,
        (place, fields): (&Place, &Fields),
        stored: &Result<(), Refusal>,
    ) {
        let stats = self.cache.worker_stats.of(&place.site);
        let paths = &self.cache.worker_stats.paths;
        match stored {
            Ok(()) => {
                exchange.upstream.client_abort.set(ClientAbort::Ignored);
                self.cache.count(Metric::PageCacheStores);
                self.cache.count(Metric::PageCacheMisses);
                stats.add(Stat::Misses, 1);
                paths.miss(&place.site, &place.key);
            }
            Err(why) => {
                if let Some(permit) = &mut fetch.permit {
                    // Requests that wait for the page would wait in vain.
                    permit.bypass_until(monotonic_ms() + PASS_MS);
                }
                self.cache.count(Metric::PageCachePasses);
                stats.pass(why.word);
                paths.pass((&place.site, &place.key), exchange, Some(fields), why);
            }
        }
        let zone = &self.plan.zone.name;
        exchange.trace("cache", None, || match stored {
            Ok(()) => format!("stored in the zone `{zone}`"),
            Err(why) => format!("not stored in the zone `{zone}`: {}", why.sentence),
        });
    }

    /// Applies the client's conditions to the upstream's response.
    async fn finish(
        &self,
        exchange: &mut Exchange,
        mut response: Response,
        place: &Place,
        is_stored: bool,
    ) -> Handled {
        let fields = response.fields();
        let terms = &self.plan.terms;
        let is_shared = terms.said(fields, exchange.now).is_ok() && terms.vary(fields).is_ok();
        if !is_shared {
            return Handled::Answered(response);
        }
        let head = exchange.head.clone();
        let rule = exchange.routing.settings.files.modified_since;
        let is_bare = head.view().method() == Method::Head && !terms.converts_head;
        if is_stored && !is_bare && answer::is_unwanted(head.view(), &response, exchange.now, rule)
        {
            // The client does not read the content, which is to be stored whole.
            self.read_apart(&mut response, place, &head).await;
        }
        let storing = is_stored.then_some(&self.cache);
        self.apply(exchange, &mut response, storing);
        Handled::Answered(response)
    }

    /// Has the content read for the cache alone. If that is done at once, the content is that of
    /// the stored page; otherwise the client's answer does not wait for it.
    async fn read_apart(&self, response: &mut Response, place: &Place, head: &RequestHead) {
        let stream = match std::mem::take(&mut response.body) {
            Body::Stream(stream) => stream,
            body => return response.body = body,
        };
        let length = stream.length();
        let page = match update::read_for_cache(&self.cache, stream) {
            true => entry::find(&self.cache, &place.key, head.view()).await,
            false => None,
        };
        response.body = match page {
            Some(page) => page.identity.content.whole(),
            None => answer::unsent(length),
        };
    }
}

/// Returns true if a page of the front end takes the place of responses with the status.
fn is_overridden(manner: &ProxyOptions, status: Status) -> bool {
    manner.overrides_errors && manner.overridden.contains(&status.0)
}

/// Returns true for statuses of requests that the gateway could not carry out.
fn is_of_gateway(status: Status) -> bool {
    matches!(status.0, 500 | 502 | 503)
}

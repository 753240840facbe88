//! The look-up: answers from the cache, or declines and leaves a `CacheRequest` for the store
//! filter.
//!
//! Called by: `handler`.
//! Caveat: of many requests for a missing page, one fetches it and the others wait for the outcome.
//! A stale page is served while one background request refreshes it (`refresh`).
//! Out of scope: the rules (`saker_cache_rules`).

use crate::{
    announce::{is_made, tell_application},
    background_fetch::FetchOutcome,
    cache::{Cached, PageCache},
    clock::{monotonic_ms, now_ms},
    complete, early_hints,
    esi::fragment::FragmentAnswer,
    key,
    lookup::{
        answer::answer,
        find::{find_page, judge},
        forward::{go_on, leave},
        incoming::IncomingState,
    },
    page::Page,
    partial,
    peers::{self, PeerStep},
    prepare, purge, query_content, refresh,
    refusal::Refusal,
    request::CacheRequest,
    result_fields::HitStatus,
    stats::Stat,
};
use saker_cache_rules::{
    lscache::control::NotStored,
    rules::{Forward, Use, is_query, reuse},
};
use saker_cache_store::LockOutcome;
use saker_http::{Method, Status};
use saker_pipeline::{Exchange, Handled, Response};
use saker_telemetry::Metric;
use std::{borrow::Cow, rc::Rc, time::Duration};

/// Codings are made one by one; after each, the page is looked up again.
const ROUNDS_MAX: usize = 6;

/// The longest time that a request waits for another one's fetch.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Answers the request from the cache, or declines it and leaves a [`CacheRequest`] in the
/// exchange.
pub async fn look_up(cache: &Rc<PageCache>, exchange: &mut Exchange) -> Handled {
    if purge::is_purge(exchange.head.view().method_token()) {
        return Handled::Answered(purge::answer(cache, exchange));
    }
    if !is_made(exchange) {
        return Handled::Declined;
    }
    let mut incoming = IncomingState::of(exchange);
    let Some(mut request) = begin(cache, exchange, &mut incoming) else {
        return Handled::Declined;
    };
    if let Some(refresh) = incoming.refresh.take() {
        if !is_for_page(&request, &refresh.old) {
            // What is looked up could be stale as well, and would be refreshed without end.
            return Handled::Answered(Response::new(Status::NO_CONTENT));
        }
        (request.permit, request.old) = (Some(refresh.permit), Some(refresh.old));
        (request.is_refresh, request.include) = (true, refresh.include);
        if peers::renew(cache, exchange, &mut request).await {
            // No client sees it.
            return Handled::Answered(Response::new(Status::NO_CONTENT));
        }
        go_on(cache, exchange, request);
        return Handled::Declined;
    }
    match incoming.answered.take() {
        // Content that a page carries for this URL.
        Some(FragmentAnswer::With(response, began)) => {
            exchange.upstream.is_answered_by_program = true;
            (request.purge_seq, request.number) = (began.purge_seq, began.number);
            leave(cache, exchange, request);
            return Handled::Answered(*response);
        }
        Some(FragmentAnswer::FromCache) => {
            return Handled::Answered(from_cache(cache, exchange, request).await);
        }
        Some(FragmentAnswer::ByAnyone) | None => {}
    }
    if request.settings.http.store_query && is_query(exchange.head.view()) {
        return search_by_content(cache, exchange, request).await;
    }
    if !request.is_read(exchange.head.view()) {
        if request.settings.http.store_post && exchange.head.view().method() == Method::Post {
            prepare_post(cache, &mut request).await;
        }
        leave(cache, exchange, request);
        return Handled::Declined;
    }
    if !exchange.body.is_end() {
        // RFC 9110 section 9.3.1: content of a GET has no defined semantics, but an application may
        // read it, and no key covers it.
        exchange.trace("cache", None, || "bypassed: the request has content".into());
        pass(
            cache,
            exchange,
            &request,
            Refusal::new("content", "the request has content"),
        );
        return Handled::Declined;
    }
    let settings = &request.settings;
    if !settings.config.with_cookies && settings.has_cookie(exchange.head.view()) {
        exchange.trace("cache", None, || {
            "bypassed: the request has a cookie".into()
        });
        pass(cache, exchange, &request, NotStored::RequestCookie.into());
        return Handled::Declined;
    }
    search(cache, exchange, request).await
}

/// Returns true if the request is for the page's own site and URL, to which rules may not lead.
fn is_for_page(request: &CacheRequest, page: &Page) -> bool {
    request.key_base.is_of_page(&page.site, &page.key)
}

/// Looks up a QUERY request, whose content becomes part of its key.
async fn search_by_content(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    mut request: CacheRequest,
) -> Handled {
    let bytes_max = request.settings.config.query_bytes_max;
    let Some(covered) = query_content::read(exchange, bytes_max).await else {
        exchange.trace("cache", None, || {
            "bypassed: more content than `query_content_max`".into()
        });
        let long = Refusal::new(
            "content",
            "the request has more content than may be in a key",
        );
        pass(cache, exchange, &request, long);
        return Handled::Declined;
    };
    request.key_base.add_content(&covered.digest);
    (request.is_query, request.content) = (true, covered.chunks);
    search(cache, exchange, request).await
}

/// A response to POST may become the page that GET requests get: it joins the URL's variants, and
/// purges that arrive meanwhile count against it.
async fn prepare_post(cache: &Rc<PageCache>, request: &mut CacheRequest) {
    if let Some(Cached::Vary(vary_record)) = cache.find(&request.vary_key()).await {
        request.vary_record = Some(vary_record);
    }
    request.under_way = Some(cache.store.under_way(prepare::expected_probes(request)));
}

/// The state of a request that the cache handles; `None` for a request that it ignores.
fn begin(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    incoming: &mut IncomingState,
) -> Option<CacheRequest> {
    let settings = cache.settings.of(&exchange.routing.settings.cache);
    if !exchange.cache.environment_tests.is_empty() || exchange.environment.varies() {
        // Variables that select variants or switch the cache off may be among them, or be missing.
        exchange.depends_on_environment();
    }
    let Some(mut request) = CacheRequest::of(exchange, settings, cache.store.purge_seq()) else {
        let excluded = Refusal::new("excluded", "its URL is excluded");
        let routing = &exchange.routing;
        let scope = key::scope(&routing.site, routing.site_index);
        cache.worker_stats.of(&scope).pass(excluded.word);
        let paths = &cache.worker_stats.paths;
        paths.pass(
            (&scope, exchange.head.view().target()),
            exchange,
            None,
            &excluded,
        );
        if let Some(fetch) = &incoming.background_fetch {
            fetch.note(FetchOutcome::NotStored(excluded));
        }
        return None;
    };
    request.stats = Some(cache.worker_stats.of(&request.key_base.scope));
    request.background_fetch = incoming.background_fetch.take();
    tell_application(exchange, &request);
    let script = exchange
        .upstream
        .call
        .as_ref()
        .and_then(|call| call.script.as_ref());
    if request.rewrite_env.off || script.is_some_and(|script| script.is_included) {
        let off = Refusal::new("off", "rewrite rules switch the cache off");
        pass(cache, exchange, &request, off);
        return None;
    }
    request.include = incoming.include.take();
    Some(request)
}

/// Counts a request that is not stored.
fn pass(cache: &PageCache, exchange: &Exchange, request: &CacheRequest, why: Refusal) {
    let place = (&*request.key_base.scope, &*request.key_base.url);
    cache.worker_stats.paths.pass(place, exchange, None, &why);
    request.stats.iter().for_each(|stats| stats.pass(why.word));
    request.note(FetchOutcome::NotStored(why));
}

/// The stored page, or 504.
async fn from_cache(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    mut request: CacheRequest,
) -> Response {
    if let Some(page) = find_page(cache, exchange, &mut request).await
        && judge(cache, exchange.head.view(), &page, &request, now_ms()) == Some(Use::Fresh)
        && let Some(response) = answer(cache, exchange, &request, &page, HitStatus::Hit).await
    {
        return response;
    }
    Response::new(Status::GATEWAY_TIMEOUT)
}

/// The result of looking for a page once.
enum SearchStep {
    Answered(Response),
    /// A coding was made: look again.
    Again,
    /// No entry can answer. The page that was found, if any.
    Missing(Option<Rc<Page>>),
}

async fn search(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    mut request: CacheRequest,
) -> Handled {
    let mut found = None;
    for _ in 0..ROUNDS_MAX {
        let before = match search_once(cache, exchange, &mut request).await {
            SearchStep::Answered(response) => return Handled::Answered(response),
            SearchStep::Again => continue,
            SearchStep::Missing(before) => before,
        };
        if let Some(response) = from_range(cache, exchange, &request).await {
            return Handled::Answered(response);
        }
        match peers::get(cache, exchange, &mut request).await {
            PeerStep::Again => continue,
            PeerStep::Page(page) => {
                if let Some(response) = from_peer(cache, exchange, &request, &page).await {
                    return Handled::Answered(response);
                }
            }
            PeerStep::Own => {}
        }
        found = before.clone();
        if !lock_or_wait(cache, exchange, &mut request, before).await {
            if let Some(response) = completed(cache, exchange, &mut request).await {
                return Handled::Answered(response);
            }
            break;
        }
    }
    early_hints::send(cache, exchange, &request, found.as_deref());
    go_on(cache, exchange, request);
    Handled::Declined
}

/// The response from the stored range of a page.
async fn from_range(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &CacheRequest,
) -> Option<Response> {
    let response = partial::answer(cache, exchange, request).await?;
    exchange.trace("cache", None, || "answered from a stored range".into());
    exchange.upstream.is_answered_by_program = true;
    let (metric, count) = match request.is_completed {
        true => (Metric::PageCacheMisses, Stat::Misses),
        false => (Metric::PageCacheHits, Stat::Hits),
    };
    request.count(count);
    let base = &request.key_base;
    cache.worker_stats.paths.hit(&base.scope, &base.url);
    cache.count(metric);
    Some(response)
}

/// The response, if the origin had to be asked only for what a stored range lacks.
async fn completed(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &mut CacheRequest,
) -> Option<Response> {
    if !Box::pin(complete::fetch(cache, exchange, request)).await {
        return None;
    }
    request.is_completed = true;
    for _ in 0..ROUNDS_MAX {
        match search_once(cache, exchange, request).await {
            SearchStep::Answered(response) => return Some(response),
            SearchStep::Again => {}
            SearchStep::Missing(_) => break,
        }
    }
    request.is_completed = false;
    from_range(cache, exchange, request).await
}

/// The response from a page that another server has handed out, and that is not kept here.
async fn from_peer(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &CacheRequest,
    page: &Rc<Page>,
) -> Option<Response> {
    let used = judge(cache, exchange.head.view(), page, request, now_ms());
    if used != Some(Use::Fresh) {
        return None;
    }
    for _ in 0..ROUNDS_MAX {
        let response = answer(cache, exchange, request, page, HitStatus::Hit).await;
        if response.is_some() {
            return response;
        }
    }
    None
}

async fn search_once(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &mut CacheRequest,
) -> SearchStep {
    let now = now_ms();
    let used = match find_page(cache, exchange, request).await {
        Some(page) => {
            judge(cache, exchange.head.view(), &page, request, now).map(|used| (page, used))
        }
        None => None,
    };
    if request.include.is_some() {
        request.last_good = used.as_ref().map(|(page, _)| Rc::clone(page));
    }
    request.forward = forward(request, used.as_ref().map(|(_, used)| *used));
    let before = used.as_ref().map(|(page, _)| Rc::clone(page));
    let (page, hit) = match used {
        Some((page, Use::Fresh)) => {
            let percent = request.settings.config.refresh_ahead_percent;
            if !request.is_query && page.is_due_for_refresh(percent, now) {
                page.is_renewed.set(true);
                refresh::begin(cache, exchange, &page, request.include.clone());
            }
            let hit = match request.is_completed {
                true => HitStatus::Completed,
                false => HitStatus::Hit,
            };
            (page, hit)
        }
        // Its content belongs to this request: no background request can repeat it.
        // Another server of the cluster wants a fresh one.
        Some((page, Use::Stale)) if request.is_query || request.is_for_peer() => {
            request.old = Some(page);
            return SearchStep::Missing(before);
        }
        Some((page, Use::Stale)) => {
            refresh::begin(cache, exchange, &page, request.include.clone());
            (page, HitStatus::Stale)
        }
        Some((page, Use::Validate(why))) => {
            exchange.trace("cache", None, || {
                format!("found, but not usable: {}", why.sentence())
            });
            request.old = Some(page);
            return SearchStep::Missing(before);
        }
        Some((_, Use::NotUsable(why))) => {
            exchange.trace("cache", None, || {
                format!("found, but not usable: {}", why.sentence())
            });
            return SearchStep::Missing(before);
        }
        Some((_, Use::OnlyIfCached504)) => {
            return SearchStep::Answered(Response::new(Status::GATEWAY_TIMEOUT));
        }
        None if reuse::only_if_cached(exchange.head.view()) => {
            return SearchStep::Answered(Response::new(Status::GATEWAY_TIMEOUT));
        }
        None => {
            exchange.trace("cache", None, || "not in the cache".into());
            return SearchStep::Missing(before);
        }
    };
    match answer(cache, exchange, request, &page, hit).await {
        Some(response) => SearchStep::Answered(response),
        None => SearchStep::Again,
    }
}

/// Takes the permit to fetch the page, or waits for the request that has it. `true`: look again.
async fn lock_or_wait(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &mut CacheRequest,
    before: Option<Rc<Page>>,
) -> bool {
    match acquire_lock(cache, exchange, request) {
        // Another worker has stored a newer page.
        Some(LockOutcome::Leader(_)) if before.is_some_and(|before| cache.take_newer(&before)) => {
            request.old = None;
            true
        }
        Some(LockOutcome::Leader(permit)) => {
            request.permit = Some(permit);
            false
        }
        Some(LockOutcome::Follower(mut finished)) => {
            cache.count(Metric::PageCacheWaits);
            request.count(Stat::Waits);
            exchange.trace("cache", None, || {
                "waiting for another request that fetches it".into()
            });
            let ended = tokio::time::timeout(WAIT_MAX, finished.ended(monotonic_ms)).await;
            if !ended.unwrap_or(false) {
                return false;
            }
            request.purge_seq = cache.store.purge_seq();
            true
        }
        Some(LockOutcome::Bypass) | None => false,
    }
}

/// Why the request goes to the origin, if it does (RFC 9211 section 2.2).
fn forward(request: &CacheRequest, used: Option<Use>) -> Forward {
    match used {
        Some(Use::Validate(why) | Use::NotUsable(why)) => why.forward(),
        Some(Use::Stale) => Forward::Stale,
        // The URL has variants, but not this one.
        None if request.vary_record.is_some() => Forward::VaryMiss,
        Some(Use::Fresh | Use::OnlyIfCached504) | None => Forward::UriMiss,
    }
}

/// Asks for the permit to fetch the page. `None`: the request is of a kind that others can't share.
fn acquire_lock(
    cache: &PageCache,
    exchange: &Exchange,
    request: &CacheRequest,
) -> Option<LockOutcome> {
    let view = exchange.head.view();
    let is_plain =
        request.is_fetch(view) && !request.settings.is_personal(view) && !request.is_authenticated;
    if !is_plain {
        return None;
    }
    let first = || match &request.first_key {
        Some(key) => Some(Cow::Borrowed(key.as_slice())),
        None => request.make_first_key(view).map(Cow::Owned),
    };
    let key = match &request.vary_record {
        Some(vary_record) => first().and(request.variant_key(vary_record, view).map(Cow::Owned))?,
        None => first()?,
    };
    Some(
        cache
            .store
            .cache_lock()
            .acquire(cache.store.hash(&key), monotonic_ms()),
    )
}

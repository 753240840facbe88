//! Makes the response to a request from a stored page.
//!
//! Called by: `search`.
//! Caveat: a coding that does not exist yet is made first; then the page is looked up again.
//! Out of scope: whether the page may be used (`find`).

use crate::{
    background_fetch::{FetchOutcome, FoundPage},
    cache::PageCache,
    cached_route::{self, CachedPageRoute},
    encode::encode,
    esi::page_response,
    page::{Page, PageAnswer, ResponseOptions},
    request::CacheRequest,
    result_fields::HitStatus,
};
use saker_content::coding::Levels;
use saker_http::Method;
use saker_pipeline::{Exchange, Forwarding, Response};
use std::rc::Rc;

/// The response; `None`: look again.
pub async fn answer(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &CacheRequest,
    page: &Rc<Page>,
    hit: HitStatus,
) -> Option<Response> {
    remember(cache, exchange, request, page);
    let options = ResponseOptions::of(exchange);
    let now = exchange.now;
    if page.is_template {
        let parsed = page.parsed().await?;
        cache.recount(page);
        exchange.trace("cache", None, || {
            format!("assembled from the cache ({hit:?})")
        });
        note_found(request, page);
        request.count_answer(cache, page, hit, None);
        exchange.upstream.is_answered_by_program = true;
        let include = request.include.clone().unwrap_or_default();
        return Some(page_response::template_hit(
            exchange, page, parsed, include, &options, hit,
        ));
    }
    match page.respond(exchange.head.view(), &options, hit, now) {
        PageAnswer::Answer(response) => {
            exchange.trace("cache", None, || {
                format!("answered from the cache ({hit:?})")
            });
            note_found(request, page);
            let content = (exchange.head.view().method() != Method::Head).then_some(&response.body);
            request.count_answer(cache, page, hit, content);
            exchange.upstream.is_answered_by_program = true;
            exchange.cache.is_shared_page = !page.is_private && !request.is_query;
            exchange.show_whole(
                page.fields.first("Content-Type").unwrap_or_default(),
                || page.identity.content.whole(),
            );
            if hit == HitStatus::Hit && !page.is_private {
                leave_route(cache, exchange, request, options);
            }
            Some(response)
        }
        PageAnswer::Encode(coding) => {
            encode(
                cache,
                page,
                coding,
                Levels::from(&exchange.routing.settings.compression),
            )
            .await;
            None
        }
    }
}

/// Leaves a route to the URL's pages in the exchange, if other clients may get them without full
/// dispatch.
fn leave_route(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &CacheRequest,
    options: ResponseOptions,
) {
    let is_for_all = !request.is_query
        && !request.is_authenticated
        && !request.key_base.is_of_client
        && is_asked_as_it_is(exchange)
        && !exchange.cache.edits_choice_of_page
        && cached_route::is_as_listener_says(&exchange.client);
    if !is_for_all {
        return;
    }
    exchange.cache.cached_route = Some(Rc::new(CachedPageRoute {
        cache: Rc::clone(cache),
        settings: Rc::clone(&request.settings),
        key_base: request.key_base.clone(),
        vary: request.rewrite_env.vary.clone(),
        edits: request.rewrite_env.edits.clone(),
        options,
        is_edited: request.is_edited,
        knows_proxies: exchange.client.forwarding != Forwarding::Unknown,
        stats: request.stats.clone(),
    }));
}

/// Tells a background fetch that the page is there. Another server of the cluster gets it.
fn note_found(request: &CacheRequest, page: &Rc<Page>) {
    let Some(fetch) = &request.background_fetch else {
        return;
    };
    fetch.note(FetchOutcome::AlreadyCached);
    fetch.note_page(|| FoundPage {
        page: Rc::clone(page),
        vary_record: request.vary_record.clone(),
        search_rule: request.search_rule.clone(),
    });
}

/// Records how the page can be fetched again, where its site refetches pages.
fn remember(cache: &PageCache, exchange: &Exchange, request: &CacheRequest, page: &Page) {
    if request.settings.config.refetched_max == 0 || page.is_private || page.replay.get().is_some()
    {
        return;
    }
    let (fields, rules) = request
        .vary_record
        .as_ref()
        .map_or((&[][..], None), |vary_record| {
            (&vary_record.fields[..], vary_record.rules.as_ref())
        });
    if let Some(replay) = request.replay(exchange, fields, rules) {
        let _ = page.replay.set(Rc::new(replay));
        cache.recount(page);
    }
}

/// True if rules have not changed the client's query.
fn is_asked_as_it_is(exchange: &Exchange) -> bool {
    let target = exchange.head.view().target();
    let asked = target
        .iter()
        .position(|byte| *byte == b'?')
        .and_then(|at| target.get(at + 1..));
    asked == exchange.query.as_deref() && exchange.log.trace.is_none()
}

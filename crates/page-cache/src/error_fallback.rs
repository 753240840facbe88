//! Serves a stored page in place of an error response (RFC 5861 section 4, `stale-if-error`).
//!
//! Called by: `store_response`.
//! Caveat: a fragment is replaced by any older version of it; a page only within its window.
//! Out of scope: error documents.

use crate::{
    cache::PageCache,
    clock::{monotonic_ms, now_ms},
    encode::encode,
    esi::{assemble::AssemblyJob, page_response},
    page::{Page, PageAnswer, ResponseOptions},
    request::CacheRequest,
    result_fields::HitStatus,
};
use saker_cache_rules::rules::{may_serve_after_error, reuse};
use saker_cache_store::FetchPermit;
use saker_content::coding::Levels;
use saker_http::Status;
use saker_pipeline::{Exchange, Response};
use std::rc::Rc;

/// Time before a failed fetch is tried again, in milliseconds.
const RETRY_MS: u64 = 2_000;

/// All codings of a page, and the page without one.
const CODINGS_MAX: usize = 4;

/// Replaces an error response by the stored page, where one may be served (RFC 5861 section 4).
/// Returns the status that the response had; `None` if it stays.
pub async fn serve_stale_on_error(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &mut CacheRequest,
    response: &mut Response,
) -> Option<Status> {
    let old = request
        .old
        .clone()
        .or_else(|| request.last_good.clone())
        .filter(|_| reuse::is_error(response.status))?;
    // A newer page may have been stored meanwhile.
    let newest = cache.newest(&old).await;
    let is_stored = newest.is_some();
    let old = newest.unwrap_or(old);
    // A page with an outdated fragment is better than a page with a hole.
    let is_fragment = request.include.is_some();
    let may = is_stored
        && (is_fragment
            || may_serve_after_error(
                exchange.head.view(),
                &old.life,
                &request.settings.http,
                now_ms(),
            ) && request.may_use(&old.life));
    if !may && !request.is_refresh {
        return None;
    }
    // The next attempt comes later, and not from every request at once.
    request.permit.as_mut().map(retry_later);
    if request.is_refresh || !may {
        return Some(response.status);
    }
    let status = response.status;
    request.count_answer(cache, &old, HitStatus::Stale, None);
    *response = stale_response(cache, exchange, request, &old).await?;
    Some(status)
}

/// The stored page as a response; `None` if it can't be had.
async fn stale_response(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &CacheRequest,
    old: &Rc<Page>,
) -> Option<Response> {
    let options = ResponseOptions::of(exchange);
    let hit = HitStatus::Stale;
    if old.is_template {
        let parsed = old.parsed().await?;
        let include = request.include.clone().unwrap_or_default();
        let mut response = page_response::template_hit(
            exchange,
            old,
            Rc::clone(&parsed),
            include.clone(),
            &options,
            hit,
        );
        drop(
            exchange
                .extensions
                .remove::<page_response::PendingAssembly>(),
        );
        let job = AssemblyJob::of_hit(cache, parsed, include);
        page_response::assemble(cache, exchange, &mut response, job).await;
        return Some(response);
    }
    // Each coding is made at most once.
    for _ in 0..CODINGS_MAX {
        match old.respond(exchange.head.view(), &options, hit, exchange.now) {
            PageAnswer::Answer(response) => return Some(response),
            PageAnswer::Encode(coding) => {
                let levels = Levels::from(&exchange.routing.settings.compression);
                encode(cache, old, coding, levels).await;
            }
        }
    }
    None
}

/// Lets other requests use the stored page for a while before one of them tries again.
pub fn retry_later(permit: &mut FetchPermit) {
    permit.bypass_until(monotonic_ms() + RETRY_MS);
}

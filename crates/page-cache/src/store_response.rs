//! Stores responses: decides by their fields, carries out the purges they request, writes what may
//! be stored, and cleans the head that is sent.
//!
//! Called by: `filter`.
//! Caveat: the order. What a response purges is purged before the response is stored, and purges
//! during its making count against it; the store does both in one step.
//! Out of scope: the decision (`decide`) and the entry (`prepare`, `write`).

use crate::{
    background_fetch::{BackgroundFetch, FetchOutcome},
    cache::PageCache,
    clock::monotonic_ms,
    conditions,
    decide::{Decision, decide},
    error_fallback::{retry_later, serve_stale_on_error},
    esi::{
        assemble::{self, AssemblyJob},
        detect::{self, DetectedTemplate},
        fragment::FragmentRequest,
        page_response::{self, PendingAssembly},
    },
    purge,
    refresh::RefreshRequest,
    refusal::{NO_ROOM, Refusal, SUPERSEDED},
    request::CacheRequest,
    result_fields::{self, CacheResult},
    stats::Stat,
    write,
};
use saker_cache_rules::{
    lscache::visible::{self, Served},
    rules::{CacheStatus, Forward, Pass, validation},
};
use saker_http::{Method, Status};
use saker_pipeline::{Exchange, Response};
use saker_telemetry::Metric;
use std::rc::Rc;

/// Time during which requests for an uncacheable response don't wait for each other (Varnish's
/// default for hit-for-miss).
const PASS_MS: u64 = 120_000;

/// Stores the response of a request that the look-up left to others, and assembles templates.
pub async fn store_response(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    response: &mut Response,
) {
    let waiting = take_leftovers(exchange);
    let Some(mut request) = exchange.extensions.remove_boxed::<CacheRequest>() else {
        return Box::pin(finish_hit(cache, exchange, response, waiting)).await;
    };
    if let Some(asked) = request.asked.take() {
        exchange.head = asked;
    }
    // In boxes: the parts that few responses need, and whose futures are large.
    if response.status.is_error()
        && Box::pin(is_stale_served(cache, exchange, &mut request, response)).await
    {
        return;
    }
    // The gateway turns a script's own conditional answer into the 304.
    request.is_revalidated = request.validates
        && response.status == Status::NOT_MODIFIED
        && freshen(cache, &request, response);
    let is_made = request.is_revalidated || exchange.upstream.is_answered_by_program;
    // A combined request is answered for other URLs only.
    let is_combined = request.include.is_some() && exchange.head.view().method() == Method::Post;
    let is_marked = !is_combined && is_made && detect::is_marked(&request, response);
    let is_head = exchange.head.view().method() == Method::Head;
    let detected = match is_marked && !is_head {
        true => {
            let include = request.include.clone().unwrap_or_default();
            let detected = Box::pin(detect::take_in(exchange, response, &include)).await;
            detected.map(|detected| (detected, include))
        }
        false => None,
    };
    let is_template = detected
        .as_ref()
        .is_some_and(|(detected, _)| detected.parsed.template.is_dynamic());
    let kind = (is_made, is_template);
    let outcome = purge_and_store(cache, exchange, &mut request, response, kind);
    report(cache, &mut request, (exchange, response), &outcome);
    show(&request, exchange, response, &outcome);
    // Those of other methods were the application's to judge.
    let were_withheld = request.is_read(exchange.head.view());
    if detected.is_none() && were_withheld && (outcome.is_ok() || request.is_revalidated) {
        let own = request.settings.config.result_field.as_deref();
        conditions::apply(exchange.head.view(), response, own, exchange.now);
    }
    let (is_refresh, began) = (request.is_refresh, request.began());
    // Requests that wait for the page need not wait for its fragments.
    drop(request);
    match detected {
        Some((DetectedTemplate { parsed, inlines }, include)) if is_template && !is_refresh => {
            let job = AssemblyJob {
                parsed,
                include,
                inlines,
                began,
            };
            Box::pin(page_response::assemble(cache, exchange, response, job)).await;
        }
        Some((DetectedTemplate { inlines, .. }, _)) => {
            Box::pin(assemble::prime_only(cache, exchange, &inlines, began)).await
        }
        None if is_marked && is_head => page_response::without_content(response),
        None => {}
    }
}

/// Serves a stored page in the place of an error, if one may be; returns true if it did.
async fn is_stale_served(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &mut CacheRequest,
    response: &mut Response,
) -> bool {
    let Some(status) = serve_stale_on_error(cache, exchange, request, response).await else {
        return false;
    };
    let failed = format!("{} {}", status.0, status.reason());
    request.note(FetchOutcome::Failed(failed));
    exchange.trace("cache", None, || {
        format!(
            "the response was {}; a stored page is served instead",
            status.0
        )
    });
    true
}

/// Carries out what the response purges, and stores it if the rules allow.
fn purge_and_store(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &mut CacheRequest,
    response: &mut Response,
    (is_made, is_template): (bool, bool),
) -> Result<(), Refusal> {
    let mut purges = purge::of_response(cache, request, exchange, response);
    purges.extend(purge::of_request(cache, request, exchange, response));
    let decision = match is_made {
        true => decide(request, exchange, response),
        false => Err(Refusal::new(
            "not-answered",
            "no program or upstream answered",
        )),
    };
    match decision {
        Ok(decision) => {
            let decision = Decision {
                is_template,
                ..decision
            };
            write::store(cache, exchange, request, response, decision, purges)
        }
        Err(why) => {
            purge::carry_out(cache, purges);
            Err(why)
        }
    }
}

/// Tells waiting requests, counters and the trace what became of the response.
fn report(
    cache: &PageCache,
    request: &mut CacheRequest,
    (exchange, response): (&mut Exchange, &Response),
    outcome: &Result<(), Refusal>,
) {
    if let Some(permit) = &mut request.permit {
        // Requests that wait for the page would wait in vain.
        match outcome {
            Err(why) if why.word == NO_ROOM => retry_later(permit),
            Err(why) if why.word == SUPERSEDED => {}
            Err(_) => permit.bypass_until(monotonic_ms() + PASS_MS),
            Ok(()) => {}
        }
    }
    count(cache, request, (exchange, response), outcome);
    match outcome {
        Ok(()) => exchange.trace("cache", None, || "stored".into()),
        Err(why) => exchange.trace("cache", None, || format!("not stored: {}", why.sentence)),
    }
}

fn count(
    cache: &PageCache,
    request: &CacheRequest,
    (exchange, response): (&Exchange, &Response),
    outcome: &Result<(), Refusal>,
) {
    let method = exchange.head.view().method();
    if request.background_fetch.is_some() {
        request.note(outcome.as_ref().map_or_else(
            |why| FetchOutcome::NotStored(why.clone()),
            |()| FetchOutcome::Stored,
        ));
    }
    if outcome.is_ok() {
        cache.count(Metric::PageCacheStores);
    }
    if request.is_own() {
        return;
    }
    if method == Method::Get || request.is_query {
        cache.count(if outcome.is_ok() {
            Metric::PageCacheMisses
        } else {
            Metric::PageCachePasses
        });
    }
    let Some(stats) = &request.stats else { return };
    let (site, url) = (&*request.key_base.scope, &*request.key_base.url);
    let pass = |why: &Refusal| {
        stats.pass(why.word);
        let paths = &cache.worker_stats.paths;
        paths.pass((site, url), exchange, Some(response.fields()), why);
    };
    match outcome {
        Ok(()) => {
            stats.add(Stat::Misses, 1);
            cache.worker_stats.paths.miss(site, url);
        }
        // Whatever other reason there is.
        Err(_) if !request.is_read(exchange.head.view()) => pass(&Pass::Method.into()),
        Err(why) => pass(why),
    }
}

/// Removes what a request brought to the look-up; returns a hit that is still to be assembled.
fn take_leftovers(exchange: &mut Exchange) -> Option<PendingAssembly> {
    let extensions = &mut exchange.extensions;
    drop(extensions.remove::<RefreshRequest>());
    drop(extensions.remove::<BackgroundFetch>());
    drop(extensions.remove::<FragmentRequest>());
    extensions.remove::<PendingAssembly>()
}

/// Assembles a hit on its way out.
async fn finish_hit(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    response: &mut Response,
    waiting: Option<PendingAssembly>,
) {
    if let Some(PendingAssembly { parsed, include }) = waiting {
        page_response::assemble(
            cache,
            exchange,
            response,
            AssemblyJob::of_hit(cache, parsed, include),
        )
        .await;
    }
}

/// Handles a validation response (RFC 9111 section 4.3.4): the stored page with updated fields
/// becomes the response. `false`: it does not match.
fn freshen(cache: &PageCache, request: &CacheRequest, response: &mut Response) -> bool {
    let Some(old) = &request.old else {
        return false;
    };
    if validation::judge_answer(&old.fields, response.status, response.fields())
        != validation::Answer::Freshens
    {
        // It validates something that was not asked about. The next request has no conditions, or
        // the origin would answer it the same. An entry that began later stays.
        let _ = cache.store.remove_older(&old.key, request.number);
        *response = Response::new(Status::BAD_GATEWAY);
        return false;
    }
    let mut fields = validation::freshened(&old.fields, response.fields());
    if !response.fields().has("date") {
        // RFC 9110 section 6.6.1; the stored one would make the response as old.
        fields.remove("Date");
    }
    *response = Response::new(old.status);
    *response.fields_mut() = fields;
    response.body = old.identity.content.whole();
    true
}

/// Why the request was passed on (RFC 9211 section 2.2): not because of a stored page where it
/// would have bypassed the cache anyway.
fn forward(request: &CacheRequest, exchange: &Exchange, outcome: &Result<(), Refusal>) -> Forward {
    let view = exchange.head.view();
    let by_settings = |why: &Refusal| {
        matches!(why.word, "query" | "request-cookie") || request.settings.is_personal(view)
    };
    match outcome {
        _ if !request.is_read(view) => Forward::Method,
        Err(why) if by_settings(why) => Forward::Bypass,
        _ => request.forward,
    }
}

/// Adds the fields that report the outcome to the client.
fn show(
    request: &CacheRequest,
    exchange: &Exchange,
    response: &mut Response,
    outcome: &Result<(), Refusal>,
) {
    let config = &request.settings.config;
    let (status, is_kept) = (response.status, outcome.is_ok());
    if config.obeys_lscache {
        let served = if is_kept {
            Served::Miss
        } else {
            Served::Uncached
        };
        visible::finish(response.fields_mut(), served, false, false);
    }
    if is_kept {
        visible::hide_ban_tags(response.fields_mut());
    }
    if config.tells_status {
        let forward = Some(forward(request, exchange, outcome));
        let status_line = CacheStatus {
            forward,
            forward_status: Some(status.0),
            stored: is_kept,
            ..CacheStatus::default()
        };
        status_line.append_to(response.fields_mut(), "Saker");
    }
    if !request.is_read(exchange.head.view()) {
        return;
    }
    // mod_cache ignores requests with no-store.
    if config.no_store_bypasses
        && outcome
            .as_ref()
            .is_err_and(|why| why.word == "request-no-store")
    {
        return;
    }
    let result = match (outcome, &request.old) {
        (Err(_), _) => CacheResult::Bypass,
        (Ok(()), Some(_)) if request.is_revalidated => CacheResult::Revalidated,
        (Ok(()), Some(_)) => CacheResult::Expired,
        (Ok(()), None) => CacheResult::Miss,
    };
    let why = outcome.as_ref().err().map(|why| &*why.sentence);
    result_fields::tell(
        response.fields_mut(),
        config,
        result,
        result_fields::server_name(exchange).as_deref(),
        why,
    );
}

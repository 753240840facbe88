//! Keeps responses: decides by their own words, purges what they purge, writes what may be kept,
//! and cleans the head that goes out.
//!
//! Place in the walk: the filter behind those that change content, before compression. Difficulty:
//! the order. What a response purges is purged before it is itself kept, and what others purged
//! while it was made counts against it; both are one step for the store.

use super::{
    PageCache,
    decide::{Decision, Refusal, decide},
    errand::{Errand, Outcome as Noted},
    esi::{self, TakenIn, assembly, fragment::Fragment},
    look_up::{is_own, later, make, monotonic_ms, now_ms},
    page::{Manner, Outcome, Told},
    purge,
    refresh::Refresh,
    tally::Count,
    told,
    visit::Visit,
    write,
};
use crate::coding::Levels;
use saker_cache_rules::{
    lscache::visible::{self, Served},
    rules::{CacheStatus, Forward, may_serve_after_error, reuse, validation},
};
use saker_http::{Method, Status};
use saker_pipeline::{Exchange, Response};
use saker_telemetry::Metric;
use std::rc::Rc;

/// What can't be kept is not waited for, for so long (Varnish's default of hit-for-miss).
const PASS_MS: u64 = 120_000;
/// Codings of a page, and the page as it is.
const CODINGS_MAX: usize = 4;

pub async fn keep(cache: &Rc<PageCache>, exchange: &mut Exchange, response: &mut Response) {
    let extensions = &mut exchange.extensions;
    drop(extensions.remove::<Refresh>());
    drop(extensions.remove::<Errand>());
    drop(extensions.remove::<Fragment>());
    let waiting = extensions.remove::<esi::Waiting>();
    let Some(mut visit) = extensions.remove::<Visit>().map(Box::new) else {
        if let Some(waiting) = waiting {
            finish_hit(cache, exchange, response, waiting).await;
        }
        return;
    };
    if let Some(asked) = visit.asked.take() {
        exchange.head = asked;
    }
    if let Some(status) = stand_in(cache, exchange, &mut visit, response).await {
        visit.note(Noted::Failed(format!("{} {}", status.0, status.reason())));
        return exchange.trace("cache", None, || {
            format!(
                "the answer was {}, and what is kept is served in its place",
                status.0
            )
        });
    }
    // A script's 304 is made by the gateway, of what the script said.
    visit.is_revalidated =
        visit.validates && response.status == Status::NOT_MODIFIED && freshen(&visit, response);
    let is_made = visit.is_revalidated || exchange.is_answered_by_program;
    // A combined request is answered for other addresses only.
    let is_combined = visit.inside.is_some() && exchange.head.view().method() == Method::Post;
    let is_marked = !is_combined && is_made && esi::is_marked(&visit, response);
    let inside = visit.inside.clone().unwrap_or_default();
    let taken_in = match is_marked && exchange.head.view().method() != Method::Head {
        true => esi::take_in(exchange, response, &inside).await,
        false => None,
    };
    let is_template = taken_in
        .as_ref()
        .is_some_and(|taken| taken.parsed.template.is_dynamic());
    let mut purges = purge::of_response(&visit, exchange, response);
    purges.extend(purge::of_request(cache, &visit, exchange, response));
    let decision = match is_made {
        true => decide(&visit, exchange, response),
        false => Err(Refusal::new(
            "not-answered",
            "no program or server answered",
        )),
    };
    let outcome = match decision {
        Ok(decision) => write::store(
            cache,
            exchange,
            &mut visit,
            response,
            Decision {
                is_template,
                ..decision
            },
            purges,
        ),
        Err(why) => {
            purge::carry_out(cache, purges);
            Err(why)
        }
    };
    if let Some(ticket) = &mut visit.ticket {
        // Whoever waits for it waits in vain.
        match &outcome {
            Err(why) if why.word == write::NO_ROOM => later(ticket),
            Err(why) if why.word == write::SUPERSEDED => {}
            Err(_) => ticket.pass_until(monotonic_ms() + PASS_MS),
            Ok(()) => {}
        }
    }
    count(cache, &visit, exchange, &outcome);
    match &outcome {
        Ok(()) => exchange.trace("cache", None, || "kept".into()),
        Err(why) => exchange.trace("cache", None, || format!("not kept: {}", why.sentence)),
    }
    show(&visit, exchange, response, &outcome);
    let (is_refresh, began) = (visit.is_refresh, visit.began());
    // Whoever waits for the page need not wait for its parts.
    drop(visit);
    match taken_in {
        Some(TakenIn { parsed, inlines }) if is_template && !is_refresh => {
            esi::assemble(
                cache,
                exchange,
                response,
                assembly::Job {
                    parsed,
                    inside,
                    inlines,
                    began,
                },
            )
            .await;
        }
        Some(TakenIn { inlines, .. }) => {
            assembly::prime_only(cache, exchange, &inlines, began).await
        }
        None if is_marked && exchange.head.view().method() == Method::Head => {
            esi::without_content(response)
        }
        None => {}
    }
}

fn count(cache: &PageCache, visit: &Visit, exchange: &Exchange, outcome: &Result<(), Refusal>) {
    let method = exchange.head.view().method();
    visit.note(
        outcome
            .as_ref()
            .map_or_else(|why| Noted::NotKept(why.clone()), |()| Noted::Kept),
    );
    if outcome.is_ok() {
        cache.count(Metric::PageCacheStores);
    }
    if visit.is_own() {
        return;
    }
    if method == Method::Get {
        cache.count(if outcome.is_ok() {
            Metric::PageCacheMisses
        } else {
            Metric::PageCachePasses
        });
    }
    let Some(tally) = &visit.tally else { return };
    match outcome {
        Ok(()) => tally.add(Count::Misses, 1),
        // Whatever else may be said of it.
        Err(_) if !matches!(method, Method::Get | Method::Head) => tally.pass("method"),
        Err(why) => tally.pass(why.word),
    }
}

/// A hit that is put together on its way out.
async fn finish_hit(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    response: &mut Response,
    waiting: esi::Waiting,
) {
    let esi::Waiting { parsed, inside } = waiting;
    esi::assemble(
        cache,
        exchange,
        response,
        assembly::Job::of_hit(cache, parsed, inside),
    )
    .await;
}

/// An answer that is none, while there is an older one that will do (RFC 5861 section 4). The
/// status that it had.
async fn stand_in(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    visit: &mut Visit,
    response: &mut Response,
) -> Option<Status> {
    let old = visit
        .old
        .clone()
        .or_else(|| visit.last_good.clone())
        .filter(|_| reuse::is_error(response.status))?;
    // Another one may have come while this was made.
    let newest = cache.newest(&old).await;
    let is_kept = newest.is_some();
    let old = newest.unwrap_or(old);
    // A page with an old part is better than a page with a hole in it.
    let is_part = visit.inside.is_some();
    let may = is_kept
        && (is_part
            || may_serve_after_error(exchange.head.view(), &old.life, &visit.terms.http, now_ms())
                && visit.may_use(&old.life));
    if !may && !visit.is_refresh {
        return None;
    }
    // It is tried again, but not by everybody at once.
    visit.ticket.as_mut().map(later);
    if visit.is_refresh || !may {
        return Some(response.status);
    }
    let manner = Manner::of(exchange);
    let status = response.status;
    visit.count_answer(cache, &old, Told::Stale, None);
    if old.is_template {
        let parsed = old.parsed().await?;
        let inside = visit.inside.clone().unwrap_or_default();
        *response = esi::hit(
            exchange,
            &old,
            Rc::clone(&parsed),
            inside.clone(),
            &manner,
            Told::Stale,
        );
        drop(exchange.extensions.remove::<esi::Waiting>());
        esi::assemble(
            cache,
            exchange,
            response,
            assembly::Job::of_hit(cache, parsed, inside),
        )
        .await;
        return Some(status);
    }
    // Each coding is made once at most.
    for _ in 0..CODINGS_MAX {
        match old.respond(exchange.head.view(), &manner, Told::Stale, exchange.now) {
            Outcome::Answer(answer) => {
                *response = answer;
                return Some(status);
            }
            Outcome::Make(coding) => {
                make(
                    cache,
                    &old,
                    coding,
                    Levels::from(&exchange.settings.compression),
                )
                .await
            }
        }
    }
    None
}

/// The origin says that what is kept holds: that is the response, with the fields that the origin
/// has sent along (RFC 9111 section 4.3.4). `false`: it is not.
fn freshen(visit: &Visit, response: &mut Response) -> bool {
    let Some(old) = &visit.old else { return false };
    if validation::judge_answer(&old.fields, response.status, response.fields())
        != validation::Answer::Freshens
    {
        // About something that nobody asked for.
        *response = Response::new(Status::BAD_GATEWAY);
        return false;
    }
    let fields = validation::freshened(&old.fields, response.fields());
    *response = Response::new(old.status);
    *response.fields_mut() = fields;
    response.body = old.identity.content.whole();
    true
}

/// Why the request went on (RFC 9211 section 2.2): not because of what is kept, where it would have
/// passed by whatever that is.
fn forward(visit: &Visit, exchange: &Exchange, outcome: &Result<(), Refusal>) -> Forward {
    let view = exchange.head.view();
    let by_settings = |why: &Refusal| {
        matches!(why.word, "query" | "request-cookie") || is_own(view, &visit.terms)
    };
    match outcome {
        _ if !matches!(view.method(), Method::Get | Method::Head) => Forward::Method,
        Err(why) if by_settings(why) => Forward::Bypass,
        _ => visit.forward,
    }
}

/// What the client sees of all this.
fn show(
    visit: &Visit,
    exchange: &Exchange,
    response: &mut Response,
    outcome: &Result<(), Refusal>,
) {
    let given = &visit.terms.given;
    let (status, is_kept) = (response.status, outcome.is_ok());
    if given.obeys_lscache {
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
    if given.tells_status {
        let forward = Some(forward(visit, exchange, outcome));
        let told = CacheStatus {
            forward,
            forward_status: Some(status.0),
            stored: is_kept,
            ..CacheStatus::default()
        };
        told.append_to(response.fields_mut(), "Saker");
    }
    if !matches!(exchange.head.view().method(), Method::Get | Method::Head) {
        return;
    }
    // mod_cache has no part in a request that says no-store.
    if given.no_store_bypasses
        && outcome
            .as_ref()
            .is_err_and(|why| why.word == "request-no-store")
    {
        return;
    }
    let result = match (outcome, &visit.old) {
        (Err(_), _) => told::Result::Bypass,
        (Ok(()), Some(_)) if visit.is_revalidated => told::Result::Revalidated,
        (Ok(()), Some(_)) => told::Result::Expired,
        (Ok(()), None) => told::Result::Miss,
    };
    let why = outcome.as_ref().err().map(|why| why.sentence.as_str());
    told::tell(
        response.fields_mut(),
        given,
        result,
        told::server_name(exchange).as_deref(),
        why,
    );
}

//! Results of dispatch: keys of the route cache, the cached part, and the response to a failed
//! body.
//!
//! Called by: the drivers, before and after a request is dispatched.

use crate::worker::Worker;
use saker_config::model::Address;
use saker_http::{HeadView, KnownField, Method, Status, Version};
use saker_pipeline::{
    BodyError, CachedRoute, Decision, Exchange, KeptDecision, Key, LogFacts, Outcome, Response,
    RouteKind, Services, respond,
};
use std::{rc::Rc, sync::Arc};

/// The key of a request that a cached route may answer: plain GET or HEAD without content, to a
/// path, with at most one Host and no other field twice that must stand once. Everything else that the full checks examine is part of the key,
/// byte for byte. POST with a length leads to decisions alone, and has the full checks.
pub fn fast_key<'a>(listener: &'a Arc<Address>, view: HeadView<'a>) -> Option<Key<'a>> {
    let method = view.method();
    let is_post = method == Method::Post;
    let plain = (is_post || matches!(method, Method::Get | Method::Head))
        && !view.has(KnownField::TransferEncoding)
        && view.has(KnownField::ContentLength) == is_post
        && !view.has(KnownField::Expect)
        && !view.repeats_single()
        && match view.known_count(KnownField::Host) {
            0 => view.version() == Version::Http10,
            count => count == 1,
        };
    let target = view.target();
    if !plain || target.first() != Some(&b'/') {
        return None;
    }
    Some(Key {
        listener,
        host: view.known(KnownField::Host).unwrap_or_default(),
        path: without_query(target),
        kind: if is_post {
            RouteKind::Post
        } else {
            RouteKind::Read
        },
    })
}

pub fn without_query(target: &[u8]) -> &[u8] {
    &target[..memchr::memchr(b'?', target).unwrap_or(target.len())]
}

/// Keeps an outcome that can answer later requests.
pub fn remember(
    worker: &Worker,
    exchange: &mut Exchange,
    log_facts: Option<Rc<LogFacts>>,
    without_content: bool,
    services: &Rc<Services>,
) {
    if !Rc::ptr_eq(services, &worker.services.borrow()) {
        // A reload came in between: decisions of the old configuration must not answer under the
        // new one.
        return;
    }
    let redirects = &exchange.routing.site.live_redirects;
    if redirects.find(&exchange.path).is_some() {
        // The redirect came in between, and what was cached before has been forgotten.
        return;
    }
    let has_page = exchange.cache.cached_route.is_some();
    if let Some(decision) = &exchange.cache.decision {
        // What it depends on stands in the entry that it is of.
        if has_page {
            forget_past_pages(worker, exchange, decision);
        }
        return;
    }
    if let Some(kept) = exchange.cache.kept_decision.take()
        && !(has_page && kept.kind == RouteKind::PastPages)
    {
        return remember_decision(worker, exchange, *kept, without_content);
    }
    let Some(cached_route) = exchange.cache.cached_route.take() else {
        return;
    };
    let log_lines = exchange.take_outcome_lines().map(Box::new);
    let view = exchange.head.view();
    let simple = matches!(view.method(), Method::Get | Method::Head)
        && without_content
        && view.target().first() == Some(&b'/');
    if exchange.cache.request_dependent || !simple {
        return;
    }
    let key = Key {
        listener: &exchange.client.listener,
        // Rules may have edited it since; later requests come with the one that they received.
        host: exchange.head.host_before_edits().unwrap_or_default(),
        path: without_query(view.target()),
        kind: RouteKind::Read,
    };
    let outcome = Outcome {
        site_index: exchange.routing.site_index,
        settings: Arc::clone(&exchange.routing.settings),
        cached_route,
        decision: None,
        change_tokens: std::mem::take(&mut exchange.cache.change_tokens),
        tests: std::mem::take(&mut exchange.cache.request_tests),
        path: exchange.path.clone(),
        log_facts: log_facts.map(|facts| Rc::new(facts.of_another())),
        log_lines,
        is_before_limits: exchange.cache.keeps_answer && !exchange.limits.is_admitted,
    };
    worker.route_cache.borrow_mut().insert(&key, outcome);
}

/// Forgets the decision that led past the pages, since there is one now: the next request goes through
/// all phases, so that the page answers later ones.
fn forget_past_pages(worker: &Worker, exchange: &Exchange, decision: &Decision) {
    let key = Key {
        listener: &exchange.client.listener,
        host: &decision.received_host,
        path: &decision.received_path,
        kind: RouteKind::PastPages,
    };
    worker.route_cache.borrow_mut().forget(&key);
}

/// Keeps a decision for later requests.
fn remember_decision(
    worker: &Worker,
    exchange: &Exchange,
    kept: KeptDecision,
    without_content: bool,
) {
    if !without_content && kept.kind != RouteKind::Post {
        return;
    }
    let decision = Rc::clone(&kept.decision);
    let key = Key {
        listener: &exchange.client.listener,
        host: &kept.decision.received_host,
        path: &kept.decision.received_path,
        kind: kept.kind,
    };
    let outcome = Outcome {
        site_index: decision.site_index,
        settings: Arc::clone(&decision.settings),
        cached_route: Rc::clone(&decision) as Rc<dyn CachedRoute>,
        path: decision.path.to_vec(),
        decision: Some(decision),
        change_tokens: kept.change_tokens,
        tests: kept.tests,
        log_facts: None,
        log_lines: None,
        is_before_limits: false,
    };
    worker.route_cache.borrow_mut().insert(&key, outcome);
}

/// Replaces the response if the request's body was at fault; the handler's response is useless
/// then.
pub fn refusal(error: BodyError, response: Response) -> Response {
    match status_of(error) {
        Some(status) => respond::built_in_page(Response::new(status)),
        None => response,
    }
}

/// The status of a request whose body is at fault; `None`: the handler's response counts.
pub fn status_of(error: BodyError) -> Option<Status> {
    Some(match error {
        BodyError::Malformed => Status::BAD_REQUEST,
        BodyError::TooLarge => Status::CONTENT_TOO_LARGE,
        BodyError::TrailersTooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
        BodyError::TimedOut => Status::REQUEST_TIMEOUT,
        BodyError::Gone | BodyError::Source => return None,
    })
}

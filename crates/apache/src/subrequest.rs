//! Subrequests: requests for other paths of the same site, inside of a request.
//!
//! Called by: whatever tries a path: index files, listings, MultiViews, look-aheads, includes.
//! Caveat: they run the phases that `worker` holds, so they never leave them out.

use crate::{
    state::{self, peek, state},
    verdict::Verdict,
    worker::ApacheRules,
};
use saker_http::{Method, Status};
use saker_pipeline::{Exchange, Inner, NoBody, Response};
use std::{rc::Rc, sync::Arc};

/// The phases behind the choice of the host, up to an answer or to its content.
pub fn run_phases(rules: &ApacheRules, inner: &mut Exchange) -> Verdict {
    loop {
        if let Some(verdict) = round(rules, inner) {
            return verdict;
        }
        if inner.routing.redirects >= inner.routing.redirects_max {
            return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
        }
        inner.routing.redirects += 1;
    }
}

/// `None`: from the beginning.
fn round(rules: &ApacheRules, inner: &mut Exchange) -> Option<Verdict> {
    let phases = &rules.phases;
    let phases = [
        phases.server_rewrite,
        phases.map_to_storage,
        phases.access,
        phases.fixups,
    ];
    for phase in phases {
        let verdict = phase(rules, inner);
        if inner.is_over_budget() {
            return Some(Verdict::Answer(Response::new(
                Status::INTERNAL_SERVER_ERROR,
            )));
        }
        match verdict {
            Verdict::Pass => {}
            Verdict::Restart if peek(inner).is_some_and(|state| state.is_rewritten) => {
                return Some(Verdict::Restart);
            }
            Verdict::Restart => return None,
            other => return Some(other),
        }
    }
    Some(Verdict::Pass)
}

/// A GET for another path of the same site by the same client. `None`: too deep inside of other
/// requests, or one too many; the error log says so. Not on the stack, which those that are tried
/// inside of each other share.
pub fn subrequest(exchange: &Exchange, path: Vec<u8>, kind: Inner) -> Option<Box<Exchange>> {
    exchange.may_nest(kind).then(|| nested(exchange, path))
}

/// The same for an entry of a listing, of which there are no more than a folder has.
pub fn nested(exchange: &Exchange, path: Vec<u8>) -> Box<Exchange> {
    // Rules about methods decide about the GET that it is. What they say about the client's own method
    // is tested with the request's, so that an outcome of another one is not kept for it.
    let head = match exchange.head.view().method() {
        Method::Get => exchange.head.clone(),
        _ => exchange.head.with_method(b"GET"),
    };
    let mut inner = Box::new(Exchange::new(
        exchange.client.clone(),
        head,
        Box::new(NoBody),
        Arc::clone(&exchange.routing.site),
        exchange.now,
    ));
    inner.host.clone_from(&exchange.host);
    inner.query.clone_from(&exchange.query);
    inner.environment = exchange.environment.clone();
    inner
        .cache
        .environment_tests
        .clone_from(&exchange.cache.environment_tests);
    inner.access.user.clone_from(&exchange.access.user);
    inner.routing.has_written_query = exchange.routing.has_written_query;
    inner.routing.site_index = exchange.routing.site_index;
    inner.log.id = Rc::clone(&exchange.log.id);
    inner.share_budget(exchange);
    inner.routing.nesting = exchange.routing.nesting.saturating_add(1);
    inner.path = path;
    let own = peek(exchange);
    let inherited = state(&mut inner);
    inherited.is_subrequest = true;
    inherited.is_candidate = own.is_some_and(|state| state.is_candidate);
    inherited.base = own.and_then(|state| state.base.clone());
    inherited.session = own.and_then(|state| state.session.clone());
    inherited.rewrite_ended = own.is_some_and(|state| state.rewrite_ended);
    inner
}

/// Cookies of rules belong to the client's request, whatever becomes of what was tried; the first one
/// of a name counts, as in mod_rewrite.
pub fn add_cookies(exchange: &mut Exchange, cookies: Vec<(Vec<u8>, Vec<u8>)>) {
    for cookie in cookies {
        let own = peek(exchange).map_or(&[][..], |own| &own.cookies);
        if !own.iter().any(|(name, _)| *name == cookie.0) {
            state(exchange).cookies.push(cookie);
        }
    }
}

/// The request goes on as what was tried.
pub fn adopt(exchange: &mut Exchange, inner: Box<Exchange>) {
    let mut inner = *inner;
    let own = std::mem::take(state(exchange));
    state::adopt(exchange, &mut inner);
    exchange.path = inner.path;
    exchange.query = inner.query;
    exchange.routing.has_written_query = inner.routing.has_written_query;
    exchange.routing.path_info = inner.routing.path_info;
    exchange.routing.mapped = inner.routing.mapped;
    exchange.routing.settings = inner.routing.settings;
    exchange.environment = inner.environment;
    exchange.routing.handler = inner.routing.handler;
    let adopted = state(exchange);
    (
        adopted.is_subrequest,
        adopted.is_answered,
        adopted.is_program,
    ) = (own.is_subrequest, own.is_answered, own.is_program);
    (adopted.page, adopted.is_candidate) = (own.page, own.is_candidate);
    let cookies = std::mem::replace(&mut adopted.cookies, own.cookies);
    add_cookies(exchange, cookies);
}

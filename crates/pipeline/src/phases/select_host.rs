//! From listener and host to site.

use super::{
    by_host::by_host,
    post_read::{is_for_cache, trace_answer, unknown_method, with_methods},
};
use crate::{Exchange, Response, Services, Verdict, held_policy};
use saker_http::{Method, Status};
use std::sync::Arc;

pub(super) fn select_host(exchange: &mut Exchange, services: &Services) -> Verdict {
    let generation = &services.generation;
    if generation.hosts.depends_on_local(&exchange.client.listener) {
        // What is kept is kept by listener.
        exchange.depends_on_request();
    }
    let (listener, local) = (&exchange.client.listener, exchange.client.local.ip());
    let selected = match exchange.host.is_empty() {
        true => generation
            .hosts
            .select_by_path(listener, local, &exchange.path),
        false => generation.hosts.select(listener, local, &exchange.host),
    };
    let Some((index, choice)) = selected else {
        // RFC 9110 section 15.5.20: this listener answers for no host at all.
        return Verdict::Answer(Response::new(Status::MISDIRECTED_REQUEST));
    };
    exchange.site = Arc::clone(&generation.model.sites[index]);
    exchange.site_index = index;
    exchange.settings = Arc::clone(&exchange.site.settings);
    if let Some(refused) = held_policy::refusal(exchange, services) {
        return Verdict::Answer(refused);
    }
    let origin = exchange.site.origin.clone();
    let host = String::from_utf8_lossy(&exchange.host).into_owned();
    exchange.trace("select_host", Some(&origin), || {
        format!("host `{host}` {choice}")
    });
    by_host(exchange, services)
}

/// TRACE is answered once its site is known, because a site may allow it; so is what a front-end
/// might have had its own words for.
pub(super) fn refuse_trace(exchange: &Exchange) -> Option<Response> {
    let view = exchange.head.view();
    match view.method() {
        Method::Extension if exchange.settings.cache.is_on && is_for_cache(view.method_token()) => {
            None
        }
        Method::Trace if exchange.settings.trace => Some(trace_answer(exchange)),
        Method::Trace => Some(with_methods(Status::METHOD_NOT_ALLOWED)),
        Method::Extension => Some(unknown_method()),
        _ if exchange.encoded_slash => Some(Response::new(Status::NOT_FOUND)),
        _ => None,
    }
}

//! Selects the site by listener and host.
//!
//! Called by: the phase list, for client requests only; `acme_challenge`, for the log.
//! Caveat: a site with TLS requirements refuses connections whose handshake was subject to another
//! policy (421), before it reveals anything.
//! Out of scope: sites derived from host names (`by_host`).

use super::by_host::by_host;
use crate::{Exchange, Response, Services, Step, Verdict, held_policy};
use saker_http::Status;
use std::sync::Arc;

pub(super) fn select_host<'a>(exchange: &'a mut Exchange, services: &'a Services) -> Step<'a> {
    let generation = &services.generation;
    if generation.hosts.depends_on_local(&exchange.client.listener) {
        exchange.depends_on_local_address();
    }
    let (listener, local) = (&exchange.client.listener, exchange.client.local.ip());
    let selected = match exchange.host.is_empty() {
        true => generation
            .hosts
            .select_by_path(listener, local, &exchange.path),
        false => generation.hosts.select(listener, local, &exchange.host),
    };
    let Some((index, choice)) = selected else {
        // RFC 9110 section 15.5.20: the listener serves no site.
        return Verdict::Answer(Response::new(Status::MISDIRECTED_REQUEST)).into();
    };
    exchange.routing.site = Arc::clone(&generation.model.sites[index]);
    exchange.routing.site_index = index;
    exchange.routing.settings = Arc::clone(&exchange.routing.site.settings);
    if let Some(refused) = held_policy::refusal(exchange, generation) {
        return Verdict::Answer(refused).into();
    }
    if exchange.log.trace.is_some() {
        let origin = exchange.routing.site.origin.clone();
        let host = String::from_utf8_lossy(&exchange.host).into_owned();
        exchange.trace("select_host", Some(&origin), || {
            format!("host `{host}` {choice}")
        });
    }
    by_host(exchange, services)
}

//! From listener and host to site.
//!
//! Called by: the phase list, for requests of clients only; `acme_challenge`, for the log.
//! Caveat: a site that demands something of the TLS handshake refuses connections whose handshake
//! was held to another policy (421), before anything of it is shown.
//! Out of scope: sites that follow from the host's name (`by_host`).

use super::by_host::by_host;
use crate::{Exchange, Response, Services, Step, Verdict, held_policy};
use saker_http::Status;
use std::sync::Arc;

pub(super) fn select_host<'a>(exchange: &'a mut Exchange, services: &'a Services) -> Step<'a> {
    let generation = &services.generation;
    if generation.hosts.depends_on_local(&exchange.client.listener) {
        // The route cache goes by listener, not by local address.
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
        return Verdict::Answer(Response::new(Status::MISDIRECTED_REQUEST)).into();
    };
    exchange.site = Arc::clone(&generation.model.sites[index]);
    exchange.site_index = index;
    exchange.settings = Arc::clone(&exchange.site.settings);
    if let Some(refused) = held_policy::refusal(exchange, services) {
        return Verdict::Answer(refused).into();
    }
    let origin = exchange.site.origin.clone();
    let host = String::from_utf8_lossy(&exchange.host).into_owned();
    exchange.trace("select_host", Some(&origin), || {
        format!("host `{host}` {choice}")
    });
    by_host(exchange, services)
}

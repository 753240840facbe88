//! Dynamic virtual hosts: derives the site of the requested host from a site for many hosts. The
//! second half of `select_host`.
//!
//! Called by: `select_host`, for sites with patterns or a host lookup.
//! Caveat: an outcome depends on the listener, the name, and the row of the database; it is cached
//! only until the lease of the row expires.
//! Out of scope: building the site of a row ([`DerivedSites`](crate::DerivedSites)).

use crate::{Exchange, Response, Services, Step, Verdict};
use saker_config::model::{ByHost, Site, is_plain_name};
use saker_dynamic_vhosts::{Answer, Found, HostRow, Hosts};
use saker_http::Status;
use std::sync::Arc;

pub(super) fn by_host<'a>(exchange: &'a mut Exchange, services: &'a Services) -> Step<'a> {
    let site = Arc::clone(&exchange.routing.site);
    let Some(by_host) = &site.by_host else {
        return Step::PASS;
    };
    let name = match str::from_utf8(&exchange.host) {
        Ok(name) if is_plain_name(name.as_bytes()) => name.to_owned(),
        _ => {
            exchange.trace("select_host", None, || {
                "no directory or row can have this name".into()
            });
            return unknown(services, by_host).into();
        }
    };
    let hosts = services
        .generation
        .known_hosts
        .as_ref()
        .filter(|_| by_host.is_looked_up);
    let Some(hosts) = hosts else {
        return take(exchange, services, &site, by_host, &name, None).into();
    };
    match hosts.find(&name) {
        Found::Now(answer) => known(exchange, services, &site, &name, answer).into(),
        Found::Later(waiting) => {
            let site = Arc::clone(&site);
            Step::Pending(Box::pin(async move {
                let answer = Hosts::heard(waiting).await;
                known(exchange, services, &site, &name, answer)
            }))
        }
    }
}

/// Applies the result of the lookup.
fn known(
    exchange: &mut Exchange,
    services: &Services,
    site: &Site,
    name: &str,
    answer: Answer,
) -> Verdict {
    let Some(by_host) = &site.by_host else {
        return Verdict::Pass;
    };
    match answer {
        Answer::Known(row, lease) => {
            exchange.cache.change_tokens.push(lease.token());
            exchange.trace("select_host", None, || "the database has the host".into());
            take(exchange, services, site, by_host, name, Some(row))
        }
        Answer::Missing(lease) => {
            exchange.cache.change_tokens.push(lease.token());
            exchange.trace("select_host", None, || {
                "the database does not have the host".into()
            });
            unknown(services, by_host)
        }
        Answer::Refused => unavailable(
            exchange,
            "the host's row in the database is invalid; the error log has the reason",
        ),
        Answer::Away => unavailable(exchange, "the database does not answer"),
    }
}

fn take(
    exchange: &mut Exchange,
    services: &Services,
    site: &Site,
    by_host: &ByHost,
    name: &str,
    row: Option<Arc<HostRow>>,
) -> Verdict {
    if row.as_ref().is_some_and(|row| row.is_suspended) {
        return unavailable(exchange, "the host is suspended");
    }
    if let Some(to) = row.as_ref().and_then(|row| row.redirect.as_deref()) {
        return Verdict::Answer(redirect(exchange, to));
    }
    let port = exchange.client.local.port();
    exchange.routing.site = services.generation.derived.site(
        exchange.routing.site_index,
        site,
        by_host,
        name,
        port,
        row.as_ref(),
    );
    exchange.routing.settings = Arc::clone(&exchange.routing.site.settings);
    let root = exchange.routing.site.root.clone();
    exchange.trace("select_host", None, || {
        root.map_or_else(
            || "the host has no root".into(),
            |root| format!("the root of the host is {}", root.display()),
        )
    });
    Verdict::Pass
}

/// Handles an unknown name: returns the configured status, or passes to the site itself if none is
/// configured.
fn unknown(services: &Services, by_host: &ByHost) -> Verdict {
    match services
        .generation
        .model
        .hosts
        .unknown
        .filter(|_| by_host.is_looked_up || by_host.root.is_some())
    {
        Some(status) => Verdict::Answer(Response::new(status)),
        None => Verdict::Pass,
    }
}

fn unavailable(exchange: &mut Exchange, why: &'static str) -> Verdict {
    exchange.trace("select_host", None, || why.into());
    Verdict::Answer(Response::new(Status::SERVICE_UNAVAILABLE))
}

/// Redirects to a URL. One without a path gets the path of the request.
fn redirect(exchange: &mut Exchange, to: &str) -> Response {
    exchange.trace("select_host", None, || {
        format!("the host has moved to {to}")
    });
    let has_path = to
        .split_once("://")
        .is_some_and(|(_, rest)| rest.contains(['/', '?']));
    let target = exchange.head.view().target();
    let location = match target.first() {
        Some(b'/') if !has_path => [to.as_bytes(), target].concat(),
        _ => to.as_bytes().to_vec(),
    };
    let mut response = Response::new(Status::FOUND);
    response.fields_mut().set("Location", location);
    response
}

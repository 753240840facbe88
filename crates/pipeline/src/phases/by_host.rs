//! From a site that stands for many hosts to that of the one that was asked for; the second half of
//! `select_host`.
//!
//! Difficulty: what is not known has to be waited for, and the phase is run again then: the answer
//! waits for it in the exchange. Outcomes depend on the listener, the name and what is known of it;
//! so they are kept as others are, as long as the answer's lease holds.

use crate::{Exchange, Response, Services, Verdict};
use saker_config::model::{ByHost, Site, is_plain_name};
use saker_dynamic_vhosts::{Answer, Found, HostRow, Hosts};
use saker_http::Status;
use std::{cell::OnceCell, rc::Rc, sync::Arc};

pub(super) fn by_host(exchange: &mut Exchange, services: &Services) -> Verdict {
    let site = Arc::clone(&exchange.site);
    let Some(by_host) = &site.by_host else {
        return Verdict::Pass;
    };
    let name = match str::from_utf8(&exchange.host) {
        Ok(name) if is_plain_name(name.as_bytes()) => name.to_owned(),
        _ => {
            exchange.trace("select_host", None, || {
                "the name is none that a folder or a row could have".into()
            });
            return unknown(services, by_host);
        }
    };
    let hosts = services
        .generation
        .known_hosts
        .as_ref()
        .filter(|_| by_host.is_looked_up);
    let Some(hosts) = hosts else {
        return take(exchange, services, &site, by_host, &name, None);
    };
    match find(exchange, hosts, &name) {
        Ok(Answer::Known(row, lease)) => {
            exchange.stamps.push(lease.stamp());
            exchange.trace("select_host", None, || "the database knows it".into());
            take(exchange, services, &site, by_host, &name, Some(row))
        }
        Ok(Answer::Missing(lease)) => {
            exchange.stamps.push(lease.stamp());
            exchange.trace("select_host", None, || {
                "the database does not know it".into()
            });
            unknown(services, by_host)
        }
        Ok(Answer::Refused) => unavailable(
            exchange,
            "what the database says of it is refused; the error log says why",
        ),
        Ok(Answer::Away) => unavailable(exchange, "the database does not answer"),
        Err(wait) => wait,
    }
}

/// What is known, or what to wait for.
fn find(exchange: &mut Exchange, hosts: &Arc<Hosts>, name: &str) -> Result<Answer, Verdict> {
    if let Some(answer) = exchange
        .looked_up
        .take()
        .and_then(|heard| heard.get().cloned())
    {
        return Ok(answer);
    }
    match hosts.find(name) {
        Found::Now(answer) => Ok(answer),
        Found::Later(waiting) => {
            let heard = Rc::<OnceCell<Answer>>::default();
            exchange.looked_up = Some(Rc::clone(&heard));
            Err(Verdict::Wait(Box::pin(async move {
                let _ = heard.set(Hosts::heard(waiting).await);
            })))
        }
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
    exchange.site = services.generation.derived.site(
        exchange.site_index,
        site,
        by_host,
        name,
        port,
        row.as_ref(),
    );
    exchange.settings = Arc::clone(&exchange.site.settings);
    let root = exchange.site.root.clone();
    exchange.trace("select_host", None, || {
        root.map_or_else(
            || "it has no root".into(),
            |root| format!("its root is {}", root.display()),
        )
    });
    Verdict::Pass
}

/// A name that nobody knows gets what the configuration says; where that is the site, it is as if
/// nothing depended on the name.
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

/// To a URL without a path the request's own goes along.
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

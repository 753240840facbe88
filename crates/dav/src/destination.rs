//! The field `Destination` (RFC 4918 section 10.3), and the request that stands for it.
//!
//! Called by: the handler, for COPY and MOVE.
//! Caveat: the destination passes the same phases as if the client had asked for it with the
//! request's method, so its own access rules decide.
//! Out of scope: destinations on other servers, which are refused with 502.

use saker_config::model::{Action, WebDav};
use saker_http::{
    KnownField, Method, Status, host, path,
    target::{self, Target},
};
use saker_pipeline::{Exchange, Inner, NoBody, Services, phases};
use std::{rc::Rc, sync::Arc};

/// Reads the field, and returns the decoded path.
///
/// # Errors
/// 400 if it is missing or malformed, 502 for other servers.
pub fn path(exchange: &Exchange) -> Result<Vec<u8>, Status> {
    let view = exchange.head.view();
    let text = view.first("destination").ok_or(Status::BAD_REQUEST)?;
    let text = text.trim_ascii();
    let (raw, query) = match target::split(Method::Get, text) {
        Ok(Target::Origin { path, query }) => (path, query),
        Ok(Target::Absolute {
            authority,
            path,
            query,
            ..
        }) => {
            let scheme: &[u8] = if exchange.client.secure {
                b"https://"
            } else {
                b"http://"
            };
            let is_scheme = text
                .get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme));
            if !is_scheme || !is_this_host(exchange, authority) {
                return Err(Status::BAD_GATEWAY);
            }
            (path, query)
        }
        _ => return Err(Status::BAD_REQUEST),
    };
    if query.is_some() {
        return Err(Status::BAD_REQUEST);
    }
    let mut decoded = Vec::new();
    match path::normalize(if raw.is_empty() { b"/" } else { raw }, &mut decoded) {
        Ok(()) => Ok(decoded),
        Err(path::PathError::EncodedSlash) => Err(Status::NOT_FOUND),
        Err(_) => Err(Status::BAD_REQUEST),
    }
}

fn is_this_host(exchange: &Exchange, authority: &[u8]) -> bool {
    let own = exchange
        .head
        .view()
        .known(KnownField::Host)
        .and_then(host::parse_authority);
    let webdav = exchange.routing.settings.webdav_in_use();
    let is_any_port_ours = webdav.is_some_and(|webdav| webdav.is_any_port_ours);
    let default_port = if exchange.client.secure { 443 } else { 80 };
    match (own, host::parse_authority(authority)) {
        (Some(own), Some(other)) if is_any_port_ours => own.host.eq_ignore_ascii_case(other.host),
        (Some(own), Some(other)) => own.is_same(other, Some(default_port)),
        _ => false,
    }
}

/// Runs the phases for the destination.
///
/// # Errors
/// The status of the rules that refuse it; 405 where there is no WebDAV.
pub async fn admitted(
    exchange: &Exchange,
    services: &Services,
    path: Vec<u8>,
) -> Result<(Box<Exchange>, Arc<WebDav>), Status> {
    if !exchange.may_nest(Inner::Lookup) {
        return Err(Status::INTERNAL_SERVER_ERROR);
    }
    let mut inner = derived(exchange, path);
    let webdav = decided(&mut inner, services).await?;
    Ok((inner, webdav))
}

/// The same request for another path.
pub fn derived(exchange: &Exchange, path: Vec<u8>) -> Box<Exchange> {
    let mut inner = Box::new(Exchange::new(
        Rc::clone(&exchange.client),
        exchange.head.clone(),
        Box::new(NoBody),
        Arc::clone(&exchange.routing.site),
        exchange.now,
    ));
    inner.host.clone_from(&exchange.host);
    inner.routing.site_index = exchange.routing.site_index;
    inner.log.id = Rc::clone(&exchange.log.id);
    inner.share_budget(exchange);
    inner.routing.nesting = exchange.routing.nesting.saturating_add(1);
    inner.path = path;
    inner
}

/// Runs the phases for a derived request.
///
/// # Errors
/// The status of the rules that refuse it; 405 where there is no WebDAV.
pub async fn decided(inner: &mut Exchange, services: &Services) -> Result<Arc<WebDav>, Status> {
    if let Some(answer) = phases::run_subrequest(inner, services).await {
        return Err(match answer.status {
            status if status.is_error() || status.is_redirection() => status,
            _ => Status::FORBIDDEN,
        });
    }
    let is_file = *inner.action() == Action::Files && inner.upstream.call.is_none();
    let webdav = inner.routing.settings.webdav_in_use().cloned();
    match webdav.filter(|_| is_file) {
        Some(webdav) => Ok(webdav),
        None => Err(Status::METHOD_NOT_ALLOWED),
    }
}

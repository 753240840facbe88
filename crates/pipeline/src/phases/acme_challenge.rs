//! HTTP-01 challenges of ACME (RFC 8555 section 8.3), answered before any site's rules.
//!
//! Called by: the phase list, for requests of clients only. Caveat: the same path is the site's as
//! soon as no challenge is pending there; nothing below it is kept in the route cache. Out of
//! scope: requesting certificates (`saker-acme`), which publishes the challenges.

use super::select_host::select_host;
use crate::{Body, Chunk, Exchange, Response, Services};
use saker_http::{Method, Status};
use std::sync::Arc;

/// The prefix of all challenge paths.
pub const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

pub(super) fn acme_challenge(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    if !exchange.path.starts_with(CHALLENGES) {
        return None;
    }
    exchange.depends_on_request();
    if !matches!(exchange.head.view().method(), Method::Get | Method::Head) {
        return None;
    }
    let found = (services.challenge)(&exchange.path)?;
    claim(exchange, services);
    exchange.trace("acme_challenge", None, || {
        "a challenge is pending at this path".into()
    });
    let mut response = Response::new(Status::OK);
    // RFC 8555 section 8.3.
    response
        .fields_mut()
        .append("Content-Type", &b"application/octet-stream"[..]);
    response.body = Body::Memory(Chunk::from(found.into_bytes()));
    Some(response)
}

/// Chooses the site for the log, if there is one; its settings are not for this answer.
fn claim(exchange: &mut Exchange, services: &Services) {
    let settings = Arc::clone(&exchange.settings);
    // Unknown hosts are answered, too.
    drop(select_host(exchange, services));
    exchange.settings = settings;
}

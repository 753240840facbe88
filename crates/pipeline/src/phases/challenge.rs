//! What a certificate authority looks for over HTTP (RFC 8555 section 8.3), before any site has a
//! say.
//!
//! The difficulty is that the same path is the site's as soon as nobody's challenge waits there:
//! nothing below it is kept.

use super::select_host::select_host;
use crate::{Body, Chunk, Exchange, Response, Services};
use saker_http::{Method, Status};
use std::sync::Arc;

/// Below it authorities look.
pub const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

pub(super) fn challenge(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    if !exchange.path.starts_with(CHALLENGES) {
        return None;
    }
    exchange.depends_on_request();
    if !matches!(exchange.head.view().method(), Method::Get | Method::Head) {
        return None;
    }
    let found = (services.challenge)(&exchange.path)?;
    claim(exchange, services);
    exchange.trace("challenge", None, || {
        "an authority's challenge waits at this path".into()
    });
    let mut response = Response::new(Status::OK);
    // RFC 8555 section 8.3.
    response
        .fields_mut()
        .append("Content-Type", &b"application/octet-stream"[..]);
    response.body = Body::Memory(Chunk::from(found.into_bytes()));
    Some(response)
}

/// The log is the site's, if there is one; its settings are not for this answer.
fn claim(exchange: &mut Exchange, services: &Services) {
    let settings = Arc::clone(&exchange.settings);
    // A host that nobody serves here is answered all the same.
    drop(select_host(exchange, services));
    exchange.settings = settings;
}

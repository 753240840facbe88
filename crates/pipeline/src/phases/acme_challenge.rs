//! HTTP-01 challenges of ACME (RFC 8555 section 8.3), answered before the rules of any site.
//!
//! Called by: the phase list, for client requests only.
//! Caveat: without a pending challenge the site serves the path, so nothing below it is stored in
//! the route cache.
//! Out of scope: requesting certificates (`saker-acme`), which publishes the challenges.

use super::select_host::select_host;
use crate::{Body, Chunk, Exchange, FoundChallenge, Response, Services, Step, Verdict};
use saker_http::{Method, Status};
use std::sync::Arc;

/// The prefix of all challenge paths.
pub const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

pub(super) fn acme_challenge<'a>(exchange: &'a mut Exchange, services: &'a Services) -> Step<'a> {
    if !exchange.path.starts_with(CHALLENGES) {
        return Step::PASS;
    }
    exchange.depends_on_request();
    if !matches!(exchange.head.view().method(), Method::Get | Method::Head) {
        return Step::PASS;
    }
    match (services.challenge)(&exchange.path) {
        FoundChallenge::None => Step::PASS,
        FoundChallenge::Known(found) => Verdict::Answer(answer(exchange, services, found)).into(),
        FoundChallenge::Look(look) => Step::Pending(Box::pin(async move {
            match look.await {
                Some(found) => Verdict::Answer(answer(exchange, services, found)),
                None => Verdict::Pass,
            }
        })),
    }
}

fn answer(exchange: &mut Exchange, services: &Services, found: String) -> Response {
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
    response
}

/// Selects the site for the log, if there is one; its settings do not apply to this response.
fn claim(exchange: &mut Exchange, services: &Services) {
    let settings = Arc::clone(&exchange.routing.settings);
    // Challenges for unknown hosts are answered, too.
    drop(select_host(exchange, services));
    exchange.routing.settings = settings;
}

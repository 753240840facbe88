//! Limits: TLS policy of the site, bans, rates, concurrency, and the size of the body.
//!
//! Called by: the phase list, for client requests and their internal requests.
//! Caveat: a limit counts a client request once, however often it is redirected internally; the
//! size of the body is checked each time, because limits may differ by path.
//! Out of scope: limits on connections and bandwidth (`server`).

use crate::{Exchange, Response, Services, held_policy};
use saker_config::model::KeyLimit;
use saker_http::Status;

pub(super) fn limits(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    // `select_host` has checked the policy, too, but not for internal redirects.
    held_policy::refusal(exchange, &services.generation)
        .or_else(|| services.abuse.admit(exchange))
        .or_else(|| body_size(exchange, services))
}

/// Limits by what is known about the user, once access has been decided.
pub(super) fn user_limits(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    let settings = &exchange.routing.settings;
    let is_limited = settings.throttle.by_key.iter().any(KeyLimit::is_of_user);
    is_limited
        .then(|| services.abuse.admit_user(exchange))
        .flatten()
}

fn body_size(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    let limit = body_bytes_max(exchange, services);
    // Covers content of unknown length, and handlers that read more than was announced.
    exchange.body.limit(limit);
    match exchange.body.length() {
        Some(length) if limit != 0 && length > limit => {
            exchange.trace("access", None, || {
                format!("a body of {length} bytes is over the limit of {limit}")
            });
            Some(Response::new(Status::CONTENT_TOO_LARGE))
        }
        _ => None,
    }
}

/// Returns the size limit of the body; 0: no limit.
pub fn body_bytes_max(exchange: &Exchange, services: &Services) -> u64 {
    exchange
        .routing
        .settings
        .body_bytes_max
        .unwrap_or(services.generation.model.limits.body_bytes_max)
}

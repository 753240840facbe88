//! Limits: TLS policy of the site, bans, rates, concurrency; the size of the body.
//!
//! Called by: the phase list, for clients' requests and for what they lead to inside of the server.
//! Caveat: `abuse` counts a client's request once, however often it is led elsewhere; the size of
//! the body is compared each time, because another path may have another limit. Out of scope:
//! limits on connections and on the speed of bodies (`server`).

use crate::{Exchange, Response, Services, held_policy};
use saker_http::Status;

pub(super) fn limits(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    // `select_host` has compared the policy, too, but not for internal redirects.
    held_policy::refusal(exchange, services)
        .or_else(|| services.abuse.admit(exchange, services))
        .or_else(|| body_size(exchange, services))
}

fn body_size(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    let limit = body_bytes_max(exchange, services);
    // For content of unknown length, and for handlers that read more of it than was announced.
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

/// 0: no limit.
pub fn body_bytes_max(exchange: &Exchange, services: &Services) -> u64 {
    exchange
        .settings
        .body_bytes_max
        .unwrap_or(services.generation.model.limits.body_bytes_max)
}

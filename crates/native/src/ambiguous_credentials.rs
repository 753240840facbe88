//! Requests whose credentials a program could read otherwise than the server.
//!
//! Called by: `auth`, `forward_auth`, and `identity`, before they decide.
//! Caveat: the server checks one line of `Authorization`, and a program behind it may take another.
//! Out of scope: sites without a log-in, whose programs get all lines.

use saker_http::KnownField;
use saker_pipeline::Exchange;

/// True if a request has credentials of which the server would check one and a program might take
/// another: more than one line of `Authorization`, which is no list (RFC 9110 section 11.6.2).
pub fn is_ambiguous(exchange: &Exchange) -> bool {
    exchange.head.view().known_count(KnownField::Authorization) > 1
}

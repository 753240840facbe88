//! Answers to methods that request no content of a site: TRACE, OPTIONS, and unknown ones.
//! Methods other than those of RFC 9110 are for upstreams, programs, and redirects; what answers
//! from files refuses them.
//!
//! Called by: `post_read`, and the rules of front ends once the site is known.
//! Caveat: TRACE returns the head as received, but without credentials and cookies.
//! Out of scope: methods that handlers refuse (405 of static files).

use crate::{Body, Chunk, Exchange, Response};
use saker_http::{Method, Status};

/// Returns 501, for an unknown method (RFC 9110 section 9.1).
pub fn unknown_method() -> Response {
    Response::new(Status::NOT_IMPLEMENTED)
}

/// Returns a response with `Allow`, which a 405 must have (RFC 9110 section 15.5.6).
pub fn with_methods(status: Status) -> Response {
    let mut response = Response::new(status);
    response
        .fields_mut()
        .append("Allow", &b"GET, HEAD, OPTIONS"[..]);
    response
}

/// Answers TRACE, once the site is known. `None`: the method requests content.
pub fn answer(exchange: &Exchange) -> Option<Response> {
    match exchange.head.view().method() {
        Method::Trace if exchange.routing.settings.trace => Some(trace_answer(exchange)),
        Method::Trace => Some(with_methods(Status::METHOD_NOT_ALLOWED)),
        _ => None,
    }
}

fn has_content(exchange: &Exchange) -> bool {
    let view = exchange.head.view();
    let is_empty = |length: &[u8]| length.iter().all(|byte| *byte == b'0');
    view.first("transfer-encoding").is_some()
        || view
            .first("content-length")
            .is_some_and(|length| !is_empty(length))
}

/// Answers TRACE: the head as received (RFC 9110 section 9.3.8), without credentials. Clients must not
/// send content with it.
pub fn trace_answer(exchange: &Exchange) -> Response {
    if has_content(exchange) {
        return Response::new(Status::CONTENT_TOO_LARGE);
    }
    let view = exchange.head.view();
    let mut text = Vec::new();
    for part in [
        view.method_token(),
        b" ",
        view.target_as_sent(),
        b" ",
        view.version().as_str().as_bytes(),
        b"\r\n",
    ] {
        text.extend_from_slice(part);
    }
    let secret = |name: &[u8]| {
        ["cookie", "authorization", "proxy-authorization"]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    };
    for (name, value) in view.fields().filter(|field| !secret(field.0)) {
        for part in [name, b": ", value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n");
    let mut response = Response::new(Status::OK);
    response
        .fields_mut()
        .append("Content-Type", &b"message/http"[..]);
    response.body = Body::Memory(Chunk::from(text));
    response
}

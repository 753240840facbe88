//! Answers to methods that ask for no content of a site: TRACE, unknown ones, OPTIONS.
//!
//! Called by: `post_read`, and the rules of front ends once the site is known.
//! Caveat: TRACE returns the head as received, but never credentials or cookies.
//! Out of scope: methods that handlers refuse (405 of static files).

use crate::{Body, Chunk, Exchange, Response};
use saker_http::{Method, Status};

/// Methods by which Varnish and LiteSpeed purge; the page cache answers them.
pub fn is_for_cache(method: &[u8]) -> bool {
    matches!(method, b"PURGE" | b"REFRESH" | b"BAN")
}

/// RFC 9110 section 9.1: a method that is not recognized is 501.
pub fn unknown_method() -> Response {
    Response::new(Status::NOT_IMPLEMENTED)
}

/// A response with `Allow`, which a 405 must have (RFC 9110 section 15.5.6).
pub fn with_methods(status: Status) -> Response {
    let mut response = Response::new(status);
    response
        .fields_mut()
        .append("Allow", &b"GET, HEAD, OPTIONS"[..]);
    response
}

/// The answer to a method that is not for content, once the site is known: it may allow TRACE, and
/// have a page cache to purge. `None`: the method is for content.
pub fn answer(exchange: &Exchange) -> Option<Response> {
    let view = exchange.head.view();
    match view.method() {
        Method::Extension if exchange.settings.cache.is_on && is_for_cache(view.method_token()) => {
            None
        }
        Method::Trace if exchange.settings.trace => Some(trace_answer(exchange)),
        Method::Trace => Some(with_methods(Status::METHOD_NOT_ALLOWED)),
        Method::Extension => Some(unknown_method()),
        _ if exchange.encoded_slash => Some(Response::new(Status::NOT_FOUND)),
        _ => None,
    }
}

/// The answer to TRACE: the head as received (RFC 9110 section 9.3.8), without credentials.
pub fn trace_answer(exchange: &Exchange) -> Response {
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

//! Makes sense of the request line: target form, host, path; answers methods that are nobody's
//! content.
//!
//! Drivers have settled the host of what clients send; requests of the server's own (warming, parts
//! of pages, `explain`) are settled here.

use crate::{Body, Chunk, Exchange, Response, Services};
use saker_http::{
    KnownField, Method, Status,
    host::{self, parse_authority},
    path::{self, PathError},
    target::{self, Target},
};
use saker_telemetry::{error_log, httpd_message, message};

pub(super) fn post_read(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    // A front-end has its own words for methods and for what it can't make sense of.
    let has_rules = services.rules.is_some();
    let view = exchange.head.view();
    if view.method() == Method::Extension && !has_rules && !is_for_cache(view.method_token()) {
        return Some(unknown_method());
    }
    match read_target(exchange, has_rules) {
        Ok(answer) => answer,
        Err(status) => {
            exchange.trace("post_read", None, || {
                "the request-target can't be made sense of".into()
            });
            complain(exchange, status);
            Some(Response::new(status))
        }
    }
}

/// Of what the path is wrong with, the access log shows no more than the answer.
fn complain(exchange: &Exchange, status: Status) {
    let line = String::from_utf8_lossy(exchange.head.view().start_line());
    if !error_log::speaks_httpd() {
        return error_log::log_about(
            &message::REQUEST_REJECTED,
            exchange,
            format_args!("the request-target can't be made sense of: {line}"),
        );
    }
    match status {
        Status::NOT_FOUND => {
            let text = format_args!("found %2f (encoded '/') in URI path ({line}), returning 404");
            error_log::log_httpd(&httpd_message::ENCODED_SLASH, None, exchange, text);
        }
        _ => error_log::log_httpd(
            &httpd_message::INVALID_URI,
            None,
            exchange,
            format_args!("Invalid URI in request {line}"),
        ),
    }
}

/// Methods that are for the page cache, where there is one: what Varnish and LiteSpeed purge by.
pub(super) fn is_for_cache(method: &[u8]) -> bool {
    matches!(method, b"PURGE" | b"REFRESH" | b"BAN")
}

/// RFC 9110 section 9.1: a method that is not recognised is 501.
pub(super) fn unknown_method() -> Response {
    Response::new(Status::NOT_IMPLEMENTED)
}

fn read_target(exchange: &mut Exchange, has_rules: bool) -> Result<Option<Response>, Status> {
    exchange
        .head
        .settle_host()
        .map_err(|_| Status::BAD_REQUEST)?;
    let view = exchange.head.view();
    let method = view.method();
    let target = target::split(method, view.target()).map_err(|_| Status::BAD_REQUEST)?;
    let (raw_path, query) = match target {
        // The host is settled: an authority of the target is that of the field by now.
        Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
        Target::Asterisk => (&b"/"[..], None),
        // Whether we are a proxy is for rules to say.
        Target::Authority(_) if has_rules => (&b"/"[..], None),
        Target::Authority(_) => return Ok(Some(with_methods(Status::METHOD_NOT_ALLOWED))),
    };
    let asterisk = matches!(target, Target::Asterisk);
    let mut decoded = Vec::with_capacity(raw_path.len());
    let encoded_slash = match path::normalise(raw_path, &mut decoded) {
        // Whether that may be is for the rules of its host to say.
        Err(PathError::EncodedSlash) if has_rules => true,
        Err(PathError::Nul) if has_rules => return Err(Status::NOT_FOUND),
        outcome => outcome.map_err(status_of).map(|()| false)?,
    };
    let authority = view.known(KnownField::Host).and_then(parse_authority);
    let host = authority
        .map(|authority| host::canonical_host(authority.host))
        .unwrap_or_default();
    let query = query.map(<[u8]>::to_vec);
    (
        exchange.host,
        exchange.path,
        exchange.query,
        exchange.encoded_slash,
    ) = (host, decoded, query, encoded_slash);
    // `OPTIONS *` asks about the server as a whole (RFC 9110 section 9.3.7).
    Ok(asterisk.then(|| {
        if has_rules {
            Response::new(Status::OK)
        } else {
            with_methods(Status::NO_CONTENT)
        }
    }))
}

fn status_of(error: PathError) -> Status {
    match error {
        // As Apache with AllowEncodedSlashes off, its default.
        PathError::EncodedSlash => Status::NOT_FOUND,
        _ => Status::BAD_REQUEST,
    }
}

/// A response that names what can be asked for instead; a 405 must (RFC 9110 section 15.5.6).
pub(super) fn with_methods(status: Status) -> Response {
    let mut response = Response::new(status);
    response
        .fields_mut()
        .append("Allow", &b"GET, HEAD, OPTIONS"[..]);
    response
}

/// The answer to TRACE: the head as we got it (RFC 9110 section 9.3.8), without what could be a
/// secret.
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

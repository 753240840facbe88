//! Makes sense of the request line: target form, host, path; answers methods that are nobody's content.

use crate::{Body, Chunk, Exchange, Response, Services};
use saker_http::{
    KnownField, Method, Status, host, path,
    target::{self, Target},
};

pub(super) fn post_read(exchange: &mut Exchange, _: &Services) -> Option<Response> {
    if exchange.head.view().method() == Method::Extension {
        // RFC 9110 section 9.1: a method that is not recognised is 501.
        return Some(Response::new(Status::NOT_IMPLEMENTED));
    }
    match read_target(exchange) {
        Ok(answer) => answer,
        Err(status) => {
            exchange.trace("post_read", None, || "the request-target can't be made sense of".into());
            Some(Response::new(status))
        }
    }
}

fn read_target(exchange: &mut Exchange) -> Result<Option<Response>, Status> {
    let view = exchange.head.view();
    let method = view.method();
    let target = target::split(method, view.target()).map_err(|_| Status::BAD_REQUEST)?;
    let field = view.known(KnownField::Host).unwrap_or_default();
    // RFC 9112 section 3.2.2: the authority of an absolute-form target wins over Host.
    let (authority, raw_path, query) = match target {
        Target::Origin { path, query } => (field, path, query),
        Target::Absolute { authority, path, query, .. } => (authority, path, query),
        Target::Asterisk => (field, &b"/"[..], None),
        // We are no proxy.
        Target::Authority(_) => return Ok(Some(with_methods(Status::METHOD_NOT_ALLOWED))),
    };
    let asterisk = matches!(target, Target::Asterisk);
    let mut decoded = Vec::with_capacity(raw_path.len());
    path::normalise(raw_path, &mut decoded).map_err(status_of)?;
    let host = match authority {
        b"" => Vec::new(),
        text => host::canonical_host(host::parse_authority(text).ok_or(Status::BAD_REQUEST)?.host),
    };
    let query = query.map(<[u8]>::to_vec);
    (exchange.host, exchange.path, exchange.query) = (host, decoded, query);
    // `OPTIONS *` asks about the server as a whole (RFC 9110 section 9.3.7).
    Ok(asterisk.then(|| with_methods(Status::NO_CONTENT)))
}

fn status_of(error: path::PathError) -> Status {
    match error {
        // As Apache with AllowEncodedSlashes off, its default.
        path::PathError::EncodedSlash => Status::NOT_FOUND,
        _ => Status::BAD_REQUEST,
    }
}

/// A response that names what can be asked for instead; a 405 must (RFC 9110 section 15.5.6).
pub(super) fn with_methods(status: Status) -> Response {
    let mut response = Response::new(status);
    response.fields_mut().append("Allow", &b"GET, HEAD, OPTIONS"[..]);
    response
}

/// The answer to TRACE: the head as we got it (RFC 9110 section 9.3.8), without what could be a secret.
pub(super) fn trace_answer(exchange: &Exchange) -> Response {
    let view = exchange.head.view();
    let mut text = Vec::new();
    for part in [view.method_token(), b" ", view.target(), b" ", view.version().as_str().as_bytes(), b"\r\n"] {
        text.extend_from_slice(part);
    }
    let secret =
        |name: &[u8]| ["cookie", "authorization", "proxy-authorization"].iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    for (name, value) in view.fields().filter(|field| !secret(field.0)) {
        for part in [name, b": ", value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n");
    let mut response = Response::new(Status::OK);
    response.fields_mut().append("Content-Type", &b"message/http"[..]);
    response.body = Body::Memory(Chunk::from(text));
    response
}

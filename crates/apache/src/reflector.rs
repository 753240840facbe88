//! mod_reflector: sends the content of a request back (handler `reflector`), so that the output
//! filters of a path can be used as a service.
//!
//! Called by: the content phase, for requests with that handler.
//! Caveat: content is sent while it is received; a request that breaks off cuts the response short.
//! Out of scope: filters, which stand before and behind it.

use saker_apache_model::{host::Host, modules::reflector::Reflector};
use saker_http::{Method, Status, date::format_date};
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Exchange, NoBody, RequestBody, Response};
use std::task::{Context, Poll};

/// Fields that describe a message or a connection; no directive makes them a response's.
const OWN: [&str; 4] = [
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
];

/// Answers POST with the request's content. Other methods are not the handler's, except OPTIONS,
/// which tells so.
pub fn answer(exchange: &mut Exchange, host: &Host, reflector: &Reflector) -> Response {
    exchange.depends_on_request();
    match exchange.head.view().method() {
        Method::Post => {}
        Method::Options => return with_methods(Status::OK, host),
        _ => return with_methods(Status::METHOD_NOT_ALLOWED, host),
    }
    let mut response = Response::new(Status::OK);
    let view = exchange.head.view();
    let fields = response.fields_mut();
    for field in reflector.fields() {
        let is_own = OWN
            .iter()
            .any(|own| field.response_name.eq_ignore_ascii_case(own));
        if let Some(value) = view.first(&field.name).filter(|_| !is_own) {
            fields.append(field.response_name.to_string(), value.to_vec());
        }
    }
    if let Some(media_type) = view.first("content-type") {
        fields.set("Content-Type", media_type.to_vec());
    }
    if !fields.has("Last-Modified") {
        fields.set("Last-Modified", format_date(exchange.now).to_vec());
    }
    fields.set("Accept-Ranges", &b"bytes"[..]);
    exchange.limits.reflects_content = true;
    let body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    if let Some(length) = body.length() {
        fields.set("Content-Length", length.to_string().into_bytes());
    }
    response.body = Body::Stream(Box::new(Reflected { body }));
    response
}

fn with_methods(status: Status, host: &Host) -> Response {
    let mut response = Response::new(status);
    let methods: &[u8] = match host.trace_enabled {
        true => b"POST,OPTIONS,TRACE",
        false => b"POST,OPTIONS",
    };
    response.fields_mut().set("Allow", methods);
    response
}

/// The content of a request as that of its response.
struct Reflected {
    body: Box<dyn RequestBody>,
}

impl BodyStream for Reflected {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.body.poll_chunk(cx)
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }
}

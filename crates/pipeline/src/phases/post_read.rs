//! Parses the request line (target form, host, path), and answers methods that do not request
//! content.
//!
//! Called by: the phase list, first, and only for client requests.
//! Caveat: drivers have already determined the host of requests from clients; for requests made by
//! the server (cache warming, parts of pages, `explain`) this phase does.
//! Out of scope: selecting the site (`select_host`).

use crate::{
    Exchange, Response, Services, TargetPolicy, client_address, methods::with_methods,
    request_trace,
};
use saker_http::{
    Status,
    path::{self, EncodedSlashes, PathError, Slashes},
    target::{self, Target},
};
use saker_telemetry::{
    error_log, httpd_message,
    message::{self, Level},
    trace::RequestTrace,
};
use std::rc::Rc;

pub(super) fn post_read(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    // Some front ends handle methods and targets themselves.
    let tracing = &services.generation.model.tracing;
    if tracing.endpoint.is_some() {
        let context = request_trace::context(tracing, &exchange.client, exchange.head.view());
        exchange.log.request_trace = Some(Rc::new(RequestTrace::new(context)));
    }
    let has_rules = services.rules.target_policy() == TargetPolicy::LeftToRules;
    let trusted = &services.generation.model.server.trusted_proxies;
    client_address::drop_made_up_fields(exchange, trusted);
    if let Some(status) = exchange.limits.refused {
        // Its server is chosen by the host, if there is one.
        if exchange.head.settle_host().is_ok() {
            exchange.host = exchange.head.settled_host().unwrap_or_default().to_vec();
        }
        return Some(Response::new(status));
    }
    match read_target(exchange, has_rules) {
        Ok(answer) => answer,
        Err(status) => {
            exchange.trace("post_read", None, || "the request-target is invalid".into());
            log_rejection(exchange, status);
            Some(Response::new(status))
        }
    }
}

/// Logs the reason: the access log shows only the status.
fn log_rejection(exchange: &Exchange, status: Status) {
    let line = String::from_utf8_lossy(exchange.head.view().start_line());
    if error_log::speaks_nginx() {
        let text = format_args!("client sent invalid request while reading client request line");
        return error_log::log_nginx(&message::REQUEST_REJECTED, Level::Info, exchange, text);
    }
    if !error_log::speaks_httpd() {
        return error_log::log_about(
            &message::REQUEST_REJECTED,
            exchange,
            format_args!("invalid request-target: {line}"),
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

fn read_target(exchange: &mut Exchange, has_rules: bool) -> Result<Option<Response>, Status> {
    exchange
        .head
        .settle_host()
        .map_err(|_| Status::BAD_REQUEST)?;
    let view = exchange.head.view();
    let method = view.method();
    let target = target::split(method, view.target()).map_err(|_| Status::BAD_REQUEST)?;
    let (raw_path, query) = match target {
        // The host is already determined: the authority of a target has replaced the Host field.
        Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
        Target::Asterisk => (&b"/"[..], None),
        // Only rules know whether this server is a forward proxy.
        Target::Authority(_) if has_rules => (&b"/"[..], None),
        Target::Authority(_) => return Ok(Some(with_methods(Status::METHOD_NOT_ALLOWED))),
    };
    let asterisk = matches!(target, Target::Asterisk);
    let mut decoded = std::mem::take(&mut exchange.path);
    decoded.clear();
    decoded.reserve(raw_path.len());
    let encoded_slash = match path::normalize(raw_path, &mut decoded) {
        // The rules of the site decide whether to allow it. Until then, and in all trust
        // decisions, it separates segments, as it does to a server that decodes it.
        Err(PathError::EncodedSlash) => {
            let decoding = Slashes {
                encoded: EncodedSlashes::Decode,
                merge: true,
            };
            let read = path::normalize_with(raw_path, decoding, &mut decoded);
            match read {
                Ok(()) => {}
                Err(_) if has_rules => decoded = b"/".to_vec(),
                Err(_) => return Err(Status::NOT_FOUND),
            }
            true
        }
        // They refuse it with the pages and in the logs of its host.
        Err(error) if has_rules => {
            log_rejection(exchange, status_of(error));
            decoded = b"/".to_vec();
            true
        }
        outcome => outcome.map_err(status_of).map(|()| false)?,
    };
    let mut host = std::mem::take(&mut exchange.host);
    host.clear();
    host.extend_from_slice(exchange.head.settled_host().unwrap_or_default());
    let query = query.map(<[u8]>::to_vec);
    (
        exchange.host,
        exchange.path,
        exchange.query,
        exchange.routing.encoded_slash,
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

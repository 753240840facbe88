//! Internal redirects and `error_page`.
//!
//! Called by: `content` (index files, `try_files`), and the rules for a response that is an error.
//! Caveat: an error page takes the method GET, has none of the request's conditions, and keeps the
//! status of the error unless the directive says otherwise. Errors of it have no page, unless
//! `recursive_error_pages` says so.
//! Out of scope: built-in pages (`pages`).

use crate::{clients, log_lines, pages, request::Request};
use saker_http::{Method, RequestHead, Status};
use saker_nginx_model::modules::core::ErrorPage;
use saker_pipeline::{Body, NoBody, OriginalRequest, Response, Verdict};
use saker_telemetry::message::{self, Level};
use std::sync::Arc;

/// Redirects internally to a path with arguments, or to a named location.
pub fn redirect(request: &mut Request<'_>, target: &[u8]) -> Verdict {
    if target.starts_with(b"@") {
        return to_named(request, target);
    }
    let at = target.iter().position(|byte| *byte == b'?');
    let (path, query) = match at {
        Some(at) => (
            target.get(..at).unwrap_or_default(),
            Some(target.get(at + 1..).unwrap_or_default().to_vec()),
        ),
        None => (target, None),
    };
    request.exchange.query = query;
    request.exchange.routing.has_written_query = true;
    redirect_path(request, path.to_vec())
}

/// Redirects internally to a path, with the arguments of the request.
pub fn redirect_path(request: &mut Request<'_>, path: Vec<u8>) -> Verdict {
    if !request.state.redirect() {
        request.exchange.trace("fixups", None, || {
            "rewrite or internal redirection cycle".into()
        });
        request.log_cycle("internally redirecting to");
        return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
    }
    remember(request);
    request.exchange.path = path;
    Verdict::Restart
}

fn to_named(request: &mut Request<'_>, name: &[u8]) -> Verdict {
    let name = String::from_utf8_lossy(name);
    let server = Arc::clone(&request.state.server);
    let Some(location) = server.named.get(&*name) else {
        request
            .exchange
            .trace("fixups", None, || format!("there is no location `{name}`"));
        return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
    };
    if !request.state.change() {
        return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
    }
    request.state.is_internal = true;
    request.state.is_forwarded = false;
    request.state.adds_path_to_alias = false;
    request.state.named = Some(Arc::clone(location));
    remember(request);
    Verdict::Restart
}

/// Keeps the request as it was for the access log.
fn remember(request: &mut Request<'_>) {
    let exchange = &mut *request.exchange;
    if exchange.log.original.is_none() {
        exchange.log.original = Some(Box::new(OriginalRequest {
            path: exchange.path.as_slice().into(),
            query: exchange.query.as_deref().map(Into::into),
            environment: exchange.environment.clone(),
        }));
    }
    exchange.routing.mapped = None;
}

/// Fields of an error that its page keeps.
const KEPT_FIELDS: [&str; 4] = ["WWW-Authenticate", "Allow", "Retry-After", "Content-Range"];

/// Chooses the error page of a response. Returns true if the phases are to run for it.
pub fn error_page(request: &mut Request<'_>, response: &mut Response) -> bool {
    if request.state.is_forwarded
        && !request.state.is_handed_over
        && !request.exchange.upstream.is_answered_by_program
        && !request.exchange.upstream.is_replaced
        && response.status == Status::SERVICE_UNAVAILABLE
    {
        // No upstream could be reached.
        response.status = Status::BAD_GATEWAY;
        response.fields_mut().remove("Retry-After");
    }
    if let Some(target) = request.exchange.upstream.refused_redirect.take()
        && refused(request, &target, response)
    {
        return true;
    }
    let status = response.status.0;
    if !(300..=599).contains(&status)
        || matches!(status, 304)
        || !matches!(response.body, Body::Empty)
        || response.tunnel.is_some()
    {
        return false;
    }
    clients::depends_on_program(request, response.status);
    if matches!(status, 400 | 413 | 414 | 494..=497 | 500 | 501)
        && !request.exchange.upstream.is_answered_by_program
    {
        // What the client sends next is not worth reading.
        request.depends_on_request();
        request.state.is_last = true;
        request.exchange.limits.closes_connection = true;
    }
    let location = Arc::clone(&request.state.location);
    let recursive = location.conf.core.recursive_error_pages == Some(true);
    if request.state.has_error_page {
        return false;
    }
    let pages = location.conf.core.error_pages.clone().unwrap_or_default();
    let Some(page) = pages.iter().find(|page| page.statuses.contains(&status)) else {
        return false;
    };
    request.depends_on_request();
    request.state.has_error_page |= !recursive;
    if response.status == Status::CONTENT_TOO_LARGE {
        // Its page is answered without it.
        request.exchange.body = Box::new(NoBody);
        request.exchange.upstream.has_lost_content = false;
    }
    for name in KEPT_FIELDS {
        if let Some(value) = response.fields().first(name) {
            request.state.error_fields.push((name.into(), value.into()));
        }
    }
    request.state.failed_status = Some(status);
    request.exchange.limits.paged = Some(response.status);
    let kept = |own: u16| (own != 0).then_some(own);
    // Faults of heads and certificates have statuses for `error_page`; clients see 400.
    let shown = match status {
        494..=497 => 400,
        status => status,
    };
    request.state.error_status = page.status.map_or(Some(shown), kept);
    apply(request, page, response)
}

/// A redirect of an upstream to a named location, or to what is no path. Returns true if the phases
/// are to run for it.
fn refused(request: &mut Request<'_>, target: &[u8], response: &mut Response) -> bool {
    if !target.starts_with(b"@") {
        let text = format!(
            "unsafe URI \"{}\" was detected while reading response header from upstream",
            log_lines::shown(target)
        );
        request.log(&message::NGINX_CYCLE, Level::Error, text);
        return false;
    }
    match redirect(request, target) {
        Verdict::Restart => {
            request.exchange.upstream.call = None;
            true
        }
        Verdict::Answer(answer) => {
            *response = answer;
            false
        }
        Verdict::Pass => false,
    }
}

fn apply(request: &mut Request<'_>, page: &ErrorPage, response: &mut Response) -> bool {
    let target = request.text(&page.target);
    request.exchange.trace("respond", None, || {
        format!("error page {}", String::from_utf8_lossy(&target))
    });
    if !target.starts_with(b"/") && !target.starts_with(b"@") {
        let is_redirect = |status: &u16| matches!(status, 301 | 302 | 303 | 307 | 308);
        let status = page.status.filter(is_redirect).unwrap_or(302);
        request.state.error_status = None;
        response.status = Status(status);
        response
            .fields_mut()
            .set("Location", pages::field_value(&target));
        return false;
    }
    if target.starts_with(b"/") {
        become_get(request);
        request.exchange.upstream.has_lost_content = false;
    }
    let own_status = request.state.error_status;
    match redirect(request, &target) {
        Verdict::Restart => {
            without_conditions(request, own_status.is_some());
            request.exchange.upstream.call = None;
            true
        }
        Verdict::Answer(answer) => {
            *response = answer;
            request.state.error_status = None;
            false
        }
        Verdict::Pass => false,
    }
}

/// A page is asked for with GET; HEAD stays.
fn become_get(request: &mut Request<'_>) {
    let view = request.exchange.head.view();
    if matches!(view.method(), Method::Get | Method::Head) {
        return;
    }
    let target = String::from_utf8_lossy(view.target()).into_owned();
    let bare = RequestHead::build("GET", &target, view.version(), &[]);
    let head = bare.with_fields(view.fields());
    request.exchange.head = head;
}

/// Conditions and ranges are about the page that was asked for.
fn without_conditions(request: &mut Request<'_>, is_error: bool) {
    const CONDITIONS: [&str; 6] = [
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
        "if-range",
        "range",
    ];
    let is_condition = |name: &[u8]| {
        CONDITIONS
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    };
    let head = &request.exchange.head;
    if is_error && head.view().fields().any(|(name, _)| is_condition(name)) {
        let edited = head.edited(|name| !is_condition(name), []);
        request.exchange.head = edited;
    }
}

//! Response processing: error documents, then loggers and filters, each in order.
//!
//! Called by: drivers, for client requests; the page cache, for its own.
//! Caveat: an error document (a path of the same site) is an internal request that runs the phases
//! after `select_host`. It carries none of the client's conditions: a 404 page must never become a
//! 304 or a range.
//! Out of scope: framing, connection fields, and `Date` (drivers).

use crate::{
    Body, Chunk, ErrorDocument, Exchange, Inner, NoBody, Response, ResponseHead, Services,
    cached_answer, phases,
};
use saker_config::model::{Action, ErrorPage, FieldEdit, Settings};
use saker_http::{KnownField, Method, RequestHead, Status, escape};
use saker_telemetry::{error_log, message};
use std::{rc::Rc, sync::Arc};

/// Answers a request: phases, content, error document, filters. Never fails: a failure is a 5xx
/// response.
pub async fn answer(exchange: &mut Exchange, services: &Services) -> Response {
    let mut response = phases::run_phases(exchange, services).await;
    if phases::redirects_error(exchange, services, &mut response) {
        response = Box::pin(phases::run_error_redirects(exchange, services)).await;
    }
    if exchange.limits.drops_connection {
        return response;
    }
    if let Some(handed) = exchange.upstream.internal_redirect.take() {
        handed.lay(&mut exchange.routing.settings, &mut response);
    }
    if needs_page(&response) {
        response = Box::pin(dressed(exchange, services, response)).await;
    }
    if exchange.access.inspection.is_some()
        && let Some(refused) = services.inspector.response(exchange, &mut response).await
    {
        if exchange.limits.drops_connection {
            return refused;
        }
        response = Box::pin(dressed(exchange, services, refused)).await;
    }
    if response.status == Status::RESET_CONTENT {
        drop_content(&mut response);
    }
    finish(exchange, services, &mut response).await;
    if !is_final(&response) {
        response = not_final(exchange, services);
    }
    cached_answer::keep(exchange, &response);
    response
}

/// Returns true if a response can be the last one of a request (RFC 9110 section 15.2): no
/// informational one is, but for 101 with what the connection becomes. The client would take the
/// next response for this one's, and a proxy in front of the server would relay bytes blindly.
fn is_final(response: &Response) -> bool {
    let is_switch = || response.status == Status::SWITCHING_PROTOCOLS && response.tunnel.is_some();
    response.status.0 >= 200 || is_switch()
}

/// Returns the error in place of a response that is none, and drops all that was kept of it.
#[cold]
fn not_final(exchange: &mut Exchange, services: &Services) -> Response {
    exchange.cache.cached_route = None;
    exchange.cache.keeps_answer = false;
    own_page(
        exchange,
        services,
        Response::new(Status::INTERNAL_SERVER_ERROR),
    )
}

/// Answers a request whose content turned out to be at fault, in place of the response to it.
pub async fn refuse(exchange: &mut Exchange, services: &Services, status: Status) -> Response {
    exchange.limits.refused = Some(status);
    exchange.body = Box::new(NoBody);
    exchange.upstream.is_answered_by_program = false;
    let mut response = Response::new(status);
    if phases::redirects_error(exchange, services, &mut response) {
        response = Box::pin(phases::run_error_redirects(exchange, services)).await;
    }
    if needs_page(&response) {
        response = Box::pin(dressed(exchange, services, response)).await;
    }
    finish(exchange, services, &mut response).await;
    if !is_final(&response) {
        response = not_final(exchange, services);
    }
    response
}

/// RFC 9110 section 15.3.6: programs and upstreams may send content with a 205, but no server does.
fn drop_content(response: &mut Response) {
    if matches!(response.head, ResponseHead::Built(_)) {
        response.body = Body::Empty;
        let fields = response.fields_mut();
        fields.retain(|name| !name.to_ascii_lowercase().starts_with("content-"));
    }
}

/// Returns true if the response needs a page and has none. Most responses have their content, and
/// their future shall not carry the room for the page of an error, which is moved with it.
fn needs_page(response: &Response) -> bool {
    matches!(response.body, Body::Empty)
        && (response.status.is_error() || is_redirect(response.status))
}

/// Adds a page to a response that needs one and has none.
async fn dressed(exchange: &mut Exchange, services: &Services, response: Response) -> Response {
    match &response.body {
        Body::Empty if response.status.is_error() => {
            error_document(exchange, services, response).await
        }
        Body::Empty if is_redirect(response.status) => {
            match exchange.routing.settings.error_page(response.status) {
                // Another address is no page for a redirect: it has one.
                None | Some(ErrorPage::Redirect(_)) => own_page(exchange, services, response),
                Some(_) => error_document(exchange, services, response).await,
            }
        }
        _ => response,
    }
}

/// Returns the content of a subrequest, after [`phases::run_subrequest`]: without error documents,
/// and with the content filters only.
pub async fn subrequest_content(exchange: &mut Exchange, services: &Services) -> Response {
    let mut response = phases::subrequest_content(exchange, services).await;
    for filter in services.content_filters.iter() {
        filter.apply(exchange, &mut response).await;
    }
    response
}

/// Shows the response to loggers, and runs the filters on a built head, or on a ready one those that request it. A filter that changes
/// a ready head converts it to a built one for the filters after it.
async fn finish(exchange: &mut Exchange, services: &Services, response: &mut Response) {
    services.loggers.response(exchange, response);
    for filter in services.filters.iter() {
        if matches!(response.head, ResponseHead::Built(_)) || filter.takes_ready(exchange) {
            filter.apply(exchange, response).await;
        }
    }
}

async fn error_document(
    exchange: &mut Exchange,
    services: &Services,
    response: Response,
) -> Response {
    let settings = Arc::clone(&exchange.routing.settings);
    match settings.error_page(response.status) {
        // A request that is over its budget must not start another one.
        Some(ErrorPage::Path(_) | ErrorPage::Route(_))
            if exchange.is_over_budget() || !exchange.may_nest(Inner::Include) =>
        {
            own_page(exchange, services, response)
        }
        Some(page @ (ErrorPage::Path(_) | ErrorPage::Route(_))) => {
            match internal_page(exchange, services, page, response.status).await {
                Some(page) => {
                    let rules = services.rules.of(exchange.routing.site_index);
                    merge(response, page, rules.keeps_error_document_head())
                }
                None => {
                    let facts = format_args!("{page} for status {}", response.status.0);
                    error_log::log_about(&message::ERROR_PAGE_FAILED, &*exchange, facts);
                    own_page(exchange, services, response)
                }
            }
        }
        Some(ErrorPage::Text(text)) => {
            text_page(response, text, settings.error_text_type.as_deref())
        }
        Some(ErrorPage::Redirect(to)) => {
            let mut response = response;
            response.status = Status::FOUND;
            response
                .fields_mut()
                .set("Location", to.clone().into_bytes());
            response
        }
        None => own_page(exchange, services, response),
    }
}

/// Returns true if a response with the status has a `Location` (RFC 9110 section 15.4).
pub fn is_redirect(status: Status) -> bool {
    matches!(status.0, 301 | 302 | 303 | 307 | 308)
}

/// Returns the page that the rules of the front end generate.
fn own_page(exchange: &Exchange, services: &Services, response: Response) -> Response {
    services
        .rules
        .of(exchange.routing.site_index)
        .own_page(exchange, response)
}

/// The request for a page, and the status that its route names itself.
fn request_for_page(
    exchange: &mut Exchange,
    page: &ErrorPage,
) -> Option<(Exchange, Option<Status>)> {
    match page {
        ErrorPage::Route(name) => {
            let routes = &exchange.routing.site.routes;
            let named = routes.named(name)?;
            let route = routes.get(named)?;
            let own = match &route.action {
                Action::Respond { status, .. } => Some(*status),
                _ => None,
            };
            let is_fixed = route.is_fixed_page();
            // The target of a rewrite may be a program, which nothing keeps from the client's query.
            let has_query = !is_fixed || route.rewrite.is_none();
            let query = exchange.query.clone().filter(|_| has_query);
            let path = exchange.path.clone();
            let mut inner = page_exchange(exchange, path, query);
            inner.routing.named_route = Some(named);
            inner.access.has_client_target = !is_fixed;
            if !is_fixed {
                // It is another way to its program, with limits that may not have counted yet.
                inner.limits.is_counted = exchange.limits.is_counted;
                inner.limits.charged.clone_from(&exchange.limits.charged);
            }
            Some((inner, own))
        }
        ErrorPage::Path(path) => {
            let (path, query) = path
                .split_once('?')
                .map_or((path.as_str(), None), |(path, query)| {
                    (path, Some(query.as_bytes().to_vec()))
                });
            let inner = page_exchange(exchange, path.as_bytes().to_vec(), query);
            Some((inner, None))
        }
        ErrorPage::Text(_) | ErrorPage::Redirect(_) => None,
    }
}

/// Returns the page at a path, or of a route, of the same site. `None`: the page itself is an error.
async fn internal_page(
    exchange: &mut Exchange,
    services: &Services,
    page: &ErrorPage,
    status: Status,
) -> Option<Response> {
    exchange.trace("respond", None, || {
        format!("error document {page} for {}", status.0)
    });
    let is_route = matches!(page, ErrorPage::Route(_));
    let (mut inner, named) = request_for_page(exchange, page)?;
    inner.log.stands_in_for = Some(status);
    let cache = services.error_document_cache.as_deref();
    if let Some(cache) = cache {
        cache.begin(exchange, &mut inner);
    }
    let mut page = phases::run_error_document(&mut inner, services, exchange, status).await;
    if let Some(cache) = cache {
        cache.keep(&mut inner, &mut page).await;
    }
    if let (Some(steps), Some(more)) = (&mut exchange.log.trace, inner.log.trace.take()) {
        *steps = more;
    }
    // They end with the response.
    exchange.limits.counted.append(&mut inner.limits.counted);
    if exchange.cache.keeps_answer {
        // The page's environment is made of the request's.
        exchange.depends_on_environment();
        exchange.depends_on_exchange(&mut inner);
        if inner.cache.cached_route.is_none() || inner.access.has_client_target {
            // It is generated, or its route has rules that the route of the request has not.
            exchange.depends_on_request();
        }
    }
    let rules = services.rules.of(exchange.routing.site_index);
    // If a program sets another status and a body, the page is sent with that status, as in Apache.
    if page.status != Status::OK
        && Some(page.status) != named
        && (!rules.keeps_error_document_head() || matches!(page.body, Body::Empty))
    {
        return None;
    }
    if page.status == Status::OK && inner.upstream.is_answered_by_program {
        // Fields of a program are part of its page: cookies, and who may store it.
        page.status = status;
        let fields = page.fields_mut();
        for name in VALIDATORS {
            fields.remove(name);
        }
    }
    if named.is_some() {
        // A ready head has the edits of its route, which the filters apply to the error.
        page.fields_mut().retain(|name| {
            CONTENT_FIELDS
                .iter()
                .any(|kept| kept.eq_ignore_ascii_case(name))
        });
    }
    if is_route {
        adopt_edits(exchange, &inner);
    }
    exchange.log.error_document = Some(Box::new(ErrorDocument {
        status: status.0,
        ..ErrorDocument::of(&inner)
    }));
    rules.adopt_error_document(exchange, &mut inner);
    Some(page)
}

/// Adds the field edits of the page's route that the request does not have already, as those of the
/// site. They are for the error, so no `always` is needed.
fn adopt_edits(exchange: &mut Exchange, page: &Exchange) {
    let own = &exchange.routing.settings.fields;
    let is_new = |edit: &&FieldEdit| {
        !own.iter()
            .any(|known| known.origin == edit.origin && known.name == edit.name)
    };
    let edits = page.routing.settings.fields.iter().filter(is_new);
    let for_errors = |edit: &FieldEdit| FieldEdit {
        always: true,
        ..edit.clone()
    };
    let new: Vec<FieldEdit> = edits.map(for_errors).collect();
    if !new.is_empty() {
        let mut settings = Settings::clone(&exchange.routing.settings);
        settings.fields.extend(new);
        exchange.routing.settings = Arc::new(settings);
    }
}

/// Request fields about the content of the request, or about partial and cached responses, which do
/// not apply to an error document.
const NOT_OF_PAGE: [&str; 12] = [
    "Content-Length",
    "Content-Type",
    "Content-Encoding",
    "Content-Range",
    "Transfer-Encoding",
    "Expect",
    "Range",
    "If-Range",
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
];

/// Creates the request for the page: a GET for its URL, with the fields that describe the client.
fn page_exchange(exchange: &mut Exchange, path: Vec<u8>, query: Option<Vec<u8>>) -> Exchange {
    let view = exchange.head.view();
    let method = if view.method() == Method::Head {
        "HEAD"
    } else {
        "GET"
    };
    let is_of_page = |name: &[u8]| {
        !NOT_OF_PAGE
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    };
    let target = String::from_utf8_lossy(view.target()).into_owned();
    let bare = RequestHead::build(method, &target, view.version(), &[]);
    // The error document does not receive the content of the original request.
    let length = view
        .has(KnownField::ContentLength)
        .then_some((&b"Content-Length"[..], &b"0"[..]));
    let head = bare.with_fields(
        view.fields()
            .filter(|(name, _)| is_of_page(name))
            .chain(length),
    );
    let mut inner = Exchange::new(
        exchange.client.clone(),
        head,
        Box::new(NoBody),
        Arc::clone(&exchange.routing.site),
        exchange.now,
    );
    inner.host = exchange.host.clone();
    (inner.path, inner.query) = (path, query);
    inner.routing.site_index = exchange.routing.site_index;
    inner.log.id = Rc::clone(&exchange.log.id);
    inner.share_budget(exchange);
    inner.routing.redirects = exchange.routing.redirects.saturating_add(1);
    (inner.limits.is_admitted, inner.limits.is_counted) = (true, true);
    inner.access.has_authorized_fields = exchange.access.has_authorized_fields;
    inner.access.has_identity_fields = exchange.access.has_identity_fields;
    if let Some(gate) = exchange.upstream_gate() {
        inner.set_upstream_gate(gate);
    }
    inner.log.trace = exchange
        .log
        .trace
        .take()
        .inspect(|steps| exchange.log.trace = Some(steps.clone()));
    inner
}

/// Fields that describe the content of the page. Validators, lifetimes, and edited fields belong to
/// the page at its own URL; the filters still set the fields of the error.
const CONTENT_FIELDS: [&str; 4] = [
    "Content-Type",
    "Content-Encoding",
    "Content-Language",
    "Vary",
];
/// Validators, sent with the page if the rules keep its head (Apache).
const VALIDATORS: [&str; 3] = ["Last-Modified", "ETag", "Accept-Ranges"];

/// Combines the status and fields of the error (Allow, Retry-After, WWW-Authenticate…) with the
/// content of the page.
fn merge(mut error: Response, mut page: Response, with_validators: bool) -> Response {
    if page.status != Status::OK {
        return by_program(error, page);
    }
    let fields = error.fields_mut();
    let validators = VALIDATORS.iter().filter(|_| with_validators);
    for name in CONTENT_FIELDS.iter().chain(validators).copied() {
        if let Some(value) = page.fields().first(name) {
            fields.set(name, value.to_vec());
        }
    }
    error.body = std::mem::take(&mut page.body);
    error
}

/// Returns the page of a program in place of an error, with those fields of the error that it has
/// not set.
fn by_program(error: Response, mut page: Response) -> Response {
    let fields = page.fields_mut();
    for (name, value) in error.fields().iter() {
        if !fields.has(name) {
            fields.append(name.to_owned(), value.to_vec());
        }
    }
    page
}

fn text_page(mut response: Response, text: &str, kind: Option<&str>) -> Response {
    let by_content = || {
        if text.starts_with('<') {
            "text/html; charset=utf-8"
        } else {
            "text/plain; charset=utf-8"
        }
    };
    response.fields_mut().set(
        "Content-Type",
        kind.unwrap_or_else(by_content).as_bytes().to_vec(),
    );
    response.body = Body::Memory(Chunk::from(text.as_bytes().to_vec()));
    response
}

/// Returns a short page that names the error and reveals nothing about the server.
pub fn built_in_page(response: Response) -> Response {
    let sentence = sentence(response.status);
    page(response, sentence.as_bytes(), b"")
}

/// Builds a page with the status as its title. `sentence` and `end` are HTML.
pub fn page(mut response: Response, sentence: &[u8], end: &[u8]) -> Response {
    let status = response.status;
    if status.forbids_content() {
        return response;
    }
    let mut html = Vec::with_capacity(512);
    let reason = match response.reason() {
        Some(text) => String::from_utf8_lossy(text),
        None => status.reason().into(),
    };
    let title = format!("{} {reason}", status.0);
    html.extend_from_slice(
        b"<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>",
    );
    escape::html(title.as_bytes(), &mut html);
    html.extend_from_slice(b"</title>\n<style>:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem}</style>\n<h1>");
    escape::html(title.as_bytes(), &mut html);
    html.extend_from_slice(b"</h1>\n<p>");
    html.extend_from_slice(sentence);
    html.extend_from_slice(b"</p>\n");
    html.extend_from_slice(end);
    html.extend_from_slice(b"</html>\n");
    response
        .fields_mut()
        .set("Content-Type", &b"text/html; charset=utf-8"[..]);
    response.body = Body::Memory(Chunk::from(html));
    response
}

/// Returns the sentence of the built-in page for an error.
pub fn sentence(status: Status) -> &'static str {
    match status.0 {
        400 => "The request could not be understood.",
        403 => "You may not see this.",
        404 => "There is nothing at this address.",
        405 => "This method can't be used here.",
        408 => "The request took too long to arrive.",
        413 => "The request's content is too large.",
        414 => "The address is too long.",
        416 => "The requested range does not exist.",
        429 => "Too many requests. Please wait a little.",
        431 => "The request's header fields are too large.",
        501 => "This server can't do that.",
        503 => "The server can't answer right now. Please try again later.",
        500..=599 => "Something went wrong on the server.",
        _ => "The request could not be fulfilled.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_informational_status_is_final() {
        for (status, expected) in [(100, false), (101, false), (103, false), (200, true)] {
            let response = Response::new(Status(status));
            assert_eq!(is_final(&response), expected, "{status}");
        }
    }
}

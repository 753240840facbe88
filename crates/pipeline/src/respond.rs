//! The way back up: error documents, then the filters in their order.
//!
//! Error documents (a path of the same site) run the later phases once more with a request of their
//! own, which carries none of the client's conditions: a 404 page must never become a 304 or a part
//! of itself.

use crate::{
    Body, Chunk, Exchange, Inner, NoBody, Response, ResponseHead, Services, StandIn, modsecurity,
    phases,
};
use saker_config::model::ErrorPage;
use saker_http::{KnownField, Method, RequestHead, Status, escape};
use std::{rc::Rc, sync::Arc};

/// Walks the whole list for one request and returns what goes to the client. Never fails: what goes
/// wrong is a 5xx response.
pub async fn answer(exchange: &mut Exchange, services: &Services) -> Response {
    let mut response = phases::run(exchange, services).await;
    if exchange.drops_connection {
        return response;
    }
    if let Some(handed) = exchange.handed.take() {
        handed.lay(exchange, &mut response);
    }
    response = dressed(exchange, services, response).await;
    if let Some(refused) = modsecurity::response(exchange, services, &mut response).await {
        if exchange.drops_connection {
            return refused;
        }
        response = dressed(exchange, services, refused).await;
    }
    finish(exchange, services, &mut response).await;
    response
}

/// With a page, where there is none for what it says.
async fn dressed(exchange: &mut Exchange, services: &Services, response: Response) -> Response {
    match &response.body {
        Body::Empty if response.status.is_error() => {
            error_document(exchange, services, response).await
        }
        Body::Empty if is_redirect(response.status) => own_page(exchange, services, response),
        _ => response,
    }
}

/// The content of a request inside of another one, after [`phases::descend_inside`]: without error
/// documents, and with those filters only that change content.
pub async fn content_inside(exchange: &mut Exchange, services: &Services) -> Response {
    let mut response = phases::content_inside(exchange, services).await;
    for filter in services
        .filters
        .iter()
        .filter(|filter| filter.changes_content())
    {
        filter.apply(exchange, &mut response).await;
    }
    response
}

/// Runs the filters over a head that nobody has filtered yet, and over a ready one those that want
/// it all the same; who changes a ready head makes it one for those behind him, too.
async fn finish(exchange: &mut Exchange, services: &Services, response: &mut Response) {
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
    let settings = Arc::clone(&exchange.settings);
    match settings.error_page(response.status) {
        // Whatever led the request too far would go on there.
        Some(ErrorPage::Path(_))
            if exchange.is_over_budget() || !exchange.may_nest(Inner::Include) =>
        {
            own_page(exchange, services, response)
        }
        Some(ErrorPage::Path(path)) => {
            match internal_page(exchange, services, path, response.status).await {
                Some(page) => merge(response, page, exchange.rules_state.is_some()),
                None => own_page(exchange, services, response),
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

fn is_redirect(status: Status) -> bool {
    matches!(status.0, 301 | 302 | 303 | 307 | 308)
}

/// What the server itself says. Where there are rules of another front-end, redirects have such a
/// note, too (RFC 9110 section 15.4).
fn own_page(exchange: &mut Exchange, services: &Services, response: Response) -> Response {
    match services
        .rules
        .as_deref()
        .filter(|rules| rules.apply_to(exchange.site_index))
    {
        Some(rules) => rules.own_page(exchange, response),
        None if is_redirect(response.status) => response,
        None => built_in_page(response),
    }
}

/// The page at `path` of the same site, if it can be had whole.
async fn internal_page(
    exchange: &mut Exchange,
    services: &Services,
    path: &str,
    status: Status,
) -> Option<Response> {
    exchange.trace("respond", None, || {
        format!("error document {path} for {}", status.0)
    });
    let mut inner = page_exchange(exchange, path);
    inner.stands_in_for = Some(status);
    inner.page_cache = services
        .filters
        .iter()
        .find_map(|filter| filter.left_to_stand_in(exchange));
    let mut page = phases::run_again(&mut inner, services, exchange, status).await;
    for filter in services
        .filters
        .iter()
        .filter(|filter| filter.sees_stand_ins())
    {
        if matches!(page.head, ResponseHead::Built(_)) || filter.takes_ready(&inner) {
            filter.apply(&mut inner, &mut page).await;
        }
    }
    if let (Some(steps), Some(more)) = (&mut exchange.trace, inner.trace.take()) {
        *steps = more;
    }
    // One that says another status has an answer all the same, if it says what: a program's.
    // (Apache sends it with that status.)
    if page.status != Status::OK
        && (exchange.rules_state.is_none() || matches!(page.body, Body::Empty))
    {
        return None;
    }
    exchange.stand_in = Some(Box::new(StandIn::of(&inner)));
    // What the rules found out about the page is what counts for the answer from here on.
    exchange.rules_state = inner.rules_state.take().or(exchange.rules_state.take());
    Some(page)
}

/// Fields that are about the content of the request, or about what its client has of the response:
/// not about a page in its stead.
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

/// The request for the page: had by GET, with what the client has said of itself, and still about
/// the URL that it asked for.
fn page_exchange(exchange: &mut Exchange, path: &str) -> Exchange {
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
    // Its content has been seen to.
    let length = view
        .has(KnownField::ContentLength)
        .then_some((&b"Content-Length"[..], &b"0"[..]));
    let head = bare.with_fields(
        view.fields()
            .filter(|(name, _)| is_of_page(name))
            .chain(length),
    );
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| {
        (path, Some(query.as_bytes().to_vec()))
    });
    let mut inner = Exchange::new(
        exchange.client.clone(),
        head,
        Box::new(NoBody),
        Arc::clone(&exchange.site),
        exchange.now,
    );
    inner.host = exchange.host.clone();
    (inner.path, inner.query) = (path.as_bytes().to_vec(), query);
    inner.site_index = exchange.site_index;
    inner.log_id = Rc::clone(&exchange.log_id);
    inner.share_budget(exchange);
    inner.redirects = exchange.redirects.saturating_add(1);
    inner.is_admitted = true;
    inner.has_authorized_fields = exchange.has_authorized_fields;
    inner.program_gate = exchange.program_gate.clone();
    inner.trace = exchange
        .trace
        .take()
        .inspect(|steps| exchange.trace = Some(steps.clone()));
    inner
}

/// What describes the page's content, and nothing else of it: validators, lifetimes and edited
/// fields belong to the page under its own address, and the filters still see to the fields of the
/// error.
const CONTENT_FIELDS: [&str; 4] = [
    "Content-Type",
    "Content-Encoding",
    "Content-Language",
    "Vary",
];
/// Apache sends them with the page, and so do sites with its rules.
const VALIDATORS: [&str; 3] = ["Last-Modified", "ETag", "Accept-Ranges"];

/// The error's status and own fields (Allow, Retry-After, WWW-Authenticate…) with the page's
/// content.
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

/// What a program answered in the place of an error, with the fields of the error that it did not
/// say itself.
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

/// A short page that says what happened and nothing about the server's insides.
pub fn built_in_page(response: Response) -> Response {
    let sentence = sentence(response.status);
    page(response, sentence.as_bytes(), b"")
}

/// The same with a sentence and an end of the caller's, in HTML.
pub fn page(mut response: Response, sentence: &[u8], end: &[u8]) -> Response {
    let status = response.status;
    if status.forbids_content() {
        return response;
    }
    let mut html = Vec::with_capacity(512);
    let title = format!("{} {}", status.0, status.reason());
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

/// What built-in pages say of an error.
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

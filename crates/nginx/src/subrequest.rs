//! Requests inside of a request: for permission (`auth_request`), for parts of a page (SSI,
//! `add_before_body`), and for copies (`mirror`).
//!
//! Called by: `auth_request`, `body_filters`, `ssi`, `mirror`.
//! Caveat: a subrequest passes limits and access, as in nginx, and reaches internal locations. It has
//! the fields of the request, no content, and none of its conditions; it is a GET. Variables tell of the
//! client's request: what an authorization service is told of a method has to be the client's.

use crate::{pages, state::State};
use saker_files::Watcher;
use saker_nginx_model::Nginx;
use saker_pipeline::{
    Body, Exchange, Inner, NoBody, Response, Services, phases, respond::is_redirect, template,
};
use std::{
    rc::{Rc, Weak},
    sync::Arc,
};

/// The configuration, and the way to other locations, for one worker.
#[derive(Clone)]
pub struct Filters {
    pub nginx: Arc<Nginx>,
    pub watcher: Watcher,
    pub inside: Weak<Services>,
}

/// Fields about content, conditions, and parts.
const LEFT_OUT: [&str; 10] = [
    "content-length",
    "transfer-encoding",
    "expect",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "trailer",
];

/// Fields about conditions and parts, which variables nevertheless have. Lengths of content that is not
/// sent stay out: what they describe would be waited for.
const TOLD: [&str; 6] = [
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
];

/// True if variables have the field of the client's request, not that of the subrequest.
pub fn is_of_main(name: &str) -> bool {
    TOLD.contains(&name)
}

/// Makes a request for a path, by GET. `None`: there are too many inside of each other.
pub fn subrequest(exchange: &Exchange, path: Vec<u8>, query: Option<Vec<u8>>) -> Option<Exchange> {
    if !exchange.may_nest(Inner::Include) {
        return None;
    }
    inner(exchange, bare_head(exchange), path, query)
}

/// The head of the request, as a GET without content, conditions, and parts.
pub fn bare_head(exchange: &Exchange) -> saker_http::RequestHead {
    let view = exchange.head.view();
    let target = String::from_utf8_lossy(view.target()).into_owned();
    let bare = saker_http::RequestHead::build("GET", &target, view.version(), &[]);
    let is_left = |name: &[u8]| {
        !LEFT_OUT
            .iter()
            .any(|out| out.as_bytes().eq_ignore_ascii_case(name))
    };
    bare.with_fields(view.fields().filter(|(name, _)| is_left(name)))
}

/// Makes a request for a path with a head of its own.
pub fn inner(
    exchange: &Exchange,
    head: saker_http::RequestHead,
    path: Vec<u8>,
    query: Option<Vec<u8>>,
) -> Option<Exchange> {
    let outer = exchange.extensions.get::<State>()?;
    let mut inner = Exchange::new(
        Rc::clone(&exchange.client),
        head,
        Box::new(NoBody),
        Arc::clone(&exchange.routing.site),
        exchange.now,
    );
    inner.host.clone_from(&exchange.host);
    inner.log.subrequest = Some(path.as_slice().into());
    // The client of both is one.
    inner.upstream.client_abort = Rc::clone(&exchange.upstream.client_abort);
    (inner.path, inner.query) = (path, query);
    inner.routing.site_index = exchange.routing.site_index;
    inner.routing.scripts_by_name = false;
    inner.log.id = Rc::clone(&exchange.log.id);
    share_request_id(exchange, &inner);
    inner.log.error_log.clone_from(&exchange.log.error_log);
    inner.share_budget(exchange);
    inner.routing.nesting = exchange.routing.nesting.saturating_add(1);
    inner.routing.redirects_max = u8::MAX;
    let mut state = State::new(Arc::clone(&outer.server));
    state.values.clone_from(&outer.values);
    state.ssi_variables.clone_from(&outer.ssi_variables);
    state.is_internal = true;
    state.requests_limited = true;
    state.connections_limited = true;
    state.is_subrequest = true;
    let main = outer.main.clone();
    state.main = Some(main.unwrap_or_else(|| Rc::new(exchange.head.clone())));
    state.is_client_settled = true;
    inner.extensions.insert(state);
    Some(inner)
}

/// `$request_id` is one for a request and those inside of it.
fn share_request_id(exchange: &Exchange, inner: &Exchange) {
    let id = match template::request_id(exchange) {
        b"" => exchange
            .log
            .request_id
            .get_or_init(template::new_request_id),
        known => known,
    };
    inner.log.request_id.get_or_init(|| id.to_vec());
}

/// Makes a request for what a request asks for, in its location: `dispatch` is behind it.
pub fn same_location(exchange: &Exchange) -> Option<Exchange> {
    let (path, query) = (exchange.path.clone(), exchange.query.clone());
    let mut inner = inner(exchange, bare_head(exchange), path, query)?;
    let outer = exchange.extensions.get::<State>()?;
    inner.routing.settings = Arc::clone(&exchange.routing.settings);
    inner.routing.has_written_query = exchange.routing.has_written_query;
    let state = inner.extensions.get_mut::<State>()?;
    state.location = Arc::clone(&outer.location);
    state.captures.clone_from(&outer.captures);
    state.is_location_valid = outer.is_location_valid;
    state.is_unparsed = outer.is_unparsed;
    state.adds_path_to_alias = outer.adds_path_to_alias;
    Some(inner)
}

/// Copies a request without its content, for work behind its response.
pub fn copy(exchange: &Exchange) -> Exchange {
    let mut copy = exchange.upstream_copy(exchange.head.clone());
    copy.log.id = Rc::clone(&exchange.log.id);
    copy.routing.has_written_query = exchange.routing.has_written_query;
    share_request_id(exchange, &copy);
    copy.share_budget(exchange);
    if let Some(state) = exchange.extensions.get::<State>() {
        copy.extensions.insert(State::clone(state));
    }
    copy
}

/// The same for parts of the content, which end with their client.
pub fn of_content(exchange: &Exchange) -> Exchange {
    let mut copy = copy(exchange);
    copy.upstream.client_abort = Rc::clone(&exchange.upstream.client_abort);
    copy
}

/// Returns the response of a subrequest; an error has a page.
pub async fn answer(inner: &mut Exchange, services: &Services) -> Response {
    let abort = inner.upstream.client_abort.get();
    let response = answer_inner(inner, services).await;
    inner.upstream.client_abort.set(abort);
    response
}

/// Returns the response of a subrequest, or that of the path which errors are answered with.
pub async fn answer_without_page(inner: &mut Exchange, services: &Services) -> Response {
    let mut response = match phases::run_subrequest(inner, services).await {
        Some(response) => response,
        None => phases::subrequest_content(inner, services).await,
    };
    if phases::redirects_error(inner, services, &mut response) {
        response = phases::run_error_redirects(inner, services).await;
    }
    response
}

async fn answer_inner(inner: &mut Exchange, services: &Services) -> Response {
    let response = answer_without_page(inner, services).await;
    let status = response.status;
    match matches!(response.body, Body::Empty) && (status.is_error() || is_redirect(status)) {
        true => {
            let location = inner.extensions.get::<State>();
            let location = location.map(|state| &*state.location);
            pages::page(response, location, "Saker")
        }
        false => response,
    }
}

/// Splits a URI of the configuration or a page into path and arguments. `None`: it has a segment that
/// leads upwards, which nginx takes for unsafe.
pub fn split(uri: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let (path, query) = match uri.iter().position(|byte| *byte == b'?') {
        Some(at) => (uri.get(..at)?, uri.get(at + 1..).map(<[u8]>::to_vec)),
        None => (uri, None),
    };
    let mut decoded = Vec::with_capacity(path.len());
    saker_http::path::normalize(path, &mut decoded).ok()?;
    if saker_http::path::leads_upwards(path) {
        return None;
    }
    Some((decoded, query))
}

//! From the path to a location: the server, its script, the search, and the location's script.
//!
//! Called by: the phase `server_rewrite`, again after every internal redirect.
//! Caveat: rewriting that changes the path begins the search again, ten times at most.
//! Out of scope: what the location does (`content`).

use crate::{
    access, pages, real_ip,
    request::{HostMatcher, PathMatcher, Request},
    script::Flow,
    state::State,
};
use saker_files::Watcher;
use saker_http::{
    HeadView, KnownField, Method, Status,
    path::{self, EncodedSlashes, Slashes},
    target::{self, Target},
};
use saker_nginx_model::{Choice, Location, LocationKind, Nginx, values::Regex};
use saker_pipeline::{Exchange, Generation, Holding, Response, Verdict};
use saker_telemetry::message::{self, Level};
use std::sync::Arc;

/// Default of `client_max_body_size`.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Chooses the server of a request, once. Returns the answer to a request that needs another
/// connection: the handshake did not follow the client certificate policy of the server.
pub fn begin(
    exchange: &mut Exchange,
    nginx: &Nginx,
    generation: &Generation,
    watcher: &Watcher,
) -> Option<Response> {
    if let Some(state) = exchange.extensions.get_mut::<State>() {
        // Whatever began again: it is no longer what the client asked for.
        state.is_internal = true;
        state.is_unparsed &= state.named.is_some();
        // Another location may have another `auth_request`.
        state.auth_answer = None;
        if std::mem::take(&mut exchange.upstream.leads_elsewhere) {
            state.adds_path_to_alias = false;
            state.is_handed_over = true;
            if !state.change() {
                return Some(cycle(exchange, nginx, watcher));
            }
        }
        return None;
    }
    let mut matcher = HostMatcher::default();
    let host = host_of(exchange);
    let local = exchange.client.local.ip();
    let index = nginx
        .server(&exchange.client.listener, local, &host, &mut matcher)
        .unwrap_or(exchange.routing.site_index);
    let server = nginx.servers.get(index)?;
    // The path is read before the host is known: by the rule of the default server.
    let default = nginx.default_server(&exchange.client.listener, local);
    let default = default.and_then(|index| nginx.servers.get(index));
    if default.is_some_and(|own| own.outside.conf.clients.merges_slashes == Some(false)) {
        keep_slashes(exchange);
    }
    if !exchange.client.speaks_plain && generation.holding(&exchange.client, index) != Holding::Held
    {
        exchange.depends_on_request();
        return Some(Response::new(Status::MISDIRECTED_REQUEST));
    }
    if nginx.has_local_addresses() {
        exchange.depends_on_request();
    }
    if index != exchange.routing.site_index
        && let Some(site) = generation.model.sites.get(index)
    {
        exchange.routing.site = Arc::clone(site);
        exchange.routing.site_index = index;
    }
    exchange.routing.scripts_by_name = false;
    // Changes are counted as nginx counts them.
    exchange.routing.redirects_max = u8::MAX;
    exchange.extensions.insert(State::new(Arc::clone(server)));
    let origin = server.origin.clone();
    exchange.trace("select_host", Some(&origin), || {
        format!("server `{}`", server.name)
    });
    Request::run(exchange, nginx, watcher, |request| {
        if matcher.has_failed {
            request.state.has_failed = true;
            request.depends_on_request();
        }
        if let Some((regex, subject, spans)) = matcher.matched {
            request.keep_captures(&regex, &subject, spans);
        }
        real_ip::settle(request, &server.outside.conf.real_ip);
    });
    let required = server.demands_certificate?;
    let status = certificate_fault(exchange, required)?;
    Some(Response::new(Status(status)))
}

/// The answer to a request whose upstreams lead it from one path to another without end.
fn cycle(exchange: &mut Exchange, nginx: &Nginx, watcher: &Watcher) -> Response {
    Request::run(exchange, nginx, watcher, |request| {
        request.log_cycle("internally redirecting to");
    });
    Response::new(Status::INTERNAL_SERVER_ERROR)
}

/// The host that a server is chosen by: without one in the request, that of the handshake.
fn host_of(exchange: &mut Exchange) -> String {
    let session = exchange.client.session.as_ref();
    let named = session.and_then(|session| session.server_name.clone());
    match named {
        Some(name) if exchange.host.is_empty() => {
            // Other connections have other names.
            exchange.depends_on_request();
            name
        }
        _ => String::from_utf8_lossy(&exchange.host).into_owned(),
    }
}

/// The status of a connection whose certificate is bad (495), or that has none where one is required
/// (496). The client sees 400.
fn certificate_fault(exchange: &mut Exchange, is_required: bool) -> Option<u16> {
    // What another connection's certificate allows is not kept.
    exchange.depends_on_request();
    // A plain connection has none to show, and the server's own requests come after their client's.
    let session = exchange.client.session.as_ref()?;
    if session.client_refusal.is_some() {
        return Some(495);
    }
    let is_good = session.client_verification == saker_tls::ClientVerification::Success;
    (is_required && !is_good).then_some(496)
}

/// Reads the path again, with its empty segments (`merge_slashes off`). Files are found without
/// them.
fn keep_slashes(exchange: &mut Exchange) {
    let slashes = Slashes {
        encoded: EncodedSlashes::Decode,
        merge: false,
    };
    let view = exchange.head.view();
    let Ok(Target::Origin { path, .. } | Target::Absolute { path, .. }) =
        target::split(view.method(), view.target())
    else {
        return;
    };
    let mut decoded = Vec::with_capacity(path.len());
    if path::normalize_with(path, slashes, &mut decoded).is_ok() {
        exchange.path = decoded;
    }
}

/// Runs the scripts and chooses the location.
pub fn dispatch(request: &mut Request<'_>) -> Verdict {
    // An error page may answer it, like any other error.
    if !request.state.is_internal
        && let Some(status) = refusal(request.exchange.head.view())
    {
        request.depends_on_request();
        // What follows may be content that was sent beside it.
        request.state.is_last = true;
        return answered(request, Response::new(status));
    }
    if let Some(named) = request.state.named.take() {
        enter(request, &named);
        request.state.is_location_valid = false;
        access::limit_methods(request);
        let current = Arc::clone(&request.state.location);
        return match request.script(&current.script) {
            Flow::Answer(response) => answered(request, response),
            Flow::End(false) => settled(request),
            Flow::End(true) => search(request),
        };
    }
    let server = Arc::clone(&request.state.server);
    request.state.location = Arc::clone(&server.outside);
    if let Flow::Answer(response) = request.script(&server.outside.script) {
        return answered(request, response);
    }
    search(request)
}

/// The status of what nginx refuses by its head: TRACE, methods with other letters than capitals,
/// a host without a name, and a second line of a field that must stand once: this server would read
/// one and an upstream perhaps another.
fn refusal(head: HeadView<'_>) -> Option<Status> {
    let is_word = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'_' | b'-');
    match head.method() {
        Method::Trace | Method::Connect => Some(Status::METHOD_NOT_ALLOWED),
        Method::Extension if !head.method_token().iter().all(is_word) => Some(Status::BAD_REQUEST),
        _ if head.repeats_single() => Some(Status::BAD_REQUEST),
        _ if head.known(KnownField::Host).is_some_and(<[u8]>::is_empty) => {
            Some(Status::BAD_REQUEST)
        }
        _ => None,
    }
}

/// Searches the location until its script leaves the path alone.
fn search(request: &mut Request<'_>) -> Verdict {
    loop {
        let location = match choose(request) {
            Ok(location) => location,
            Err(response) => return answered(request, *response),
        };
        enter(request, &location);
        if location.conf.core.is_internal && !request.state.is_internal {
            request.exchange.trace("server_rewrite", None, || {
                "the location is not for clients (`internal`)".into()
            });
            return answered(request, Response::new(Status::NOT_FOUND));
        }
        if is_too_long(request) {
            return answered(request, Response::new(Status::CONTENT_TOO_LARGE));
        }
        // Methods that are not excepted have the settings of the block from here on, and its script.
        access::limit_methods(request);
        let current = Arc::clone(&request.state.location);
        match request.script(&current.script) {
            Flow::Answer(response) => return answered(request, response),
            Flow::End(false) => return settled(request),
            Flow::End(true) if request.state.change() => {}
            Flow::End(true) => {
                request.exchange.trace("server_rewrite", None, || {
                    "rewrite or internal redirection cycle".into()
                });
                request.log_cycle("processing");
                return answered(request, Response::new(Status::INTERNAL_SERVER_ERROR));
            }
        }
    }
}

/// Returns true if the content that the client announces is longer than the location takes. Its
/// script does not run then.
fn is_too_long(request: &mut Request<'_>) -> bool {
    let max = request.state.location.conf.core.client_max_body_size;
    let max = max.unwrap_or(BODY_BYTES_MAX);
    let announced = request.exchange.body.length();
    let is_too_long = max > 0 && announced.is_some_and(|bytes| bytes > max);
    if is_too_long {
        request.depends_on_request();
        let bytes = announced.unwrap_or(0);
        let text = format!("client intended to send too large body: {bytes} bytes");
        request.log(&message::NGINX_BODY_TOO_LARGE, Level::Error, text);
    }
    is_too_long
}

fn enter(request: &mut Request<'_>, location: &Arc<Location>) {
    request.state.location = Arc::clone(location);
    request.state.is_location_valid = true;
    take_log(request);
    request
        .exchange
        .trace("server_rewrite", Some(&location.origin), || {
            let modifier = match &location.kind {
                LocationKind::Exact => "= ",
                LocationKind::Prefix { is_final: true } => "^~ ",
                LocationKind::Regex(Regex { pattern, .. }) if pattern.options().caseless => "~* ",
                LocationKind::Regex(_) => "~ ",
                _ => "",
            };
            match location.kind {
                LocationKind::Block => "no location: the server's own settings".to_owned(),
                _ => format!("location `{modifier}{}`", location.name),
            }
        });
}

fn choose(request: &mut Request<'_>) -> Result<Arc<Location>, Box<Response>> {
    let server = Arc::clone(&request.state.server);
    let path = request.exchange.path.clone();
    let choice = server.locations.choose(&path, &mut PathMatcher(request));
    if request.state.has_failed {
        return Err(Box::new(Response::new(Status::INTERNAL_SERVER_ERROR)));
    }
    match choice {
        Choice::Found(location) => Ok(location),
        Choice::None => Ok(Arc::clone(&server.outside)),
        Choice::Slash(location) => {
            request.state.location = location;
            let mut target = pages::escape_path(&path);
            target.push(b'/');
            if let Some(query) = request.exchange.query.clone() {
                request.depends_on_query();
                target.push(b'?');
                target.extend_from_slice(&query);
            }
            let mut response = Response::new(Status::MOVED_PERMANENTLY);
            response.fields_mut().set("Location", target);
            Err(Box::new(response))
        }
    }
}

/// Gives the exchange the settings of the location.
fn settled(request: &mut Request<'_>) -> Verdict {
    take_settings(request);
    match request.state.has_failed {
        true => Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR)),
        false => Verdict::Pass,
    }
}

fn answered(request: &mut Request<'_>, response: Response) -> Verdict {
    take_settings(request);
    Verdict::Answer(response)
}

/// Lines about the request go to the logs of its location.
fn take_log(request: &mut Request<'_>) {
    if request.state.is_subrequest {
        // It has those of the request that it belongs to.
        return;
    }
    let location = &request.state.location;
    let own = location.has_other_logs(&request.state.server.outside);
    let log = location.error_log.clone().filter(|_| own);
    if own {
        request.depends_on_request();
    }
    request.exchange.log.error_log = log;
}

/// Takes the settings of the location.
pub fn take_settings(request: &mut Request<'_>) {
    take_log(request);
    let settings = Arc::clone(&request.state.location.settings);
    request.exchange.routing.settings = settings;
    crate::response::prepare(request);
}

//! Responses: `add_header`, `expires`, redirects, the status of error pages, and notes for logs.
//!
//! Called by: `dispatch`, which prepares the head of files, and the pipeline, as a filter.
//! Caveat: the head of a file is kept and sent again, so fields with variables are evaluated when it
//! is made; whatever they depend on is recorded. All other heads get their fields here.
//! Out of scope: compression, page cache.

use crate::{
    charset, clients, dav, files, force_ranges, gzip, pages, request::Request, state::State,
    sticky, store, upstream_rewrites, upstream_values, user_id,
};
use saker_cgi::memcached;
use saker_content_filters::as_stream;
use saker_files::Watcher;
use saker_http::{Fields, Method, Status, date::format_date};
use saker_nginx_model::{
    Location, Nginx, Text,
    modules::{
        headers::{Expires, SetHeader, parse_expires},
        log::LogUse,
        upstream_conf::Gateway,
    },
};
use saker_page_cache::keyed::KeyedResult;
use saker_pipeline::{
    Body, BodyError, BodyStream, Chunk, Exchange, Filter, HeadEdits, HeadFacts, LocalFuture,
    Response, local_time, log_path_note,
};
use std::{
    any::Any,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// Statuses whose responses get fields that are not marked `always`.
const ADDED_TO: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// Fields for a response, evaluated.
#[derive(Clone, Debug, Default, PartialEq)]
struct Additions {
    added: Vec<(Box<str>, Box<[u8]>, bool)>,
    expires: Option<Expires>,
    set: Vec<(SetHeader, Box<[u8]>)>,
    /// `Server`, where it is not that of all.
    product: Option<&'static str>,
}

/// Fields of the head of a file.
#[derive(Debug)]
struct FileEdits {
    location: Arc<Location>,
    additions: Additions,
    /// The media type of a file that is compressed.
    compressed: Option<Box<str>>,
}

/// Prepares what the response of the location needs.
pub fn prepare(request: &mut Request<'_>) {
    let location = Arc::clone(&request.state.location);
    decide_logs(request, &location);
    let headers = &location.conf.headers;
    if let Some(rate) = limit_rate(request, &location) {
        request.exchange.routing.settings = rate;
    }
    gzip::apply(request, preview);
    clients::prepare(request, &location);
    let is_plain = headers.added.is_none()
        && headers.expires.is_none()
        && headers.set.is_none()
        && own_product(request.nginx, &location).is_none()
        && !request.state.lacks_gzip;
    let filters = &location.conf.filters;
    if location.conf.headers.trailers.is_some() || charset::is_set(&location.conf) {
        request.depends_on_request();
    }
    if filters.changes_content() || filters.gunzip == Some(true) || user_id::is_set(filters) {
        // The response is made for each request.
        request.depends_on_request();
    }
    if is_plain || location.conf.upstreams.pass.is_some() {
        request.exchange.cache.head_edits = None;
        return;
    }
    // Variables that an answer or its location sets have no value yet, and a location may find another
    // client.
    let finds_client = request.nginx.settles_clients && !location.conf.real_ip.from.is_empty();
    request.state.wants_response = matches!(location.conf.access.auth_request, Some(Some(_)))
        || location.conf.access.auth_request_set.is_some()
        || finds_client;
    // As in nginx, the fields are evaluated when there is a response: variables and captures keep the
    // values that they have now.
    let additions = additions_ahead(request);
    if request.state.wants_response {
        // The filter edits the head, a ready one, too.
        request.exchange.cache.head_edits = None;
        return;
    }
    request.exchange.cache.head_edits = Some(Rc::new(FileEdits {
        location,
        additions,
        compressed: None,
    }));
}

/// The fields of a response that there is not yet.
fn additions_ahead(request: &mut Request<'_>) -> Additions {
    let values = request.state.values.clone();
    let captures = request.state.captures.clone();
    let mut additions = evaluate(request);
    (request.state.values, request.state.captures) = (values, captures);
    let status = request.state.error_status;
    if status.is_some_and(|status| !ADDED_TO.contains(&status)) {
        additions.keep_always();
    }
    additions
}

/// Gives the response that follows the field of a file that others get compressed.
pub fn be_uncompressed(request: &mut Request<'_>) {
    request.state.lacks_gzip = true;
    if request.state.wants_response {
        return;
    }
    let additions = additions_ahead(request);
    request.exchange.cache.head_edits = Some(Rc::new(FileEdits {
        location: Arc::clone(&request.state.location),
        additions,
        compressed: None,
    }));
}

/// Gives the response that follows the fields of a compressed file. It has no ranges, and nothing
/// compresses it again. `varies`: other clients get another file.
pub fn be_compressed(request: &mut Request<'_>, media_type: &str, varies: bool) {
    let location = Arc::clone(&request.state.location);
    let mut settings = saker_config::model::Settings::clone(&request.exchange.routing.settings);
    settings.compression.codings.clear();
    settings.files.precompressed = false;
    request.exchange.routing.settings = Arc::new(settings);
    let mut additions = match request.state.wants_response {
        true => Additions::default(),
        false => additions_ahead(request),
    };
    if varies && location.conf.clients.varies == Some(true) && !request.state.lacks_gzip {
        let value = b"Accept-Encoding"[..].into();
        additions.added.push(("Vary".into(), value, true));
    }
    request.exchange.cache.head_edits = Some(Rc::new(FileEdits {
        location,
        additions,
        compressed: Some(media_type.into()),
    }));
}

/// Settings with a rate that depends on the request.
fn limit_rate(
    request: &mut Request<'_>,
    location: &Location,
) -> Option<Arc<saker_config::model::Settings>> {
    use saker_config::model::{Rate, Settings};
    let rate = match (&request.state.limit_rate, &location.conf.core.limit_rate) {
        (Some(rate), _) => rate.to_vec(),
        (None, Some(text)) if text.constant().is_none() => request.text(text),
        _ => return None,
    };
    let rate = saker_nginx_model::values::size(&String::from_utf8_lossy(&rate)).unwrap_or(0);
    request.depends_on_request();
    let after = location.conf.core.limit_rate_after.as_ref();
    let after = after.and_then(|text| saker_nginx_model::values::size(text.plain()?));
    let mut settings = Settings::clone(&request.exchange.routing.settings);
    settings.throttle.out_by_seconds = (rate > 0).then(|| Rate {
        bytes_per_s: rate,
        burst_bytes: rate,
        after_bytes: after.unwrap_or(0),
    });
    Some(Arc::new(settings))
}

/// Decides which access logs get the request's line. Conditions that need the response are decided
/// by the filter.
fn decide_logs(request: &mut Request<'_>, location: &Location) {
    let nginx = request.nginx;
    let used = location.conf.log.logs.as_deref().unwrap_or_default();
    let mut decisions = Vec::with_capacity(nginx.logs.uses.len());
    for log in &nginx.logs.uses {
        let is_used = used.contains(log);
        decisions.push(is_used);
    }
    request.exchange.log.rules.decisions = decisions;
}

/// True if lines of the location's logs need more than their items.
fn needs_notes(nginx: &Nginx, location: &Location) -> bool {
    let used = location.conf.log.logs.as_deref().unwrap_or_default();
    used.iter().any(|log| {
        let format = nginx.formats.get(&log.format);
        log.condition.is_some()
            || log.path.is_some()
            || format.is_some_and(|format| !format.notes.is_empty())
    })
}

/// `Server` of a location that differs from the others in `server_tokens`.
fn own_product(nginx: &Nginx, location: &Location) -> Option<&'static str> {
    let product = location.conf.core.product();
    (product != nginx.product).then_some(product)
}

/// Evaluates the location's fields.
fn evaluate(request: &mut Request<'_>) -> Additions {
    let location = Arc::clone(&request.state.location);
    let headers = &location.conf.headers;
    let mut additions = Additions {
        product: own_product(request.nginx, &location),
        ..Additions::default()
    };
    if request.state.lacks_gzip && location.conf.clients.varies == Some(true) {
        // Others get the response compressed.
        let value = b"Accept-Encoding"[..].into();
        additions.added.push(("Vary".into(), value, true));
    }
    for header in headers.added.as_deref().unwrap_or_default() {
        let value = request.text(&header.value);
        if !value.is_empty() || is_validator(&header.name) {
            let value = pages::field_value(&value).into();
            additions
                .added
                .push((header.name.clone(), value, header.is_always));
        }
    }
    for header in headers.set.as_deref().unwrap_or_default() {
        let value = pages::field_value(&request.text(&header.value));
        additions.set.push((header.clone(), value.into()));
    }
    additions.expires = match &headers.expires {
        Some(Expires::Variable(text)) => {
            let value = request.text(text);
            parse_expires(&String::from_utf8_lossy(&value), false)
        }
        other => other.clone(),
    };
    additions
}

/// Returns the fields that the location adds to its files, for decisions about them.
fn preview(request: &mut Request<'_>) -> Fields {
    let (mut fields, now) = (Fields::new(), request.exchange.now);
    evaluate(request).apply(Status::OK, now, None, &mut fields);
    fields
}

impl Additions {
    /// Leaves those out that errors do not get.
    fn keep_always(&mut self) {
        self.expires = None;
        self.added.retain(|(_, _, is_always)| *is_always);
    }

    fn apply(&self, status: Status, now: i64, modified_s: Option<i64>, fields: &mut Fields) {
        let is_added_to = ADDED_TO.contains(&status.0);
        // An upstream's own stays, where it is passed on.
        if let Some(product) = self.product.filter(|_| !fields.has("server")) {
            fields.set("Server", product.as_bytes());
        }
        if is_added_to && let Some(expires) = &self.expires {
            apply_expires(expires, now, modified_s, fields);
        }
        for (name, value, is_always) in &self.added {
            if *is_always || is_added_to {
                add(name, value, fields);
            }
        }
        for (header, value) in &self.set {
            if !header.statuses.is_empty() && !header.statuses.contains(&status.0) {
                continue;
            }
            match (value.is_empty(), header.name.strip_suffix('*')) {
                (true, Some(start)) => fields.retain(|name| {
                    let begin = name.get(..start.len());
                    !begin.is_some_and(|begin| begin.eq_ignore_ascii_case(start))
                }),
                (true, None) => drop(fields.remove(&header.name)),
                (false, _) if !is_framing(&header.name) => {
                    fields.set(header.name.to_string(), value.to_vec());
                }
                (false, _) => {}
            }
        }
    }
}

/// `Last-Modified` and `ETag` are replaced, or removed by an empty value, as by nginx; framing fields
/// belong to the driver.
fn add(name: &str, value: &[u8], fields: &mut Fields) {
    match name {
        _ if is_framing(name) => {}
        _ if is_validator(name) && value.is_empty() => drop(fields.remove(name)),
        _ if is_validator(name) => fields.set(name.to_owned(), value.to_vec()),
        _ => fields.append(name.to_owned(), value.to_vec()),
    }
}

fn is_validator(name: &str) -> bool {
    name.eq_ignore_ascii_case("last-modified") || name.eq_ignore_ascii_case("etag")
}

fn is_framing(name: &str) -> bool {
    [
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "upgrade",
    ]
    .iter()
    .any(|known| known.eq_ignore_ascii_case(name))
}

fn apply_expires(expires: &Expires, now: i64, modified_s: Option<i64>, fields: &mut Fields) {
    const DAY_S: i64 = 86_400;
    let (until, control) = match expires {
        Expires::Off | Expires::Variable(_) => return,
        Expires::Epoch => {
            fields.set("Expires", &b"Thu, 01 Jan 1970 00:00:01 GMT"[..]);
            fields.set("Cache-Control", &b"no-cache"[..]);
            return;
        }
        Expires::Max => {
            fields.set("Expires", &b"Thu, 31 Dec 2037 23:55:55 GMT"[..]);
            fields.set("Cache-Control", &b"max-age=315360000"[..]);
            return;
        }
        Expires::Access(seconds) => (now + seconds, *seconds),
        Expires::Modified(seconds) => {
            let until = modified_s.unwrap_or(now) + seconds;
            (until, until - now)
        }
        Expires::Daily(time) => {
            let local = local_time(now);
            let passed = i64::from(local.hour) * 3600
                + i64::from(local.minute) * 60
                + i64::from(local.second);
            let midnight = now - passed;
            let until = midnight + time;
            let until = if until > now { until } else { until + DAY_S };
            (until, until - now)
        }
    };
    fields.set("Expires", format_date(until).to_vec());
    let control = match control {
        ..0 => "no-cache".to_owned(),
        seconds => format!("max-age={seconds}"),
    };
    fields.set("Cache-Control", control.into_bytes());
}

impl HeadEdits for FileEdits {
    fn apply(&self, head: &HeadFacts, fields: &mut Fields) {
        if let Some(media_type) = &self.compressed {
            fields.set("Content-Type", media_type.as_bytes().to_vec());
            fields.set("Content-Encoding", &b"gzip"[..]);
            fields.remove("Accept-Ranges");
        }
        let additions = &self.additions;
        additions.apply(head.status, head.now, head.modified_s, fields);
    }

    fn changes_with_time(&self) -> bool {
        matches!(
            self.additions.expires,
            Some(Expires::Access(_) | Expires::Modified(_) | Expires::Daily(_))
        )
    }

    fn is_same(&self, other: &dyn HeadEdits) -> bool {
        other
            .as_any()
            .downcast_ref::<FileEdits>()
            .is_some_and(|other| {
                Arc::ptr_eq(&self.location, &other.location)
                    && self.additions == other.additions
                    && self.compressed == other.compressed
            })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The filter of responses of nginx configurations.
pub struct ResponseFilter {
    nginx: Arc<Nginx>,
    watcher: Watcher,
}

impl ResponseFilter {
    pub fn new(nginx: Arc<Nginx>, watcher: Watcher) -> ResponseFilter {
        ResponseFilter { nginx, watcher }
    }
}

impl Filter for ResponseFilter {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        exchange.extensions.get::<State>().is_some_and(|state| {
            state.error_status.is_some()
                || state.wants_response
                || !state.error_fields.is_empty()
                || needs_notes(&self.nginx, &state.location)
                || user_id::is_set(&state.location.conf.filters)
                || state.location.conf.headers.trailers.is_some()
        })
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        Request::run(exchange, &self.nginx, &self.watcher, |request| {
            filter(request, response);
        });
        saker_pipeline::done()
    }
}

fn filter(request: &mut Request<'_>, response: &mut Response) {
    use saker_pipeline::ResponseHead;
    let keyed = request.exchange.extensions.get::<KeyedResult>();
    let is_cached = keyed.is_some_and(|result| result.is_from_cache());
    let is_of_file = matches!(response.head, ResponseHead::Ready(_))
        || matches!(response.body, Body::File(_) | Body::Parts(_)) && !is_cached
        || response.status == Status::PARTIAL_CONTENT
            && !request.exchange.upstream.is_answered_by_program
            && !request.state.is_forwarded;
    if let Some(status) = request.state.error_status
        && (response.status.is_success() || response.status == Status(status))
    {
        response.status = Status(status);
        // Converts a ready head, whose status line is written.
        let fields = response.fields_mut();
        if !matches!(status, 200 | 206 | 304) {
            fields.remove("Last-Modified");
        }
        if Status(status).is_error() {
            fields.remove("Accept-Ranges");
        }
    }
    for (name, value) in std::mem::take(&mut request.state.error_fields) {
        response.fields_mut().set(name.to_string(), value.to_vec());
    }
    let is_of_file = is_of_file && !request.state.wants_response;
    if !is_of_file || needs_notes(request.nginx, &request.state.location) {
        request.take_response(response.status.0, response.fields());
    }
    if !is_of_file {
        // The page has the location as it was said.
        let location = Arc::clone(&request.state.location);
        clients::refresh(request, &location, response);
        edit_built(request, response);
    }
    user_id::apply(request, response);
    store::apply(request, response);
    force_ranges::apply(request, response);
    add_trailers(request, response);
    note(request);
    if response.reason.is_none()
        && let Some(words) = pages::reason(response.status)
    {
        response.reason = Some(Box::new((response.status, words.as_bytes().into())));
    }
}

fn edit_built(request: &mut Request<'_>, response: &mut Response) {
    let location = Arc::clone(&request.state.location);
    let mut is_upstreams = false;
    if request.exchange.upstream.is_answered_by_program {
        hide_fields(&location, response);
        is_upstreams = upstream_rewrites::rewrite(request, &location, response.fields_mut());
        sticky::answered(request, response);
    }
    let is_value = location.proxied.as_ref();
    if is_value.is_some_and(|proxied| proxied.gateway == Gateway::Memcached)
        && request.exchange.upstream.is_answered_by_program
    {
        let media_type = pages::media_type(&location.conf, &request.exchange.path);
        let media_type = location.conf.compression.with_charset(&media_type);
        response
            .fields_mut()
            .set("Content-Type", media_type.into_bytes());
        // Whatever memcached says, clients do not get it.
        let flags = response.fields().first(memcached::FLAGS);
        let flags = flags.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u32>().ok());
        response.fields_mut().remove(memcached::FLAGS);
        let wanted = location.conf.upstreams.of(Gateway::Memcached).gzip_flag;
        if flags
            .zip(wanted)
            .is_some_and(|(flags, wanted)| flags & wanted != 0)
        {
            response.fields_mut().set("Content-Encoding", &b"gzip"[..]);
        }
    }
    if dav::takes(request) {
        dav::finish(request, response);
    }
    // A location that an upstream sends is its own, unless it was replaced.
    if !is_upstreams {
        absolute_location(request, &location, response);
    }
    let (status, now) = (response.status, request.exchange.now);
    if location.conf.upstreams.pass.is_some() && gzip::asks_response(request) {
        let mut fields = response.fields().clone();
        evaluate(request).apply(status, now, None, &mut fields);
        gzip::apply_to_response(request, &fields);
    }
    let additions = evaluate(request);
    additions.apply(status, now, None, response.fields_mut());
}

/// Adds the fields that follow the content (`add_trailer`).
fn add_trailers(request: &mut Request<'_>, response: &mut Response) {
    let location = Arc::clone(&request.state.location);
    let Some(trailers) = &location.conf.headers.trailers else {
        return;
    };
    let status = response.status;
    let is_head = request.exchange.head.view().method() == Method::Head;
    let has_content = !is_head && !status.forbids_content() && response.tunnel.is_none();
    if !has_content || request.state.is_subrequest {
        return;
    }
    let mut fields = Fields::new();
    for trailer in trailers.iter() {
        let value = pages::field_value(&request.text(&trailer.value));
        let is_added = trailer.is_always || ADDED_TO.contains(&status.0);
        if is_added && !value.is_empty() && !is_framing(&trailer.name) {
            fields.append(trailer.name.to_string(), value);
        }
    }
    if fields.is_empty() {
        return;
    }
    // HTTP/1.1 has trailers behind chunks alone; the later versions tell the length beside them.
    let version = request.exchange.head.view().version();
    let is_told = matches!(
        version,
        saker_http::Version::Http2 | saker_http::Version::Http3
    );
    let length = response.body.length().filter(|_| is_told);
    let source = as_stream(std::mem::take(&mut response.body));
    response.body = Body::Stream(Box::new(WithTrailers {
        source,
        fields: Some(fields),
    }));
    match length {
        Some(length) => response
            .fields_mut()
            .set("Content-Length", length.to_string().into_bytes()),
        None => drop(response.fields_mut().remove("Content-Length")),
    }
}

/// Content with fields behind it. Without a length, so that it is sent in chunks.
struct WithTrailers {
    source: Box<dyn BodyStream>,
    fields: Option<Fields>,
}

impl BodyStream for WithTrailers {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.source.poll_chunk(cx)
    }

    fn trailers(&mut self) -> Option<Fields> {
        let mut all = self.source.trailers().unwrap_or_default();
        for (name, value) in self.fields.take().unwrap_or_default().iter() {
            all.append(name.to_owned(), value.to_vec());
        }
        Some(all)
    }
}

/// Fields of upstreams of which the first line alone counts.
const ONCE: [&str; 8] = [
    "Content-Type",
    "Date",
    "Server",
    "Last-Modified",
    "ETag",
    "Expires",
    "Accept-Ranges",
    "Content-Encoding",
];

/// Fields of upstreams that clients do not get.
fn hide_fields(location: &Location, response: &mut Response) {
    const HIDDEN: [&str; 5] = [
        "X-Accel-Expires",
        "X-Accel-Redirect",
        "X-Accel-Limit-Rate",
        "X-Accel-Buffering",
        "X-Accel-Charset",
    ];
    let Some(pass) = &location.conf.upstreams.pass else {
        return;
    };
    let conf = location.conf.upstreams.of(pass.gateway);
    let has = |list: &Option<Arc<[Box<str>]>>, name: &str| {
        let list = list.as_deref().unwrap_or_default();
        list.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    let by_protocol: &[&str] = match pass.gateway {
        Gateway::Proxy => &["Date", "Server", "X-Pad"],
        Gateway::Grpc => &["Date", "Server"],
        Gateway::FastCgi | Gateway::Scgi => &["Status"],
        _ => &[],
    };
    let mut had = [false; ONCE.len()];
    response.fields_mut().retain(|name| {
        let at = ONCE.iter().position(|one| one.eq_ignore_ascii_case(name));
        let is_again = at
            .and_then(|at| had.get_mut(at))
            .is_some_and(|had| std::mem::replace(had, true));
        let is_known = |known: &&str| known.eq_ignore_ascii_case(name);
        let is_hidden = HIDDEN.iter().chain(by_protocol).any(is_known) || has(&conf.hidden, name);
        !is_again && (!is_hidden || has(&conf.passed, name))
    });
}

/// A redirect to a path names scheme and host, unless `absolute_redirect off` says so.
fn absolute_location(request: &mut Request<'_>, location: &Location, response: &mut Response) {
    let core = &location.conf.core;
    let Some(target) = response.fields().first("Location") else {
        return;
    };
    if !target.starts_with(b"/") || core.absolute_redirect == Some(false) {
        return;
    }
    let target = target.to_vec();
    let client = Rc::clone(&request.exchange.client);
    let host = match core.server_name_in_redirect {
        Some(true) => request.state.server.name.as_bytes().to_vec(),
        _ => request.host().to_vec(),
    };
    let (scheme, default) = if client.secure {
        ("https", 443)
    } else {
        ("http", 80)
    };
    let port = client.local.port();
    let mut url = [scheme.as_bytes(), b"://", &host].concat();
    if core.port_in_redirect != Some(false) && port != default && port != 0 {
        url.extend(format!(":{port}").into_bytes());
    }
    url.extend_from_slice(&target);
    request.depends_on(saker_ap_expr::Dependency::Scheme);
    response.fields_mut().set("Location", url);
}

/// Notes variables for access logs, and decides about conditions.
pub fn note(request: &mut Request<'_>) {
    let location = Arc::clone(&request.state.location);
    let nginx = request.nginx;
    if !needs_notes(nginx, &location) {
        return;
    }
    request.depends_on_request();
    for (number, log) in nginx.logs.uses.iter().enumerate() {
        let is_used = location
            .conf
            .log
            .logs
            .as_deref()
            .unwrap_or_default()
            .contains(log);
        let Some(condition) = log.condition.as_ref().filter(|_| is_used) else {
            continue;
        };
        let value = request.text(condition);
        if let Some(decision) = request.exchange.log.rules.decisions.get_mut(number) {
            *decision = Request::is_true(Some(&value));
        }
    }
    request.exchange.log.late_notes.clear();
    for log in location.conf.log.logs.as_deref().unwrap_or_default() {
        if let Some(path) = &log.path {
            note_path(request, log, path);
        }
        let Some(format) = nginx.formats.get(&log.format) else {
            continue;
        };
        for (name, variable) in &format.notes {
            let value = request.variable(variable);
            let name = [log.format.as_bytes(), b"/", name.as_bytes()].concat();
            match value {
                Some(value) => request.exchange.log.notes.set(&name, &value),
                None if format.is_bare() => request.exchange.log.notes.set(&name, b""),
                None => {}
            }
            if let Some(late) = upstream_values::late_value(variable) {
                let name = String::from_utf8_lossy(&name).into();
                request.exchange.log.late_notes.push((name, late));
            }
        }
    }
}

/// Notes the path of a log file, if the root of the request is there: names of hosts that nothing is
/// served for make no files.
fn note_path(request: &mut Request<'_>, log: &LogUse, path: &Text) {
    let uses = &request.nginx.logs.uses;
    let Some(number) = uses.iter().position(|known| known == log) else {
        return;
    };
    let path = request.text(path);
    if files::root(request).is_dir() {
        let name = log_path_note(number);
        request.exchange.log.notes.set(name.as_bytes(), &path);
    }
}

//! Requests to upstreams: `proxy_pass` and its kin.
//!
//! Called by: `content`.
//! Caveat: the path that the upstream sees follows nginx's rules: as it came if the URL has no path;
//! with the location's name replaced if it has one; as evaluated if it has variables.
//! Out of scope: balancing, retries, and the conversation (the gateway).

use crate::{
    cache::{self, Caches},
    files, log_lines, pages,
    request::Request,
    sticky,
};
use saker_cgi::{Variables, memcached};
use saker_config::model::{Backend, Upstream};
use saker_http::{Method, Status};
use saker_nginx_model::{
    Proxied,
    modules::{
        upstream::{Group, PassUrl, make, split_url, without_port},
        upstream_conf::{Gateway, LocalAddress, UpstreamConf},
        upstream_setters::parse_local,
    },
    values::size,
    variables::Variable,
};
use saker_pipeline::{
    CallNames, Chunk, Parameters, ProxyOptions, Response, Script, UpstreamRequest, UpstreamTarget,
    Verdict,
};
use saker_telemetry::message::{self, Level};
use std::{num::NonZeroU64, sync::Arc};

/// Leaves the upstream request of the location in the exchange.
pub fn forward(request: &mut Request<'_>, caches: &Caches) -> Verdict {
    let location = Arc::clone(&request.state.location);
    let Some(proxied) = &location.proxied else {
        return Verdict::Answer(Response::new(Status::BAD_GATEWAY));
    };
    request.depends_on_request();
    let conf = location.conf.upstreams.of(proxied.gateway);
    let Some((upstream, target)) = upstream(request, caches, proxied, conf) else {
        return invalid(request, proxied);
    };
    request
        .exchange
        .trace("fixups", Some(&location.origin), || {
            format!(
                "`{} {}` asks for {}",
                proxied.gateway.directive(),
                proxied.text.source,
                String::from_utf8_lossy(&target)
            )
        });
    if upstream.members.is_empty() {
        let text = "no live upstreams while connecting to upstream".to_owned();
        request.log(&message::NGINX_NAME_UNRESOLVED, Level::Error, text);
        return Verdict::Answer(Response::new(Status::BAD_GATEWAY));
    }
    ask_with(request, conf);
    if let Some(refused) = without_content(request) {
        return refused;
    }
    pass_hints(request);
    let decision = request.exchange.cache.decision.as_ref();
    let mut spare = decision.and_then(|decision| decision.take_request());
    let memory = spare.as_mut().and_then(|spare| spare.script.take());
    let script = match told(request, proxied, conf, &upstream, memory) {
        Ok(script) => script,
        Err(status) => return Verdict::Answer(Response::new(status)),
    };
    let options = options(request, proxied, conf);
    if !cache::plan(request, caches, proxied, (&upstream.name, &target)) {
        return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
    }
    request.state.is_forwarded = true;
    request.state.is_handed_over = false;
    choose_by(request, &upstream.name);
    let call = UpstreamRequest {
        to: UpstreamTarget::Upstream(upstream),
        target,
        script,
        manner: options,
        names: CallNames::default(),
    };
    request.exchange.upstream.call = Some(match spare {
        Some(mut memory) => {
            *memory = call;
            memory
        }
        None => Box::new(call),
    });
    match request.state.has_failed {
        true => Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR)),
        false => Verdict::Pass,
    }
}

/// The answer where the address of the upstream is invalid.
fn invalid(request: &mut Request<'_>, proxied: &Proxied) -> Verdict {
    request.exchange.trace("fixups", None, || {
        "the address of the upstream is invalid".into()
    });
    let url = request.text(&proxied.text);
    let shown = log_lines::shown(&url);
    let text = match split_url(proxied.gateway, &shown).authority {
        host if host.starts_with(':') => format!("no host in upstream \"{host}\""),
        _ => format!("invalid URL prefix in \"{shown}\""),
    };
    request.log(&message::NGINX_NAME_UNRESOLVED, Level::Error, text);
    Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR))
}

/// Refuses a request with its first error if its content has gone to an upstream that failed: another
/// one must not take it for a request without content. Notes whether an error may lead to another, or
/// the upstream itself, by `X-Accel-Redirect: @name`.
fn without_content(request: &mut Request<'_>) -> Option<Verdict> {
    let upstream = &request.exchange.upstream;
    if upstream.has_lost_content && upstream.own_content.is_none() {
        let status = request.state.failed_status.unwrap_or(502);
        request.state.error_status = Some(status);
        return Some(Verdict::Answer(Response::new(Status(status))));
    }
    if request.exchange.body.is_end() {
        request.exchange.upstream.may_go_elsewhere = false;
        return None;
    }
    let pages = request.state.location.conf.core.error_pages.as_deref();
    let mut pages = pages.unwrap_or_default().iter();
    let own = &request.state.location;
    let mut named = request.state.server.named.values();
    request.exchange.upstream.may_go_elsewhere = pages
        .any(|page| page.target.source.starts_with(['@', '$']))
        || named.any(|other| !Arc::ptr_eq(own, other));
    None
}

/// Makes the fields or parameters that the upstream is told.
///
/// # Errors
/// The status of a request that can't be told.
fn told(
    request: &mut Request<'_>,
    proxied: &Proxied,
    conf: &UpstreamConf,
    upstream: &Upstream,
    memory: Option<Box<Script>>,
) -> Result<Option<Box<Script>>, Status> {
    match proxied.gateway {
        Gateway::Proxy | Gateway::Grpc => {
            set_fields(request, proxied, upstream);
            Ok(None)
        }
        Gateway::Memcached => {
            let method = request.exchange.head.view().method();
            if !matches!(method, Method::Get | Method::Head) {
                return Err(Status::METHOD_NOT_ALLOWED);
            }
            let script = value_wanted(request).ok_or(Status::INTERNAL_SERVER_ERROR)?;
            Ok(Some(Box::new(script)))
        }
        _ => Ok(Some(script(request, proxied, conf, memory))),
    }
}

/// Notes what the choice among the members depends on.
fn choose_by(request: &mut Request<'_>, name: &str) {
    let groups = &request.nginx.groups;
    let group = groups.iter().find(|group| *group.name == *name);
    request.state.upstream = Some(name.into());
    let is_bound = group.is_some_and(|group| group.sticky.is_some());
    if request.nginx.reads_attempts || is_bound {
        request.exchange.upstream.attempts.record();
    }
    let Some(group) = group else {
        return;
    };
    sticky::ask(request, group);
    if let Some(key) = &group.key {
        let key = request.text(key);
        request.exchange.upstream.balance_key = Some(key.into());
    }
}

/// Early hints are passed on where a condition of `early_hints` holds.
fn pass_hints(request: &mut Request<'_>) {
    let location = Arc::clone(&request.state.location);
    let conditions = location.conf.clients.early_hints.as_deref();
    let is_passed = conditions.unwrap_or_default().iter().any(|condition| {
        let value = request.text(condition);
        Request::is_true(Some(&value))
    });
    if !is_passed {
        request.exchange.upstream.interim = None;
    }
}

/// Replaces method, fields, and content of the request as upstreams get it.
fn ask_with(request: &mut Request<'_>, conf: &UpstreamConf) {
    let own = &conf.request;
    let method = own.method.as_ref().map(|text| request.text(text));
    let method = method.filter(|method| is_method(method));
    let content = match (&own.content, own.passes_content) {
        (Some(text), _) => Some(Chunk::from(request.text(text))),
        (None, Some(false)) => Some(Chunk::from(Vec::new())),
        (None, _) => None,
    };
    let has_fields = own.passes_fields != Some(false);
    let exchange = &mut *request.exchange;
    exchange.upstream.own_head = None;
    exchange.upstream.own_fields.clear();
    if method.is_some() || content.is_some() || !has_fields {
        let view = exchange.head.view();
        let method = method.as_deref().unwrap_or(view.method_token());
        let has_content = content.is_none();
        let is_passed = |name: &[u8]| has_fields && (has_content || !is_of_content(name));
        let fields = view.fields().filter(|(name, _)| is_passed(name));
        let head = exchange.head.with_method_and_fields(method, fields);
        exchange.upstream.own_head = Some(Box::new(head));
    }
    exchange.upstream.own_content = content;
}

/// A method made of variables must not smuggle anything else into the request.
fn is_method(method: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !method.is_empty() && method.iter().all(is_token) && method != b"CONNECT"
}

/// Fields about content that does not go along.
fn is_of_content(name: &[u8]) -> bool {
    ["content-length", "transfer-encoding", "expect", "trailer"]
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// The options of the location. Errors that have a page are replaced by it if `intercept_errors`
/// says so.
fn options(request: &mut Request<'_>, proxied: &Proxied, conf: &UpstreamConf) -> Arc<ProxyOptions> {
    let mut options = error_options(request, proxied, conf);
    if let Some(text) = conf.tls_name.as_ref().filter(|text| text.plain().is_none()) {
        let name = String::from_utf8_lossy(&request.text(text)).into_owned();
        let name = without_port(&name);
        options = Arc::new(ProxyOptions {
            tls_name: (!name.is_empty()).then(|| name.into()),
            ..ProxyOptions::clone(&options)
        });
    }
    let Some(text) = conf
        .limit_rate
        .as_ref()
        .filter(|text| text.plain().is_none() && conf.is_buffered != Some(false))
    else {
        return options;
    };
    let rate = String::from_utf8_lossy(&request.text(text)).into_owned();
    Arc::new(ProxyOptions {
        read_rate: size(&rate).and_then(NonZeroU64::new),
        ..ProxyOptions::clone(&options)
    })
}

fn error_options(
    request: &Request<'_>,
    proxied: &Proxied,
    conf: &UpstreamConf,
) -> Arc<ProxyOptions> {
    let is_memcached = proxied.gateway == Gateway::Memcached;
    if conf.intercepts_errors != Some(true) && !is_memcached {
        return Arc::clone(&proxied.options);
    }
    let pages = request.state.location.conf.core.error_pages.as_deref();
    let statuses = pages
        .unwrap_or_default()
        .iter()
        .flat_map(|page| page.statuses.iter());
    // A key that memcached has not is answered by a page, whatever the configuration says.
    let missing = is_memcached.then_some(404);
    let overridden: Vec<u16> = statuses.copied().chain(missing).collect();
    Arc::new(ProxyOptions {
        overrides_errors: !overridden.is_empty(),
        overridden,
        ..ProxyOptions::clone(&proxied.options)
    })
}

/// Returns what may have names that are resolved at run time: a group, or host and port.
pub fn unresolved<'n>(request: &mut Request<'n>) -> Option<(String, Option<&'n Group>)> {
    let location = Arc::clone(&request.state.location);
    let proxied = location.proxied.as_ref()?;
    let nginx = request.nginx;
    let group = |name: &str| nginx.groups.iter().find(|group| *group.name == *name);
    if proxied.upstream.is_some() {
        let name = proxied.is_resolved.then_some(&proxied.host)?;
        return Some((name.to_string(), group(name)));
    }
    let text = request.text(&proxied.text);
    let (url, ..) = split_made(proxied.gateway, &text)?;
    is_authority(&url).then(|| (url.authority.to_owned(), group(url.authority)))
}

/// Returns the upstream, and path and query for it.
fn upstream(
    request: &mut Request<'_>,
    caches: &Caches,
    proxied: &Proxied,
    conf: &UpstreamConf,
) -> Option<(Arc<Upstream>, Vec<u8>)> {
    if let Some(upstream) = proxied.upstream.as_ref().filter(|_| !proxied.is_resolved) {
        let uri = proxied.uri.as_deref().map(str::as_bytes);
        let target = target(request, uri, false);
        let upstream = Arc::clone(upstream);
        let upstream = with_identity(request, caches, upstream, conf);
        return Some((from_local(request, caches, upstream, conf), target));
    }
    let text = request.text(&proxied.text);
    let (url, servers, uri) = split_made(proxied.gateway, &text)?;
    let has_scheme = text.starts_with(b"http://") || text.starts_with(b"https://");
    if proxied.gateway == Gateway::Proxy && !has_scheme || !is_authority(&url) {
        return None;
    }
    let (nginx, found) = (request.nginx, request.state.found.clone());
    let found = found.unwrap_or_default();
    let owner = Arc::as_ptr(&request.state.location) as usize;
    // The path is the request's: all requests to the same servers take turns.
    let upstream = caches.upstreams.get(owner, servers, &found, || {
        let (groups, prefix) = (&nginx.groups, &nginx.conf_prefix);
        make(proxied.gateway, &url, conf, groups, prefix, &found)
    })?;
    let is_evaluated = proxied.upstream.is_none();
    let target = target(request, uri, is_evaluated);
    let upstream = with_identity(request, caches, upstream, conf);
    Some((from_local(request, caches, upstream, conf), target))
}

/// Splits a URL that a request made into its parts: the servers are text, and what stands behind them
/// may be any bytes. `None`: the servers are no text.
fn split_made(gateway: Gateway, url: &[u8]) -> Option<(PassUrl<'_>, &str, Option<&[u8]>)> {
    let text = url.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let split = split_url(gateway, text);
    let Some(uri) = split.uri else {
        return (text.len() == url.len()).then_some((split, text, None));
    };
    let servers = text.strip_suffix(uri)?;
    let uri = url.get(servers.len()..);
    Some((split, servers, uri))
}

/// Servers are shown a certificate that depends on the request. Without one there is none.
fn with_identity(
    request: &mut Request<'_>,
    caches: &Caches,
    upstream: Arc<Upstream>,
    conf: &UpstreamConf,
) -> Arc<Upstream> {
    let Some((certificate, key)) = conf.identity() else {
        return upstream;
    };
    if certificate.plain().is_some() && key.plain().is_some() {
        return upstream;
    }
    let [certificate, key] =
        [certificate, key].map(|text| String::from_utf8_lossy(&request.text(text)).into_owned());
    if certificate.is_empty() || key.is_empty() {
        return upstream;
    }
    let found = request.state.found.clone().unwrap_or_default();
    let owner = Arc::as_ptr(&request.state.location) as usize;
    // Paths have no zero bytes.
    let target = format!("{}\0{certificate}\0{key}", known_as(&upstream));
    let prefix = &request.nginx.conf_prefix;
    let identity = (prefix.join(&certificate), prefix.join(&key));
    let made = caches.upstreams.get(owner, &target, &found, || {
        let mut upstream = Upstream::clone(&upstream);
        for member in &mut upstream.members {
            let mut backend = Backend::clone(&member.backend);
            if let Some(tls) = &mut backend.tls {
                tls.identity = Some(identity.clone());
            }
            member.backend = Arc::new(backend);
        }
        Some(upstream)
    });
    made.unwrap_or(upstream)
}

/// The name of an upstream with all that a request has chosen of it: whether it speaks TLS, and as whom.
fn known_as(upstream: &Upstream) -> String {
    let tls = upstream.members.first();
    let tls = tls.and_then(|member| member.backend.tls.as_ref());
    let identity = tls.and_then(|tls| tls.identity.as_ref());
    format!("{}\0{}\0{identity:?}", upstream.name, tls.is_some())
}

/// Connections leave from an address that depends on the request. One that is none is not used.
fn from_local(
    request: &mut Request<'_>,
    caches: &Caches,
    upstream: Arc<Upstream>,
    conf: &UpstreamConf,
) -> Arc<Upstream> {
    let Some(LocalAddress::At(text)) = &conf.local else {
        return upstream;
    };
    if text.plain().is_some() {
        return upstream;
    }
    let text = String::from_utf8_lossy(&request.text(text)).into_owned();
    let Some(local) = parse_local(&text) else {
        return upstream;
    };
    let found = request.state.found.clone().unwrap_or_default();
    let owner = Arc::as_ptr(&request.state.location) as usize;
    // Names have no zero bytes.
    let target = format!("{}\0\0{local}", known_as(&upstream));
    let made = caches.upstreams.get(owner, &target, &found, || {
        let mut upstream = Upstream::clone(&upstream);
        for member in &mut upstream.members {
            let backend = Backend::clone(&member.backend);
            member.backend = Arc::new(Backend {
                local: Some(local),
                ..backend
            });
        }
        Some(upstream)
    });
    made.unwrap_or(upstream)
}

/// An address made of variables must not smuggle anything else into the request.
fn is_authority(url: &PassUrl<'_>) -> bool {
    !url.authority.is_empty()
        && !url.authority.starts_with(':')
        && url
            .authority
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'@' | b'#' | b'\\'))
}

/// Returns path and query for the upstream. `is_evaluated`: the URL has variables.
fn target(request: &mut Request<'_>, uri: Option<&[u8]>, is_evaluated: bool) -> Vec<u8> {
    let clean = |target: Vec<u8>| pages::field_value(&target);
    match uri {
        Some(uri) if is_evaluated => {
            let mut target = uri.to_vec();
            if !target.starts_with(b"/") {
                target.insert(0, b'/');
            }
            return clean(pages::escape_target(&target));
        }
        None if request.state.is_unparsed => {
            let sent = request.exchange.head.view().target();
            return match sent.first() {
                Some(b'/') => sent.to_vec(),
                // `OPTIONS *` and absolute targets.
                _ => with_query(request, pages::escape_path(&request.exchange.path)),
            };
        }
        _ => {}
    }
    let location = Arc::clone(&request.state.location);
    let path = &request.exchange.path;
    let replaced = match uri {
        Some(_) if request.state.is_location_valid => location.name.len(),
        _ => 0,
    };
    let rest = path.get(replaced..).unwrap_or_default();
    let mut target = match uri.filter(|_| request.state.is_location_valid) {
        Some(uri) => uri.to_vec(),
        None => Vec::new(),
    };
    match is_as_sent(request) {
        true => target.extend_from_slice(rest),
        false => target.extend(pages::escape_path(rest)),
    }
    if !target.starts_with(b"/") {
        target.insert(0, b'/');
    }
    with_query(request, target)
}

/// Returns true if the path is what the client sent: a target needs no escapes to have it.
fn is_as_sent(request: &Request<'_>) -> bool {
    let sent = request.exchange.head.view().target();
    let path = sent.split(|byte| *byte == b'?').next();
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'#');
    path == Some(request.exchange.path.as_slice()) && request.exchange.path.iter().all(is_plain)
}

fn with_query(request: &Request<'_>, mut target: Vec<u8>) -> Vec<u8> {
    if let Some(query) = request
        .exchange
        .query
        .as_ref()
        .filter(|query| !query.is_empty())
    {
        target.push(b'?');
        target.extend(pages::field_value(query));
    }
    target
}

/// Gives the request the fields of `proxy_set_header`.
fn set_fields(request: &mut Request<'_>, proxied: &Proxied, upstream: &Upstream) {
    let mut own = std::mem::take(&mut request.exchange.upstream.own_fields);
    own.clear();
    let params = &proxied.params;
    let has = |name: &str| {
        params
            .iter()
            .any(|param| param.name.eq_ignore_ascii_case(name))
    };
    if !has("expect") {
        own.push("Expect", |_| ());
    }
    if !has("host") {
        let host = match proxied.host.is_empty() {
            true => &*upstream.name,
            false => &*proxied.host,
        };
        let host = match host.starts_with("unix:") {
            true => "localhost",
            false => host,
        };
        own.push("Host", |value| {
            pages::append_field_value(host.as_bytes(), value)
        });
    }
    request.exchange.upstream.closes = false;
    for param in params.iter() {
        if param.name.eq_ignore_ascii_case("connection") {
            let value = request.text(&param.value);
            let mut words = value.split(|byte| *byte == b',');
            let closes = words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"));
            request.exchange.upstream.closes = closes;
        }
        if is_framing(&param.name) {
            continue;
        }
        own.push(&param.name, |value| {
            request.append_text(&param.value, value, pages::append_field_value);
        });
    }
    request.exchange.upstream.own_fields = own;
}

/// Fields of the connection, which the gateway sets.
fn is_framing(name: &str) -> bool {
    [
        "connection",
        "upgrade",
        "content-length",
        "transfer-encoding",
        "keep-alive",
        "te",
        "trailer",
    ]
    .iter()
    .any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns the parameters of a `get`. `None`: the configuration sets no `$memcached_key`.
fn value_wanted(request: &mut Request<'_>) -> Option<Script> {
    let variables = &request.nginx.variables;
    let number = variables.iter().position(|known| *known.name == *KEY)?;
    let key = request.variable(&Variable::Named(number))?;
    let mut values = Variables::new();
    values.push(memcached::KEY.as_bytes(), &pages::escape_word(&key));
    Some(Script {
        path: request.exchange.path.clone(),
        parameters: Some(Parameters {
            values,
            passes_fields: false,
            left_out: Vec::new(),
        }),
        ..Script::default()
    })
}

/// The variable with the key.
const KEY: &str = "memcached_key";

/// Returns the parameters of a program. Takes over the memory of another call's, and nothing else.
fn script(
    request: &mut Request<'_>,
    proxied: &Proxied,
    conf: &UpstreamConf,
    memory: Option<Box<Script>>,
) -> Box<Script> {
    let mut script = memory.unwrap_or_default();
    let before = std::mem::take(&mut *script);
    let mut values = before.parameters.map(|own| own.values).unwrap_or_default();
    values.clear();
    let mut left_out = Vec::new();
    for param in proxied.params.iter() {
        let name = param.name.as_bytes();
        if param.if_not_empty && name.starts_with(b"HTTP_") {
            // A client's field never takes the place of an empty value.
            left_out.push(name.into());
        }
        if let Some(text) = param.value.constant() {
            if !text.is_empty() || !param.if_not_empty {
                values.push(name, text);
            }
            continue;
        }
        let write = |value: &mut Vec<u8>| request.append_text(&param.value, value, append);
        match param.if_not_empty {
            true => values.push_filled(name, write),
            false => values.push_with(name, write),
        }
    }
    let (mut filename, mut path) = (before.filename, before.path);
    filename.clear();
    files::append_root(request, &mut filename);
    match files::whole_script(request) {
        Some(script) => filename.extend_from_slice(script),
        None => filename.extend_from_slice(&files::script_name(request)),
    }
    path.clone_from(&request.exchange.path);
    (script.filename, script.path) = (filename, path);
    script.parameters = Some(Parameters {
        values,
        passes_fields: conf.request.passes_fields != Some(false),
        left_out,
    });
    script
}

fn append(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(value);
}

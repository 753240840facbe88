//! The call that a request has become: its URL taken apart, the worker found, the path written as
//! Apache writes it.
//!
//! The last of the fixups for what ProxyPass and `[P]` pass on, and for `SetHandler "proxy:…"`.
//! Difficulty: programs are told of the URL in variables of their own kind; PHP-FPM knows Apache's
//! `proxy:fcgi://…` and takes it apart again, so it gets exactly that.

use crate::{
    call, cgi, methods, origin,
    proxy::{
        forward,
        manner::{self, Extras},
        proxied::Proxied,
        remote, told,
    },
    script_uri::name_uri,
    state::{peek, snapshot},
    verdict::Verdict,
    worker::ApacheRules,
};
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    proxy::{balancers, canonical, pass::Encoding, workers::Found},
};
use saker_config::model::{Backend, BackendAddress, Protocol, Through, Upstream};
use saker_http::{Method, Status, Version, path::EncodedSlashes};
use saker_pipeline::{
    CallNames, Exchange, ProxyOptions, Response, Script, UpstreamRequest, UpstreamTarget,
};
use saker_telemetry::{error_log, message};
use std::{rc::Rc, sync::Arc};

/// URLs without their paths that a worker remembers; `.htaccess` files may name any.
const FOUND_MAX: usize = 1000;

/// The upstream that a URL leads to.
struct Target {
    upstream: Arc<Upstream>,
    extras: Extras,
    is_balancer: bool,
    /// Behind the authority.
    path: Vec<u8>,
}

/// Leaves the call in the exchange, or says why there is none.
pub fn pass_on(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    local: &Arc<DirConfig>,
    proxied: &Proxied,
) -> Verdict {
    if let Some(verdict) = forwards(exchange, host) {
        return verdict;
    }
    if exchange.head.view().method() == Method::Connect {
        return tunnel(exchange, host, &proxied.url);
    }
    if pass_on_again(rules, exchange, host, local, proxied) {
        return Verdict::Pass;
    }
    let target = match target(rules, exchange, host, &proxied.url) {
        Ok(target) => target,
        Err(status) => return Verdict::Answer(Response::new(status)),
    };
    let query = exchange
        .query
        .clone()
        .filter(|_| proxied.encoding != Encoding::Whole);
    let keeps_slashes = host.slashes.encoded == EncodedSlashes::Keep;
    let path = match proxied.encoding {
        Encoding::Decoded => canonical::encode(&with_slash(&target.path), keeps_slashes),
        _ => with_slash(&target.path),
    };
    if !canonical::is_clean(&path)
        || query
            .as_deref()
            .is_some_and(|query| !canonical::is_clean(query))
    {
        return Verdict::Answer(Response::new(Status::FORBIDDEN));
    }
    let script = takes_variables(&target.upstream).then(|| {
        let filename = filename(&target, &path, local);
        let mut script = script(rules, exchange, host, local, &target, filename);
        if protocol(&target) == Some(Protocol::Uwsgi) {
            of_uwsgi(exchange, &target, &mut script);
        }
        script
    });
    let request_target = query.map_or_else(
        || path.clone(),
        |query| [&path, b"?".as_slice(), &query].concat(),
    );
    leave(rules, exchange, host, local, target, request_target, script)
}

/// Leaves the call of an earlier request that followed the same decision: only the query differs.
/// Returns false if there is none, or if more may differ.
pub fn again(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &Arc<DirConfig>,
) -> bool {
    let view = exchange.head.view();
    // HTTP/2 has variables of its own.
    let is_plain = view.version() <= Version::Http11
        && view.first("max-forwards").is_none()
        && host.proxy.forwards_max.is_none();
    if !is_plain {
        return false;
    }
    let Some(mut call) = earlier(rules, exchange, local) else {
        return false;
    };
    // Connections to one listener may have come to different ports (PROXY protocol).
    let port = origin::port(exchange, host);
    let Some(script) = call.script.as_mut().filter(|script| {
        !script.is_adjusted
            && script.variables.is_empty()
            && script.path_translated.is_none()
            && script.server_port == port
    }) else {
        return false;
    };
    let led_from = peek(exchange).and_then(|state| state.led_from.as_ref());
    script.redirect_query = led_from.and_then(|(_, query)| query.clone());
    call.target = call::target_of(exchange);
    exchange.upstream.call = Some(call);
    name_uri(exchange, host);
    true
}

/// Leaves the call of an earlier request that was passed on by the same decision, as [`again`].
fn pass_on_again(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &Arc<DirConfig>,
    proxied: &Proxied,
) -> bool {
    let query = exchange.query.as_deref();
    // Of other encodings the path may have a `?`.
    if proxied.encoding != Encoding::Decoded || !query.is_none_or(canonical::is_clean) {
        return false;
    }
    let Some(mut call) = earlier(rules, exchange, local).filter(|call| call.script.is_none())
    else {
        return false;
    };
    let path = call.target.iter().position(|byte| *byte == b'?');
    call.target.truncate(path.unwrap_or(call.target.len()));
    if let Some(query) = query {
        call.target.push(b'?');
        call.target.extend_from_slice(query);
    }
    call.names = names(exchange, host, &call.manner);
    exchange.upstream.call = Some(call);
    true
}

/// The upstream request of an earlier request that followed the same decision, unless upstreams have
/// changed since.
fn earlier(
    rules: &ApacheRules,
    exchange: &Exchange,
    local: &Arc<DirConfig>,
) -> Option<Box<UpstreamRequest>> {
    let decision = exchange.cache.decision.as_ref()?;
    let is_plain = exchange.routing.path_info.is_empty()
        && !manner::interpolates(local)
        && rules.found_at_change.get() == balancers::changes();
    let call = decision.take_request().filter(|_| is_plain)?;
    matches!(call.to, UpstreamTarget::Upstream(_)).then_some(call)
}

/// CONNECT: bytes pass both ways, whatever they are.
fn tunnel(exchange: &mut Exchange, host: &Host, url: &[u8]) -> Verdict {
    let authority = String::from_utf8_lossy(url).into_owned();
    if host.proxy.blocks(&authority) {
        error_log::log_about(
            &message::HANDLER_NOT_THERE,
            exchange,
            format_args!("CONNECT {authority}: ProxyBlock"),
        );
        return Verdict::Answer(Response::new(Status::FORBIDDEN));
    }
    let timeout_ms = host.process.timeout_s.unwrap_or(60).saturating_mul(1000);
    let Some(upstream) = forward::tunnel_to(&authority, timeout_ms) else {
        return Verdict::Answer(Response::new(Status::BAD_REQUEST));
    };
    let (to, manner) = (
        UpstreamTarget::Upstream(Arc::new(upstream)),
        Arc::new(ProxyOptions::default()),
    );
    exchange.upstream.call = Some(Box::new(UpstreamRequest {
        to,
        target: Vec::new(),
        script: None,
        manner,
        names: CallNames::default(),
    }));
    Verdict::Pass
}

/// `SetHandler "proxy:…"`: the file is for the program at that URL.
pub fn by_handler(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    local: &Arc<DirConfig>,
    url: &str,
) -> Verdict {
    if let Some(verdict) = forwards(exchange, host) {
        return verdict;
    }
    let file = peek(exchange)
        .map(|state| state.filename.clone())
        .unwrap_or_default();
    let whole = [url.as_bytes(), &file].concat();
    let target = match target(rules, exchange, host, &whole) {
        Ok(target) => target,
        Err(status) => return Verdict::Answer(Response::new(status)),
    };
    let script = takes_variables(&target.upstream).then(|| {
        let filename = filename(&target, &with_slash(&target.path), local);
        script(rules, exchange, host, local, &target, filename)
    });
    let request_target = match script.is_some() {
        true => call::target_of(exchange),
        false => {
            let path = canonical::encode(&with_slash(&target.path), false);
            exchange.query.as_ref().map_or_else(
                || path.clone(),
                |query| [&path, b"?".as_slice(), query].concat(),
            )
        }
    };
    leave(rules, exchange, host, local, target, request_target, script)
}

fn script(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    local: &DirConfig,
    target: &Target,
    filename: Vec<u8>,
) -> Box<Script> {
    let edits = local
        .proxy
        .said()
        .filter(|_| protocol(target) == Some(Protocol::FastCgi))
        .map(|said| said.set_env_if.as_slice())
        .unwrap_or_default();
    told::vary(edits, exchange, host, rules.watcher());
    let own = snapshot(exchange);
    let adjustment = told::adjust(edits, host, rules.watcher(), own);
    let is_adjusted = adjustment.is_some();
    if let Some(adjustment) = adjustment {
        exchange.extensions.insert(adjustment);
    }
    let mut script = Script {
        filename,
        is_adjusted,
        names_member: target.is_balancer,
        ..call::script(exchange, host, local)
    };
    script.path_translated = cgi::translated(rules, exchange);
    // mod_proxy_uwsgi keeps no credentials back.
    script.passes_authorization |= protocol(target) == Some(Protocol::Uwsgi);
    Box::new(script)
}

fn protocol(target: &Target) -> Option<Protocol> {
    target
        .upstream
        .members
        .first()
        .map(|member| member.backend.protocol)
}

/// `proxy-fcgi-pathinfo` and its kin: what of the path follows the script.
pub fn find_path_info(exchange: &mut Exchange) {
    let Some(proxied) = peek(exchange).and_then(|state| state.proxied.as_ref()) else {
        return;
    };
    let name: &[u8] = match proxied.url.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case(b"scgi:") => b"proxy-scgi-pathinfo",
        _ => b"proxy-fcgi-pathinfo",
    };
    let Some(kind) = exchange.environment.first(name) else {
        return;
    };
    let Some((_, path)) = canonical::split(&proxied.url) else {
        return;
    };
    let dot = match kind.to_ascii_lowercase().as_slice() {
        b"first-dot" => path.iter().position(|byte| *byte == b'.'),
        b"last-dot" => path.iter().rposition(|byte| *byte == b'.'),
        _ => Some(0),
    };
    let slash =
        dot.and_then(|dot| Some(dot + path.get(dot..)?.iter().position(|byte| *byte == b'/')?));
    exchange.routing.path_info = slash
        .and_then(|slash| path.get(slash..))
        .unwrap_or_default()
        .to_vec();
}

/// mod_proxy_uwsgi: all of the path is PATH_INFO, with one slash at its beginning, and what stands
/// before it in the request's the script.
fn of_uwsgi(exchange: &Exchange, target: &Target, script: &mut Script) {
    let path = with_slash(&target.path);
    script.filename = [
        b"proxy:uwsgi://".as_slice(),
        authority_of(target).as_bytes(),
        &path,
    ]
    .concat();
    let slashes = path.iter().take_while(|byte| **byte == b'/').count();
    let info = path.get(slashes.saturating_sub(1)..).unwrap_or_default();
    if let Some(name) = exchange.path.strip_suffix(info).filter(|_| info != b"/") {
        script
            .variables
            .push((b"SCRIPT_NAME".to_vec(), name.to_vec()));
    }
    script
        .variables
        .push((b"PATH_INFO".to_vec(), info.to_vec()));
}

fn leave(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    local: &Arc<DirConfig>,
    target: Target,
    request_target: Vec<u8>,
    script: Option<Box<Script>>,
) -> Verdict {
    let manner = match manner::interpolates(local) {
        true => Arc::new(manner::manner(local, host, target.extras, Some(exchange))),
        false => rules.memo.borrow_mut().manner(local, host, target.extras),
    };
    // What is added says who asked through us, whom a forward proxy keeps to itself (mod_proxy as
    // it behaves).
    let manner = match peek(exchange).is_some_and(|own| own.is_forwarded) {
        true => Arc::new(ProxyOptions {
            adds_forwarded: false,
            preserves_host: false,
            ..(*manner).clone()
        }),
        false => manner,
    };
    let names = names(exchange, host, &manner);
    let to = UpstreamTarget::Upstream(target.upstream);
    exchange.upstream.call = Some(Box::new(UpstreamRequest {
        to,
        target: request_target,
        script,
        manner,
        names,
    }));
    Verdict::Pass
}

/// The names of this server, for fields that tell them.
fn names(exchange: &Exchange, host: &Host, manner: &ProxyOptions) -> CallNames {
    let origin = if manner.reverse.is_empty() {
        Vec::new()
    } else {
        origin::origin(exchange, host)
    };
    let via = match manner.via {
        saker_pipeline::Via::On | saker_pipeline::Via::Full => {
            let whole = origin::origin(exchange, host);
            let at = whole
                .windows(3)
                .position(|window| window == b"://")
                .map_or(0, |at| at + 3);
            let own = whole.get(at..).unwrap_or_default();
            // Of a forward proxy the request's host is another server's.
            match (
                peek(exchange).is_some_and(|own| own.is_forwarded),
                host.server_name.as_deref(),
            ) {
                (true, Some(name)) => {
                    let port = own
                        .iter()
                        .rposition(|byte| *byte == b':')
                        .and_then(|at| own.get(at..))
                        .unwrap_or_default();
                    [name.as_bytes(), port].concat()
                }
                _ => own.to_vec(),
            }
        }
        _ => Vec::new(),
    };
    CallNames {
        origin,
        via,
        ..CallNames::default()
    }
}

/// RFC 9110 section 7.6.2, and ProxyMaxForwards.
fn forwards(exchange: &mut Exchange, host: &Host) -> Option<Verdict> {
    let left = match exchange.head.view().first("max-forwards") {
        Some(text) => match std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
        {
            None => return Some(Verdict::Answer(Response::new(Status::BAD_REQUEST))),
            Some(0) => return Some(at_the_end(exchange, host)),
            Some(left) => left - 1,
        },
        None => host.proxy.forwards_max?,
    };
    set_field(exchange, "Max-Forwards", left.to_string().as_bytes());
    None
}

/// The last to get it answers it.
fn at_the_end(exchange: &mut Exchange, host: &Host) -> Verdict {
    match exchange.head.view().method() {
        Method::Trace => Verdict::Answer(saker_pipeline::methods::trace_answer(exchange)),
        Method::Options => Verdict::Answer(methods::with_methods(Status::OK, host)),
        _ => Verdict::Answer(Response::new(Status::BAD_REQUEST)),
    }
}

fn set_field(exchange: &mut Exchange, name: &str, value: &[u8]) {
    let others = |field: &(&[u8], &[u8])| !field.0.eq_ignore_ascii_case(name.as_bytes());
    exchange.head = {
        let view = exchange.head.view();
        let fields = view
            .fields()
            .filter(others)
            .chain(std::iter::once((name.as_bytes(), value)));
        exchange.head.with_fields(fields)
    };
}

fn with_slash(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        path.to_vec()
    } else {
        [b"/", path].concat()
    }
}

fn takes_variables(upstream: &Upstream) -> bool {
    upstream
        .members
        .iter()
        .any(|member| member.backend.protocol.takes_variables())
}

fn target(
    rules: &ApacheRules,
    exchange: &Exchange,
    host: &Host,
    url: &[u8],
) -> Result<Target, Status> {
    let complain = |reason: &str| {
        let url = String::from_utf8_lossy(url);
        error_log::log_about(
            &message::HANDLER_NOT_THERE,
            exchange,
            format_args!("proxy:{url}: {reason}"),
        );
    };
    let (head, path) = canonical::split(url).ok_or(Status::BAD_REQUEST)?;
    let head = std::str::from_utf8(head).map_err(|_| Status::BAD_REQUEST)?;
    if host.proxy.blocks(head) {
        complain("ProxyBlock");
        return Err(Status::FORBIDDEN);
    }
    let way = remote::on_the_way(host, &exchange.host, url);
    let found = found(rules, exchange.routing.site_index, host, head, way).map_err(|reason| {
        complain(&reason);
        Status::INTERNAL_SERVER_ERROR
    })?;
    let candidate = found.for_path(path).ok_or(Status::INTERNAL_SERVER_ERROR)?;
    let speaks = candidate
        .upstream
        .members
        .first()
        .map(|member| member.backend.protocol);
    let is_literal = matches!(speaks, Some(Protocol::FastCgi | Protocol::Uwsgi));
    let is_program = takes_variables(&candidate.upstream);
    let extras = Extras {
        flushes: candidate.flushes,
        upgrades: candidate.upgrades.clone(),
        is_literal,
        is_program,
        keeps_errors: speaks == Some(Protocol::Scgi),
    };
    Ok(Target {
        upstream: Arc::clone(&candidate.upstream),
        extras,
        is_balancer: candidate.is_balancer,
        path: path.to_vec(),
    })
}

/// The same upstreams for the same text, as long as it is remembered: the gateway knows them by
/// their place in memory.
fn found(
    rules: &ApacheRules,
    host_index: usize,
    host: &Host,
    head: &str,
    way: Option<(usize, &Arc<Through>)>,
) -> Result<Rc<Found>, String> {
    let key = way.map_or_else(
        || head.to_owned(),
        |(number, _)| format!("{head} through {number}"),
    );
    let mut all = rules.found_workers.borrow_mut();
    let changes = balancers::changes();
    if rules.found_at_change.replace(changes) != changes {
        all.clear();
    }
    let of_host = all.entry(host_index).or_default();
    if let Some(known) = of_host.get(&*key) {
        return Ok(Rc::clone(known));
    }
    let mut found = host.proxy.workers.find(head)?;
    if let Some((_, proxy)) = way {
        found.lead(|upstream| Arc::new(remote::through(upstream, proxy)));
    }
    let found = Rc::new(found);
    if of_host.len() >= FOUND_MAX {
        of_host.clear();
    }
    of_host.insert(key.into(), Rc::clone(&found));
    Ok(found)
}

/// SCRIPT_FILENAME as mod_proxy's modules for programs leave it. Of a balancer the gateway says
/// which member it is.
fn filename(target: &Target, path: &[u8], local: &DirConfig) -> Vec<u8> {
    let is_generic = local.proxy.said().and_then(|said| said.is_generic_fastcgi) == Some(true);
    match protocol(target) {
        Some(Protocol::FastCgi) if is_generic || target.is_balancer => path.to_vec(),
        Some(protocol @ (Protocol::FastCgi | Protocol::Scgi | Protocol::Uwsgi))
            if !target.is_balancer =>
        {
            [
                format!(
                    "proxy:{}://{}",
                    protocol.scheme(false),
                    authority_of(target)
                )
                .as_bytes(),
                path,
            ]
            .concat()
        }
        _ => path.to_vec(),
    }
}

fn authority_of(target: &Target) -> String {
    target
        .upstream
        .members
        .first()
        .map(|member| authority(&member.backend, &member.authority))
        .unwrap_or_default()
}

/// Without a port that is the scheme's own.
fn authority(backend: &Backend, known: &str) -> String {
    match &backend.address {
        BackendAddress::Tcp { host, port } if *port == backend.protocol.default_port(false) => {
            host.to_string()
        }
        BackendAddress::Tcp { host, port } => format!("{host}:{port}"),
        BackendAddress::Unix(_) => known.to_owned(),
    }
}

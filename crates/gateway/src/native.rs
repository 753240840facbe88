//! Calls that routes of our own configuration ask for (`proxy`).
//!
//! Out of scope: which path the server sees (`upstream_path`).

use crate::upstream_path;
use foldhash::fast::RandomState;
use saker_config::model::{Action, Protocol, Proxy, Upstream};
use saker_http::escape;
use saker_net::clock;
use saker_pipeline::{
    CallNames, Exchange, ProxyOptions, Script, Trust, UpstreamRequest, UpstreamTarget,
};
use std::{
    cell::RefCell, collections::HashMap, ffi::OsStr, os::unix::ffi::OsStrExt, path::Path,
    sync::Arc, time::Duration,
};

/// The options of a worker's last call, which are mostly those of the next one.
#[derive(Default)]
pub struct LastOptions(RefCell<Option<Arc<ProxyOptions>>>);

impl LastOptions {
    fn get(&self, exchange: &Exchange, proxy: &Proxy, trust: Trust) -> Arc<ProxyOptions> {
        let mut last = self.0.borrow_mut();
        if let Some(same) = last.as_ref().filter(|last| {
            last.preserves_host == proxy.preserves_host
                && last.tells_scheme == proxy.tells_scheme
                && !exchange.host.is_empty()
                && last.server_name.as_bytes() == exchange.host
                && last.trust == trust
                && last
                    .terms
                    .as_ref()
                    .is_some_and(|terms| Arc::ptr_eq(terms, &proxy.terms))
        }) {
            return Arc::clone(same);
        }
        let options = Arc::new(ProxyOptions {
            preserves_host: proxy.preserves_host,
            tells_scheme: proxy.tells_scheme,
            server_name: server_name(exchange).into(),
            trust,
            timeout: proxy.terms.timeout_ms.map(Duration::from_millis),
            terms: Some(Arc::clone(&proxy.terms)),
            ..ProxyOptions::default()
        });
        Arc::clone(last.insert(options))
    }
}

/// The call of the route that matches, if it has one.
pub fn call(
    exchange: &Exchange,
    last_options: &LastOptions,
    spare_scripts: &SpareScripts,
) -> Option<UpstreamRequest> {
    let route = exchange
        .routing
        .route
        .and_then(|at| exchange.routing.site.routes.get(at))?;
    let Action::Proxy(proxy) = &route.action else {
        return None;
    };
    let speaks_to_programs = proxy
        .upstream
        .members
        .first()
        .is_some_and(|member| member.backend.protocol.takes_variables());
    let trust = trust(
        exchange,
        proxy
            .upstream
            .internal_redirects
            .unwrap_or(speaks_to_programs),
    );
    let paths = upstream_path::of(exchange, route, proxy);
    let script = speaks_to_programs.then(|| {
        let mut script = spare_scripts.take();
        tell(exchange, &proxy.upstream, &mut script);
        upstream_path::mount(&mut script, &paths.public_prefix);
        script
    });
    Some(UpstreamRequest {
        to: UpstreamTarget::Upstream(proxy.upstream.current()),
        target: with_query(paths.path, exchange),
        script,
        manner: last_options.get(exchange, proxy, trust),
        names: CallNames {
            public_prefix: paths.public_prefix,
            added_prefix: paths.added_prefix,
            leads_out: paths.leads_out,
            ..CallNames::default()
        },
    })
}

/// The call of an earlier request that followed the same decision: only the query differs, and the
/// members of the upstream may.
pub fn call_again(exchange: &Exchange) -> Option<Box<UpstreamRequest>> {
    let decision = exchange.cache.decision.as_ref()?;
    let Action::Proxy(proxy) = exchange.action() else {
        return None;
    };
    let mut call = decision.take_request()?;
    call.to = UpstreamTarget::Upstream(proxy.upstream.current());
    let path_bytes = call.target.iter().position(|byte| *byte == b'?');
    call.target
        .truncate(path_bytes.unwrap_or(call.target.len()));
    call.target = with_query(std::mem::take(&mut call.target), exchange);
    if let Some(script) = &mut call.script {
        // Connections to one listener may have come to different ports (PROXY protocol).
        script.server_port = exchange.client.local.port();
    }
    Some(call)
}

/// True if the requested file doesn't exist. A route for a name suffix (`*.php`) is for files: if
/// the root is local, a path that isn't one of its files is not found. Otherwise programs would
/// look for the script in the middle of the path, and PHP would run an uploaded picture
/// (`/up/a.jpg/x.php`).
pub fn is_missing(exchange: &Exchange, call: &UpstreamRequest, known: &KnownScripts) -> bool {
    let route = exchange
        .routing
        .route
        .and_then(|at| exchange.routing.site.routes.get(at));
    let is_for_files = route.is_some_and(|route| {
        route.pattern.is_for_scripts() && matches!(route.action, Action::Proxy(_))
    });
    let mapped = exchange.routing.mapped.as_ref();
    let root = mapped
        .map(|mapped| &*mapped.root)
        .or(exchange.routing.site.root.as_deref());
    let (Some(script), Some(root), true) = (&call.script, root, is_for_files) else {
        return false;
    };
    // Path info has led to the route of the script in front of it, whose pattern the path has not.
    let is_named = || route.is_some_and(|route| route.pattern.captures(&exchange.path).is_some());
    !known.was_there(&script.filename) && root.is_dir() && is_named()
}

/// Files that were there a moment ago. Who asks for one that has just gone is told so by the
/// program.
#[derive(Default)]
pub struct KnownScripts(RefCell<HashMap<Box<[u8]>, u64, RandomState>>);

impl KnownScripts {
    const HOLDS_MS: u64 = 1000;
    const KEPT_MAX: usize = 4096;

    fn was_there(&self, filename: &[u8]) -> bool {
        let (mut known, now_ms) = (self.0.borrow_mut(), clock::monotonic_ms());
        if known
            .get(filename)
            .is_some_and(|until_ms| now_ms < *until_ms)
        {
            return true;
        }
        let is_there = Path::new(OsStr::from_bytes(filename)).is_file();
        if is_there {
            if known.len() >= KnownScripts::KEPT_MAX {
                known.clear();
            }
            known.insert(filename.into(), now_ms + KnownScripts::HOLDS_MS);
        }
        is_there
    }
}

/// Untrusted fields are hidden too: internal paths must not leak.
fn trust(exchange: &Exchange, is_trusted: bool) -> Trust {
    let files = exchange
        .routing
        .settings
        .send_files
        .as_ref()
        .filter(|_| is_trusted)
        .map(Arc::clone);
    Trust {
        accel: is_trusted,
        litespeed: is_trusted,
        files,
        hides: true,
        unheeded: Box::default(),
    }
}

/// Path and query as the request has them now.
pub fn own_target(exchange: &Exchange) -> Vec<u8> {
    let mut target = Vec::new();
    escape::uri_path(&exchange.path, &mut target);
    with_query(target, exchange)
}

fn with_query(mut target: Vec<u8>, exchange: &Exchange) -> Vec<u8> {
    if let Some(query) = &exchange.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

/// Parameters of programs that requests are done with, for their memory.
#[derive(Default)]
#[allow(
    clippy::vec_box,
    reason = "requests hold them in boxes, which are kept as well"
)]
pub struct SpareScripts(RefCell<Vec<Box<Script>>>);

impl SpareScripts {
    const KEPT_MAX: usize = 16;

    fn take(&self) -> Box<Script> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    pub fn keep(&self, script: Option<Box<Script>>) {
        let mut spare = self.0.borrow_mut();
        if let Some(script) = script.filter(|_| spare.len() < SpareScripts::KEPT_MAX) {
            spare.push(script);
        }
    }
}

/// Returns what the program of an upstream is told.
pub fn told(exchange: &Exchange, upstream: &Upstream) -> Script {
    let mut script = Script::default();
    tell(exchange, upstream, &mut script);
    script
}

/// Applications behind uwsgi and SCGI have no files: all of the path is theirs (PEP 3333). Takes
/// over the memory of `script`, and nothing else of it.
fn tell(exchange: &Exchange, upstream: &Upstream, script: &mut Script) {
    *script = script_with(exchange, std::mem::take(script));
    if upstream
        .members
        .first()
        .is_some_and(|member| matches!(member.backend.protocol, Protocol::Uwsgi | Protocol::Scgi))
    {
        script.variables = vec![
            (b"SCRIPT_NAME".to_vec(), Vec::new()),
            (b"PATH_INFO".to_vec(), exchange.path.clone()),
        ];
    }
}

/// The file below the root that has the path's name.
fn script_with(exchange: &Exchange, memory: Script) -> Script {
    let mapped = exchange.routing.mapped.as_ref();
    let site_root = exchange.routing.site.root.as_deref();
    let root = mapped.map(|mapped| &*mapped.root).or(site_root);
    let root = root.map_or(&b""[..], |root| root.as_os_str().as_bytes());
    let filename = match mapped {
        Some(mapped) => mapped.filename(),
        None => {
            let mut filename = refilled(memory.filename, root.strip_suffix(b"/").unwrap_or(root));
            filename.extend_from_slice(&exchange.path);
            filename
        }
    };
    Script {
        filename,
        document_root: refilled(memory.document_root, root),
        // As for servers over HTTP: what the application makes of credentials is its own affair.
        passes_authorization: true,
        ..about_server_with(exchange, memory.path, memory.server_name)
    }
}

/// Returns the script data common to all requests.
pub fn about_server(exchange: &Exchange) -> Script {
    about_server_with(exchange, Vec::new(), Vec::new())
}

fn about_server_with(exchange: &Exchange, path: Vec<u8>, name: Vec<u8>) -> Script {
    Script {
        path: refilled(path, &exchange.path),
        server_name: match std::str::from_utf8(&exchange.host) {
            Ok(host) if !host.is_empty() => refilled(name, host.as_bytes()),
            _ => server_name(exchange).into_bytes(),
        },
        server_port: exchange.client.local.port(),
        server_software: b"Saker"[..].into(),
        ..Script::default()
    }
}

fn refilled(mut memory: Vec<u8>, text: &[u8]) -> Vec<u8> {
    memory.clear();
    memory.extend_from_slice(text);
    memory
}

pub fn server_name(exchange: &Exchange) -> String {
    match exchange.host.is_empty() {
        true => exchange.client.local.ip().to_string(),
        false => String::from_utf8_lossy(&exchange.host).into_owned(),
    }
}

//! What the gateway is asked to do for a request: whom to ask, and what a program is told of Apache's side.
//!
//! Called by `fixups` once it is known which handler a file is for, after access was decided.

use crate::{
    homes,
    host::Host,
    local::Local,
    origin,
    rules::{ApacheRules, name_uri},
    signature,
    state::state,
    worker_url,
};
use saker_config::model::{Member, Tuning, Upstream};
use saker_http::Status;
use saker_pipeline::{Call, CallTo, Exchange, Response, Script, Verdict};
use saker_telemetry::{error_log, message};
use std::{os::unix::ffi::OsStrExt, sync::Arc};

/// Upstreams of handlers' names that are kept; `.htaccess` files may name any.
const NAMED_MAX: usize = 1000;

/// `SetHandler "proxy:…"`: the file is for the program at that URL.
pub fn by_handler(rules: &ApacheRules, exchange: &mut Exchange, host: &Host, local: &Local, url: &str) -> Verdict {
    match named(rules, host, url) {
        Ok(upstream) => {
            let script = script(exchange, host, local);
            let target = target_of(exchange);
            let manner = Arc::default();
            exchange.call = Some(Box::new(Call { to: CallTo::Upstream(upstream), target, script: Some(Box::new(script)), manner }));
            Verdict::Pass
        }
        Err(reason) => {
            error_log::log_client(&message::HANDLER_NOT_THERE, exchange.client.address, format_args!("proxy:{url}: {reason}"));
            Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR))
        }
    }
}

/// The same upstream for the same name, as long as it is kept: workers know it by its place in memory.
fn named(rules: &ApacheRules, host: &Host, url: &str) -> Result<Arc<Upstream>, String> {
    let mut all = rules.named_upstreams.borrow_mut();
    if let Some(known) = all.get(url) {
        return Ok(Arc::clone(known));
    }
    let mut worker = worker_url::parse(url)?;
    host.secure(&mut worker.backend)?;
    let key = match &worker.backend.tls {
        None => url.to_owned(),
        // Hosts may differ in their demands.
        Some(demands) => format!("{url} {demands:?}"),
    };
    if let Some(known) = all.get(key.as_str()) {
        return Ok(Arc::clone(known));
    }
    if all.len() >= NAMED_MAX {
        all.clear();
    }
    // Without `enablereuse=on` Apache makes a connection for each request: what is at the other end may have no more than a few.
    let tuning = Tuning { kept_max: 0, ..Tuning::default() };
    let member = Member { path: worker.path, ..Member::new(worker.backend, tuning) };
    let upstream = Arc::new(Upstream::new(url, vec![member]));
    all.insert(key.into(), Arc::clone(&upstream));
    Ok(upstream)
}

/// What a program is told that Apache knows.
pub fn script(exchange: &mut Exchange, host: &Host, local: &Local) -> Script {
    let document_root = homes::document_root(exchange, host).unwrap_or_else(|| host.document_root.as_os_str().as_bytes().to_vec());
    name_uri(exchange, host);
    let (filename, context, led_from, is_included) = {
        let own = state(exchange);
        (own.filename.clone(), own.context.clone(), own.led_from.clone(), own.is_answered)
    };
    let path_info = exchange.path_info.clone();
    let below = |path: &[u8]| [document_root.strip_suffix(b"/").unwrap_or(&document_root), path].concat();
    let (context_prefix, context_document_root) = context.unwrap_or_else(|| (Vec::new(), document_root.clone()));
    let kind = local.authn.kind.as_ref().and_then(|kind| kind.constant()).filter(|_| exchange.user.is_some());
    let (redirect_url, redirect_query) = led_from.map_or((None, None), |(path, query)| (Some(path), query));
    Script {
        filename,
        path: exchange.path.clone(),
        path_translated: (!path_info.is_empty()).then(|| below(&path_info)),
        path_info,
        context_prefix,
        context_document_root,
        document_root,
        server_name: origin::name(exchange, host),
        server_port: origin::port(exchange, host),
        // Apache's own words.
        server_admin: Some(host.server_admin.clone().unwrap_or_else(|| "[no address given]".into())),
        server_signature: signature::line(exchange, host, local),
        // Applications look for the name of the server whose rules these are, to know that there is an .htaccess for them to write.
        server_software: format!("Apache ({})", signature::software(host)).into_bytes(),
        auth_type: kind.map(|kind| String::from_utf8_lossy(kind).into()),
        passes_authorization: local.cgi.passes_authorization.unwrap_or(false),
        redirect_url,
        redirect_query,
        is_included,
        php: Vec::new(),
        variables: own_variables(exchange, local),
    }
}

/// CGIVar.
fn own_variables(exchange: &Exchange, local: &Local) -> Vec<(Vec<u8>, Vec<u8>)> {
    let uri = local.cgi.uri_is_current.filter(|is_current| *is_current).map(|_| (b"REQUEST_URI".to_vec(), exchange.path.clone()));
    uri.into_iter().collect()
}

/// Path and query, escaped, as the rules have left them.
pub fn target_of(exchange: &Exchange) -> Vec<u8> {
    let mut target = saker_expressions::escape_uri(&exchange.path);
    if let Some(query) = &exchange.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

//! What the gateway is asked to do for a request: whom to ask, and what a program is told of Apache's side.
//!
//! Called by `fixups` once it is known which handler a file is for, after access was decided.

use crate::{homes, host::Host, local::Local, origin, rules::ApacheRules, state::state, worker_url};
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
pub fn script(exchange: &mut Exchange, host: &Host, _local: &Local) -> Script {
    let document_root = homes::document_root(exchange, host).unwrap_or_else(|| host.document_root.as_os_str().as_bytes().to_vec());
    let filename = state(exchange).filename.clone();
    let path_info = exchange.path_info.clone();
    let below = |path: &[u8]| [document_root.strip_suffix(b"/").unwrap_or(&document_root), path].concat();
    Script {
        filename,
        path: exchange.path.clone(),
        path_translated: (!path_info.is_empty()).then(|| below(&path_info)),
        path_info,
        context_prefix: Vec::new(),
        context_document_root: document_root.clone(),
        document_root,
        server_name: origin::name(exchange, host),
        server_port: origin::port(exchange, host),
        server_admin: host.server_admin.clone(),
        server_signature: Vec::new(),
        // Applications look for the name of the server whose rules these are, to know that there is an .htaccess for them to write.
        server_software: b"Apache (Saker)".to_vec(),
        auth_type: None,
        passes_authorization: false,
        php: Vec::new(),
        variables: Vec::new(),
    }
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

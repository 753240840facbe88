//! What a program is told about a request: from the exchange and what rules left in the call.

use saker_cgi::{Facts, Level, Setting, Variables, push_meta_variables};
use saker_config::model::Member;
use saker_config::model::PhpValue;
use saker_http::{HeadView, KnownField};
use saker_pipeline::{Exchange, Script};
use std::{ffi::OsString, os::unix::ffi::OsStrExt, sync::OnceLock};

/// Fills `variables` (used again from request to request). `head`: what is told of the request's,
/// see [`field_names::told`](crate::field_names::told).
pub fn fill(
    exchange: &Exchange,
    head: HeadView<'_>,
    script: &Script,
    content_length: Option<u64>,
    variables: &mut Variables,
) {
    variables.clear();
    exchange
        .environment
        .iter()
        .for_each(|(name, value)| variables.push(name, value));
    if let Some(path) = library_path() {
        variables.set(b"LD_LIBRARY_PATH", path);
    }
    let local = exchange.client.local.ip().to_canonical().to_string();
    let facts = Facts {
        head,
        passes_authorization: script.passes_authorization,
        passes_underscores: true,
        content_length: content_length
            .filter(|length| *length > 0 || head.has(KnownField::ContentLength)),
        search_path: search_path(),
        server_signature: &script.server_signature,
        server_software: &script.server_software,
        server_name: &script.server_name,
        server_addr: local.as_bytes(),
        server_port: script.server_port,
        server_admin: script.server_admin.as_ref().map(|admin| admin.as_bytes()),
        remote_host: exchange.client.name().map(str::as_bytes),
        remote_addr: exchange.client.text().as_bytes(),
        remote_port: exchange.client.address.port(),
        remote_user: exchange.user.as_ref().map(|user| user.as_bytes()),
        remote_ident: None,
        auth_type: script.auth_type.as_ref().map(|kind| kind.as_bytes()),
        request_scheme: if exchange.client.secure {
            b"https"
        } else {
            b"http"
        },
        document_root: &script.document_root,
        context_prefix: &script.context_prefix,
        context_document_root: &script.context_document_root,
        script_filename: &script.filename,
        redirect_url: script.redirect_url.as_deref(),
        redirect_query_string: script.redirect_query.as_deref(),
        server_protocol: if script.is_included {
            b"INCLUDED"
        } else {
            head.version().as_str().as_bytes()
        },
        request_method: head.method_token(),
        query_string: exchange.query.as_deref(),
        request_uri: head.target(),
        path: &script.path,
        path_info: &script.path_info,
        path_translated: script.path_translated.as_deref(),
    };
    push_meta_variables(&facts, variables);
    if content_length.is_some() {
        // Of chunks they see nothing.
        variables.remove(b"HTTP_TRANSFER_ENCODING");
    }
    script
        .variables
        .iter()
        .for_each(|(name, value)| variables.set(name, value));
}

/// Adds the variables that depend on the chosen upstream; the configuration is applied last.
pub fn finish(
    exchange: &Exchange,
    script: &Script,
    balancer: &str,
    member: &Member,
    variables: &mut Variables,
) {
    if script.names_member {
        let url = format!(
            "{}://{}{}",
            member.backend.scheme(),
            member.authority,
            member.path
        );
        variables.set(
            b"SCRIPT_FILENAME",
            &[b"proxy:", url.as_bytes(), &script.filename].concat(),
        );
        variables.set(b"BALANCER_NAME", balancer.as_bytes());
        variables.set(b"BALANCER_WORKER_NAME", url.as_bytes());
        variables.set(
            b"BALANCER_WORKER_ROUTE",
            member.route.as_deref().unwrap_or_default().as_bytes(),
        );
    }
    if let Some(adjust) = &script.adjust {
        let told = variables
            .iter()
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect();
        variables.clear();
        adjust.0(exchange, told)
            .iter()
            .for_each(|(name, value)| variables.push(name, value));
    }
}

/// PHP's settings.
pub fn settings(values: &[PhpValue]) -> Vec<Setting<'_>> {
    let level = |is_admin| {
        if is_admin {
            Level::System
        } else {
            Level::PerDirectory
        }
    };
    values
        .iter()
        .map(|value| Setting {
            level: level(value.is_admin),
            name: &value.name,
            value: &value.value,
        })
        .collect()
}

/// The server's own PATH.
fn search_path() -> Option<&'static [u8]> {
    static PATH: OnceLock<Option<OsString>> = OnceLock::new();
    PATH.get_or_init(|| std::env::var_os("PATH"))
        .as_ref()
        .map(|path| path.as_bytes())
}

/// Returns the path of the libraries that such programs need.
fn library_path() -> Option<&'static [u8]> {
    static PATH: OnceLock<Option<OsString>> = OnceLock::new();
    PATH.get_or_init(|| std::env::var_os("LD_LIBRARY_PATH"))
        .as_ref()
        .map(|path| path.as_bytes())
}

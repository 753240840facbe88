//! Upstream requests of Apache configurations: Apache's side of a request for programs behind the
//! gateway.
//!
//! Asked once it is known who answers, after access was decided (`proxy/call.rs`, `cgi.rs`,
//! `php.rs`).

use crate::{
    homes,
    meta_variables::http2_variables,
    origin,
    script_uri::name_uri,
    signature,
    state::{peek, state},
};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_pipeline::{Exchange, Script};

/// The facts about a request that a program is told.
pub fn script(exchange: &mut Exchange, host: &Host, local: &DirConfig) -> Script {
    let document_root = homes::document_root(exchange, host)
        .unwrap_or_else(|| homes::own_root(exchange, host).to_vec());
    name_uri(exchange, host);
    let (filename, context, led_from, is_included) = {
        let own = state(exchange);
        (
            own.filename.clone(),
            own.context.clone(),
            own.led_from.clone(),
            own.is_answered,
        )
    };
    let path_info = exchange.routing.path_info.clone();
    let below = |path: &[u8]| {
        [
            document_root.strip_suffix(b"/").unwrap_or(&document_root),
            path,
        ]
        .concat()
    };
    let (context_prefix, context_document_root) =
        context.unwrap_or_else(|| (Vec::new(), document_root.clone()));
    let kind = local
        .auth
        .settings
        .authentication
        .scheme
        .as_ref()
        .and_then(|kind| kind.constant())
        .filter(|_| exchange.access.user.is_some());
    let (redirect_url, redirect_query) =
        led_from.map_or((None, None), |(path, query)| (Some(path), query));
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
        server_admin: Some(
            host.server_admin
                .clone()
                .unwrap_or_else(|| "[no address given]".into()),
        ),
        server_signature: signature::line(exchange, host, local),
        // Applications look for the name of the server whose rules these are, to know that there is
        // an .htaccess for them to write.
        server_software: format!("Apache ({})", signature::software(host))
            .into_bytes()
            .into(),
        auth_type: kind
            .filter(|kind| !kind.eq_ignore_ascii_case(b"none"))
            .map(|kind| String::from_utf8_lossy(kind).into()),
        passes_authorization: local.cgi.passes_authorization.unwrap_or(false),
        redirect_url,
        redirect_query,
        is_included,
        variables: own_variables(exchange, local),
        ..Script::default()
    }
}

/// CGIVar, mod_http2's variables, and those of the page that a program is on.
fn own_variables(exchange: &Exchange, local: &DirConfig) -> Vec<(Vec<u8>, Vec<u8>)> {
    let uri = local
        .cgi
        .uri_is_current
        .filter(|is_current| *is_current)
        .map(|_| (b"REQUEST_URI".to_vec(), exchange.path.clone()));
    let http2 = http2_variables(exchange)
        .into_iter()
        .filter(|(name, _)| exchange.environment.first(name).is_none())
        .map(|(name, value)| (name.to_vec(), value));
    let of_page = peek(exchange)
        .and_then(|own| own.page.as_ref())
        .map(|page| page.for_programs())
        .unwrap_or_default()
        .into_iter()
        .filter(|(name, _)| exchange.environment.first(name).is_none());
    uri.into_iter().chain(http2).chain(of_page).collect()
}

/// Path and query, escaped, as the rules have left them.
pub fn target_of(exchange: &Exchange) -> Vec<u8> {
    let mut target = saker_ap_expr::escape_uri(&exchange.path);
    if let Some(query) = &exchange.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

//! Variables of programs and pages about a request: CGI's variables, made of an exchange.
//!
//! Difficulty: what rules have set stands first and keeps its place, but what the server knows wins
//! (`saker_cgi::meta`).

use crate::{facts::RequestFacts, homes, state::State};
use saker_ap_expr::{Facts as _, Variable};
use saker_apache_model::host::Host;
use saker_cgi::{
    Variables,
    meta::{Facts as Meta, push_meta_variables},
};
use saker_files::Watcher;
use saker_http::Version;
use saker_pipeline::Exchange;
use std::{borrow::Cow, os::unix::ffi::OsStrExt};

/// The variables of a request, those of its environment among them.
pub fn of(exchange: &Exchange, state: &State, host: &Host, watcher: &Watcher) -> Variables {
    let seen = RequestFacts::new(exchange, state, host, watcher);
    let known = |variable: Variable| seen.variable(variable).unwrap_or_default();
    let optional = |variable: Variable| seen.variable(variable).filter(|value| !value.is_empty());
    let (view, client) = (exchange.head.view(), &exchange.client);
    let (server_name, server_addr, server_admin) = (
        known(Variable::ServerName),
        known(Variable::ServerAddr),
        optional(Variable::ServerAdmin),
    );
    let (remote_user, auth_type) = (optional(Variable::RemoteUser), optional(Variable::AuthType));
    let search_path = std::env::var_os("PATH");
    let translated = [homes::own_root(exchange, host), &exchange.routing.path_info].concat();
    let mut variables = Variables::new();
    exchange
        .environment
        .iter()
        .for_each(|(name, value)| variables.push(name, value));
    for (name, value) in http2_variables(exchange) {
        if exchange.environment.first(name).is_none() {
            variables.push(name, &value);
        }
    }
    let meta = Meta {
        head: view,
        passes_authorization: false,
        tells_fields: true,
        passes_underscores: false,
        content_length: exchange.body.length().filter(|length| *length > 0),
        search_path: search_path.as_deref().map(OsStrExt::as_bytes),
        server_signature: b"",
        server_software: &known(Variable::ServerSoftware),
        server_name: &server_name,
        server_addr: &server_addr,
        server_port: crate::origin::port(exchange, host),
        // Apache's own words.
        server_admin: Some(server_admin.as_deref().unwrap_or(b"[no address given]")),
        remote_host: client.name().map(str::as_bytes),
        remote_addr: client.text().as_bytes(),
        remote_port: client.connection_address().port(),
        remote_user: remote_user.as_deref(),
        remote_ident: None,
        auth_type: auth_type.as_deref(),
        request_scheme: &known(Variable::RequestScheme),
        document_root: homes::own_root(exchange, host),
        context_prefix: &known(Variable::ContextPrefix),
        context_document_root: &known(Variable::ContextDocumentRoot),
        script_filename: &state.filename,
        redirect_url: state.led_from.as_ref().map(|(path, _)| path.as_slice()),
        redirect_query_string: state
            .led_from
            .as_ref()
            .and_then(|(_, query)| query.as_deref()),
        server_protocol: if state.is_subrequest {
            b"INCLUDED"
        } else {
            view.version().as_str().as_bytes()
        },
        request_method: view.method_token(),
        query_string: exchange.query.as_deref(),
        request_uri: view.target(),
        path: &exchange.path,
        path_info: &exchange.routing.path_info,
        path_translated: Some(&translated),
    };
    push_meta_variables(&meta, &mut variables);
    variables
}

/// Variables of a request over HTTP/2 (Apache manual, mod_http2, "Environment Variables"). Nothing is
/// pushed, because browsers no longer take it. Requests of the server's own have no stream.
pub fn http2_variables(exchange: &Exchange) -> Vec<(&'static [u8], Vec<u8>)> {
    if exchange.head.view().version() != Version::Http2 {
        return Vec::new();
    }
    let mut variables: Vec<(&'static [u8], Vec<u8>)> = vec![
        (b"HTTP2", b"on".to_vec()),
        (b"H2PUSH", b"off".to_vec()),
        (b"H2_PUSH", b"off".to_vec()),
    ];
    if let Some(stream) = exchange.log.stream_id {
        let tag = format!("{}-{stream}", exchange.client.log_id.number());
        variables.push((b"H2_STREAM_ID", stream.to_string().into_bytes()));
        variables.push((b"H2_STREAM_TAG", tag.into_bytes()));
    }
    variables
}

/// Puts mod_http2's variables into the environment, where a log of the host tells one of them.
pub fn tell_logs(exchange: &mut Exchange, host: &Host) {
    let is_told = |name: &[u8]| {
        let mut logged = host.logged_variables.iter();
        logged.any(|logged| logged.as_bytes().eq_ignore_ascii_case(name))
    };
    if host.logged_variables.is_empty() {
        return;
    }
    for (name, value) in http2_variables(exchange) {
        if is_told(name) && exchange.environment.first(name).is_none() {
            // Another request has another stream.
            exchange.depends_on_request();
            exchange.environment.set(name, &value);
        }
    }
}

/// As a name of the system's environment: letters, digits and underscores, and no digit first.
pub fn variable_name(name: &[u8]) -> Cow<'_, [u8]> {
    let is_good = |(at, byte): (usize, &u8)| {
        byte.is_ascii_alphanumeric() && (at > 0 || !byte.is_ascii_digit()) || *byte == b'_'
    };
    match name.iter().enumerate().all(is_good) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(
            name.iter()
                .enumerate()
                .map(|(at, byte)| if is_good((at, byte)) { *byte } else { b'_' })
                .collect(),
        ),
    }
}

/// With a backslash before everything that a shell would not take for itself.
pub fn shell_escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    for byte in text {
        if b"&;`'\"|*?~<>^()[]{}$\\\n\r%".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shells() {
        assert_eq!(variable_name(b"1a-B_2").as_ref(), b"_a_B_2");
        assert!(matches!(variable_name(b"PATH"), Cow::Borrowed(_)));
        assert_eq!(shell_escaped(b"a b;$(x)"), b"a b\\;\\$\\(x\\)");
    }
}

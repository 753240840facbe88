//! Variables of a program about a request: from the exchange and from rules.

use saker_cgi::{Facts, Level, Setting, Variables, push_fields, push_meta_variables};
use saker_config::model::{Member, PhpValue, Protocol};
use saker_http::{HeadView, KnownField, field_name::is_alike};
use saker_net::ShortText;
use saker_pipeline::{Exchange, Parameters, Script, VariableAdjustment, texts};
use smallvec::SmallVec;
use std::{ffi::OsString, os::unix::ffi::OsStrExt, sync::OnceLock};

/// Fills `variables` (used again from request to request). `head`: what is told of the request's,
/// see [`field_names::told`](crate::field_names::told). `tells_fields`: its fields become variables.
pub fn fill(
    exchange: &Exchange,
    (head, tells_fields): (HeadView<'_>, bool),
    script: &Script,
    content_length: Option<u64>,
    variables: &mut Variables,
) {
    if let Some(parameters) = &script.parameters {
        return fill_with(parameters, exchange, (head, content_length), variables);
    }
    begin(exchange, variables);
    let local = ShortText::of_address(exchange.client.local.ip().to_canonical());
    let facts = Facts {
        head,
        tells_fields,
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
        remote_user: exchange.access.user.as_ref().map(|user| user.as_bytes()),
        remote_ident: None,
        auth_type: script.auth_type.as_ref().map(|kind| kind.as_bytes()),
        request_scheme: if exchange.client.secure {
            b"https"
        } else {
            b"http"
        },
        document_root: &script.document_root,
        context_prefix: &script.context_prefix,
        context_document_root: context_document_root(script),
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
        hide_chunks(exchange, head, variables);
    }
    script
        .variables
        .iter()
        .for_each(|(name, value)| variables.set(name, value));
    add_configured(exchange, variables);
}

/// Fills in what rules have said instead.
fn fill_with(
    parameters: &Parameters,
    exchange: &Exchange,
    (head, content_length): (HeadView<'_>, Option<u64>),
    variables: &mut Variables,
) {
    variables.clear();
    if parameters.passes_fields {
        let left_out = parameters.left_out.iter().map(|name| &**name);
        let names = parameters.values.iter().map(|(name, _)| name);
        let names = names.chain(left_out);
        let own: SmallVec<[&[u8]; 4]> = names
            .filter_map(|name| name.strip_prefix(b"HTTP_"))
            .collect();
        let is_own = |name: &[u8]| own.iter().any(|own| is_alike(own, name));
        push_fields(head, is_own, variables);
        if content_length.is_some() {
            hide_chunks(exchange, head, variables);
        }
    }
    variables.append(&parameters.values);
    // Content that came in chunks has a length when it is here.
    if let Some(length) = content_length.filter(|length| *length > 0)
        && variables.first(LENGTH).is_some_and(<[u8]>::is_empty)
    {
        variables.set(LENGTH, length.to_string().as_bytes());
    }
}

const LENGTH: &[u8] = b"CONTENT_LENGTH";

/// The folder of the context, which mostly is the document root.
fn context_document_root(script: &Script) -> &[u8] {
    match script.context_document_root.is_empty() {
        true => &script.document_root,
        false => &script.context_document_root,
    }
}

/// Variables that rules have set, which all others override.
fn begin(exchange: &Exchange, variables: &mut Variables) {
    variables.clear();
    let settled = exchange.environment.settled();
    let all = settled.iter();
    all.for_each(|(name, value)| variables.push(name, value));
    if let Some(path) = library_path() {
        variables.set(b"LD_LIBRARY_PATH", path);
    }
}

/// The variables of `environment`, which override all others.
fn add_configured(exchange: &Exchange, variables: &mut Variables) {
    for variable in &exchange.routing.settings.variables {
        // The gateway has refused requests without a value.
        let value = texts::value(&variable.value, exchange).unwrap_or_default();
        variables.set(variable.name.as_bytes(), &value);
    }
}

/// Content of known length comes without chunks, whatever the client sent.
fn hide_chunks(exchange: &Exchange, head: HeadView<'_>, variables: &mut Variables) {
    const NAME: &[u8] = b"HTTP_TRANSFER_ENCODING";
    let mut names = head.fields().map(|(name, _)| name);
    if names.any(|name| is_alike(name, b"transfer-encoding"))
        || exchange.environment.first(NAME).is_some()
    {
        variables.remove(NAME);
    }
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
    let is_fastcgi = member.backend.protocol == Protocol::FastCgi;
    let is_exempt = script.names_member || script.filename.starts_with(b"proxy:");
    if is_fastcgi && !is_exempt && !script.path_info.is_empty() {
        // PHP takes REDIRECT_URL for a sign of Apache's `Action` with php-cgi: PATH_TRANSLATED is
        // the script then, and PATH_INFO is dropped, so `index.php/$1` and error documents with a
        // path behind the script would find nothing. Names with `proxy:fcgi:` in front are exempt.
        variables.remove(b"REDIRECT_URL");
    }
    if script.is_adjusted
        && let Some(adjustment) = exchange.extensions.get::<VariableAdjustment>()
    {
        let told = variables
            .iter()
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect();
        variables.clear();
        adjustment
            .apply(exchange, told)
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

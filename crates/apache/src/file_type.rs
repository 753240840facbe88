//! The type, coding and handler of the file that answers.
//!
//! Called by: `fixups`, once it is known which file that is.

use crate::{
    coding_name,
    facts::RequestFacts,
    includes, magic,
    memo::Memo,
    response,
    state::{State, peek, snapshot, state},
};
use saker_ap_expr::{Facts as _, base64_encode, md5};
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::{core::Core, mime::Facts},
};
use saker_config::model::Files;
use saker_files::{Kind, Watcher};
use saker_http::{Method, media_type};
use saker_pipeline::Exchange;
use saker_static_files::names;
use std::borrow::Cow;

/// Type, charset, handler.
pub fn describe(
    memo: &mut Memo,
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
) {
    let Some(own) = peek(exchange) else { return };
    let name = match local.mime.use_path_info {
        Some(true) => Cow::Owned([own.filename.as_slice(), &exchange.routing.path_info].concat()),
        _ => Cow::Borrowed(&own.filename),
    };
    let mut stamps = Vec::new();
    let mut facts = magic::facts(local, host, watcher, &name, &own.filename, &mut stamps);
    if let Some(base) = &own.base {
        add_defaults(&mut facts, &base.files, &local.core);
    }
    let handler = own
        .forced_handler
        .clone()
        .or_else(|| local.core.set_handler.clone().flatten())
        .or(facts.handler.clone());
    // Last of all, ScriptAlias.
    let handler = if own.is_program {
        Some("cgi-script".into())
    } else {
        handler.or_else(|| own.is_script_alias.then(|| "cgi-script".into()))
    };
    let media_type = local
        .core
        .force_type
        .clone()
        .flatten()
        .or_else(|| own.forced_type.clone())
        .or_else(|| facts.content_type());
    let (is_page, handler, media_type) =
        includes::page(exchange, watcher, local, handler, media_type);
    exchange.cache.change_tokens.append(&mut stamps);
    let handler = handler.or_else(|| media_type.as_deref().and_then(handler_of_type));
    exchange.routing.handler = handler.or_else(|| native_script(exchange));
    let digest = digest(exchange, host, watcher, local);
    let own = state(exchange);
    note_content(own, &facts, is_page);
    coding_name::choose(exchange, &facts.codings);
    let own = state(exchange);
    own.content_lines.extend(digest);
    let content_type = media_type.map(|media_type| local.core.with_default_charset(&media_type));
    exchange.routing.settings = memo.typed(&exchange.routing.settings, content_type.as_deref());
    response::encoding::choose(
        memo,
        exchange,
        host,
        watcher,
        local,
        content_type.as_deref(),
    );
    if peek(exchange).is_some_and(|own| !own.is_subrequest) {
        crate::content_filters::input::wrap_request_body(
            exchange,
            host,
            watcher,
            local,
            &facts.input_filters,
        );
    }
}

/// The type and charset that a native site has for files whose names and `.htaccess` files say
/// nothing of it.
fn add_defaults(facts: &mut Facts, files: &Files, core: &Core) {
    let default = || Some(files.default_type.as_str()).filter(|kind| !kind.is_empty());
    facts.media_type = facts
        .media_type
        .take()
        .or_else(|| default().map(Into::into));
    let takes_charset = |kind: &str| {
        !kind.to_ascii_lowercase().contains("charset=")
            && media_type::takes_charset(kind.as_bytes())
    };
    let is_open = facts.charset.is_none() && core.default_charset.is_none();
    if is_open
        && !files.charset.is_empty()
        && facts.media_type.as_deref().is_some_and(takes_charset)
    {
        facts.charset = Some(files.charset.as_str().into());
    }
}

/// The handler of PHP files in a native site, where `.htaccess` names none: they are run by name,
/// and their sources are never shown.
fn native_script(exchange: &Exchange) -> Option<Box<str>> {
    let own = peek(exchange).filter(|own| own.base.is_some() && own.kind == Some(Kind::File))?;
    let name = own.filename.as_slice();
    match (names::is_php_script(name), names::is_php(name)) {
        (true, _) => Some("application/x-httpd-php".into()),
        (false, true) => Some("application/x-httpd-php-source".into()),
        (false, false) => None,
    }
}

/// Bytes of a file whose digest is sent: it is made on the worker, which others wait for.
const DIGESTED_BYTES_MAX: usize = 1 << 20;

/// ContentDigest: Content-MD5 (RFC 2616 section 14.15) of a file that is sent as it is. It is made
/// once for a head that is kept.
fn digest(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
) -> Option<(Box<str>, Box<[u8]>)> {
    if local.core.content_digest != Some(true) || exchange.routing.handler.is_some() {
        return None;
    }
    let own = snapshot(exchange);
    let is_read = matches!(exchange.head.view().method(), Method::Get | Method::Head);
    if own.kind != Some(Kind::File) || own.is_subrequest || !is_read {
        return None;
    }
    let seen = RequestFacts::new(exchange, &own, host, watcher);
    let content = seen.file_content(&own.filename, DIGESTED_BYTES_MAX).ok();
    let mut stamps = seen.stamps.take();
    exchange.cache.change_tokens.append(&mut stamps);
    let digest = base64_encode(&md5(&content?));
    Some(("Content-MD5".into(), digest.into()))
}

/// Notes what describes the content, and the filters that it passes.
fn note_content(own: &mut State, facts: &Facts, is_page: bool) {
    own.content_lines = content_lines(facts);
    own.output_filters = facts.output_filters.clone();
    let is_named = own
        .output_filters
        .iter()
        .any(|name| name.eq_ignore_ascii_case(includes::NAME));
    if is_page && !is_named {
        own.output_filters.push(includes::NAME.into());
    }
}

/// Language and coding of a file's content.
fn content_lines(facts: &Facts) -> Vec<(Box<str>, Box<[u8]>)> {
    let line = |name: &str, values: &[Box<str>]| {
        (!values.is_empty()).then(|| (name.into(), values.join(", ").into_bytes().into()))
    };
    [
        line("Content-Language", &facts.languages),
        line("Content-Encoding", &facts.codings),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The handler that a type stands for where no handler is named, as in Apache: types of its modules,
/// those by which PHP is called, and words that are no types.
fn handler_of_type(media_type: &str) -> Option<Box<str>> {
    let name = media_type.split(';').next().unwrap_or_default().trim();
    match name {
        "application/x-httpd-cgi" => Some("cgi-script".into()),
        "application/x-type-map" => Some("type-map".into()),
        "httpd/send-as-is" => Some("send-as-is".into()),
        name if is_program_type(media_type) => Some(if name.contains('/') {
            media_type.into()
        } else {
            name.into()
        }),
        name => (!name.is_empty() && !name.contains('/')).then(|| name.into()),
    }
}

/// Types by which PHP's modules and those of panels are called.
fn is_program_type(media_type: &str) -> bool {
    let lower = media_type.to_ascii_lowercase();
    lower.starts_with("application/x-httpd-") || lower.contains("lsphp")
}

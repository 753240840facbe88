//! Selection of the handler that answers a request: by its file, its directives, or its directory.
//!
//! Called by: `fixups`, at their end.
//! Out of scope: files, which the pipeline's own handler sends.

use crate::{
    about_server::about_server, asis, balancer_manager, cgi, form_state::FormHandler, listing,
    map_to_storage, methods, modules::access::form, php, proxy::call, reflector, state::peek,
    type_map, verdict::Verdict, webdav, worker::ApacheRules,
};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_apache_syntax::options::INDEXES;
use saker_files::{Kind, Watcher};
use saker_http::{Method, Status};
use saker_pipeline::{Exchange, Response};
use saker_static_files::names;
use saker_telemetry::{error_log, httpd_message, message};
use std::sync::Arc;

/// Answers in the place of a file.
pub fn content(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: &Arc<DirConfig>,
) -> Verdict {
    let is_proxied = peek(exchange).is_some_and(|state| state.proxied.is_some());
    // mod_dav takes the place of every other handler; what a rule passes on is no file of ours.
    if !is_proxied && webdav::takes(exchange) {
        return Verdict::Pass;
    }
    if let Some(verdict) = of_other_server(rules, exchange, host, local) {
        return verdict;
    }
    let is_lookup = peek(exchange).is_some_and(|state| state.is_subrequest && !state.is_answered);
    if exchange.routing.handler.as_deref() == Some("cgi-script") {
        return if is_lookup {
            Verdict::Pass
        } else {
            cgi::answer(rules, exchange, host, local)
        };
    }
    if !is_lookup && let Some(led_on) = cgi::lead_on(exchange, host, local) {
        return led_on;
    }
    if let Some(verdict) = program(rules, exchange, host, local) {
        return verdict;
    }
    if host.is_native && is_php_file(exchange) {
        return php::forbidden(
            exchange,
            "its handler is not PHP, and its source is not shown",
        );
    }
    if is_lookup {
        return after_path(exchange, local);
    }
    if let Some(verdict) = by_handler(rules, exchange, host, watcher, local) {
        return verdict;
    }
    if !host.is_native
        && let Some(page) = about_server(rules, exchange, host, local)
    {
        return Verdict::Answer(page);
    }
    match methods::answer(exchange, host) {
        Some(response) => Verdict::Answer(response),
        None if is_unlistable(exchange) || (!host.is_native && is_handled_folder(exchange)) => {
            Verdict::Answer(Response::new(Status::NOT_FOUND))
        }
        None if is_natively_listed(rules, exchange, host, local) => Verdict::Pass,
        None if is_listed(exchange, local) => listing::begin(exchange, watcher, local),
        None => {
            complain_of_folder(exchange, local);
            if host.is_native && is_bare_folder(exchange) {
                return Verdict::Answer(Response::new(Status::FORBIDDEN));
            }
            exchange.routing.scripts_by_name = is_native_program(exchange);
            after_path(exchange, local)
        }
    }
}

/// The answer of a handler that takes a file by the handler's name.
fn by_handler(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: &Arc<DirConfig>,
) -> Option<Verdict> {
    let name = exchange.routing.handler.as_deref()?;
    if let Some(handler) = FormHandler::named(name) {
        return Some(form::answer(rules, exchange, host, local, handler));
    }
    match name {
        "type-map" => Some(type_map::answer(exchange, host, watcher, local)),
        "balancer-manager" if !host.is_native => Some(balancer_manager::answer(exchange, host)),
        "reflector" => Some(Verdict::Answer(reflector::answer(
            exchange,
            host,
            &local.reflector,
        ))),
        "send-as-is" => match exchange.head.view().method() {
            Method::Get | Method::Head => Some(Verdict::Answer(asis::answer(
                exchange,
                watcher,
                local.core.options.in_force(),
            ))),
            // As in Apache: other methods are for the file.
            _ => {
                exchange.routing.handler = None;
                None
            }
        },
        _ => None,
    }
}

/// The answer of another server, which rules or a handler's name lead to.
fn of_other_server(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    local: &Arc<DirConfig>,
) -> Option<Verdict> {
    if let Some(proxied) = peek(exchange).and_then(|state| state.proxied.clone()) {
        return Some(call::pass_on(rules, exchange, host, local, &proxied));
    }
    let handler = exchange.routing.handler.clone()?;
    let url = handler.strip_prefix("proxy:")?;
    Some(match host.is_native {
        true => php::forbidden(exchange, "a .htaccess file may not open proxy connections"),
        false => call::by_handler(rules, exchange, host, local, url),
    })
}

/// A folder under a handler that takes no folders is not listed either (mod_autoindex).
fn is_handled_folder(exchange: &Exchange) -> bool {
    exchange.routing.handler.is_some()
        && peek(exchange).is_some_and(|state| state.kind == Some(Kind::Directory))
}

/// Handlers that run what the file holds: PHP, and those that Saker does not have, whose files are
/// shown to no client.
fn program(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    local: &Arc<DirConfig>,
) -> Option<Verdict> {
    let handler = exchange
        .routing
        .handler
        .clone()
        .filter(|handler| local.actions.action(handler).is_none())?;
    let filename = peek(exchange)
        .map(|state| state.filename.clone())
        .unwrap_or_default();
    let registered =
        php::Registered::of(host.is_native, &rules.apache.environment.modules, &handler);
    if let Some(asked) = php::asked(&handler, &filename, registered) {
        return Some(php::answer(rules, exchange, host, local, asked));
    }
    if !is_program(&handler) {
        return None;
    }
    let filename = String::from_utf8_lossy(&filename);
    error_log::log_about(
        &message::HANDLER_NOT_THERE,
        exchange,
        format_args!("{filename}: {handler}: its source is not shown"),
    );
    Some(Verdict::Answer(Response::new(
        Status::INTERNAL_SERVER_ERROR,
    )))
}

/// A file that PHP distributions take for PHP.
fn is_php_file(exchange: &Exchange) -> bool {
    peek(exchange).is_some_and(|own| own.kind == Some(Kind::File) && names::is_php(&own.filename))
}

/// A file of a native site that its handlers for programs (`cgi`) may have to run.
fn is_native_program(exchange: &Exchange) -> bool {
    let has_programs = peek(exchange)
        .and_then(|own| own.base.as_ref())
        .is_some_and(|base| !base.cgi.is_empty());
    has_programs && exchange.routing.handler.is_none()
}

/// A folder that nothing answers for.
fn is_bare_folder(exchange: &Exchange) -> bool {
    exchange.routing.handler.is_none()
        && peek(exchange).is_some_and(|own| own.kind == Some(Kind::Directory))
}

/// A folder that has no index file, and must not be listed.
fn complain_of_folder(exchange: &Exchange, local: &DirConfig) {
    let Some(own) = peek(exchange).filter(|own| own.kind == Some(Kind::Directory)) else {
        return;
    };
    if exchange.routing.handler.is_some() {
        return;
    }
    let (folder, names) = (
        String::from_utf8_lossy(&own.filename),
        local.dir.index_names().collect::<Vec<_>>().join(","),
    );
    let why = "and server-generated directory index forbidden by Options directive";
    let text = format_args!(
        "Cannot serve directory {}/: No matching DirectoryIndex ({names}) found, {why}",
        folder.trim_end_matches('/')
    );
    error_log::log_httpd(&httpd_message::DIRECTORY_FORBIDDEN, None, exchange, text);
}

/// Folders that nothing else answers for; other methods than GET and HEAD have been answered.
fn is_listed(exchange: &Exchange, local: &DirConfig) -> bool {
    let is_folder = peek(exchange).is_some_and(|state| state.kind == Some(Kind::Directory));
    is_folder
        && exchange.routing.handler.is_none()
        && local.core.options.in_force().contains(INDEXES)
}

/// A native site's own listing, which knows no rules for the names in it. Without its slash the path of
/// a folder is not the one that routes are for, whatever DirectorySlash says.
fn is_natively_listed(
    rules: &ApacheRules,
    exchange: &Exchange,
    host: &Host,
    local: &Arc<DirConfig>,
) -> bool {
    host.is_native
        && is_listed(exchange, local)
        && !(exchange.path.ends_with(b"/") && map_to_storage::is_ruled(rules, exchange, local))
}

/// Only GET asks for listings.
fn is_unlistable(exchange: &Exchange) -> bool {
    let is_folder = peek(exchange).is_some_and(|state| state.kind == Some(Kind::Directory));
    is_folder && exchange.head.view().method() == Method::Post
}

/// Handlers that run what the file holds: where they are missing, it is shown to no client.
fn is_program(handler: &str) -> bool {
    let lower = handler.to_ascii_lowercase();
    lower.starts_with("proxy:")
        || lower.contains("php")
        || matches!(
            &*lower,
            "cgi-script"
                | "fcgid-script"
                | "fastcgi-script"
                | "wsgi-script"
                | "perl-script"
                | "modperl"
                | "python-program"
                | "mod_python"
                | "jakarta-servlet"
                | "mono"
                | "lua-script"
                | "lsapi-script"
        )
}

/// Handlers of ours that are no files; every other name that we don't know stands for a file, as in
/// Apache.
fn takes_path_info(handler: &str) -> bool {
    matches!(
        handler,
        "server-status"
            | "server-info"
            | "balancer-manager"
            | "type-map"
            | "send-as-is"
            | "imap-file"
            | "hls-streaming"
    )
}

/// Files have nothing below them unless a handler says so.
fn after_path(exchange: &mut Exchange, local: &DirConfig) -> Verdict {
    if exchange.routing.path_info.is_empty()
        || local.core.accept_path_info == Some(true)
        || exchange
            .routing
            .handler
            .as_deref()
            .is_some_and(takes_path_info)
    {
        return Verdict::Pass;
    }
    if let Some(own) = peek(exchange) {
        let (filename, rest) = (
            String::from_utf8_lossy(&own.filename),
            String::from_utf8_lossy(&exchange.routing.path_info),
        );
        let text = format_args!("File does not exist: {filename}{rest}");
        let is_missing = own.kind.is_none();
        let message = if is_missing {
            &httpd_message::FILE_DOES_NOT_EXIST
        } else {
            &httpd_message::PATH_INFO_REFUSED
        };
        error_log::log_httpd(message, None, exchange, text);
    }
    Verdict::Answer(Response::new(Status::NOT_FOUND))
}

//! mod_rewrite: runs the rules of the host and those of directories, and applies what they decide.
//!
//! Called by: `server_rewrite` and `fixups`.
//! Caveat: what the rules looked at is recorded, so that an outcome is kept only as long as it is
//! true.
//! Out of scope: the rules themselves (`saker_rewrite`).

use crate::{
    facts::{RequestFacts, note_dependencies, trace_dependencies},
    methods,
    proxy::proxied::Proxied,
    redirect::redirect,
    script_uri::name_path,
    state::{Translated, may_ask, peek, snapshot, state},
    verdict::Verdict,
    worker::ApacheRules,
};
use saker_apache_model::{
    dir_config::DirConfig, host::Host, modules::alias::Redirected, proxy::pass::Encoding,
};
use saker_apache_syntax::options::{FOLLOW_SYM_LINKS, SYM_LINKS_IF_OWNER_MATCH};
use saker_config::model::Origin;
use saker_files::Watcher;
use saker_http::{Status, path::normalize_with};
use saker_pipeline::{Exchange, OutcomeLine, Response, respond::built_in_page};
use saker_rewrite::{
    Action, Cause, Input, Outcome, Settings, SourceLine, run_directory, run_server,
};
use saker_telemetry::{error_log, message};
use std::sync::Arc;

/// Rules in directory context.
pub fn rewrite_folder(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: &DirConfig,
) -> Verdict {
    let Some(section) = local.rewrite.section.as_ref() else {
        return Verdict::Pass;
    };
    let server = host
        .rewrite
        .clone()
        .unwrap_or_else(|| Arc::new(Settings::server()));
    let settings = server.for_directories().merge(section);
    if !settings.is_enabled() {
        return Verdict::Pass;
    }
    may_ask(exchange, host);
    let own = snapshot(exchange);
    let options = local.core.options.in_force();
    let (outcome, stamps, has_looked_ahead, pause) = {
        let seen = RequestFacts {
            rules: Some((rules, host)),
            ..RequestFacts::new(exchange, &own, host, watcher)
        };
        let input = Input {
            filename: Some(&own.filename),
            path_info: &exchange.routing.path_info,
            query: exchange.query.as_deref(),
            ended: own.rewrite_ended,
            is_subrequest: own.is_subrequest,
            follows_links: options.contains(FOLLOW_SYM_LINKS)
                || options.contains(SYM_LINKS_IF_OWNER_MATCH),
            proxy_available: !host.is_native,
            request_time_s: exchange.now,
            trace_level: trace_level(exchange, local),
            ..Input::new(&exchange.path)
        };
        let outcome = run_directory(&settings, &server, &seen, &input);
        (
            outcome,
            seen.stamps.take(),
            seen.has_looked_ahead.get(),
            seen.pause.take(),
        )
    };
    drop(own);
    if let Some(pause) = pause {
        return Verdict::Wait(pause);
    }
    note_dependencies(exchange, &outcome.dependencies, stamps);
    if has_looked_ahead {
        exchange.depends_on_request();
    }
    let takes_handler = outcome.effects.forced_handler.is_some();
    match apply(exchange, host, outcome) {
        Action::Pass | Action::Stay => Verdict::Pass,
        Action::InternalRedirect(_) if takes_handler => Verdict::Answer(without_file(exchange)),
        Action::InternalRedirect(path)
        | Action::PassThrough(path)
        | Action::Translate(path)
        | Action::Filename(path) => {
            let own = state(exchange);
            (own.is_rewritten, own.rewritten_as) = (true, own.kind);
            internal_redirect(exchange, host, &path)
        }
        other => answer(exchange, host, other),
    }
}

/// The answer where a handler is forced upon a path that rules make: in Apache it takes the place of
/// the handler that would redirect, and finds no file of that name.
fn without_file(exchange: &Exchange) -> Response {
    // Programs are refused before they are looked for.
    let is_refused = peek(exchange).is_some_and(|own| {
        own.kind.is_some() || own.forced_handler.as_deref() == Some("cgi-script")
    });
    Response::new(match is_refused {
        true => Status::FORBIDDEN,
        false => Status::NOT_FOUND,
    })
}

/// To another path of the site, read as one from a client would be.
fn internal_redirect(exchange: &mut Exchange, host: &Host, path: &[u8]) -> Verdict {
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let mut read = Vec::with_capacity(path.len());
    if let Err(error) = normalize_with(path, host.slashes, &mut read) {
        return Verdict::Answer(Response::new(methods::status_of(error)));
    }
    exchange.path = read;
    Verdict::Restart
}

/// Rules in server context.
pub fn rewrite_host(all: &ApacheRules, exchange: &mut Exchange, host: &Arc<Host>) -> Verdict {
    let Some(rules) = host.rewrite.as_ref().filter(|rules| rules.is_enabled()) else {
        return Verdict::Pass;
    };
    name_path(exchange);
    may_ask(exchange, host);
    let own = snapshot(exchange);
    let (outcome, stamps, has_looked_ahead, pause) = {
        let seen = RequestFacts {
            rules: Some((all, host)),
            ..RequestFacts::new(exchange, &own, host, &all.watcher)
        };
        let input = Input {
            query: exchange.query.as_deref(),
            ended: own.rewrite_ended,
            is_subrequest: own.is_subrequest,
            proxy_available: !host.is_native,
            request_time_s: exchange.now,
            trace_level: trace_level(exchange, &host.defaults),
            ..Input::new(&exchange.path)
        };
        let outcome = run_server(rules, &seen, &input);
        (
            outcome,
            seen.stamps.take(),
            seen.has_looked_ahead.get(),
            seen.pause.take(),
        )
    };
    drop(own);
    if let Some(pause) = pause {
        return Verdict::Wait(pause);
    }
    note_dependencies(exchange, &outcome.dependencies, stamps);
    if has_looked_ahead {
        exchange.depends_on_request();
    }
    let action = apply(exchange, host, outcome);
    match action {
        Action::Pass | Action::Stay => Verdict::Pass,
        Action::Filename(file) => {
            state(exchange).translated = Some(Translated::File(file));
            Verdict::Pass
        }
        Action::Translate(path) => {
            state(exchange).translated = Some(Translated::BelowRoot(path));
            Verdict::Pass
        }
        Action::PassThrough(path) | Action::InternalRedirect(path) => {
            exchange.path = path;
            Verdict::Pass
        }
        other => answer(exchange, host, other),
    }
}

/// A request that is explained shows its conditions, too.
pub fn trace_level(exchange: &Exchange, local: &DirConfig) -> u8 {
    const EXPLAINED: u8 = 4;
    if exchange.log.trace.is_some() {
        EXPLAINED
    } else {
        local.loglevel.rewrite_trace()
    }
}

/// Tells the explanation or the error log a line as mod_rewrite writes it: the client, the host and
/// request, and what happened.
fn trace(exchange: &mut Exchange, host: &Host, outcome: &Outcome) {
    if exchange.log.trace.is_some() {
        outcome
            .trace
            .iter()
            .for_each(|line| exchange.trace("rewrite", None, || line.to_string()));
        return;
    }
    if outcome.trace.is_empty() {
        return;
    }
    // Each request has its lines.
    exchange.depends_on_request();
    let name = String::from_utf8_lossy(&crate::origin::name(exchange, host)).into_owned();
    let kind = if peek(exchange).is_some_and(|state| state.is_subrequest) {
        "subreq"
    } else {
        "initial"
    };
    let is_detour =
        exchange.log.original.is_some() || peek(exchange).is_some_and(|state| state.is_error_page);
    let detour = if is_detour {
        format!("/redir#{}", exchange.routing.redirects)
    } else {
        String::new()
    };
    let user = exchange.access.user.as_deref().unwrap_or("-");
    let (site, request) = (
        std::ptr::from_ref(host) as usize,
        std::ptr::from_ref(&exchange.head) as usize,
    );
    for line in &outcome.trace {
        let facts = format_args!(
            "{} - {user} [{name}/sid#{site:x}][rid#{request:x}/{kind}{detour}] {line}",
            exchange.client.text()
        );
        error_log::trace("rewrite", line.level, exchange, facts);
    }
}

/// Applies the effects of a run of rules, and returns its action.
pub fn apply(exchange: &mut Exchange, host: &Host, outcome: Outcome) -> Action {
    for line in &outcome.log {
        let text = format!("{} {}", line.id, line.text).into();
        exchange.log_outcome(OutcomeLine::Saker(&message::REWRITE, text));
    }
    trace_causes(exchange, &outcome.causes);
    for (name, value) in &outcome.effects.environment {
        match value {
            Some(value) => exchange.environment.set_known(name, value),
            None => exchange.environment.unset(name),
        }
    }
    trace(exchange, host, &outcome);
    if outcome.action != Action::Pass {
        exchange.query.clone_from(&outcome.query);
    }
    if outcome.discard_path_info {
        exchange.routing.path_info.clear();
    }
    exchange.routing.has_written_query |=
        outcome.has_written_query && outcome.action != Action::Pass;
    let own = state(exchange);
    own.rewrite_ended |= outcome.effects.end;
    let text = |bytes: Vec<u8>| {
        String::from_utf8_lossy(&bytes)
            .into_owned()
            .into_boxed_str()
    };
    own.forced_handler = outcome
        .effects
        .forced_handler
        .map(text)
        .or(own.forced_handler.take());
    own.forced_type = outcome
        .effects
        .forced_type
        .map(text)
        .or(own.forced_type.take());
    for cookie in outcome.effects.cookies {
        if !own.cookies.iter().any(|(name, _)| *name == cookie.name) {
            own.cookies.push((cookie.name, cookie.field_value));
        }
    }
    own.vary.extend(outcome.effects.vary);
    outcome.action
}

/// Tells the explanation which lines the outcome depends on.
fn trace_causes(exchange: &mut Exchange, causes: &[Cause]) {
    for cause in causes {
        let SourceLine { file, line, column } = cause.line.clone();
        let origin = Origin { file, line, column };
        trace_dependencies(exchange, Some(&origin), &cause.kinds, &cause.tests);
    }
}

/// Actions that end the descent.
pub fn answer(exchange: &mut Exchange, host: &Host, action: Action) -> Verdict {
    match action {
        Action::Redirect { status, location } => {
            exchange.keep_answer();
            redirect(
                exchange,
                host,
                Redirected {
                    status,
                    location: Some(location),
                    is_relative: false,
                },
            )
        }
        // A rule that ends with success has a page of the server's own.
        Action::Status(status @ 200..=299) => {
            state(exchange).is_ended_by_rule = true;
            Verdict::Answer(built_in_page(Response::new(Status(status))))
        }
        Action::Status(status) => {
            exchange.keep_answer();
            Verdict::Answer(Response::new(Status(status)))
        }
        Action::Proxy { url, no_canonical } => {
            let encoding = if no_canonical {
                Encoding::Whole
            } else {
                Encoding::Decoded
            };
            state(exchange).proxied = Some(Box::new(Proxied { url, encoding }));
            Verdict::Pass
        }
        _ => Verdict::Pass,
    }
}

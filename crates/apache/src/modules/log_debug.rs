//! mod_log_debug (LogMessage): lines in the error log that the operator words himself, at a step of
//! the request's life.
//!
//! Place in the walk: behind each phase, which stand for Apache's hooks; `log_transaction` on the
//! way up. Difficulty: a phase may have to wait and be asked again, so messages come once it has
//! decided. What they say is about the request: an outcome that they are told of is not kept.
//! Absent on purpose: lines about requests that rules make themselves (index files that are tried).

use crate::{
    facts::RequestFacts,
    response::facts::Answered,
    state::{peek, snapshot},
    verdict::Verdict,
};
use saker_ap_expr::{Evaluation, Facts};
use saker_apache_model::{dir_config::DirConfig, host::Host, modules::log_debug::LOG_TRANSACTION};
use saker_config::model::Origin;
use saker_files::Watcher;
use saker_http::{Fields, Status};
use saker_pipeline::{Exchange, Response};
use saker_telemetry::{Level, error_log};

/// Behind the phase that finds what the path means.
pub fn translated(exchange: &mut Exchange, host: &Host, watcher: &Watcher, local: &DirConfig) {
    tell(exchange, host, watcher, &host.defaults, &["quick_handler"]);
    tell(
        exchange,
        host,
        watcher,
        local,
        &["pre_translate_name", "translate_name"],
    );
}

pub fn mapped(exchange: &mut Exchange, host: &Host, watcher: &Watcher) {
    tell(exchange, host, watcher, &host.defaults, &["map_to_storage"]);
}

/// A request that is not asked for a user name reaches no check of one.
pub fn admitted(exchange: &mut Exchange, host: &Host, watcher: &Watcher, verdict: &Verdict) {
    let is_asked =
        matches!(verdict, Verdict::Answer(response) if response.status == Status::UNAUTHORIZED);
    let hooks = match (exchange.access.user.is_some(), is_asked) {
        (true, _) => &[
            "check_access",
            "check_access_ex",
            "check_authn",
            "check_authz",
        ][..],
        (false, true) => &["check_access", "check_access_ex", "check_authn"],
        (false, false) => &["check_access", "check_access_ex"],
    };
    at_file(exchange, host, watcher, hooks);
}

/// A request that was refused or led elsewhere by then is not handled.
pub fn fixed_up(exchange: &mut Exchange, host: &Host, watcher: &Watcher, verdict: &Verdict) {
    let is_over = matches!(verdict, Verdict::Answer(response) if response.status.0 >= 300);
    let hooks = &["type_checker", "fixups", "insert_filter", "handler"];
    at_file(
        exchange,
        host,
        watcher,
        if is_over { &hooks[..2] } else { hooks },
    );
}

fn at_file(exchange: &mut Exchange, host: &Host, watcher: &Watcher, hooks: &[&str]) {
    let Some(local) = peek(exchange).and_then(|state| state.local.clone()) else {
        return;
    };
    tell(exchange, host, watcher, &local, hooks);
}

fn tell(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
    hooks: &[&str],
) {
    if local.log_debug.is_empty() || peek(exchange).is_some_and(|state| state.is_subrequest) {
        return;
    }
    exchange.depends_on_request();
    let own = snapshot(exchange);
    let seen = RequestFacts::new(exchange, &own, host, watcher);
    hooks
        .iter()
        .for_each(|hook| write(exchange, &seen, local, hook));
}

/// Writes the messages of `log_transaction`, once the response is known.
pub fn answered(exchange: &mut Exchange, host: &Host, watcher: &Watcher, response: &Response) {
    let own = snapshot(exchange);
    let local = own.local.as_ref().unwrap_or(&host.defaults);
    if local.log_debug.is_empty() || own.is_subrequest {
        return;
    }
    exchange.depends_on_request();
    let seen = RequestFacts {
        is_for_logs: true,
        ..RequestFacts::new(exchange, &own, host, watcher)
    };
    let facts = Answered {
        request: &seen,
        status: response.status,
        fields: response.fields(),
        always: &Fields::new(),
        is_content: false,
    };
    write(exchange, &facts, local, LOG_TRANSACTION);
}

fn write(exchange: &Exchange, facts: &dyn Facts, local: &DirConfig, hook: &str) {
    if !local.loglevel.tells_info("log_debug") {
        return;
    }
    for entry in local
        .log_debug
        .entries
        .iter()
        .filter(|entry| entry.hook.is_none_or(|own| own == hook))
    {
        let holds = entry.condition.as_ref().map_or(Ok(true), |condition| {
            condition.evaluate(&mut Evaluation::new(facts))
        });
        let text = holds.and_then(|holds| match holds {
            true => entry
                .message
                .evaluate(&mut Evaluation::new(facts))
                .map(Some),
            false => Ok(None),
        });
        let Origin { file, line, .. } = &entry.origin;
        match text {
            Ok(None) => {}
            Ok(Some(text)) => {
                let text = String::from_utf8_lossy(&text);
                let place = if local.loglevel.tells_debug("log_debug") {
                    format!(" ({hook} hook, {file}:{line})")
                } else {
                    String::new()
                };
                error_log::note(
                    "log_debug",
                    Level::Info,
                    exchange,
                    format_args!("{text}{place}"),
                );
            }
            Err(error) => {
                let facts =
                    format_args!("Can't evaluate message expression: {error} ({file}:{line})");
                error_log::note("log_debug", Level::Error, exchange, facts);
            }
        }
    }
}

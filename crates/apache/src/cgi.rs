//! Files that are run (handler `cgi-script`), and requests that are led on to scripts (Action,
//! Script).
//!
//! Called by `fixups` once it is known which handler a file is for. What is refused here is refused
//! in the order and with the statuses of mod_cgi; the rest goes to the gateway as a call. Absent on
//! purpose: whether a file may be executed. The kernel knows; what it refuses is an error of the
//! server's, as in Apache.

use crate::{
    call::{script, target_of},
    state::peek,
    subrequest::{run_phases, subrequest},
    verdict::Verdict,
    worker::ApacheRules,
};
use saker_apache_model::{dir_config::DirConfig, host::Host, modules::actions::Action};
use saker_apache_syntax::options::EXEC_CGI;
use saker_config::model::ProgramUser;
use saker_files::Kind;
use saker_http::{Method, Status, path::normalize_with};
use saker_pipeline::{
    CallNames, Exchange, Inner, ProcessManner, ProxyOptions, Response, UpstreamRequest,
    UpstreamTarget,
};
use saker_telemetry::{
    error_log,
    httpd_message::{self, HttpdMessage},
};
use std::{sync::Arc, time::Duration};

/// Why a script is not run: the answer, Apache's line, and the reason in it.
type Refusal = (Status, &'static HttpdMessage, &'static str);

/// Default: Apache's `Timeout`.
const TIMEOUT_S: u64 = 60;

/// The program answers, unless it may not be run.
pub fn answer(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
) -> Verdict {
    if let Some((status, message, reason)) = refusal(exchange, local) {
        if let (Some(log), Some(own)) = (&host.script_log, peek(exchange)) {
            log.refused(&exchange.failed_script(status, &own.filename), reason);
        }
        return refused(exchange, status, message, reason);
    }
    let mut script = script(exchange, host, local);
    script.path_translated = translated(rules, exchange);
    let own = &local.cgi;
    let process = ProcessManner {
        interpreter: None,
        user: user(exchange, local),
        cpu_s: own.cpu_s,
        memory_bytes: own.memory_bytes,
        processes: own.processes,
        script_log: host.script_log.clone(),
    };
    let timeout_ms = own.timeout_ms.unwrap_or_else(|| {
        host.process
            .timeout_s
            .unwrap_or(TIMEOUT_S)
            .saturating_mul(1000)
    });
    let manner = ProxyOptions {
        timeout: Some(Duration::from_millis(timeout_ms)),
        trust: local.xsendfile.trust(true),
        ..ProxyOptions::default()
    };
    let target = target_of(exchange);
    exchange.upstream.call = Some(Box::new(UpstreamRequest {
        to: UpstreamTarget::Process(Arc::new(process)),
        target,
        script: Some(Box::new(script)),
        manner: Arc::new(manner),
        names: CallNames::default(),
    }));
    Verdict::Pass
}

/// The user whose folder it is (mod_userdir), or else the user of the host.
fn user(exchange: &Exchange, local: &DirConfig) -> Option<ProgramUser> {
    let at_home = peek(exchange)
        .and_then(|own| own.home_of.clone())
        .map(|user| ProgramUser {
            user: user.into(),
            group: None,
        });
    at_home.or_else(|| local.cgi.user.clone())
}

fn refusal(exchange: &Exchange, local: &DirConfig) -> Option<Refusal> {
    let own = peek(exchange)?;
    let is_nph = own
        .filename
        .rsplit(|byte| *byte == b'/')
        .next()
        .is_some_and(|name| name.starts_with(b"nph-"));
    if !own.is_script_alias && !local.core.options.in_force().contains(EXEC_CGI) {
        return Some((
            Status::FORBIDDEN,
            &httpd_message::CGI_EXEC_OFF,
            "Options ExecCGI is off in this directory",
        ));
    }
    if is_nph && own.is_answered {
        return Some((
            Status::FORBIDDEN,
            &httpd_message::CGI_NPH_INCLUDED,
            "attempt to include NPH CGI script",
        ));
    }
    match own.kind {
        None => {
            return Some((
                Status::NOT_FOUND,
                &httpd_message::CGI_NOT_FOUND,
                "script not found or unable to stat",
            ));
        }
        Some(Kind::Directory) => {
            return Some((
                Status::FORBIDDEN,
                &httpd_message::CGI_DIRECTORY,
                "attempt to invoke directory as script",
            ));
        }
        Some(_) => {}
    }
    let is_below =
        local.core.accept_path_info == Some(false) && !exchange.routing.path_info.is_empty();
    is_below.then_some((
        Status::NOT_FOUND,
        &httpd_message::CGI_PATH_INFO,
        "AcceptPathInfo off disallows user's path",
    ))
}

fn refused(
    exchange: &mut Exchange,
    status: Status,
    message: &'static HttpdMessage,
    reason: &str,
) -> Verdict {
    exchange.depends_on_request();
    let filename = peek(exchange)
        .map(|own| String::from_utf8_lossy(&own.filename).into_owned())
        .unwrap_or_default();
    error_log::log_httpd(
        message,
        None,
        exchange,
        format_args!("{reason}: {filename}"),
    );
    Verdict::Answer(Response::new(status))
}

/// The file that the rest of the path would be, as a path of its own.
pub fn translated(rules: &ApacheRules, exchange: &Exchange) -> Option<Vec<u8>> {
    if exchange.routing.path_info.is_empty()
        || peek(exchange).is_some_and(|state| state.is_subrequest)
    {
        return None;
    }
    let mut inner = subrequest(exchange, exchange.routing.path_info.clone(), Inner::Lookup)?;
    // Index files and all; it is the same whether he may see it or not.
    let _ = run_phases(rules, &mut inner);
    let own = peek(&inner)?;
    Some([own.filename.as_slice(), &inner.routing.path_info].concat())
}

/// Leads the request on to the script of its method, type or handler; `None`: there is none.
pub fn lead_on(exchange: &mut Exchange, host: &Host, local: &DirConfig) -> Option<Verdict> {
    if local.actions.is_empty() {
        return None;
    }
    if local
        .actions
        .script(exchange.head.view().method_token())
        .is_some()
    {
        // A query would lead elsewhere.
        exchange.depends_on_request();
    }
    let action = action(exchange, local).cloned();
    if let Some(action) = &action {
        if !action.is_virtual && peek(exchange).is_none_or(|own| own.kind.is_none()) {
            return Some(refused(
                exchange,
                Status::NOT_FOUND,
                &httpd_message::ACTION_FILE_MISSING,
                "File does not exist",
            ));
        }
        let name = exchange
            .routing
            .handler
            .as_deref()
            .unwrap_or(&action.of)
            .to_owned();
        exchange.environment.set(b"HANDLER", name.as_bytes());
    }
    let script = action
        .map(|action| action.script)
        .or_else(|| of_method(exchange, local))?;
    exchange.depends_on_request();
    Some(to_script(exchange, host, script.as_bytes()))
}

fn action<'l>(exchange: &Exchange, local: &'l DirConfig) -> Option<&'l Action> {
    let media_type = exchange
        .routing
        .settings
        .files
        .whole_type
        .as_deref()
        .unwrap_or_default();
    let name = exchange
        .routing
        .handler
        .as_deref()
        .unwrap_or_else(|| media_type.split(';').next().unwrap_or_default().trim());
    local.actions.action(name)
}

/// GET only with a query; and not where that is how the request came here.
fn of_method(exchange: &Exchange, local: &DirConfig) -> Option<Box<str>> {
    let view = exchange.head.view();
    let is_plain_get = matches!(view.method(), Method::Get | Method::Head)
        && exchange.query.as_ref().is_none_or(Vec::is_empty);
    local
        .actions
        .script(view.method_token())
        .filter(|_| !is_plain_get && exchange.routing.redirects < 2)
        .map(Into::into)
}

/// The path of the request is what follows the script's.
fn to_script(exchange: &mut Exchange, host: &Host, script: &[u8]) -> Verdict {
    let whole = [script, &saker_ap_expr::escape_uri(&exchange.path)].concat();
    let (path, inserted) = match whole.iter().position(|byte| *byte == b'?') {
        Some(at) => (whole.get(..at).unwrap_or_default(), whole.get(at + 1..)),
        None => (whole.as_slice(), None),
    };
    let mut read = Vec::with_capacity(path.len());
    if !path.starts_with(b"/") || normalize_with(path, host.slashes, &mut read).is_err() {
        return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
    }
    exchange.path = read;
    if let Some(inserted) = inserted {
        exchange.routing.has_written_query = true;
        exchange.query = Some(
            [Some(inserted), exchange.query.as_deref()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(&b'?'),
        );
    }
    Verdict::Restart
}

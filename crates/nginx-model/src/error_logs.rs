//! `error_log`: the log of the process, and those of servers.
//!
//! Called by: `assemble`.
//! Caveat: a server's log gets the lines about its requests; all others are the process's. Locations
//! have no log of their own, which their directive is told when it is read. Of several logs in one
//! block, the last gets all lines.
//! Out of scope: opening files and writing lines (`saker-telemetry`).

use crate::{modules::core::CoreConf, process::Process, setup::Setup};
use saker_config::model::{ErrorLog, LogLevel};
use saker_telemetry::error_log::{ErrorLogTarget, Formats, SiteLog, Syslog};
use std::sync::Arc;

/// Returns the log of the process. `core`: the settings of `http`, whose log it is if the process has
/// none.
pub fn of_process(process: &Process, core: &CoreConf, setup: &Setup) -> ErrorLog {
    let of_http = core.error_log.as_ref();
    let of_http = of_http.map(|(path, level)| (path.to_string(), level.to_string()));
    let default = setup.error_log.as_deref().map_or_else(
        || "stderr".to_owned(),
        |path| path.to_string_lossy().into_owned(),
    );
    let log = process.error_log.clone().or(of_http);
    let (path, level_name) = log.unwrap_or((default, "error".to_owned()));
    ErrorLog {
        target: target(&path, setup),
        level: level(&level_name),
        areas: Vec::new(),
        formats: Formats::default(),
        speaks_httpd: false,
        speaks_nginx: true,
    }
}

/// Returns the log of a server; `None`: the process's. `core`: its settings, with those of `http`.
pub fn of_server(core: &CoreConf, main: &ErrorLog, setup: &Setup) -> Option<Arc<SiteLog>> {
    let (path, level_name) = core.error_log.as_ref()?;
    let (target, level) = (target(path, setup), level(level_name));
    let has_own_target = target != main.target;
    if !has_own_target && level == main.level {
        return None;
    }
    Some(Arc::new(SiteLog::new(
        Some(target).filter(|_| has_own_target),
        level.into(),
        Vec::new(),
        Formats::default(),
    )))
}

fn target(path: &str, setup: &Setup) -> ErrorLogTarget {
    match path {
        "stderr" => ErrorLogTarget::Stderr,
        other if other.starts_with("memory:") => ErrorLogTarget::Stderr,
        other => match Syslog::parse_nginx(other, None) {
            Some(Ok(syslog)) => ErrorLogTarget::Syslog(syslog),
            // The directive has been refused.
            Some(Err(_)) => ErrorLogTarget::Stderr,
            None => ErrorLogTarget::File(setup.prefix.join(other)),
        },
    }
}

/// `crit`, `alert`, and `emerg` are the level `error`, above which there are no lines.
fn level(name: &str) -> LogLevel {
    match name {
        "debug" => LogLevel::Debug,
        "info" => LogLevel::Info,
        "notice" => LogLevel::Notice,
        "warn" => LogLevel::Warn,
        _ => LogLevel::Error,
    }
}

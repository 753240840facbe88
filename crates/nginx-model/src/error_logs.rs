//! `error_log`: the logs of the process, and those of servers and locations.
//!
//! Called by: `assemble`, and `finish`.
//! Caveat: a server's logs get the lines about its requests, and a location's those of the requests
//! that it answers; those of a server of `stream` get the lines about its sessions. All others are
//! the process's.
//! Out of scope: the directive (`log_to`); opening files and writing lines (`saker-telemetry`).

use crate::{
    log_to::LogTo, modules::core::CoreConf, process::Process, server::Server, setup::Setup,
};
use saker_config::model::{ErrorLog, LogLevel, Site};
use saker_telemetry::{
    error_log::{ErrorLogTarget, Formats, Output, SiteLog},
    message::Level,
};
use std::sync::Arc;

/// Returns the logs of the process. `core`: the settings of `http`, whose logs they are if the
/// process has none.
pub fn of_process(process: &Process, core: &CoreConf, setup: &Setup) -> ErrorLog {
    let default = || {
        let target = match &setup.error_log {
            Some(path) if path.as_os_str() != "stderr" => {
                ErrorLogTarget::File(setup.prefix.join(path))
            }
            _ => ErrorLogTarget::Stderr,
        };
        Arc::from([LogTo {
            target,
            level: Some(LogLevel::Error),
            level_number: Level::Error.number(),
        }])
    };
    let own = process.error_logs.as_ref().or(core.error_logs.as_ref());
    let logs = own.map_or_else(default, Arc::clone);
    let target = logs.first().map(|log| log.target.clone());
    let target = target.unwrap_or(ErrorLogTarget::Stderr);
    let outputs = match &*logs {
        [LogTo { level: Some(_), .. }] => Vec::new(),
        several => outputs(several, &target),
    };
    ErrorLog {
        target,
        level: most(&logs),
        areas: Vec::new(),
        formats: Formats::default(),
        speaks_httpd: false,
        speaks_nginx: true,
        outputs: Arc::new(outputs),
    }
}

/// Logs of servers and locations, each list once.
#[derive(Debug, Default)]
pub struct ErrorLogs {
    main: Option<ErrorLogTarget>,
    known: Vec<(Arc<[LogTo]>, Arc<SiteLog>)>,
}

impl ErrorLogs {
    /// `main`: the process's.
    pub fn new(main: &ErrorLog) -> ErrorLogs {
        ErrorLogs {
            main: Some(main.target.clone()),
            known: Vec::new(),
        }
    }

    /// Returns the log of a block. `None`: the process's.
    pub fn of(&mut self, core: &CoreConf) -> Option<Arc<SiteLog>> {
        self.of_list(core.error_logs.as_ref()?)
    }

    /// Returns the log of a list.
    pub fn of_list(&mut self, logs: &Arc<[LogTo]>) -> Option<Arc<SiteLog>> {
        let main = self.main.as_ref()?;
        let known = self.known.iter().find(|(known, _)| known == logs);
        if let Some((_, log)) = known {
            return Some(Arc::clone(log));
        }
        let log = Arc::new(site_log(logs, main));
        self.known.push((Arc::clone(logs), Arc::clone(&log)));
        Some(log)
    }
}

/// Gives a site the logs of its server.
pub fn take(site: &mut Site, server: &Server, main: &ErrorLog) {
    let core = &server.outside.conf.core;
    let log = server.outside.error_log.clone();
    site.error_log = log.filter(|_| !is_of_process(core, main));
    let inner = server.inner_error_logs();
    site.inner_error_logs = (!inner.is_empty()).then(|| Arc::new(inner));
}

/// Returns true if the logs of a block are just the process's.
fn is_of_process(core: &CoreConf, main: &ErrorLog) -> bool {
    core.error_logs.as_deref().is_some_and(|logs| match logs {
        [only] => {
            only.target == main.target && only.level == Some(main.level) && main.outputs.is_empty()
        }
        _ => false,
    })
}

fn site_log(logs: &[LogTo], main: &ErrorLogTarget) -> SiteLog {
    let [
        LogTo {
            target,
            level: Some(level),
            ..
        },
    ] = logs
    else {
        return SiteLog::of_outputs(outputs(logs, main));
    };
    let own = Some(target.clone()).filter(|target| target != main);
    match own {
        // The process's log has a level of its own.
        None => SiteLog::of_outputs(outputs(logs, main)),
        own => SiteLog::new(own, (*level).into(), Vec::new(), Formats::default()),
    }
}

fn outputs(logs: &[LogTo], main: &ErrorLogTarget) -> Vec<Output> {
    let output = |log: &LogTo| {
        let own = Some(log.target.clone()).filter(|target| target != main);
        Output::new(own, log.level_number)
    };
    logs.iter().map(output).collect()
}

/// The level of the log that gets most lines.
fn most(logs: &[LogTo]) -> LogLevel {
    let levels = logs.iter().filter_map(|log| log.level);
    let most = levels.max_by_key(|level| Level::from(*level));
    most.unwrap_or(LogLevel::Error)
}

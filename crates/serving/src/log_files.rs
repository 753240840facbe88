//! Open log files, one per target, however many sites and workers write to it.
//!
//! Called by: the start and each reload, which open logs; workers; `reopen-logs`.

use saker_config::model::AccessLogTarget;
use saker_telemetry::{
    access_log::{LogFile, LogTarget},
    error_log::{ErrorLogTarget, Output, SiteLog},
    forensic_log::ForensicLog,
};
use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

#[derive(Default)]
pub struct LogFiles {
    open: Mutex<HashMap<LogTarget, Arc<LogFile>>>,
}

impl LogFiles {
    /// Opens a target, or finds it open.
    pub fn open(&self, target: &AccessLogTarget) -> io::Result<Arc<LogFile>> {
        self.open_target(log_target(target))
    }

    /// Opens a site's own error log, if it has one.
    pub fn open_error_log(&self, log: &SiteLog) -> Result<(), String> {
        if let Some(file) = self.error_log_file(log.target.as_ref())? {
            log.write_to(file);
        }
        self.open_outputs(&log.outputs)
    }

    /// Opens error logs of which several get the same lines.
    pub fn open_outputs(&self, outputs: &[Output]) -> Result<(), String> {
        for output in outputs {
            let opened = match &output.target {
                // A standard error that can't be opened by its name gets no lines of its own.
                Some(ErrorLogTarget::Stderr) => {
                    let target = LogTarget::File("/dev/stderr".into());
                    self.open_target(target).ok()
                }
                target => self.error_log_file(target.as_ref())?,
            };
            if let Some(file) = opened {
                output.write_to(file);
            }
        }
        Ok(())
    }

    /// `None`: it is the server's.
    fn error_log_file(
        &self,
        target: Option<&ErrorLogTarget>,
    ) -> Result<Option<Arc<LogFile>>, String> {
        let target = match target {
            None | Some(ErrorLogTarget::Stderr) => return Ok(None),
            Some(ErrorLogTarget::File(path)) => LogTarget::File(path.clone()),
            Some(ErrorLogTarget::Program(command)) => LogTarget::Program(command.clone()),
            Some(ErrorLogTarget::Syslog(syslog)) => LogTarget::Syslog(syslog.clone()),
        };
        let name = shown(&target);
        let opened = self.open_target(target);
        opened
            .map(Some)
            .map_err(|error| cannot_open("error log", &name, &error))
    }

    pub fn open_forensic_log(&self, log: &ForensicLog) -> Result<(), String> {
        let file = self
            .open_target(log.target.clone())
            .map_err(|error| cannot_open("forensic log", &shown(&log.target), &error))?;
        log.write_to(file);
        Ok(())
    }

    /// Opens every file again by its name (rotation). Goes on after a failure and returns all of
    /// them.
    pub fn reopen(&self) -> Vec<String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |(target, file): (&LogTarget, &Arc<LogFile>)| {
            file.reopen()
                .err()
                .map(|error| cannot_open("log", &shown(target), &error))
        };
        open.iter().filter_map(failed).collect()
    }

    fn open_target(&self, target: LogTarget) -> io::Result<Arc<LogFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&target) {
            return Ok(Arc::clone(file));
        }
        let file = LogFile::open_target(&target)?.ok_or(io::ErrorKind::InvalidInput)?;
        open.insert(target, Arc::clone(&file));
        Ok(file)
    }

    /// Closes files that no worker writes to any more.
    pub fn forget_unused(&self) {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, file| Arc::strong_count(file) > 1);
    }
}

/// `cannot open access log /var/log/x: Permission denied (…)`. `what`: which kind of log.
pub fn cannot_open(what: &str, name: &str, error: &io::Error) -> String {
    let text = error.to_string();
    let reason = text.split(" (os error").next().unwrap_or_default();
    let hint = match error.kind() {
        io::ErrorKind::NotFound if Path::new(name).is_absolute() => Path::new(name)
            .parent()
            .map(|folder| format!(" (make {})", folder.display())),
        io::ErrorKind::PermissionDenied
            if error.raw_os_error().is_some() && saker_net::privileged::broker().is_none() =>
        {
            let uid = rustix::process::geteuid().as_raw();
            Some(format!(
                " (tried as user {uid}; start the server as root, or let that user write there)"
            ))
        }
        _ => None,
    };
    let name = if name.is_empty() {
        String::new()
    } else {
        format!(" {name}")
    };
    format!(
        "cannot open {what}{name}: {reason}{}",
        hint.unwrap_or_default()
    )
}

/// Name of a target for messages.
pub fn name(target: &AccessLogTarget) -> String {
    shown(&log_target(target))
}

fn shown(target: &LogTarget) -> String {
    match target {
        LogTarget::Off => String::new(),
        LogTarget::Stdout => "standard output".into(),
        LogTarget::File(path) | LogTarget::ByHost(path) | LogTarget::Below(path) => {
            path.display().to_string()
        }
        LogTarget::Program(command) => format!("|{command}"),
        LogTarget::Syslog(_) => "syslog".into(),
    }
}

fn log_target(target: &AccessLogTarget) -> LogTarget {
    match target {
        AccessLogTarget::Stdout => LogTarget::Stdout,
        AccessLogTarget::File(path) => LogTarget::File(path.clone()),
        AccessLogTarget::ByHost(path) => LogTarget::ByHost(path.clone()),
        AccessLogTarget::Below(path) => LogTarget::Below(path.clone()),
        AccessLogTarget::Program(command) => LogTarget::Program(command.clone()),
        AccessLogTarget::Syslog(syslog) => LogTarget::Syslog(syslog.clone()),
    }
}

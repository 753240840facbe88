//! Open access logs, one per target however many sites and workers write to it.

use saker_config::model::AccessLogTarget;
use saker_telemetry::access_log::{LogFile, LogTarget};
use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

#[derive(Default)]
pub struct LogFiles {
    open: Mutex<HashMap<AccessLogTarget, Arc<LogFile>>>,
}

impl LogFiles {
    /// Opens a target, or finds it open.
    pub fn open(&self, target: &AccessLogTarget) -> io::Result<Arc<LogFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(target) {
            return Ok(Arc::clone(file));
        }
        let file = LogFile::open_target(&log_target(target))?.ok_or(io::ErrorKind::InvalidInput)?;
        open.insert(target.clone(), Arc::clone(&file));
        Ok(file)
    }

    /// Opens every file again by its name (rotation). Goes on after a failure and returns all of them.
    pub fn reopen(&self) -> Vec<String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |(target, file): (&AccessLogTarget, &Arc<LogFile>)| {
            file.reopen().err().map(|error| format!("access log {}: {error}", name(target)))
        };
        open.iter().filter_map(failed).collect()
    }

    /// Closes what no worker writes to any more.
    pub fn forget_unused(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, file| Arc::strong_count(file) > 1);
    }
}

/// As messages name a target.
pub fn name(target: &AccessLogTarget) -> String {
    match target {
        AccessLogTarget::Stdout => "standard output".into(),
        AccessLogTarget::File(path) => path.display().to_string(),
        AccessLogTarget::Program(command) => format!("|{command}"),
    }
}

fn log_target(target: &AccessLogTarget) -> LogTarget {
    match target {
        AccessLogTarget::Stdout => LogTarget::Stdout,
        AccessLogTarget::File(path) => LogTarget::File(path.clone()),
        AccessLogTarget::Program(command) => LogTarget::Program(command.clone()),
    }
}

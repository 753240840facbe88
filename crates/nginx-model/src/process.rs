//! Directives of the process: user, workers, files.
//!
//! Called by: `load`, and the command line, which needs the process id's file.

use crate::values::{flag, invalid, number_argument, size_argument, time_argument};
use saker_nginx_syntax::{Directive, Report};
use std::path::{Path, PathBuf};

/// Default of the file with the process id, relative to the prefix.
const PID_FILE: &str = "/run/nginx.pid";

/// Settings of the process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub user: Option<String>,
    pub group: Option<String>,
    pub pid_file: PathBuf,
    pub is_daemon: bool,
    /// `None`: one per core.
    pub workers: Option<usize>,
    pub connections: Option<u64>,
    /// Target and level.
    pub error_log: Option<(String, String)>,
    pub shutdown_timeout_ms: Option<u64>,
    /// Limits on open descriptors, and on core dumps.
    pub descriptors_max: Option<u64>,
    pub core_bytes_max: Option<u64>,
    /// As for nice(1).
    pub priority: Option<i32>,
    pub directory: Option<PathBuf>,
}

impl Process {
    /// Reads the directives.
    pub fn read(directives: &[Directive], prefix: &Path, report: &mut Report) -> Process {
        let mut process = Process {
            pid_file: PID_FILE.into(),
            is_daemon: true,
            ..Process::default()
        };
        let events = directives
            .iter()
            .filter(|directive| directive.name() == "events");
        let inner = events.flat_map(|events| events.inside());
        for directive in directives.iter().chain(inner) {
            if let Err(message) = process.set(directive, prefix) {
                report.error(directive, message, None);
            }
        }
        let has_events = directives
            .iter()
            .any(|directive| directive.name() == "events");
        if !has_events && !report.has_errors() {
            report.error_without_place("no \"events\" section in configuration".to_owned());
        }
        process
    }

    fn set(&mut self, directive: &Directive, prefix: &Path) -> Result<(), String> {
        let text = directive.argument(0);
        match directive.name() {
            "user" => {
                self.user = Some(text.to_owned());
                self.group = directive.arguments.get(1).map(|word| word.text.clone());
            }
            "pid" => self.pid_file = prefix.join(text),
            "daemon" => self.is_daemon = flag(directive)?,
            "worker_processes" if text == "auto" => self.workers = None,
            "worker_processes" => {
                self.workers = Some(
                    text.parse()
                        .ok()
                        .filter(|count| *count > 0)
                        .ok_or_else(|| "invalid value \"worker_processes\"".to_owned())?,
                );
            }
            "worker_rlimit_nofile" => self.descriptors_max = Some(number_argument(directive)?),
            "worker_rlimit_core" => self.core_bytes_max = Some(size_argument(directive)?),
            "worker_priority" => {
                let priority = text.parse().ok().filter(|own| (-20..=20).contains(own));
                self.priority = Some(priority.ok_or_else(|| invalid(directive, text))?);
            }
            "working_directory" => self.directory = Some(text.into()),
            "use" if text != "epoll" => return Err(format!("invalid event type \"{text}\"")),
            "worker_connections" => self.connections = Some(number_argument(directive)?),
            "worker_shutdown_timeout" => {
                self.shutdown_timeout_ms = Some(time_argument(directive)?);
            }
            "error_log" => {
                let level = directive.arguments.get(1);
                let level = level.map_or("error", |word| word.text.as_str());
                self.error_log = Some((text.to_owned(), level.to_owned()));
            }
            _ => {}
        }
        Ok(())
    }
}

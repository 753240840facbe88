//! `[server]`: what the process is, and where it writes.

use super::Origin;
use saker_telemetry::{
    access_log::{Format, FormatError},
    error_log::{ErrorLogTarget, Formats as ErrorLogFormats},
    message::Level,
};
use std::{path::PathBuf, sync::Arc};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One per core that the process may run on.
    Auto,
    Count(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    Off,
    /// Worker n on the nth core that the process may run on.
    Auto,
    /// Worker n on the nth core of the list (wrapping round).
    Cores(Vec<usize>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warn,
    Notice,
    Info,
    Debug,
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Level {
        match level {
            LogLevel::Error => Level::Error,
            LogLevel::Warn => Level::Warn,
            LogLevel::Notice => Level::Notice,
            LogLevel::Info => Level::Info,
            LogLevel::Debug => Level::Debug,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLog {
    pub target: ErrorLogTarget,
    pub level: LogLevel,
    /// Areas of messages that have another one.
    pub areas: Vec<(&'static str, LogLevel)>,
    /// The shapes of its lines.
    pub formats: ErrorLogFormats,
    /// Whether lines that Apache would write are written in its words.
    pub speaks_httpd: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessLogTarget {
    Stdout,
    File(PathBuf),
    /// A file for each host, `%{host}` in its path being the name.
    ByHost(PathBuf),
    /// A command that reads lines from its standard input.
    Program(String),
}

/// One access log of a site; sites that name the same target share one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    pub target: AccessLogTarget,
    /// `common`, `combined`, `json`, or an Apache LogFormat string; checked while loading.
    pub format: Arc<str>,
    /// The format is a format string even where it looks like a name.
    pub is_items: bool,
    /// Which requests are logged; `None`: all.
    pub condition: Option<LogCondition>,
    pub origin: Origin,
}

/// A log file that is not an access log: what it is called in messages, and where it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLog {
    pub kind: &'static str,
    pub path: PathBuf,
    pub origin: Origin,
}

/// A Unix socket that requests are passed to, and where it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSocket {
    pub path: PathBuf,
    pub origin: Origin,
}

/// What a request has to be like for its line to be written. Only Apache's configuration has such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogCondition {
    Variable {
        name: Box<str>,
        is_set: bool,
    },
    /// The rules of the site have decided it, under this number.
    Decided(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownRequests {
    None,
    /// Of a long first line its beginning is shown.
    Beginnings,
    Ends,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub workers: Workers,
    pub affinity: Affinity,
    /// User and group to change to after binding; names or numbers. Only as root.
    pub user: Option<String>,
    pub group: Option<String>,
    /// Where those two stand.
    pub identity_origins: [Origin; 2],
    /// Where several sites have a name for a host, the first one takes it, as Apache does;
    /// otherwise the most exact.
    pub sites_in_order: bool,
    /// Control socket, process id and what must survive a restart.
    pub state_dir: PathBuf,
    /// Users, besides root, who may control the running server; names or numbers.
    pub control_users: Vec<String>,
    pub error_log: ErrorLog,
    /// Where the process id is written for scripts; only Apache's configuration names one.
    pub pid_file: Option<PathBuf>,
    /// The Server field; empty sends none.
    pub server_field: String,
    /// Requests under way that a status page shows.
    pub shown_requests: ShownRequests,
    /// Bound on memory for resolved resources per process, bodies included.
    pub resource_memory_bytes_max: u64,
    pub resource_entries_max: u64,
    /// Files up to this size are kept in memory whole; larger ones go out by sendfile, which costs
    /// less from some 16 kB on.
    pub resource_file_bytes_max: u64,
    /// TERM and a replaced process: seconds that running requests get to finish.
    pub shutdown_timeout_ms: u64,
}

impl AccessLog {
    pub fn parsed_format(&self) -> Result<Format, FormatError> {
        if self.is_items {
            Format::parse_items(&self.format)
        } else {
            Format::parse(&self.format)
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Server {
            workers: Workers::Auto,
            affinity: Affinity::Off,
            user: None,
            group: None,
            identity_origins: [Origin::built_in(), Origin::built_in()],
            sites_in_order: false,
            state_dir: PathBuf::from("/var/lib/saker"),
            control_users: Vec::new(),
            error_log: ErrorLog {
                target: ErrorLogTarget::Stderr,
                level: LogLevel::Notice,
                areas: Vec::new(),
                formats: ErrorLogFormats::default(),
                speaks_httpd: false,
            },
            pid_file: None,
            server_field: "Saker".into(),
            shown_requests: ShownRequests::None,
            resource_memory_bytes_max: 64 << 20,
            resource_entries_max: 65_536,
            resource_file_bytes_max: 16 << 10,
            shutdown_timeout_ms: 30_000,
        }
    }
}

//! `[server]`: settings of the process.
//!
//! Called by: process startup and reloads.
//! Out of scope: the keys (`directives/server`, `logs`).

use super::{Matcher, Origin, PathPattern, TrustedProxies};
use saker_telemetry::{
    access_log::{Escapes, Format, FormatError, Mask, Rotation},
    error_log::{ErrorLogTarget, Formats as ErrorLogFormats, Output, Syslog},
    message::Level,
};
use std::{path::PathBuf, sync::Arc, time::SystemTime};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One per CPU core available to the process.
    Auto,
    Count(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    Off,
    /// Worker n on the nth available core.
    Auto,
    /// Worker n on the nth core of the list, starting over at its end.
    Cores(Vec<usize>),
    /// Worker n on any core of the nth set, the last set for those that follow.
    Sets(Vec<Vec<usize>>),
}

/// Confinement of the process to what the configuration needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// As far as the kernel and the configuration allow.
    #[default]
    Auto,
    /// Otherwise the server does not start.
    On,
    Off,
}

impl Sandbox {
    pub fn name(self) -> &'static str {
        match self {
            Sandbox::Auto => "auto",
            Sandbox::On => "on",
            Sandbox::Off => "off",
        }
    }
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
    /// Levels of single areas of messages.
    pub areas: Vec<(&'static str, LogLevel)>,
    /// The formats of its lines.
    pub formats: ErrorLogFormats,
    /// Set if messages that Apache has too are logged in Apache's words.
    pub speaks_httpd: bool,
    /// Lines have nginx's form.
    pub speaks_nginx: bool,
    /// The logs that get the lines, where there is not just the target; set by nginx's configuration
    /// only.
    pub outputs: Arc<Vec<Output>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessLogTarget {
    Stdout,
    File(PathBuf),
    /// One file per host name, which replaces `%{host}` in the path.
    ByHost(PathBuf),
    /// Files below a directory, at paths that rules make of the request.
    Below(PathBuf),
    /// A command that reads lines from its standard input.
    Program(String),
    Syslog(Syslog),
}

/// One access log of a site; sites that name the same target share one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    pub target: AccessLogTarget,
    /// `common`, `combined`, `json`, or an Apache LogFormat string; checked while loading.
    pub format: Arc<str>,
    /// The format is a format string even if it looks like a name.
    pub is_items: bool,
    /// Form of the values in lines.
    pub escapes: Escapes,
    /// Which requests are logged; `None`: all.
    pub condition: Option<LogCondition>,
    /// For files.
    pub rotation: Option<Rotation>,
    pub mask: Arc<Mask>,
    /// Lines of streams are written when their session is over, and not gathered for a while.
    pub is_immediate: bool,
    pub origin: Origin,
}

/// A log file other than an access log, with its name in messages and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLog {
    pub kind: &'static str,
    pub path: PathBuf,
    pub origin: Origin,
}

/// A Unix socket of a backend, with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSocket {
    pub path: PathBuf,
    pub origin: Origin,
}

/// Condition on which a request is logged. All but paths are set by Apache's configuration only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogCondition {
    Variable {
        name: Box<str>,
        is_set: bool,
    },
    /// Decided by the rules of the site, under this number.
    Decided(usize),
    /// By conditions on the request: the first holds, if there is one, and the second does not.
    Matches {
        only: Option<LogMatcher>,
        except: Option<LogMatcher>,
        /// The paths that are logged, too.
        paths: Option<Box<LogCondition>>,
    },
    /// By the decoded path: one of the first patterns, if there are any, and none of the others.
    Paths {
        only: Vec<PathPattern>,
        except: Vec<PathPattern>,
    },
}

/// A condition on requests that are logged. Compared by identity.
#[derive(Clone, Debug)]
pub struct LogMatcher(pub Arc<Matcher>);

impl PartialEq for LogMatcher {
    fn eq(&self, other: &LogMatcher) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LogMatcher {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownRequests {
    None,
    /// Only the beginning of a long request line is shown.
    Beginnings,
    Ends,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub workers: Workers,
    pub affinity: Affinity,
    /// User and group to switch to after binding, by name or number; requires root.
    pub user: Option<String>,
    pub group: Option<String>,
    /// Their locations in the configuration.
    pub identity_origins: [Origin; 2],
    pub sandbox: Sandbox,
    /// If several sites match a host name, the first one wins, as in Apache; otherwise the most
    /// specific.
    pub sites_in_order: bool,
    /// Rules ask the kernel about the sockets of connections; set by nginx's configuration only.
    pub tells_of_sockets: bool,
    /// Directory of the control socket, the process ID and everything that must survive a restart.
    pub state_dir: PathBuf,
    /// Users, besides root, who may control the running server, by name or number.
    pub control_users: Vec<String>,
    /// Reload when a file of the configuration changes.
    pub watch: bool,
    /// Patterns of included files, with the directories that they are relative to.
    pub includes: Vec<(PathBuf, String)>,
    /// Files that were read for values of the configuration.
    pub value_files: Vec<PathBuf>,
    /// Time at which the first file was about to be read.
    pub read_at: SystemTime,
    pub error_log: ErrorLog,
    /// Proxies that name clients.
    pub trusted_proxies: TrustedProxies,
    /// File for the process ID; set by Apache's configuration only.
    pub pid_file: Option<PathBuf>,
    /// The Server field; empty sends none.
    pub server_field: String,
    /// Active requests listed on a status page.
    pub shown_requests: ShownRequests,
    /// Memory limit of the route caches of the process, including bodies.
    pub resource_memory_bytes_max: u64,
    pub resource_entries_max: u64,
    /// Files up to this size are kept in memory; larger ones are sent with sendfile, which is
    /// cheaper from about 16 kB.
    pub resource_file_bytes_max: u64,
    /// Time for running requests to finish on TERM or replacement.
    pub shutdown_timeout_ms: u64,
}

impl LogCondition {
    /// Returns true if the decoded path decides, and it is one that is logged.
    pub fn logs_path(only: &[PathPattern], except: &[PathPattern], path: &[u8]) -> bool {
        let has = |patterns: &[PathPattern]| {
            let matches = |pattern: &PathPattern| pattern.is_match(path).unwrap_or(true);
            patterns.iter().any(matches)
        };
        (only.is_empty() || has(only)) && !has(except)
    }
}

impl AccessLog {
    pub fn parsed_format(&self) -> Result<Format, FormatError> {
        if self.is_items {
            let format = Format::parse_items(&self.format)?;
            Ok(format.with_escapes(self.escapes))
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
            sandbox: Sandbox::default(),
            sites_in_order: false,
            tells_of_sockets: false,
            state_dir: PathBuf::from("/var/lib/saker"),
            control_users: Vec::new(),
            watch: false,
            includes: Vec::new(),
            value_files: Vec::new(),
            read_at: SystemTime::UNIX_EPOCH,
            error_log: ErrorLog {
                target: ErrorLogTarget::Stderr,
                level: LogLevel::Notice,
                areas: Vec::new(),
                formats: ErrorLogFormats::default(),
                speaks_httpd: false,
                speaks_nginx: false,
                outputs: Arc::default(),
            },
            trusted_proxies: TrustedProxies::default(),
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

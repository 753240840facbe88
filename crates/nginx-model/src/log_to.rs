//! The directive `error_log`: a target, and a level.
//!
//! Called by: the setters of the process, and of blocks of `http`.
//! Caveat: several in one block are a list, which inner blocks inherit as a whole.
//! Out of scope: the lines that a list gets (`error_logs`).

use crate::values::size;
use saker_config::model::LogLevel;
use saker_nginx_syntax::Directive;
use saker_telemetry::{
    error_log::{ErrorLogTarget, Syslog},
    message::Level,
};
use std::{path::Path, sync::Arc};

/// Levels, and areas of `debug`.
const LEVELS: [&str; 15] = [
    "emerg",
    "alert",
    "crit",
    "error",
    "warn",
    "notice",
    "info",
    "debug",
    "debug_core",
    "debug_alloc",
    "debug_mutex",
    "debug_event",
    "debug_http",
    "debug_mail",
    "debug_stream",
];

/// A log, with the level up to which it gets lines. `None`: above `error`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogTo {
    pub target: ErrorLogTarget,
    pub level: Option<LogLevel>,
    /// Number of the level, from `emerg` at 0.
    pub level_number: u8,
}

impl LogTo {
    /// Reads a directive. `prefix`: what its path is relative to.
    ///
    /// # Errors
    /// nginx's message.
    pub fn read(directive: &Directive, prefix: &Path) -> Result<LogTo, String> {
        let mut level: Option<&str> = None;
        for word in directive.texts().skip(1) {
            let is_area = |word: &str| word.starts_with("debug_");
            let is_level = LEVELS.contains(&word);
            match level {
                Some(before) if is_level && is_area(word) == is_area(before) && is_area(word) => {}
                Some(_) if is_level && !is_area(word) => {
                    return Err(format!("duplicate log level \"{word}\""));
                }
                None if is_level => {}
                _ => return Err(format!("invalid log level \"{word}\"")),
            }
            level = Some(word);
        }
        LogTo::new(directive.argument(0), level.unwrap_or("error"), prefix)
    }

    fn new(path: &str, level_name: &str, prefix: &Path) -> Result<LogTo, String> {
        let target = match path {
            "stderr" => ErrorLogTarget::Stderr,
            other if other.starts_with("memory:") => {
                let bytes = other.strip_prefix("memory:").unwrap_or_default();
                if size(bytes).is_none_or(|bytes| bytes == 0) {
                    return Err(format!("invalid buffer size \"{bytes}\""));
                }
                ErrorLogTarget::Stderr
            }
            other => match Syslog::parse_nginx(other, None) {
                Some(syslog) => ErrorLogTarget::Syslog(syslog?),
                None => ErrorLogTarget::File(prefix.join(other)),
            },
        };
        Ok(LogTo {
            target,
            level: level(level_name),
            level_number: level_number(level_name),
        })
    }
}

/// Adds a log to those of a block.
pub fn add(logs: &mut Option<Arc<[LogTo]>>, log: LogTo) {
    let before = logs.take().unwrap_or_default();
    *logs = Some(before.iter().cloned().chain([log]).collect());
}

fn level_number(name: &str) -> u8 {
    match (name, level(name)) {
        ("emerg", _) => 0,
        ("alert", _) => 1,
        (_, None) => 2,
        (_, Some(level)) => Level::from(level).number(),
    }
}

fn level(name: &str) -> Option<LogLevel> {
    Some(match name {
        "info" => LogLevel::Info,
        "notice" => LogLevel::Notice,
        "warn" => LogLevel::Warn,
        "error" => LogLevel::Error,
        "crit" | "alert" | "emerg" => return None,
        // With the areas of `debug_*`.
        _ => LogLevel::Debug,
    })
}

//! Destination of an error log.
//!
//! Called by: configuration readers, which name it, and `error_log::init`, which opens it.

use crate::syslog::Syslog;
use std::path::PathBuf;

/// Target of the error log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorLogTarget {
    Stderr,
    File(PathBuf),
    /// Command of a program that reads lines, as for access logs, without the leading `|`.
    Program(String),
    Syslog(Syslog),
}

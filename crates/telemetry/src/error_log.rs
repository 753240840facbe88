//! The error log.
use crate::message::{Level, Message};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Where the error log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorLogTarget {
    Stderr,
    File(PathBuf),
}

#[derive(Debug)]
pub(crate) struct FloodGate {
    _state: AtomicU64,
}
impl FloodGate {
    pub(crate) const fn new() -> Self {
        FloodGate { _state: AtomicU64::new(0) }
    }
}

/// Starts the log. A second call changes target and level.
pub fn init(_target: &ErrorLogTarget, _level: Level) -> io::Result<()> {
    Ok(())
}
/// Opens the file again (rotation). On failure the old file stays in use.
pub fn reopen() -> io::Result<()> {
    Ok(())
}
pub fn set_level(_level: Level) {}
/// Whether a message of that level would be written; for callers whose facts cost something.
pub fn enabled(_level: Level) -> bool {
    true
}
/// Writes one line: the message's sentence, then the facts (may be empty).
pub fn log(_message: &'static Message, _facts: fmt::Arguments<'_>) {}
/// The same with the client's address.
pub fn log_client(_message: &'static Message, _client: SocketAddr, _facts: fmt::Arguments<'_>) {}
/// Waits until what was logged is written, or the time is over. Call before the process ends.
pub fn flush(_timeout: Duration) -> bool {
    true
}

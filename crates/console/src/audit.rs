//! The audit log: a line of JSON for each change, and for each log-in.
//!
//! Called by: actions, before they change anything.
//! Caveat: a change that cannot be written down is refused.

use crate::sessions::Identity;
use saker_telemetry::{error_log, message};
use serde_json::{Value, json};
use std::{
    fs,
    io::{self, Read as _, Seek as _, Write as _},
    net::IpAddr,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Part of the log that the page shows.
const SHOWN_BYTES_MAX: u64 = 64 << 10;

/// The directory of the console in the state directory.
pub fn folder(state_dir: &Path) -> io::Result<PathBuf> {
    let folder = state_dir.join("console");
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(folder),
    }
}

/// Writes a line; the error is a sentence for the client.
pub fn write(
    state_dir: &Path,
    who: (&Identity, IpAddr),
    action: &str,
    detail: Value,
) -> Result<(), String> {
    let (identity, client) = who;
    let line = json!({
        "at": saker_net::clock::realtime_s(),
        "user": identity.name,
        "role": identity.role.name(),
        "client": client.to_string(),
        "action": action,
        "detail": detail,
    });
    append(state_dir, &format!("{line}\n")).map_err(|error| {
        error_log::log(&message::CONSOLE_AUDIT_FAILED, format_args!("{error}"));
        format!("the audit log cannot be written: {error}")
    })?;
    if action != "log-in" {
        // The detail may have secrets of the configuration in it.
        let facts = format_args!("{action} by {} from {client}", identity.name);
        error_log::log(&message::CONSOLE_CHANGE, facts);
    }
    Ok(())
}

fn append(state_dir: &Path, line: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(folder(state_dir)?.join("audit.log"))?;
    file.write_all(line.as_bytes())
}

/// The last lines, newest first.
pub fn last(state_dir: &Path, max: usize) -> Vec<Value> {
    let read = || -> io::Result<String> {
        let mut file = fs::File::open(state_dir.join("console/audit.log"))?;
        let length = file.metadata()?.len();
        file.seek(io::SeekFrom::Start(length.saturating_sub(SHOWN_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.take(SHOWN_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines = text.lines().rev();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .take(max)
        .collect()
}

//! The last lines of log files, with the ids of messages found in them.
//!
//! Called by: `log_pages` and the API.
//! Caveat: only files that the configuration in force names can be read, by the exact path that the
//! list has; a bounded part at their end is.
//! Out of scope: logs that go to programs, to syslog, or to standard error.

use crate::{Backend, LogFile};
use rustix::fs::OFlags;
use saker_telemetry::message;
use std::{
    fs, io,
    io::{Read as _, Seek as _},
    os::unix::fs::OpenOptionsExt as _,
};

/// Part of a file that is read.
const BYTES_MAX: u64 = 256 << 10;
/// Lines that are shown.
pub const LINES_MAX: usize = 500;
const ID_BYTES: usize = 6;

/// Part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub text: String,
    /// Set if the text is the id of a message that the reference has.
    pub is_id: bool,
}

/// The last lines of a file that contain a text, newest first.
pub fn lines(backend: &dyn Backend, path: &str, part: &str) -> Result<Vec<String>, String> {
    let files = backend.log_files();
    let found = files.iter().find(|file| shown(file) == path);
    let file = found.ok_or("this is not a log file of the configuration")?;
    let text = tail(file).map_err(|error| format!("cannot read {path}: {error}"))?;
    let lines = text.lines().rev().filter(|line| !is_of_key(line));
    let lines = lines.filter(|line| line.contains(part));
    Ok(lines.take(LINES_MAX).map(str::to_owned).collect())
}

/// Returns true for a line that a file of a key may have, and no log: one without a space or a
/// bracket.
fn is_of_key(line: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    !line.is_empty() && line.trim_end().bytes().all(is_base64)
}

/// The path of a file as pages and the API name it.
pub fn shown(file: &LogFile) -> String {
    file.path.display().to_string()
}

fn tail(file: &LogFile) -> io::Result<String> {
    // A pipe without a writer must not hold the console up.
    let mut opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(&file.path)?;
    let found = opened.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let start = found.len().saturating_sub(BYTES_MAX);
    opened.seek(io::SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    opened.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line is whole only at the beginning of the file.
    match (start, text.split_once('\n')) {
        (0, _) | (_, None) => Ok(text),
        (_, Some((_, whole))) => Ok(whole.to_owned()),
    }
}

/// Splits a line at the ids of messages.
pub fn segments(line: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut add = |text: &str, is_id| {
        if !text.is_empty() {
            let text = text.to_owned();
            segments.push(Segment { text, is_id });
        }
    };
    while let Some(found) = line[at..].find("SK") {
        let begin = at + found;
        let id = line.get(begin..begin + ID_BYTES);
        match id.filter(|id| message::ALL.iter().any(|known| known.id == *id)) {
            Some(id) => {
                add(&line[start..begin], false);
                add(id, true);
                (start, at) = (begin + ID_BYTES, begin + ID_BYTES);
            }
            None => at = begin + 2,
        }
    }
    add(&line[start..], false);
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_keys_are_none_of_a_log() {
        assert!(
            is_of_key("MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg") && is_of_key("Zm9v=\r")
        );
        for line in [
            "",
            "127.0.0.1 - - GET",
            "[notice] x",
            "{\"a\":1}",
            "-----BEGIN PRIVATE KEY-----",
        ] {
            assert!(!is_of_key(line), "{line}");
        }
    }

    #[test]
    fn ids_are_found() {
        let split = |line: &str| -> Vec<(String, bool)> {
            let parts = segments(line).into_iter();
            parts.map(|part| (part.text, part.is_id)).collect()
        };
        let expected = [("[notice] ", false), ("SK0101", true), (" started", false)];
        assert_eq!(
            split("[notice] SK0101 started"),
            expected.map(|(text, is)| (text.to_owned(), is))
        );
        for line in ["SK", "SK01", "SK9999 x", "SKé0101", "é SSK", ""] {
            assert!(segments(line).iter().all(|part| !part.is_id), "{line}");
            let whole: String = segments(line).into_iter().map(|part| part.text).collect();
            assert_eq!(whole, line);
        }
        assert_eq!(segments("SK0101SK0102").len(), 2);
    }
}

//! A log of requests before and after they are served (Apache's mod_log_forensic): a request with a
//! `+` line and no `-` line was in progress when the server ended.
//!
//! Called by: [`ForensicLog::begin`] before rules see a request, [`ForensicLog::end`] where its
//! access log line is written.
//! Caveat: the lines have to be in the file before the server continues, so they are written one by
//! one, and cost a system call each.

use crate::access_log::{LogFile, LogTarget};
use std::io::Write as _;
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub struct ForensicLog {
    pub target: LogTarget,
    file: OnceLock<Arc<LogFile>>,
}

impl ForensicLog {
    pub fn new(target: LogTarget) -> ForensicLog {
        ForensicLog {
            target,
            file: OnceLock::new(),
        }
    }

    /// Sets the open log file. Only the first call counts.
    pub fn write_to(&self, file: Arc<LogFile>) {
        let _ = self.file.set(file);
    }

    /// `+id|request line|name:value|…`
    pub fn begin<'f>(
        &self,
        id: &[u8],
        request_line: &[u8],
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) {
        let mut line = vec![b'+'];
        line.extend_from_slice(id);
        line.push(b'|');
        append(request_line, &mut line);
        for (name, value) in fields {
            line.push(b'|');
            append(name, &mut line);
            line.push(b':');
            append(value, &mut line);
        }
        self.write(line);
    }

    /// `-id`
    pub fn end(&self, id: &[u8]) {
        self.write([b"-", id].concat());
    }

    fn write(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        if let Some(file) = self.file.get() {
            file.write_batch(&line);
        }
    }
}

/// Appends a part; separators and non-letters become `%` and two hexadecimal digits.
fn append(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b' '..=b'~' if !matches!(byte, b'|' | b':' | b'%') => out.push(*byte),
            // Writing to memory cannot fail.
            _ => drop(write!(out, "%{byte:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_part_that_is_none() {
        let mut out = Vec::new();
        append(b"a b|c:d%\n\xc3", &mut out);
        assert_eq!(out, b"a b%7cc%3ad%25%0a%c3");
    }
}

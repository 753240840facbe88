//! A log of requests before and after they are served (httpd 2.4, mod_log_forensic): what has a
//! line with `+` and none with `-` is what the server was working on when it ended.
//!
//! Place in the walk: [`ForensicLog::begin`] before rules look at a request, [`ForensicLog::end`]
//! where its access log line is written. Difficulty: the lines have to be in the file before the
//! server goes on, so they are written one by one, and cost a system call each.

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

    /// Where its target is open. Only the first call counts.
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

/// What would end a part, or be no letter, is `%` and two hexadecimal digits.
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

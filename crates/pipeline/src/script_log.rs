//! The log of scripts that went wrong, with what was said to them and by them (httpd 2.4, mod_cgi,
//! `ScriptLog`).
//!
//! Place in the walk: rules that refuse to run a script write to it, and the gateway where one has
//! failed. Difficulty: whoever can make a script fail could fill the disk, so the file is left
//! alone from a size on. It is opened for each entry, as Apache does it, so that it may be moved
//! away at any time.

use crate::Exchange;
use saker_http::Status;
use saker_net::privileged;
use saker_telemetry::local_time::{Civil, TimeZone, append_strftime};
use std::{io::Write, path::PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLog {
    pub path: PathBuf,
    /// From this size on nothing is added (ScriptLogLength).
    pub bytes_max: u64,
    /// Of a request's content (ScriptLogBuffer).
    pub content_bytes_max: usize,
}

/// What passed between us and a script.
#[derive(Clone, Debug, Default)]
pub struct Overheard {
    /// The beginning of the request's content.
    pub told: Vec<u8>,
    /// The line that was no field.
    pub bad_line: Vec<u8>,
    pub rest: Vec<u8>,
}

impl ScriptLog {
    /// A script was not run.
    pub fn refused(&self, exchange: &Exchange, status: Status, filename: &[u8], why: &str) {
        let mut entry = beginning(exchange, status, filename);
        let _ = writeln!(entry, "%error\n{why}");
        self.append(&entry);
    }

    /// A script gave no answer that could be used.
    pub fn failed(
        &self,
        exchange: &Exchange,
        status: Status,
        filename: &[u8],
        overheard: &Overheard,
    ) {
        let mut entry = beginning(exchange, status, filename);
        let mut line = |parts: &[&[u8]]| {
            parts
                .iter()
                .chain(&[&b"\n"[..]])
                .for_each(|part| entry.extend_from_slice(part))
        };
        line(&[b"%request"]);
        exchange
            .head
            .view()
            .fields()
            .for_each(|(name, value)| line(&[name, b": ", value]));
        if !overheard.told.is_empty() {
            line(&[b"\n", &overheard.told]);
        }
        line(&[b"%response"]);
        if !overheard.bad_line.is_empty() {
            line(&[&overheard.bad_line]);
        }
        if !overheard.rest.is_empty() {
            line(&[b"%stdout\n", &overheard.rest]);
        }
        self.append(&entry);
    }

    /// What can't be written is not worth a second complaint: the error log has said that the
    /// script failed.
    fn append(&self, entry: &[u8]) {
        let Ok(mut file) = privileged::open_append(&self.path, 0o640) else {
            return;
        };
        if file
            .metadata()
            .is_ok_and(|metadata| metadata.len() <= self.bytes_max)
        {
            let _ = file.write_all(entry);
        }
    }
}

/// Two lines: when and what, the status and the file.
fn beginning(exchange: &Exchange, status: Status, filename: &[u8]) -> Vec<u8> {
    let mut entry = b"%% [".to_vec();
    let offset_s = TimeZone::local().offset_s(exchange.now);
    append_strftime(
        "%a %b %d %H:%M:%S %Y",
        exchange.now,
        &Civil::at(exchange.now, offset_s),
        "",
        &mut entry,
    );
    let view = exchange.head.view();
    let query = exchange
        .query
        .as_deref()
        .map(|query| [b"?", query].concat())
        .unwrap_or_default();
    let protocol = view
        .start_line()
        .rsplit(|byte| *byte == b' ')
        .next()
        .unwrap_or_default();
    let words: [&[u8]; 7] = [
        b"] ",
        view.method_token(),
        b" ",
        &exchange.path,
        &query,
        b" ",
        protocol,
    ];
    words.iter().for_each(|word| {
        entry.extend(
            word.iter()
                .map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }),
        )
    });
    // Writing to memory cannot fail.
    let _ = write!(entry, "\n%% {} ", status.0);
    entry.extend_from_slice(filename);
    entry.push(b'\n');
    entry
}

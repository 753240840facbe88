//! Log of failed scripts, with their requests and responses (httpd 2.4, mod_cgi, `ScriptLog`).
//!
//! Called by: rules that refuse to run a script, and the gateway when a script fails.
//! Caveat: clients that can make a script fail could fill the disk, so the file stops growing at a
//! maximum size. It is opened for each entry, as in Apache, so that it can be rotated at any time.
//! Out of scope: the error log, which reports the failure itself.

use saker_http::{HeadView, Status};
use saker_net::privileged;
use saker_telemetry::local_time::{Civil, TimeZone, append_strftime};
use std::{io::Write, path::PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLog {
    pub path: PathBuf,
    /// Maximum size of the file; entries beyond it are dropped (ScriptLogLength).
    pub bytes_max: u64,
    /// Maximum logged size of a request body (ScriptLogBuffer).
    pub content_bytes_max: usize,
}

/// A script that failed or was not run, and its request.
#[derive(Clone, Copy)]
pub struct FailedScript<'a> {
    pub head: HeadView<'a>,
    /// Decoded path of the request.
    pub path: &'a [u8],
    pub query: Option<&'a [u8]>,
    /// Time of the request, in seconds since the epoch.
    pub now: i64,
    /// Status of the response to the client.
    pub status: Status,
    pub filename: &'a [u8],
}

/// Data exchanged with a script.
#[derive(Clone, Debug, Default)]
pub struct Overheard {
    /// The start of the request body.
    pub told: Vec<u8>,
    /// The line that is not a valid field.
    pub bad_line: Vec<u8>,
    pub rest: Vec<u8>,
}

impl ScriptLog {
    /// Logs a script that was not run.
    pub fn refused(&self, script: &FailedScript<'_>, why: &str) {
        let mut entry = beginning(script);
        let _ = writeln!(entry, "%error\n{why}");
        self.append(&entry);
    }

    /// Logs a script without a valid response.
    pub fn failed(&self, script: &FailedScript<'_>, overheard: &Overheard) {
        let mut entry = beginning(script);
        let mut line = |parts: &[&[u8]]| {
            parts
                .iter()
                .chain(&[&b"\n"[..]])
                .for_each(|part| entry.extend_from_slice(part))
        };
        line(&[b"%request"]);
        script
            .head
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

    /// Appends an entry. Ignores write errors, because the error log has reported the failed
    /// script.
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

/// Formats the first two lines: time and request line, status and file.
fn beginning(script: &FailedScript<'_>) -> Vec<u8> {
    let mut entry = b"%% [".to_vec();
    let offset_s = TimeZone::local().offset_s(script.now);
    append_strftime(
        "%a %b %d %H:%M:%S %Y",
        script.now,
        &Civil::at(script.now, offset_s),
        "",
        &mut entry,
    );
    let query = script
        .query
        .map(|query| [b"?", query].concat())
        .unwrap_or_default();
    let protocol = script
        .head
        .start_line()
        .rsplit(|byte| *byte == b' ')
        .next()
        .unwrap_or_default();
    let words: [&[u8]; 7] = [
        b"] ",
        script.head.method_token(),
        b" ",
        script.path,
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
    let _ = write!(entry, "\n%% {} ", script.status.0);
    entry.extend_from_slice(script.filename);
    entry.push(b'\n');
    entry
}

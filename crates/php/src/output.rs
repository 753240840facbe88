//! Standard error of PHP, line by line into the error log.
//!
//! Called by: the task of a pool. Caveat: php-fpm's processes write each message of a script twice,
//! over FastCGI, where its client is known, and here. Here it is left out: a message by its
//! beginning, the lines that follow in it because they have come over FastCGI, too, for which they
//! wait a little. Out of scope: what came over FastCGI (the gateway's `log_lines`).

use crate::process::Errors;
use saker_telemetry::{error_log, heard, message};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    time::{Instant, sleep_until},
};

/// A longer line is cut into several.
const LINE_BYTES_MAX: usize = 8 << 10;
/// Prefix that php-fpm's processes put before each message of a script.
const MESSAGE: &[u8] = b"PHP message: ";
/// Time for a line to come over FastCGI.
const PATIENCE: Duration = Duration::from_secs(1);
/// Lines that wait; beyond it the first is logged.
const WAITING_MAX: usize = 256;

/// Lines behind a message, of which it isn't known yet whether they are of it.
#[derive(Default)]
struct Waiting {
    lines: VecDeque<(Instant, Vec<u8>)>,
    /// A message has come: what follows may be of it.
    is_behind_message: bool,
}

impl Waiting {
    fn take(&mut self, line: &[u8], name: &str) {
        let text = line.trim_ascii_end();
        if text.starts_with(MESSAGE) {
            self.is_behind_message = true;
            heard::take(text);
        } else if self.is_behind_message && !text.is_empty() {
            self.lines
                .push_back((Instant::now() + PATIENCE, text.to_vec()));
            if self.lines.len() > WAITING_MAX {
                self.settle_first(name);
            }
        } else {
            write(name, text);
        }
    }

    /// Those that have waited long enough.
    fn settle(&mut self, name: &str, now: Instant) {
        while self.lines.front().is_some_and(|(due, _)| *due <= now) {
            self.settle_first(name);
        }
    }

    fn settle_first(&mut self, name: &str) {
        if let Some((_, line)) = self
            .lines
            .pop_front()
            .filter(|(_, line)| !heard::take(line))
        {
            write(name, &line);
        }
    }
}

/// Until the last process of the PHP has closed it.
pub async fn log(stderr: Errors, name: Arc<str>) {
    heard::listen();
    let mut reader = BufReader::new(stderr);
    let (mut line, mut waiting) = (Vec::new(), Waiting::default());
    loop {
        let due = waiting.lines.front().map(|(due, _)| *due);
        let room = LINE_BYTES_MAX.saturating_sub(line.len()).max(1) as u64;
        let mut limited = (&mut reader).take(room);
        tokio::select! {
            // What was read before the other came first stays in `line`.
            read = limited.read_until(b'\n', &mut line) => match read {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    waiting.take(&line, &name);
                    line.clear();
                }
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => waiting.settle(&name, Instant::now()),
        }
    }
    waiting.take(&line, &name);
    while !waiting.lines.is_empty() {
        waiting.settle_first(&name);
    }
}

fn write(name: &str, text: &[u8]) {
    if !text.is_empty() {
        error_log::log(
            &message::PROGRAM_SAID,
            format_args!("{name}: {}", String::from_utf8_lossy(text)),
        );
    }
}

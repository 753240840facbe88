//! What a program says to its log, line by line in ours, however it was cut.

use saker_pipeline::Asker;
use saker_telemetry::{error_log, message};

/// Longer lines are cut.
const LINE_BYTES_MAX: usize = 2048;

pub struct LogLines {
    pub client: Asker,
    /// Before each line.
    name: Box<str>,
    line: Vec<u8>,
}

impl LogLines {
    pub fn new(client: Asker, name: &str) -> LogLines {
        LogLines { client, name: name.into(), line: Vec::new() }
    }

    pub fn push(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                b'\n' => self.flush(),
                b'\r' => {}
                byte if self.line.len() < LINE_BYTES_MAX => self.line.push(*byte),
                _ => {}
            }
        }
    }

    /// The line, even if its end did not come.
    pub fn flush(&mut self) {
        if !self.line.is_empty() {
            let line = String::from_utf8_lossy(&self.line);
            error_log::log_about(&message::PROGRAM_SAID, &self.client, format_args!("{}{line}", self.name));
            self.line.clear();
        }
    }
}

impl Drop for LogLines {
    fn drop(&mut self) {
        self.flush();
    }
}

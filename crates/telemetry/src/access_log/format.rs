//! Log formats.
use super::Record;
use std::fmt;

/// What a format looks at that costs the caller something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub duration: bool,
    pub first_byte: bool,
    pub bytes_in: bool,
    pub bytes_out: bool,
    pub response_fields: bool,
    pub notes: bool,
    pub environment: bool,
    pub trailers: bool,
    pub file: bool,
}

/// Why a format text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// Byte offset into the text.
    pub offset: usize,
    pub message: String,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FormatError {}

/// A parsed log format.
#[derive(Clone, Debug)]
pub struct Format {}

/// One worker's cache of rendered time; keep one per worker.
#[derive(Debug, Default)]
pub struct LogClock {}

impl LogClock {
    pub fn new() -> Self {
        LogClock {}
    }
}

impl Format {
    /// `common`, `combined`, `vhost_combined`, `json`, or a format string as in Apache's `LogFormat`.
    pub fn parse(_text: &str) -> Result<Format, FormatError> {
        unimplemented!()
    }
    pub fn needs(&self) -> Needs {
        unimplemented!()
    }
    /// Appends one line with its line end.
    pub fn write(&self, _record: &Record<'_>, _clock: &mut LogClock, _out: &mut Vec<u8>) {
        unimplemented!()
    }
}

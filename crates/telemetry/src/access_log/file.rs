//! Log files.
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where an access log goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    Off,
    Stdout,
    File(PathBuf),
    /// Command of a log program, without the leading `|`.
    Program(String),
}

impl LogTarget {
    /// `off`, `-`, `|command arguments`, or a path.
    pub fn parse(_text: &str) -> LogTarget {
        unimplemented!()
    }
}

/// One access log, shared by all workers.
#[derive(Debug)]
pub struct LogFile {}

/// What became of the lines handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    pub written: u64,
    pub dropped: u64,
}

impl LogFile {
    pub fn open(_path: &Path) -> io::Result<Arc<LogFile>> {
        unimplemented!()
    }
    /// `None` for [`LogTarget::Off`].
    pub fn open_target(_target: &LogTarget) -> io::Result<Option<Arc<LogFile>>> {
        unimplemented!()
    }
    /// Writes whole lines, never blocking on anything but a disk.
    pub fn write_batch(&self, _lines: &[u8]) -> Flushed {
        unimplemented!()
    }
    pub fn reopen(&self) -> io::Result<()> {
        unimplemented!()
    }
}

/// One worker's lines for one log.
#[derive(Debug)]
pub struct LogBuffer {}

impl LogBuffer {
    pub fn new(_file: Arc<LogFile>) -> LogBuffer {
        unimplemented!()
    }
    /// Lets `write` append one whole line; flushes if the buffer is full. Most calls return zeros.
    pub fn append(&mut self, _write: impl FnOnce(&mut Vec<u8>)) -> Flushed {
        unimplemented!()
    }
    /// Hands the lines over; call each second and at the end.
    pub fn flush(&mut self) -> Flushed {
        unimplemented!()
    }
}

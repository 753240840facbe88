//! Targets of access logs: files shared by all workers, log programs, standard output.
//!
//! Called by: `pipeline/log.rs`, which appends to its worker's [`LogBuffer`]; the worker's tick, or
//! a full buffer, hands the lines to the [`LogFile`]; USR1 reopens it.
//! Caveat: one intact file from all cores. Batches of whole lines are written under a lock
//! ([`super::line_sink`] handles a full disk); targets other than regular files may block and are
//! written by a thread of their own.
//! Out of scope: fsync; an access log is not a journal.

use super::by_host::HostFiles;
use super::line_sink::{Event, LineSink, Outcome, Sink, line_count};
use super::open::open_append;
use super::program::Program;
use super::rotation::{Rotation, RotationState, Turn};
use crate::message;
use crate::queue_writer::{Outlet, QueueWriter, Stalled};
use crate::report;
use crate::syslog::{Syslog, SyslogOutlet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Lines waiting for a program or terminal that does not read.
const QUEUED_BYTES_MAX: usize = 4 << 20;
/// A buffer is handed over when it is this full.
const BUFFER_BYTES: usize = 64 * 1024;
const FLUSH_AT_END: Duration = Duration::from_secs(2);

/// Target of an access log, or of a site's error log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    Off,
    Stdout,
    File(PathBuf),
    /// A file for each host, whose name stands in the path.
    ByHost(PathBuf),
    /// Files below a directory, whose paths lines begin with.
    Below(PathBuf),
    /// Command of a log program, without the leading `|`.
    Program(String),
    /// For error logs only.
    Syslog(Syslog),
}

impl LogTarget {
    /// `off`, `-`, `|command arguments`, or a path.
    pub fn parse(text: &str) -> LogTarget {
        match text.trim() {
            "off" => LogTarget::Off,
            "-" => LogTarget::Stdout,
            other => match other.strip_prefix('|') {
                Some(command) => LogTarget::Program(command.to_owned()),
                None => LogTarget::File(PathBuf::from(other)),
            },
        }
    }
}

/// Outcome of the lines handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    pub written: u64,
    pub dropped: u64,
}

/// One access log, shared by all workers.
#[derive(Debug)]
pub struct LogFile {
    /// Name for messages.
    name: String,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Direct {
        path: PathBuf,
        lines: Mutex<LineSink<FileSink>>,
        /// Locked after `lines`.
        rotation: Mutex<Option<RotationState>>,
    },
    ByHost(Mutex<HostFiles>),
    Queued {
        writer: QueueWriter,
        stuck: AtomicBool,
    },
}

impl LogFile {
    /// Opens for appending; a file that is made has mode 0640. By the broker, where there is one.
    pub fn open(path: &Path) -> io::Result<Arc<LogFile>> {
        let file = open_append(path)?;
        let name = path.display().to_string();
        if !file.metadata()?.is_file() {
            return LogFile::queued(
                name.clone(),
                Box::new(Blocking {
                    name,
                    stream: file,
                    lost: 0,
                }),
            );
        }
        let lines = Mutex::new(LineSink::new(FileSink::new(file)));
        Ok(Arc::new(LogFile {
            name,
            way: Way::Direct {
                path: path.to_owned(),
                lines,
                rotation: Mutex::new(None),
            },
        }))
    }

    /// Rotates the file from here on, or no longer. Targets other than single files are not
    /// rotated.
    pub fn set_rotation(&self, rotation: Option<Rotation>) {
        if let Way::Direct { rotation: own, .. } = &self.way {
            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
            if own.as_ref().map(|own| own.rotation) != rotation {
                *own = rotation.map(RotationState::new);
            }
        }
    }

    /// `None` for [`LogTarget::Off`]. Starts a thread for programs and standard output.
    pub fn open_target(target: &LogTarget) -> io::Result<Option<Arc<LogFile>>> {
        match target {
            LogTarget::Off => Ok(None),
            LogTarget::Stdout => LogFile::stdout().map(Some),
            LogTarget::File(path) => LogFile::open(path).map(Some),
            LogTarget::ByHost(path) => {
                let way = Way::ByHost(Mutex::new(HostFiles::open(path)?));
                Ok(Some(Arc::new(LogFile {
                    name: path.display().to_string(),
                    way,
                })))
            }
            LogTarget::Below(directory) => Ok(Some(Arc::new(LogFile {
                name: directory.display().to_string(),
                way: Way::ByHost(Mutex::new(HostFiles::below(directory))),
            }))),
            LogTarget::Program(command) => {
                LogFile::queued(format!("|{command}"), Box::new(Program::start(command)?)).map(Some)
            }
            LogTarget::Syslog(syslog) => {
                LogFile::queued("syslog".into(), Box::new(SyslogOutlet::new(syslog.clone())))
                    .map(Some)
            }
        }
    }

    /// Writes whole lines (the last byte is a line end), never blocking on anything but a disk.
    /// Lines that a full disk tore are counted by the call that completes them.
    pub fn write_batch(&self, lines: &[u8]) -> Flushed {
        match &self.way {
            Way::Direct { .. } => self.write_direct(lines, saker_net::clock::realtime_s()),
            Way::ByHost(files) => {
                let written = files
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .write(lines);
                Flushed {
                    written,
                    dropped: line_count(lines).saturating_sub(written),
                }
            }
            Way::Queued { writer, stuck } => self.queue(lines, writer, stuck),
        }
    }

    /// Rotates the file if it is due, and writes the lines.
    fn write_direct(&self, batch: &[u8], now_s: i64) -> Flushed {
        let Way::Direct {
            path,
            lines,
            rotation,
        } = &self.way
        else {
            return Flushed::default();
        };
        let mut flushed = Flushed::default();
        let mut sink = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rotation = rotation.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = rotation.as_mut()
            && let Turn::Replace(file) = state.turn(path, &sink.sink().file, batch.len(), now_s)
        {
            let replaced = sink.replace(FileSink::new(file));
            flushed = self.report(replaced);
        }
        let outcome = sink.write_batch(batch);
        drop((sink, rotation));
        let written = self.report(outcome);
        flushed.written += written.written;
        flushed.dropped += written.dropped;
        flushed
    }

    /// Opens the path again, for rotation. If that fails the old file stays in use, and the caller
    /// reports it. Programs are left alone.
    pub fn reopen(&self) -> io::Result<Flushed> {
        let (path, lines, rotation) = match &self.way {
            Way::Direct {
                path,
                lines,
                rotation,
            } => (path, lines, rotation),
            Way::ByHost(files) => {
                files
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .reopen();
                return Ok(Flushed::default());
            }
            Way::Queued { .. } => return Ok(Flushed::default()),
        };
        let file = open_append(path)?;
        let outcome = lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(FileSink::new(file));
        let mut rotation = rotation.lock().unwrap_or_else(PoisonError::into_inner);
        rotation.iter_mut().for_each(RotationState::reopened);
        Ok(self.report(outcome))
    }

    /// Waits until lines for programs and standard output are written, or the time is over. Files
    /// have nothing to wait for.
    pub fn flush(&self, timeout: Duration) -> bool {
        match &self.way {
            Way::Direct { .. } | Way::ByHost(_) => true,
            Way::Queued { writer, .. } => writer.flush(timeout),
        }
    }

    fn stdout() -> io::Result<Arc<LogFile>> {
        let name = "standard output".to_owned();
        LogFile::queued(
            name.clone(),
            Box::new(Blocking {
                name,
                stream: io::stdout(),
                lost: 0,
            }),
        )
    }

    fn queued(name: String, outlet: Box<dyn Outlet>) -> io::Result<Arc<LogFile>> {
        let writer = QueueWriter::spawn("access-log", outlet, QUEUED_BYTES_MAX)?;
        Ok(Arc::new(LogFile {
            name,
            way: Way::Queued {
                writer,
                stuck: AtomicBool::new(false),
            },
        }))
    }

    fn queue(&self, lines: &[u8], writer: &QueueWriter, stuck: &AtomicBool) -> Flushed {
        let count = line_count(lines);
        let fits = writer.push(lines.to_vec());
        let was_stuck = stuck.swap(!fits, Ordering::Relaxed);
        if fits {
            return Flushed {
                written: count,
                dropped: 0,
            };
        }
        if !was_stuck {
            report::log(&message::LOG_PROGRAM_STUCK, format_args!("{}", self.name));
        }
        Flushed {
            written: 0,
            dropped: count,
        }
    }

    /// Outside the lock: the error log may be on the same full disk.
    fn report(&self, outcome: Outcome) -> Flushed {
        match outcome.event {
            Some(Event::Failed(error)) => report::log(
                &message::LOG_WRITE_FAILED,
                format_args!("{}: {error}", self.name),
            ),
            Some(Event::Recovered { lost }) => {
                report::log(
                    &message::LOG_WRITE_RECOVERED,
                    format_args!("{}: {lost} lines were lost", self.name),
                );
            }
            None => {}
        }
        Flushed {
            written: outcome.written,
            dropped: outcome.dropped,
        }
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        match &mut self.way {
            Way::ByHost(_) => {}
            Way::Direct { lines, .. } => drop(
                lines
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .close(),
            ),
            Way::Queued { writer, .. } => drop(writer.flush(FLUSH_AT_END)),
        }
    }
}

/// One worker's lines for one log.
#[derive(Debug)]
pub struct LogBuffer {
    file: Arc<LogFile>,
    lines: Vec<u8>,
}

impl LogBuffer {
    pub fn new(file: Arc<LogFile>) -> LogBuffer {
        LogBuffer {
            file,
            lines: Vec::new(),
        }
    }

    /// Lets `write` append one whole line; flushes if the buffer is full. Most calls return zeros.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Flushed {
        write(&mut self.lines);
        if self.lines.len() < BUFFER_BYTES {
            Flushed::default()
        } else {
            self.flush()
        }
    }

    /// Hands the lines over; call each second and at the end.
    pub fn flush(&mut self) -> Flushed {
        if self.lines.is_empty() {
            return Flushed::default();
        }
        let flushed = self.file.write_batch(&self.lines);
        self.lines.clear();
        // One monstrous line must not be remembered as memory.
        self.lines.shrink_to(2 * BUFFER_BYTES);
        flushed
    }

    pub fn file(&self) -> &Arc<LogFile> {
        &self.file
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl Drop for LogBuffer {
    fn drop(&mut self) {
        self.flush();
    }
}

#[derive(Debug)]
struct FileSink {
    file: File,
    /// Length of the file after a short write. The end is cut off only if no other process has
    /// appended since.
    torn_at: Option<u64>,
}

impl FileSink {
    fn new(file: File) -> Self {
        FileSink {
            file,
            torn_at: None,
        }
    }
}

impl Sink for FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.torn_at = if count < bytes.len() {
            self.file.metadata().ok().map(|metadata| metadata.len())
        } else {
            None
        };
        Ok(count)
    }

    fn take_back(&mut self, bytes: usize) -> bool {
        let length = self.file.metadata().ok().map(|metadata| metadata.len());
        match (length, self.torn_at) {
            (Some(length), Some(torn_at)) if length == torn_at && length >= bytes as u64 => {
                self.file.set_len(length - bytes as u64).is_ok()
            }
            _ => false,
        }
    }
}

/// Standard output, terminals, named pipes, devices. Lines that they refuse are lost; only the
/// error log tells.
struct Blocking<W> {
    name: String,
    stream: W,
    /// Lines refused since the last that went through.
    lost: u64,
}

impl<W: Write + Send> Outlet for Blocking<W> {
    fn write_lines(&mut self, lines: &[u8]) -> Result<(), Stalled> {
        match self
            .stream
            .write_all(lines)
            .and_then(|()| self.stream.flush())
        {
            Ok(()) if self.lost > 0 => {
                report::log(
                    &message::LOG_WRITE_RECOVERED,
                    format_args!("{}: {} lines were lost", self.name, self.lost),
                );
                self.lost = 0;
            }
            Ok(()) => {}
            Err(error) => {
                if self.lost == 0 {
                    report::log(
                        &message::LOG_WRITE_FAILED,
                        format_args!("{}: {error}", self.name),
                    );
                }
                self.lost += line_count(lines).max(1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

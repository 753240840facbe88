//! The error log: one line per message, in the shape of Apache 2.4's or that of an `ErrorLogFormat`.
//!
//! Place in the walk: anywhere, [`log`] with a row of [`crate::message`]; `server` calls [`init`] at start, [`reopen`] on USR1,
//! [`tick`] each second and [`flush`] at the end. Before [`init`] lines go straight to standard error.
//!
//! The one difficulty: it is called when things are already wrong, so it must neither block, nor panic, nor flood: lines go through
//! a bounded queue to a thread, facts are escaped, and a message that comes too often is suppressed and counted.

mod about;
mod format;
mod site;

pub use crate::syslog::Syslog;
use about::ConnectionOf;
pub use about::{About, Asked, LogId, Nothing};
pub use format::{Format, Formats};
pub use site::SiteLog;

use crate::access_log::Program;
use crate::escape::append_escaped;
use crate::flood_gate::Admission;
use crate::local_time::{Civil, TimeZone, append_padded};
use crate::message::{self, Level, Message};
use crate::queue_writer::{Outlet, QueueWriter, Stalled};
use crate::syslog::SyslogOutlet;
use format::Occasion;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Facts are cut here, before escaping.
const FACTS_BYTES_MAX: usize = 8192;
const QUEUED_BYTES_MAX: usize = 1 << 20;

static LOG: OnceLock<ErrorLog> = OnceLock::new();
static LEVEL: AtomicU8 = AtomicU8::new(Level::Notice as u8);
/// Areas with a level of their own.
static AREAS: RwLock<Vec<(&str, Level)>> = RwLock::new(Vec::new());
/// `None`: the shape that lines have by themselves.
static FORMATS: RwLock<Option<Arc<Formats>>> = RwLock::new(None);
/// Those that count floods by themselves.
static SITES: RwLock<Vec<Weak<SiteLog>>> = RwLock::new(Vec::new());
/// Whether some message may have been suppressed since [`tick`] looked.
static SUPPRESSING: AtomicBool = AtomicBool::new(false);

/// Where the error log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorLogTarget {
    Stderr,
    File(PathBuf),
    /// Command of a program that reads lines, as for access logs, without the leading `|`.
    Program(String),
    Syslog(Syslog),
}

struct ErrorLog {
    writer: QueueWriter,
    target: Mutex<ErrorLogTarget>,
    /// Lines that the queue had no room for.
    lost: AtomicU64,
}

/// Starts the log and its thread. A second call changes target and level. On failure nothing changes.
pub fn init(target: &ErrorLogTarget, level: Level) -> io::Result<()> {
    let outlet = open(target)?;
    if LOG.get().is_none() {
        let writer = QueueWriter::spawn("error-log", Box::new(StreamOutlet::new(io::stderr())), QUEUED_BYTES_MAX)?;
        let _ = LOG.set(ErrorLog { writer, target: Mutex::new(ErrorLogTarget::Stderr), lost: AtomicU64::new(0) });
    }
    if let Some(log) = LOG.get() {
        log.writer.replace(outlet);
        log.target.lock().unwrap_or_else(PoisonError::into_inner).clone_from(target);
    }
    set_level(level);
    Ok(())
}

/// Opens the file again (rotation). On failure the old file stays in use.
pub fn reopen() -> io::Result<()> {
    let Some(log) = LOG.get() else { return Ok(()) };
    let target = log.target.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // Programs and the system's log are told nothing.
    if matches!(target, ErrorLogTarget::File(_)) {
        log.writer.replace(open(&target)?);
    }
    Ok(())
}

pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Levels of areas that differ from all others'.
pub fn set_areas(areas: &[(&'static str, Level)]) {
    *AREAS.write().unwrap_or_else(PoisonError::into_inner) = areas.to_vec();
}

/// The shapes of lines from now on.
pub fn set_formats(formats: &Formats) {
    let formats = (*formats != Formats::default()).then(|| Arc::new(formats.clone()));
    *FORMATS.write().unwrap_or_else(PoisonError::into_inner) = formats;
}

/// The sites whose logs [`tick`] looks after from now on.
pub fn set_sites<'s>(sites: impl Iterator<Item = &'s Arc<SiteLog>>) {
    *SITES.write().unwrap_or_else(PoisonError::into_inner) = sites.map(Arc::downgrade).collect();
}

fn is_wanted(message: &Message, about: &dyn About) -> bool {
    if let Some(site) = about.site() {
        return site.wants(message);
    }
    let areas = AREAS.read().unwrap_or_else(PoisonError::into_inner);
    match areas.iter().find(|(area, _)| *area == message.area) {
        Some((_, level)) => message.level <= *level,
        None => enabled(message.level),
    }
}

/// A line of a trace that was asked for by its module's name; it passes no gate, because it is wanted whole.
#[track_caller]
pub fn trace(module: &str, level: u8, about: &dyn About, facts: fmt::Arguments<'_>) {
    let message = |out: &mut Vec<u8>| _ = append_text(facts, out);
    let level_number = Level::Debug.number().saturating_add(level);
    let (level, place) = (format!("trace{level}"), Location::caller());
    write(&lines(&Occasion { module, level: &level, level_number, about, now: now(), place, message: &message }), about);
}

/// A line that is no message of ours: the operator has it written (httpd 2.4, mod_log_debug).
#[track_caller]
pub fn note(module: &str, level: Level, about: &dyn About, facts: fmt::Arguments<'_>) {
    let message = |out: &mut Vec<u8>| _ = append_text(facts, out);
    let occasion = Occasion {
        module,
        level: level.as_str(),
        level_number: level.number(),
        about,
        now: now(),
        place: Location::caller(),
        message: &message,
    };
    write(&lines(&occasion), about);
}

/// Whether a message of that level about the process would be written.
pub fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

/// Writes one line: the message's sentence, then the facts (may be empty).
#[track_caller]
pub fn log(message: &'static Message, facts: fmt::Arguments<'_>) {
    admit(message, &Nothing, facts);
}

/// The same with the client's address, where no more is known.
#[track_caller]
pub fn log_client(message: &'static Message, client: SocketAddr, facts: fmt::Arguments<'_>) {
    admit(message, &client, facts);
}

/// The same about a connection or a request.
#[track_caller]
pub fn log_about(message: &'static Message, about: &dyn About, facts: fmt::Arguments<'_>) {
    admit(message, about, facts);
}

/// Tells what was suppressed in seconds that are over. Call each second; costs one load if there is nothing.
pub fn tick() {
    if !SUPPRESSING.swap(false, Ordering::Relaxed) {
        return;
    }
    let now = now();
    for message in message::ALL {
        let suppressed = message.gate.settle(now.as_secs());
        if suppressed > 0 {
            tell_suppressed(message, suppressed, &Nothing, now);
        }
        if message.gate.is_suppressing() {
            SUPPRESSING.store(true, Ordering::Relaxed);
        }
    }
    let sites = SITES.read().unwrap_or_else(PoisonError::into_inner);
    for site in sites.iter().filter_map(Weak::upgrade) {
        let (settled, goes_on) = site.settle(now.as_secs());
        settled.into_iter().for_each(|(message, suppressed)| tell_suppressed(message, suppressed, &*site, now));
        if goes_on {
            SUPPRESSING.store(true, Ordering::Relaxed);
        }
    }
}

/// Waits until what was logged is written, or the time is over. Call before the process ends.
pub fn flush(timeout: Duration) -> bool {
    LOG.get().is_none_or(|log| log.writer.flush(timeout))
}

#[track_caller]
fn admit(message: &'static Message, about: &dyn About, facts: fmt::Arguments<'_>) {
    if !is_wanted(message, about) {
        return;
    }
    let now = now();
    let gate = about.site().and_then(|site| site.gate(message)).unwrap_or(&message.gate);
    match gate.admit(now.as_secs()) {
        Admission::Suppress => SUPPRESSING.store(true, Ordering::Relaxed),
        Admission::Pass { suppressed } => {
            if suppressed > 0 {
                tell_suppressed(message, suppressed, about, now);
            }
            write(&line(message, about, facts, now), about);
        }
    }
}

/// In the log that they are missing from.
fn tell_suppressed(message: &Message, suppressed: u64, about: &dyn About, now: Duration) {
    let about: &dyn About = about.site().map_or(&Nothing, |site| site);
    write(&line(&message::SUPPRESSED, about, format_args!("{} {suppressed} times: {}", message.id, message.sentence), now), about);
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn write(line: &[u8], about: &dyn About) {
    if let Some(file) = about.site().and_then(SiteLog::file) {
        // What becomes of it is said in the server's log.
        file.write_batch(line);
        return;
    }
    let Some(log) = LOG.get() else {
        // Nobody is served yet; if standard error is closed nobody wants to know.
        let _ = io::stderr().write_all(line);
        return;
    };
    let lost = log.lost.swap(0, Ordering::Relaxed);
    let lines = if lost == 0 { line.to_vec() } else { [lost_line(lost).as_slice(), line].concat() };
    if !log.writer.push(lines) {
        log.lost.fetch_add(lost + 1, Ordering::Relaxed);
    }
}

fn lost_line(lost: u64) -> Vec<u8> {
    line(&message::ERROR_LOG_DROPPED, &Nothing, format_args!("{lost} lines"), now())
}

/// The message's id and sentence, then the facts.
#[track_caller]
fn line(message: &Message, about: &dyn About, facts: fmt::Arguments<'_>, now: Duration) -> Vec<u8> {
    let text = |out: &mut Vec<u8>| {
        // Writing to memory cannot fail.
        let _ = write!(out, "{}: {}", message.id, message.sentence);
        append_facts(facts, out);
    };
    let level_number = message.level.number();
    let place = Location::caller();
    lines(&Occasion { module: message.area, level: message.level.as_str(), level_number, about, now, place, message: &text })
}

/// The lines that its connection and its request have once, then the message's.
fn lines(occasion: &Occasion<'_>) -> Vec<u8> {
    let is_news = |id: Option<&LogId>| id.is_some_and(LogId::mark);
    let (of_connection, of_request) = (is_news(occasion.about.connection()), is_news(occasion.about.request()));
    let mut out = Vec::with_capacity(256);
    let of_server = FORMATS.read().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(formats) = occasion.about.site().map(|site| &site.formats).or(of_server.as_deref()) else {
        append_default(occasion, &mut out);
        return out;
    };
    let connection = Occasion { about: &ConnectionOf(occasion.about), ..*occasion };
    formats.connection.iter().filter(|_| of_connection).for_each(|format| append_line(format, &connection, &mut out));
    formats.request.iter().filter(|_| of_request).for_each(|format| append_line(format, occasion, &mut out));
    match &formats.message {
        Some(format) => append_line(format, occasion, &mut out),
        None => append_default(occasion, &mut out),
    }
    out
}

fn append_line(format: &Format, occasion: &Occasion<'_>, out: &mut Vec<u8>) {
    if format.write(occasion, out) {
        out.push(b'\n');
    }
}

/// `[Sat Nov 21 09:12:12.123456 2026] [core:notice] [pid 123:tid w0] [client 1.2.3.4:5] SK0101: sentence: facts`
fn append_default(occasion: &Occasion<'_>, out: &mut Vec<u8>) {
    append_time(occasion.now, out);
    let thread = std::thread::current();
    // Writing to memory cannot fail; neither may the thread's name or the address break the line.
    let _ = write!(out, " [{}:{}] [pid {}:tid ", occasion.module, occasion.level, std::process::id());
    append_escaped(thread.name().unwrap_or("-").as_bytes(), out);
    out.extend_from_slice(b"] ");
    if let Some(client) = occasion.about.tell(Asked::Client) {
        out.extend_from_slice(b"[client ");
        out.extend_from_slice(&client);
        out.extend_from_slice(b"] ");
    }
    (occasion.message)(out);
    out.push(b'\n');
}

fn append_time(now: Duration, out: &mut Vec<u8>) {
    let unix_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let civil = Civil::at(unix_s, TimeZone::local().offset_s(unix_s));
    out.push(b'[');
    let fraction = |out: &mut Vec<u8>| {
        out.push(b'.');
        append_padded(now.subsec_micros(), 6, out);
    };
    append_civil(&civil, fraction, out);
    out.push(b']');
}

/// As C's `ctime` writes it, with a fraction behind the seconds.
fn append_civil(civil: &Civil, fraction: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let (weekday, month) = (&civil.weekday_name()[..3], &civil.month_name()[..3]);
    let _ = write!(out, "{weekday} {month} {:02} {:02}:{:02}:{:02}", civil.day, civil.hour, civil.minute, civil.second);
    fraction(out);
    let _ = write!(out, " {}", civil.year);
}

fn append_facts(facts: fmt::Arguments<'_>, out: &mut Vec<u8>) {
    let before = out.len();
    out.extend_from_slice(b": ");
    if !append_text(facts, out) {
        out.truncate(before);
    }
}

/// Bounded and readable. Whether there was any.
fn append_text(facts: fmt::Arguments<'_>, out: &mut Vec<u8>) -> bool {
    let mut text = Bounded(Vec::new());
    // An error means that the text is longer than its bound; what fits is kept.
    let whole = fmt::write(&mut text, facts).is_ok();
    append_readable(&text.0, out);
    if !whole {
        out.extend_from_slice(b"...");
    }
    !text.0.is_empty()
}

/// Escaped, except that quotes stay: messages quote what they talk about, and no field ends at a quote here.
fn append_readable(text: &[u8], out: &mut Vec<u8>) {
    for part in text.split_inclusive(|byte| *byte == b'"') {
        match part.strip_suffix(b"\"") {
            Some(before) => {
                append_escaped(before, out);
                out.push(b'"');
            }
            None => append_escaped(part, out),
        }
    }
}

struct Bounded(Vec<u8>);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = FACTS_BYTES_MAX - self.0.len().min(FACTS_BYTES_MAX);
        let fits = text.as_bytes().get(..room).unwrap_or(text.as_bytes());
        self.0.extend_from_slice(fits);
        if fits.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

fn open(target: &ErrorLogTarget) -> io::Result<Box<dyn Outlet>> {
    Ok(match target {
        ErrorLogTarget::Stderr => Box::new(StreamOutlet::new(io::stderr())),
        ErrorLogTarget::File(path) => Box::new(StreamOutlet::new(open_file(path)?)),
        ErrorLogTarget::Program(command) => Box::new(Program::start(command)?),
        ErrorLogTarget::Syslog(syslog) => Box::new(SyslogOutlet::new(syslog.clone())),
    })
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

/// Writes to a stream; when that fails it goes on and says later how much is missing.
struct StreamOutlet<W> {
    stream: W,
    lost: u64,
}

impl<W> StreamOutlet<W> {
    fn new(stream: W) -> Self {
        StreamOutlet { stream, lost: 0 }
    }
}

impl<W: Write + Send> Outlet for StreamOutlet<W> {
    fn write_lines(&mut self, lines: &[u8]) -> Result<(), Stalled> {
        let result = if self.lost == 0 {
            self.stream.write_all(lines)
        } else {
            // The last line may have broken off in its middle.
            self.stream.write_all(&[b"\n", lost_line(self.lost).as_slice(), lines].concat())
        };
        match result {
            Ok(()) => self.lost = 0,
            Err(_) => self.lost += lines.iter().filter(|byte| **byte == b'\n').count() as u64,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

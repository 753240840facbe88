//! The error log: one line per message, in the format of Apache 2.4 or that of an `ErrorLogFormat`.
//!
//! Called by: all crates, [`log`] with a row of [`crate::message`]; `server` calls [`init`] at
//! start, [`reopen`] on USR1, [`tick`] each second, and [`flush`] at the end. Before [`init`] lines
//! go straight to standard error.
//! Caveat: it is called when something is already wrong, so it must neither block, nor panic, nor
//! flood: lines go through a bounded queue to a thread, facts are escaped, and a message that comes
//! too often is suppressed and counted.

mod format;
mod log_context;
mod nginx_line;
mod render;
mod site;
mod target;
mod text;

pub use crate::syslog::Syslog;
pub use format::{Format, Formats};
use log_context::ConnectionContext;
pub use log_context::{ContextItem, LogContext, LogId, ProcessContext, WithUpstream};
pub use site::{Output, SiteLog};
pub use target::ErrorLogTarget;

use crate::access_log::{LOG_MODE, Program};
use crate::escape::append_escaped;
use crate::flood_gate::Admission;
use crate::httpd_message::HttpdMessage;
use crate::local_time::{Civil, TimeZone, append_padded};
use crate::message::{self, Level, Message};
use crate::queue_writer::{Outlet, QueueWriter, Stalled};
use crate::report;
use crate::syslog::SyslogOutlet;
use render::Occasion;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::panic::Location;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use text::{FACTS_BYTES_MAX, append_civil, append_errno, append_text};

const QUEUED_BYTES_MAX: usize = 1 << 20;

static LOG: OnceLock<ErrorLog> = OnceLock::new();
/// Number of the level `crit`.
const CRITICAL: u8 = 2;

static LEVEL: AtomicU8 = AtomicU8::new(Level::Notice as u8);
/// Areas with a level of their own.
static AREAS: RwLock<Vec<(&str, Level)>> = RwLock::new(Vec::new());
/// `None`: the default format.
static FORMATS: RwLock<Option<Arc<Formats>>> = RwLock::new(None);
/// True if lines that Apache would write are written in its words.
static SPEAKS_HTTPD: AtomicBool = AtomicBool::new(false);
/// True if lines have nginx's form.
static SPEAKS_NGINX: AtomicBool = AtomicBool::new(false);
/// Logs that get the process's lines. `None`: its target alone.
static OUTPUTS: RwLock<Option<Arc<Vec<Output>>>> = RwLock::new(None);
/// Sites with flood gates of their own.
static SITES: RwLock<Vec<Weak<SiteLog>>> = RwLock::new(Vec::new());
/// True if some message may have been suppressed since [`tick`] looked.
static SUPPRESSING: AtomicBool = AtomicBool::new(false);

struct ErrorLog {
    writer: QueueWriter,
    target: Mutex<ErrorLogTarget>,
    /// Lines that the queue had no room for.
    lost: AtomicU64,
}

/// Starts the log and its thread. A second call changes target and level. On failure nothing
/// changes.
pub fn init(target: &ErrorLogTarget, level: Level) -> io::Result<()> {
    let outlet = open(target)?;
    report::set(log);
    if LOG.get().is_none() {
        let writer = QueueWriter::spawn(
            "error-log",
            Box::new(StreamOutlet::new(io::stderr())),
            QUEUED_BYTES_MAX,
        )?;
        let _ = LOG.set(ErrorLog {
            writer,
            target: Mutex::new(ErrorLogTarget::Stderr),
            lost: AtomicU64::new(0),
        });
    }
    if let Some(log) = LOG.get() {
        log.writer.replace(outlet);
        log.target
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(target);
    }
    set_level(level);
    Ok(())
}

/// Opens the file again (rotation). On failure the old file stays in use.
pub fn reopen() -> io::Result<()> {
    let Some(log) = LOG.get() else { return Ok(()) };
    let target = log
        .target
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
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

/// Apache's words for lines that it has: where the configuration is Apache's.
pub fn set_httpd(speaks_httpd: bool) {
    SPEAKS_HTTPD.store(speaks_httpd, Ordering::Relaxed);
}

pub fn speaks_httpd() -> bool {
    SPEAKS_HTTPD.load(Ordering::Relaxed)
}

/// nginx's form of lines, and its words where it has some: where the configuration is nginx's.
pub fn set_nginx(speaks_nginx: bool) {
    SPEAKS_NGINX.store(speaks_nginx, Ordering::Relaxed);
}

pub fn speaks_nginx() -> bool {
    SPEAKS_NGINX.load(Ordering::Relaxed)
}

/// The shapes of lines from now on.
pub fn set_formats(formats: &Formats) {
    let formats = (*formats != Formats::default()).then(|| Arc::new(formats.clone()));
    *FORMATS.write().unwrap_or_else(PoisonError::into_inner) = formats;
}

/// Sets the logs that get the process's lines; none: its target does.
pub fn set_outputs(outputs: &Arc<Vec<Output>>) {
    let outputs = Some(Arc::clone(outputs)).filter(|outputs| !outputs.is_empty());
    *OUTPUTS.write().unwrap_or_else(PoisonError::into_inner) = outputs;
}

/// The sites whose logs [`tick`] looks after from now on.
pub fn set_sites<'s>(sites: impl Iterator<Item = &'s Arc<SiteLog>>) {
    *SITES.write().unwrap_or_else(PoisonError::into_inner) = sites.map(Arc::downgrade).collect();
}

/// True if a line of that area and level would be written.
pub fn is_wanted(area: &str, level: Level, context: &dyn LogContext) -> bool {
    if let Some(site) = context.site() {
        return site.wants(area, level);
    }
    let areas = AREAS.read().unwrap_or_else(PoisonError::into_inner);
    match areas.iter().find(|(name, _)| *name == area) {
        Some((_, own)) => level <= *own,
        None => enabled(level),
    }
}

/// Logs a trace line of a module. It passes no flood gate, because traces are wanted complete.
#[track_caller]
pub fn trace(module: &str, level: u8, context: &dyn LogContext, facts: fmt::Arguments<'_>) {
    let message = |out: &mut Vec<u8>| _ = append_text(facts, out);
    let level_number = Level::Debug.number().saturating_add(level);
    let (level, place) = (format!("trace{level}"), Location::caller());
    let kind = Level::Debug;
    let occasion = Occasion {
        module,
        level: &level,
        level_number,
        context,
        now: now(),
        place,
        message: &message,
        errno: None,
        adds_referer: false,
    };
    write(&lines(&occasion), kind.number(), context);
}

/// Logs a line that the operator has configured (mod_log_debug).
#[track_caller]
pub fn note(module: &str, level: Level, context: &dyn LogContext, facts: fmt::Arguments<'_>) {
    let message = |out: &mut Vec<u8>| _ = append_text(facts, out);
    let occasion = Occasion {
        module,
        level: level.as_str(),
        level_number: level.number(),
        context,
        now: now(),
        place: Location::caller(),
        message: &message,
        errno: None,
        adds_referer: false,
    };
    write(&lines(&occasion), level.number(), context);
}

/// True if a message of that level about the process would be written.
pub fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

/// Writes one line: the message's sentence, then the facts (may be empty).
#[track_caller]
pub fn log(message: &'static Message, facts: fmt::Arguments<'_>) {
    admit(message, &ProcessContext, facts);
}

/// The same with the client's address, where no more is known.
#[track_caller]
pub fn log_client(message: &'static Message, client: SocketAddr, facts: fmt::Arguments<'_>) {
    admit(message, &client, facts);
}

/// The same about a connection or a request.
#[track_caller]
pub fn log_about(message: &'static Message, context: &dyn LogContext, facts: fmt::Arguments<'_>) {
    admit(message, context, facts);
}

/// The same in the words of Apache, whose number stands in the row and whose text is `text`;
/// `errno`: why, where the system said so.
#[track_caller]
pub fn log_httpd(
    message: &'static HttpdMessage,
    errno: Option<i32>,
    context: &dyn LogContext,
    text: fmt::Arguments<'_>,
) {
    if !is_wanted(message.module, message.level.folded(), context) {
        return;
    }
    let now = now();
    if passes(message.counts_as, context, now) {
        let line = httpd_line(message, errno, context, text, now);
        write(&line, message.level as u8, context);
    }
}

/// The same in the words of nginx, at a level that the configuration chooses.
#[track_caller]
pub fn log_nginx(
    message: &'static Message,
    level: Level,
    context: &dyn LogContext,
    text: fmt::Arguments<'_>,
) {
    let name = (level.as_str(), level.number());
    log_nginx_as((level, name), message, context, text);
}

/// The same at `crit`, which counts as an error where there is no level above that.
#[track_caller]
pub fn log_nginx_critical(
    message: &'static Message,
    context: &dyn LogContext,
    text: fmt::Arguments<'_>,
) {
    log_nginx_as((Level::Error, ("crit", CRITICAL)), message, context, text);
}

/// The same at `emerg`, which counts as an error, too.
#[track_caller]
pub fn log_nginx_emergency(
    message: &'static Message,
    context: &dyn LogContext,
    text: fmt::Arguments<'_>,
) {
    log_nginx_as((Level::Error, ("emerg", 0)), message, context, text);
}

#[track_caller]
fn log_nginx_as(
    (level, (name, level_number)): (Level, (&str, u8)),
    message: &'static Message,
    context: &dyn LogContext,
    text: fmt::Arguments<'_>,
) {
    if !is_wanted(message.area, level, context) {
        return;
    }
    let now = now();
    if !passes(message, context, now) {
        return;
    }
    let written = |out: &mut Vec<u8>| _ = append_text(text, out);
    let line = lines(&Occasion {
        module: message.area,
        level: name,
        level_number,
        context,
        now,
        place: Location::caller(),
        message: &written,
        errno: None,
        adds_referer: false,
    });
    write(&line, level_number, context);
}

/// Reports messages suppressed in past seconds. Call each second; costs one load if there is
/// nothing.
pub fn tick() {
    if !SUPPRESSING.swap(false, Ordering::Relaxed) {
        return;
    }
    let now = now();
    for message in message::ALL {
        let suppressed = message.gate.settle(now.as_secs());
        if suppressed > 0 {
            tell_suppressed(message, suppressed, &ProcessContext, now);
        }
        if message.gate.is_suppressing() {
            SUPPRESSING.store(true, Ordering::Relaxed);
        }
    }
    let sites = SITES.read().unwrap_or_else(PoisonError::into_inner);
    for site in sites.iter().filter_map(Weak::upgrade) {
        let (settled, goes_on) = site.settle(now.as_secs());
        settled
            .into_iter()
            .for_each(|(message, suppressed)| tell_suppressed(message, suppressed, &*site, now));
        if goes_on {
            SUPPRESSING.store(true, Ordering::Relaxed);
        }
    }
}

/// Waits until all lines are written, or the time is over. Call before the process ends.
pub fn flush(timeout: Duration) -> bool {
    LOG.get().is_none_or(|log| log.writer.flush(timeout))
}

#[track_caller]
fn admit(message: &'static Message, context: &dyn LogContext, facts: fmt::Arguments<'_>) {
    if !is_wanted(message.area, message.level, context) {
        return;
    }
    let now = now();
    if passes(message, context, now) {
        let line = line(message, context, facts, now);
        write(&line, message.level.number(), context);
    }
}

/// Returns true if the message is within its rate; first reports earlier suppressed ones.
fn passes(message: &'static Message, context: &dyn LogContext, now: Duration) -> bool {
    let gate = context
        .site()
        .and_then(|site| site.gate(message))
        .unwrap_or(&message.gate);
    match gate.admit(now.as_secs()) {
        Admission::Suppress => {
            SUPPRESSING.store(true, Ordering::Relaxed);
            false
        }
        Admission::Pass { suppressed } => {
            if suppressed > 0 {
                tell_suppressed(message, suppressed, context, now);
            }
            true
        }
    }
}

/// Reports suppressed messages, in the log that lacks them.
fn tell_suppressed(message: &Message, suppressed: u64, context: &dyn LogContext, now: Duration) {
    let context: &dyn LogContext = context.site().map_or(&ProcessContext, |site| site);
    write(
        &line(
            &message::SUPPRESSED,
            context,
            format_args!("{} {suppressed} times: {}", message.id, message.sentence),
            now,
        ),
        message::SUPPRESSED.level.number(),
        context,
    );
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

fn write(line: &[u8], level_number: u8, context: &dyn LogContext) {
    let site = context.site();
    if let Some(file) = site.and_then(SiteLog::file) {
        // Failures are reported in the server's log.
        file.write_batch(line);
        return;
    }
    if let Some(site) = site.filter(|site| !site.outputs.is_empty()) {
        return write_to_all(&site.outputs, line, level_number);
    }
    let of_process = OUTPUTS.read().unwrap_or_else(PoisonError::into_inner);
    match of_process.clone() {
        Some(outputs) => {
            // A failure of a log is a line, too.
            drop(of_process);
            write_to_all(&outputs, line, level_number);
        }
        None => write_to_target(line),
    }
}

/// Writes to the logs that take lines of the level.
fn write_to_all(outputs: &[Output], line: &[u8], level_number: u8) {
    for output in outputs.iter().filter(|output| output.takes(level_number)) {
        match output.file() {
            Some(file) => drop(file.write_batch(line)),
            None => write_to_target(line),
        }
    }
}

/// Writes to the process's target.
fn write_to_target(line: &[u8]) {
    let Some(log) = LOG.get() else {
        // No client is served yet; a closed standard error is ignored.
        let _ = io::stderr().write_all(line);
        return;
    };
    let lost = log.lost.swap(0, Ordering::Relaxed);
    let lines = if lost == 0 {
        line.to_vec()
    } else {
        [lost_line(lost).as_slice(), line].concat()
    };
    if !log.writer.push(lines) {
        log.lost.fetch_add(lost + 1, Ordering::Relaxed);
    }
}

fn lost_line(lost: u64) -> Vec<u8> {
    line(
        &message::ERROR_LOG_DROPPED,
        &ProcessContext,
        format_args!("{lost} lines"),
        now(),
    )
}

/// The message's id and sentence, then the facts.
#[track_caller]
fn line(
    message: &Message,
    context: &dyn LogContext,
    facts: fmt::Arguments<'_>,
    now: Duration,
) -> Vec<u8> {
    let text = |out: &mut Vec<u8>| {
        // Writing to memory cannot fail.
        let _ = write!(out, "{}: {}", message.id, message.sentence);
        append_facts(facts, out);
    };
    let level_number = message.level.number();
    let place = Location::caller();
    let (module, level) = (message.area, message.level.as_str());
    lines(&Occasion {
        module,
        level,
        level_number,
        context,
        now,
        place,
        message: &text,
        errno: None,
        adds_referer: false,
    })
}

/// Apache's number, where it has one, and its text.
#[track_caller]
fn httpd_line(
    message: &HttpdMessage,
    errno: Option<i32>,
    context: &dyn LogContext,
    text: fmt::Arguments<'_>,
    now: Duration,
) -> Vec<u8> {
    let written = |out: &mut Vec<u8>| {
        if !message.number.is_empty() {
            out.extend_from_slice(message.number.as_bytes());
            out.extend_from_slice(b": ");
        }
        append_text(text, out);
    };
    let (module, level, level_number) =
        (message.module, message.level.as_str(), message.level as u8);
    let place = Location::caller();
    lines(&Occasion {
        module,
        level,
        level_number,
        context,
        now,
        place,
        message: &written,
        errno,
        adds_referer: true,
    })
}

/// The lines that its connection and its request have once, then the message's.
fn lines(occasion: &Occasion<'_>) -> Vec<u8> {
    let is_news = |id: Option<&LogId>| id.is_some_and(LogId::mark);
    let (of_connection, of_request) = (
        is_news(occasion.context.connection()),
        is_news(occasion.context.request()),
    );
    let mut out = Vec::with_capacity(256);
    let of_server = FORMATS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let Some(formats) = occasion
        .context
        .site()
        .map(|site| &site.formats)
        .or(of_server.as_deref())
    else {
        append_default(occasion, &mut out);
        return out;
    };
    let connection = Occasion {
        context: &ConnectionContext(occasion.context),
        ..*occasion
    };
    formats
        .connection
        .iter()
        .filter(|_| of_connection)
        .for_each(|format| append_line(format, &connection, &mut out));
    formats
        .request
        .iter()
        .filter(|_| of_request)
        .for_each(|format| append_line(format, occasion, &mut out));
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

/// `[Sat Nov 21 09:12:12.123456 2026] [core:notice] [pid 123:tid w0] [client 1.2.3.4:5] SK0101:
/// sentence: facts`
fn append_default(occasion: &Occasion<'_>, out: &mut Vec<u8>) {
    if speaks_nginx() {
        return nginx_line::append(occasion, out);
    }
    append_time(occasion.now, out);
    let thread = std::thread::current();
    // Writing to memory cannot fail; neither may the thread's name or the address break the line.
    let _ = write!(
        out,
        " [{}:{}] [pid {}:tid ",
        occasion.module,
        occasion.level,
        std::process::id()
    );
    match speaks_httpd() {
        // A number, as log watchers expect it.
        true => drop(write!(out, "{}", render::thread_id())),
        false => append_escaped(thread.name().unwrap_or("-").as_bytes(), out),
    }
    out.extend_from_slice(b"] ");
    if let Some(errno) = occasion.errno {
        append_errno(errno, out);
        out.extend_from_slice(b": ");
    }
    if let Some(client) = occasion.context.context_item(ContextItem::Client) {
        out.extend_from_slice(b"[client ");
        out.extend_from_slice(&client);
        out.extend_from_slice(b"] ");
    }
    (occasion.message)(out);
    if let Some(referer) = occasion
        .context
        .context_item(ContextItem::Field("Referer"))
        .filter(|_| occasion.adds_referer)
    {
        out.extend_from_slice(b", referer: ");
        append_escaped(referer.get(..FACTS_BYTES_MAX).unwrap_or(&referer), out);
    }
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

fn append_facts(facts: fmt::Arguments<'_>, out: &mut Vec<u8>) {
    let before = out.len();
    out.extend_from_slice(b": ");
    if !append_text(facts, out) {
        out.truncate(before);
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
    saker_net::privileged::open_append(path, LOG_MODE)
}

/// Writes to a stream; after a failure it continues, and reports later how much is missing.
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
            self.stream
                .write_all(&[b"\n", lost_line(self.lost).as_slice(), lines].concat())
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

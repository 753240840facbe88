//! Lines of the error log before there is a server, or by a process that is none: in the log of `-e`,
//! in nginx's form.
//!
//! Called by: the commands of nginx.
//! Caveat: a log that can't be opened is told on standard error, and left alone.

use crate::source::NginxInput;
use saker_nginx::Loaded;
use saker_telemetry::{
    error_log::ErrorLogTarget,
    local_time::{Civil, TimeZone, append_strftime},
};
use std::{
    fmt::Display,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Returns the file of `-e`.
fn path(input: &NginxInput) -> Option<PathBuf> {
    let log = input.error_log.as_ref()?;
    let prefix = input.prefix.as_ref();
    (log != Path::new("stderr")).then(|| prefix.map_or(log.clone(), |prefix| prefix.join(log)))
}

/// Creates the file of `-e`, as nginx does before it reads anything.
pub fn open(input: &NginxInput) {
    path(input).iter().for_each(|path| drop(open_file(path)));
}

fn open_file(path: &Path) -> Option<File> {
    let opened = File::options().append(true).create(true).open(path);
    opened
        .map_err(|error| {
            let (shown, reason) = (path.display(), reason(&error));
            eprintln!(
                "nginx: [alert] could not open error log file: open() \"{shown}\" failed ({reason})"
            );
        })
        .ok()
}

/// Appends lines to the log of `-e`. They begin with their level.
pub fn note(input: &NginxInput, lines: &[impl Display]) {
    if let Some(path) = path(input).filter(|_| !lines.is_empty()) {
        append(&path, lines);
    }
}

/// Appends lines to a log.
pub fn append(path: &Path, lines: &[impl Display]) {
    let Some(mut file) = open_file(path) else {
        return;
    };
    let (time, id) = (time_now(), std::process::id());
    for line in lines {
        let line = line.to_string();
        let (level, text) = line.split_once(' ').unwrap_or(("[emerg]", &line));
        let _ = writeln!(file, "{time} {level} {id}#{id}: {text}");
    }
}

/// Returns the file of the configuration's error log.
pub fn of_configuration(loaded: &Loaded) -> Option<PathBuf> {
    match &loaded.model.server.error_log.target {
        ErrorLogTarget::File(path) => Some(path.clone()),
        _ => None,
    }
}

/// The line that says which process sends a signal: in the log of `-e`, or on standard error.
pub fn note_signaller(input: &NginxInput) {
    let text = "signal process started";
    match path(input) {
        Some(path) => append(&path, &[format!("[notice] {text}")]),
        None => {
            let id = std::process::id();
            eprintln!("{} [notice] {id}#{id}: {text}", time_now());
        }
    }
}

/// The local time, as lines of the log begin with it.
fn time_now() -> String {
    let now_s = saker_net::clock::realtime_s();
    let civil = Civil::at(now_s, TimeZone::local().offset_s(now_s));
    let mut time = Vec::new();
    append_strftime("%Y/%m/%d %H:%M:%S", now_s, &civil, "", &mut time);
    String::from_utf8_lossy(&time).into_owned()
}

/// An error of the system in nginx's form: its number, and its text.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match error.raw_os_error() {
        Some(number) => format!("{number}: {text}"),
        None => text.to_owned(),
    }
}

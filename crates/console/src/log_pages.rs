//! Pages of the logs, and the reference of messages that they link to.
//!
//! Called by: `actions`.
//! Caveat: lines have text of clients in them, which is hostile; templates escape it.
//! Out of scope: reading the files (`log_files`).

use crate::{
    Backend,
    exchange::{Form, Response},
    log_files::{self, Segment},
    pages::{Shell, respond},
};
use askama::Template;
use saker_telemetry::{Message, message};

#[derive(Template)]
#[template(path = "logs.html")]
struct LogsPage<'p> {
    shell: Shell,
    files: Vec<(String, String)>,
    file: &'p str,
    part: &'p str,
    error: Option<String>,
    lines: Vec<Vec<Segment>>,
}

/// The list of log files, and the last lines of one.
pub fn logs(backend: &dyn Backend, shell: Shell, query: &Form) -> Response {
    let files: Vec<(String, String)> = backend
        .log_files()
        .iter()
        .map(|file| (log_files::shown(file), file.summary.clone()))
        .collect();
    let file = match (query.get("file"), files.first()) {
        ("", Some((first, _))) => first.clone(),
        (file, _) => file.to_owned(),
    };
    let part = query.get("part");
    let read = match file.as_str() {
        "" => Ok(Vec::new()),
        file => log_files::lines(backend, file, part),
    };
    let (lines, error) = match read {
        Ok(lines) => (lines, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let page = LogsPage {
        shell,
        files,
        file: &file,
        part,
        lines: lines.iter().map(|line| log_files::segments(line)).collect(),
        error,
    };
    respond(if page.error.is_some() { 404 } else { 200 }, &page)
}

#[derive(Template)]
#[template(path = "messages.html")]
struct MessagesPage {
    shell: Shell,
    messages: &'static [&'static Message],
}

/// All messages, with what to do about them.
pub fn messages(shell: Shell) -> Response {
    let messages = message::ALL;
    respond(200, &MessagesPage { shell, messages })
}

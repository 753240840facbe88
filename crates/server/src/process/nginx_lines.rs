//! Lines of the error log about signals, and about the life of the server, in nginx's words: tools and
//! scripts for nginx wait for them.
//!
//! Called by: `signals`, and the supervisor, under an nginx configuration.
//! Caveat: workers are threads, so no line names the process of one. The sender of a signal is not
//! known.
//! Out of scope: lines about requests (`saker-nginx`).

use saker_telemetry::{
    error_log::{self, ProcessContext},
    message::{self, Level},
};

/// Notes what a signal has begun.
pub fn signal(number: u8, name: &str, what: &str) {
    note(format_args!("signal {number} ({name}) received, {what}"));
}

/// Says why a configuration was refused: each error in nginx's form. `text`: rendered diagnostics, or
/// lines of their own.
pub fn refused(text: &str) {
    let mut errors: Vec<String> = text.lines().filter_map(of_diagnostic).collect();
    if errors.is_empty() {
        errors.extend(text.lines().map(str::to_owned));
    }
    for error in errors {
        error_log::log_nginx_emergency(
            &message::NGINX_PROCESS,
            &ProcessContext,
            format_args!("{error}"),
        );
    }
}

/// `FILE:LINE:COLUMN: error: MESSAGE` becomes `MESSAGE in FILE:LINE`.
fn of_diagnostic(line: &str) -> Option<String> {
    let (place, message) = line.split_once(": error: ")?;
    let (place, _) = place.rsplit_once(':')?;
    Some(format!("{message} in {place}"))
}

/// Notes a state of the server.
pub fn note(text: std::fmt::Arguments<'_>) {
    error_log::log_nginx(
        &message::NGINX_PROCESS,
        Level::Notice,
        &ProcessContext,
        text,
    );
}

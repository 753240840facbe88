//! Problems of the logs themselves, on their way to the error log.
//!
//! Called by: access logs and log programs, which the error log is built on and which therefore
//! can't call it. `error_log::init` sets the function; before that, problems go to standard error.

use crate::message::Message;
use std::{
    fmt,
    io::{self, Write as _},
    sync::OnceLock,
};

pub type Report = fn(&'static Message, fmt::Arguments<'_>);

static REPORT: OnceLock<Report> = OnceLock::new();

/// Sets where problems go; only the first call counts.
pub fn set(report: Report) {
    REPORT.get_or_init(|| report);
}

/// Logs one problem.
pub fn log(message: &'static Message, facts: fmt::Arguments<'_>) {
    match REPORT.get() {
        Some(report) => report(message, facts),
        None => {
            // A closed standard error is ignored: there is no other channel.
            let _ = writeln!(
                io::stderr(),
                "{}: {}: {facts}",
                message.id,
                message.sentence
            );
        }
    }
}

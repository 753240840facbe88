//! Data of an exchange for its log lines: the request before internal redirects, its error
//! document, and the decisions of rules.
//!
//! Called by: `respond`, and the rules of front ends.
//! Caveat: these are copies, because internal redirects and error documents change the request.
//! Out of scope: the facts that logs read (`log_facts`).

use crate::Environment;
use saker_telemetry::message::Level;
use saker_telemetry::{
    error_log::{self, LogContext},
    httpd_message::HttpdMessage,
    message::Message,
};

/// The request as it was before the first internal redirect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginalRequest {
    pub path: Box<[u8]>,
    /// The query after the rules that ran before the redirect.
    pub query: Option<Box<[u8]>>,
    pub environment: Environment,
}

/// The error document that replaced a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorDocument {
    /// The error; a program may have answered with another status.
    pub status: u16,
    pub path: Box<[u8]>,
    pub query: Option<Box<[u8]>>,
    pub file: Option<Box<[u8]>>,
    pub environment: Environment,
}

/// Decisions of rules about the log lines of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRules {
    /// Results of log conditions, by index.
    pub decisions: Vec<bool>,
    /// Omits the time to the first byte.
    pub hides_first_byte: bool,
    /// The page of an error is got by GET, whatever the request's method was.
    pub gets_page: bool,
    /// Logs the canonical name of the site instead of the requested host.
    pub is_canonical: bool,
}

/// The name of the note with the path of a log file, for logs whose paths rules make. `number`: that
/// of the log's decision.
pub fn log_path_note(number: usize) -> Box<str> {
    format!("log-path/{number}").into()
}

/// A line of the error log that belongs to an outcome.
#[derive(Clone, Debug)]
pub enum OutcomeLine {
    Saker(&'static Message, Box<str>),
    Httpd(&'static HttpdMessage, Box<str>),
    /// In nginx's words.
    Nginx(&'static Message, Level, Box<str>),
}

impl OutcomeLine {
    /// Writes the line about a request.
    pub fn log(&self, context: &dyn LogContext) {
        match self {
            OutcomeLine::Saker(message, text) => {
                error_log::log_about(message, context, format_args!("{text}"));
            }
            OutcomeLine::Httpd(message, text) => {
                error_log::log_httpd(message, None, context, format_args!("{text}"));
            }
            OutcomeLine::Nginx(message, level, text) => {
                error_log::log_nginx(message, *level, context, format_args!("{text}"));
            }
        }
    }
}

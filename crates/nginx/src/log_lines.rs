//! Lines of the error log that nginx writes, in its words: tools that watch its logs know them.
//!
//! Called by: everything that refuses, or does not find.
//! Caveat: a line that belongs to an answer which may be kept is repeated with it, so its text
//! depends on what the answer depends on.
//! Out of scope: the form of lines, which the error log gives them.

use crate::request::Request;
use saker_pipeline::OutcomeLine;
use saker_telemetry::{
    error_log,
    message::{self, Level, Message},
};

/// Text of a client between quotes. Quotes in it are escaped, which nginx leaves as they are, so that
/// no path or name looks like the rest of a line to tools that read addresses there.
pub fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace('"', "\\x22")
}

impl Request<'_> {
    /// Logs a line that goes with the answer.
    pub fn log(&mut self, message: &'static Message, level: Level, text: String) {
        let exchange = &*self.exchange;
        if error_log::is_wanted(message.area, level, exchange) {
            exchange.log_outcome(OutcomeLine::Nginx(message, level, text.into()));
        }
    }

    /// Logs that a file is missing, unless `log_not_found off` says otherwise.
    pub fn log_missing(&mut self, text: impl FnOnce() -> String) {
        if self.state.location.conf.clients.log_not_found != Some(false) {
            self.log(&message::NGINX_FILE_MISSING, Level::Error, text());
        }
    }

    /// Logs a step of rewriting, if `rewrite_log on` asks for it.
    pub fn log_rewrite(&mut self, text: impl FnOnce() -> String) {
        if self.state.location.conf.clients.rewrite_log == Some(true) {
            self.log(&message::NGINX_REWRITE, Level::Notice, text());
        }
    }

    /// Logs that rewriting or redirecting does not end.
    pub fn log_cycle(&mut self, step: &str) {
        let path = shown(&self.exchange.path);
        let text = format!("rewrite or internal redirection cycle while {step} \"{path}\"");
        self.log(&message::NGINX_CYCLE, Level::Error, text);
    }

    /// Logs that a variable has no value, unless `uninitialized_variable_warn off` says otherwise.
    pub fn log_unset(&mut self, name: &str) {
        if self.state.location.conf.clients.warns_of_unset != Some(false) {
            let text = format!("using uninitialized \"{name}\" variable");
            self.log(&message::NGINX_VARIABLE_UNSET, Level::Warn, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_quotes() {
        let path = b"/x\" failed, client: 192.0.2.1, request: \"";
        assert!(!shown(path).contains('"'));
    }
}

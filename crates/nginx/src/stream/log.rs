//! Lines about sessions in access logs.
//!
//! Called by: the rules, when a session has ended.
//! Caveat: what clients choose (names in hellos) cannot begin another line, unless `escape=none`
//! says so.

use super::Evaluation;
use saker_nginx_model::stream::StreamLog;
use saker_telemetry::access_log::Escapes;

impl Evaluation<'_> {
    /// Returns a line with its end.
    pub fn line(&mut self, log: &StreamLog) -> Vec<u8> {
        let escape = log.escape;
        let mut line = self.text_with(&log.text, |value, out| match (value, escape) {
            (None, Escapes::Hexadecimal) => out.push(b'-'),
            (None, _) => {}
            (Some(value), escapes) => escapes.append(value, out),
        });
        line.push(b'\n');
        line
    }
}

//! A host's limits on sizes and times of requests: LimitRequest*, Timeout, KeepAlive*,
//! RequestReadTimeout.
//!
//! Difficulty: which host it is. The line, the fields and the time for them are those of the first
//! host of the address (over HTTP/2 and TLS of the host that the handshake was for), because no
//! other is known yet; bodies and what comes after a response are those of the host that was asked
//! (httpd 2.4, as it behaves). The model keeps both apart; here each host gets its numbers.

use crate::{
    arguments::{set_flag, texts},
    modules::reqtimeout::ReadTimeout,
    reading::ServerSet,
};
use saker_apache_syntax::Node;
use saker_config::model::{Limits, RepairedHeads};
use std::path::Path;

/// Whatever is said, no head is larger.
const HEAD_BYTES_MAX: u64 = 16 << 20;

/// LimitRequestLine and LimitRequestFieldSize where nothing is said.
const LINE_BYTES_MAX: u64 = 8190;

/// `None`: not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsDraft {
    pub timeout_s: Option<u64>,
    keep_alive: Option<bool>,
    keep_alive_timeout_ms: Option<u64>,
    keep_alive_requests_max: Option<u64>,
    request_fields_max: Option<u64>,
    request_field_bytes_max: Option<u64>,
    request_line_bytes_max: Option<u64>,
    /// HttpProtocolOptions Unsafe, and Strict.
    pub is_unsafe: Option<bool>,
    read_timeout: ReadTimeout,
}

impl LimitsDraft {
    /// A host's, with the server's where it says nothing.
    pub fn over(&self, server: &LimitsDraft) -> LimitsDraft {
        LimitsDraft {
            timeout_s: self.timeout_s.or(server.timeout_s),
            keep_alive: self.keep_alive.or(server.keep_alive),
            keep_alive_timeout_ms: self.keep_alive_timeout_ms.or(server.keep_alive_timeout_ms),
            keep_alive_requests_max: self
                .keep_alive_requests_max
                .or(server.keep_alive_requests_max),
            request_fields_max: self.request_fields_max.or(server.request_fields_max),
            request_field_bytes_max: self
                .request_field_bytes_max
                .or(server.request_field_bytes_max),
            request_line_bytes_max: self
                .request_line_bytes_max
                .or(server.request_line_bytes_max),
            is_unsafe: self.is_unsafe.or(server.is_unsafe),
            read_timeout: self.read_timeout.over(&server.read_timeout),
        }
    }

    pub fn keep_alive_timeout_ms(&self) -> u64 {
        self.keep_alive_timeout_ms.unwrap_or(5_000)
    }

    pub fn apply(&self, limits: &mut Limits) {
        if let Some(seconds) = self.timeout_s {
            let timeout_ms = seconds.saturating_mul(1000);
            (limits.body_timeout_ms, limits.write_timeout_ms) = (timeout_ms, timeout_ms);
            // Apache waits that long for each part of a handshake.
            if timeout_ms > 0 {
                limits.tls_handshake_timeout_ms = limits.tls_handshake_timeout_ms.min(timeout_ms);
            }
        }
        limits.keep_alive_timeout_ms = self.keep_alive_timeout_ms();
        limits.requests_per_connection_max = match self.keep_alive {
            Some(false) => 1,
            _ => self.keep_alive_requests_max.unwrap_or(100),
        };
        limits.fields_are_bad_requests = true;
        limits.counts_as_mod_http2 = true;
        limits.authority_replaces_host = true;
        limits.repaired_heads = match self.is_unsafe {
            Some(true) => RepairedHeads::Unsafe,
            _ => RepairedHeads::Folded,
        };
        limits.header_count_max = match self.request_fields_max {
            // No limit: that of the head holds.
            Some(0) => HEAD_BYTES_MAX,
            count => count.unwrap_or(100),
        };
        let line = self
            .request_line_bytes_max
            .unwrap_or(LINE_BYTES_MAX)
            .min(HEAD_BYTES_MAX);
        let field = self
            .request_field_bytes_max
            .unwrap_or(LINE_BYTES_MAX)
            .min(HEAD_BYTES_MAX);
        // One more passes: Apache counts what is left of the line break.
        (limits.request_line_bytes_max, limits.field_bytes_max) = (line + 1, field + 1);
        // Some lines of that length have room.
        limits.head_bytes_max = limits
            .head_bytes_max
            .max(line * 4)
            .max(line + (field + 1) * 4)
            .min(HEAD_BYTES_MAX);
        self.read_timeout.apply(limits);
    }
}

pub const SETTERS: &[(&str, ServerSet<LimitsDraft>)] = &[
    ("Timeout", |node, limits, _| {
        set_number(node, &mut limits.timeout_s)
    }),
    ("KeepAlive", |node, limits, _| {
        set_flag(node, &mut limits.keep_alive)
    }),
    ("KeepAliveTimeout", set_keep_alive_timeout),
    ("MaxKeepAliveRequests", |node, limits, _| {
        set_number(node, &mut limits.keep_alive_requests_max)
    }),
    ("LimitRequestFields", |node, limits, _| {
        set_number(node, &mut limits.request_fields_max)
    }),
    ("LimitRequestFieldsize", |node, limits, _| {
        set_number(node, &mut limits.request_field_bytes_max)
    }),
    ("LimitRequestLine", |node, limits, _| {
        set_number(node, &mut limits.request_line_bytes_max)
    }),
    ("RequestReadTimeout", |node, limits, _| {
        limits.read_timeout.read(&texts(node))
    }),
];

fn set_number(node: &Node, slot: &mut Option<u64>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    *slot = Some(word.parse().map_err(|_| {
        format!(
            "{} must be a number of 0 or more, not {word}",
            node.canonical_name()
        )
    })?);
    Ok(())
}

/// Seconds, or with a unit (`500ms`).
fn set_keep_alive_timeout(node: &Node, limits: &mut LimitsDraft, _: &Path) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits
        .parse()
        .map_err(|_| "KeepAliveTimeout has wrong format".to_owned())?;
    let factor = match word.get(digits.len()..).unwrap_or_default() {
        "" | "s" => 1000,
        "ms" => 1,
        "mi" | "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("KeepAliveTimeout has wrong format".into()),
    };
    limits.keep_alive_timeout_ms = Some(number.saturating_mul(factor));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_the_servers() {
        let server = LimitsDraft {
            timeout_s: Some(7),
            request_line_bytes_max: Some(100),
            ..LimitsDraft::default()
        };
        let own = LimitsDraft {
            request_line_bytes_max: Some(2000),
            keep_alive: Some(false),
            ..LimitsDraft::default()
        };
        let mut limits = Limits::default();
        own.over(&server).apply(&mut limits);
        assert_eq!(
            (
                limits.write_timeout_ms,
                limits.request_line_bytes_max,
                limits.requests_per_connection_max
            ),
            (7000, 2001, 1)
        );
        server.apply(&mut limits);
        assert_eq!(
            (
                limits.request_line_bytes_max,
                limits.requests_per_connection_max
            ),
            (101, 100)
        );
    }

    #[test]
    fn fields_without_a_limit() {
        let count = |request_fields_max| {
            let draft = LimitsDraft {
                request_fields_max,
                ..LimitsDraft::default()
            };
            let mut limits = Limits::default();
            draft.apply(&mut limits);
            limits.header_count_max
        };
        assert_eq!((count(None), count(Some(20))), (100, 20));
        assert_eq!(count(Some(0)), HEAD_BYTES_MAX);
    }

    #[test]
    fn handshakes_end_no_later_than_reads() {
        let end = |timeout_s| {
            let draft = LimitsDraft {
                timeout_s,
                ..LimitsDraft::default()
            };
            let mut limits = Limits::default();
            draft.apply(&mut limits);
            limits.tls_handshake_timeout_ms
        };
        let own = Limits::default().tls_handshake_timeout_ms;
        assert_eq!((end(Some(2)), end(Some(0))), (2000, own));
        assert_eq!((end(None), end(Some(300))), (own, own));
    }

    #[test]
    fn no_number_is_too_large() {
        let huge = LimitsDraft {
            timeout_s: Some(u64::MAX),
            request_line_bytes_max: Some(u64::MAX),
            request_field_bytes_max: Some(u64::MAX),
            ..LimitsDraft::default()
        };
        let mut limits = Limits::default();
        huge.apply(&mut limits);
        assert_eq!(
            (limits.head_bytes_max, limits.request_line_bytes_max),
            (HEAD_BYTES_MAX, HEAD_BYTES_MAX + 1)
        );
    }
}

//! A worker's side of the live view of requests.
//!
//! Called by: the pipeline, as a logger, for each request while an operator watches.
//! Caveat: switched on and off by `Loggers::watch`; while it is off, no request costs anything.
//! Out of scope: the watchers and their filters (`saker_live::tail`).

use saker_live::tail::{Line, Tail, text};
use saker_pipeline::{FinishedRequest, Logger};
use saker_telemetry::access_log::{Needs, Record};
use std::sync::Arc;

/// Fields in which a response tells what the page cache did.
const CACHE_FIELDS: [&str; 3] = ["cache-status", "x-cache", "x-litespeed-cache"];

/// Shows requests to operators who watch.
pub struct TailLogger(Arc<Tail>);

impl TailLogger {
    pub fn new(tail: &Arc<Tail>) -> TailLogger {
        TailLogger(Arc::clone(tail))
    }
}

impl Logger for TailLogger {
    fn needs(&self, _: usize) -> Option<Needs> {
        Some(Needs {
            duration: true,
            response_fields: true,
            ..Needs::default()
        })
    }

    fn finished(&self, request: &FinishedRequest<'_>) {
        let record = request.record;
        self.0.note(record.duration_us, || Line {
            duration_us: record.duration_us.unwrap_or(0),
            is_secure: request.client.secure,
            ..line(record)
        });
    }
}

fn line(record: &Record<'_>) -> Line {
    let field = |name: &'static str| {
        let head = record.head.as_ref();
        head.and_then(|head| head.first(name))
            .map_or_else(String::new, text)
    };
    let cache = CACHE_FIELDS.iter().find_map(|name| {
        let mut lines = record.response_fields?.iter();
        lines
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| text(value))
    });
    let head = record.head.as_ref();
    Line {
        at_ms: record.start_s * 1000 + i64::from(record.start_us / 1000),
        client: text(record.client_text),
        method: head.map_or_else(String::new, |head| text(head.method_token())),
        // With its port, so that the URL can be asked about.
        host: match field("host") {
            host if host.is_empty() => text(record.host),
            host => host,
        },
        target: match head {
            Some(head) => text(head.target()),
            None => text(record.request_line),
        },
        protocol: match (record.protocol, head) {
            ("", Some(head)) => head.version().as_str().to_owned(),
            (protocol, _) => protocol.to_owned(),
        },
        status: record.status,
        bytes: record.body_bytes,
        site: record.site_name.to_owned(),
        referrer: field("referer"),
        user_agent: field("user-agent"),
        cache: cache.unwrap_or_default(),
        ..Line::default()
    }
}

//! Trace contexts of requests (`[tracing]`).
//!
//! Called by: the phase `post_read`, for dispatched requests; the logger of traces, for requests
//! that the route cache has answered.
//! Caveat: a context is continued only for clients that the configuration trusts; others could
//! have everything recorded, or join the traces of someone else.
//! Out of scope: spans and their encoding (`saker_telemetry::trace`).

use crate::{Client, Forwarding};
use saker_config::model::{TraceTrust, Tracing};
use saker_http::HeadView;
use saker_telemetry::trace::{Parent, TraceContext, is_trace_state};

/// Returns the context of a request: that of its client, continued, or a new one.
pub fn context(tracing: &Tracing, client: &Client, head: HeadView<'_>) -> TraceContext {
    let is_trusted = match tracing.trust {
        TraceTrust::Proxies => client.forwarding == Forwarding::Proxied,
        TraceTrust::All => true,
        TraceTrust::None => false,
    };
    let parent = is_trusted.then(|| parent(head)).flatten();
    match parent {
        Some(parent) => TraceContext::follow(parent, &state(head)),
        None => TraceContext::begin(tracing.sample_ppm),
    }
}

/// A repeated field is invalid (W3C Trace Context section 4.2).
fn parent(head: HeadView<'_>) -> Option<Parent> {
    let mut lines = head.all("traceparent");
    match (lines.next(), lines.next()) {
        (Some(line), None) => Parent::parse(line),
        _ => None,
    }
}

/// Lines of `tracestate` are one list; an invalid one is dropped.
fn state(head: HeadView<'_>) -> Vec<u8> {
    let lines: Vec<&[u8]> = head.all("tracestate").collect();
    let list = lines.join(&b","[..]);
    match is_trace_state(&list) {
        true => list,
        false => Vec::new(),
    }
}

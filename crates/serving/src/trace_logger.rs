//! Spans of finished requests (`[tracing]`).
//!
//! Called by: the pipeline, as a logger, if requests are traced.
//! Caveat: requests that the route cache has answered were not dispatched; their context is made
//! here.
//! Out of scope: sending spans (the gateway's exporter).

use crate::latencies::route_name;
use saker_pipeline::{FinishedRequest, Generation, Logger, request_trace};
use saker_telemetry::{
    Counters, Metric,
    access_log::Needs,
    trace::{AttributeValue, Span, SpanKind, TraceContext, TraceQueue},
};
use std::{borrow::Cow, cell::RefCell, sync::Arc};

/// Spans that a worker gathers before it hands them over.
const GATHERED_MAX: usize = 128;
/// Longest text of an attribute.
const TEXT_BYTES_MAX: usize = 256;

/// Makes spans of requests.
pub struct TraceLogger {
    queue: Arc<TraceQueue>,
    generation: Arc<Generation>,
    counters: Arc<Counters>,
    gathered: RefCell<Vec<Span>>,
}

impl TraceLogger {
    pub fn new(
        queue: &Arc<TraceQueue>,
        generation: &Arc<Generation>,
        counters: &Arc<Counters>,
    ) -> TraceLogger {
        TraceLogger {
            queue: Arc::clone(queue),
            generation: Arc::clone(generation),
            counters: Arc::clone(counters),
            gathered: RefCell::default(),
        }
    }

    fn span(&self, context: TraceContext, request: &FinishedRequest<'_>) -> Span {
        let record = request.record;
        let method = record
            .head
            .map_or(&b"HTTP"[..], |head| match head.method() {
                saker_http::Method::Extension => b"HTTP",
                _ => head.method_token(),
            });
        let method = String::from_utf8_lossy(method).into_owned();
        let route = request.facts.and_then(|facts| facts.route).and_then(|at| {
            let site = self.generation.model.sites.get(request.site)?;
            site.routes.get(at).map(route_name)
        });
        let start_ns =
            record.start_s.max(0) as u64 * 1_000_000_000 + u64::from(record.start_us) * 1000;
        let mut attributes = vec![
            (
                "http.request.method",
                AttributeValue::Text(method.as_str().into()),
            ),
            (
                "http.response.status_code",
                AttributeValue::Number(record.status.into()),
            ),
            ("url.path", text(record.path)),
            (
                "url.scheme",
                text(if request.client.secure {
                    b"https"
                } else {
                    b"http"
                }),
            ),
            ("server.address", text(record.host)),
            ("client.address", text(record.client_text)),
            (
                "http.response.body.size",
                AttributeValue::Number(record.body_bytes.try_into().unwrap_or(i64::MAX)),
            ),
        ];
        if let Some(head) = record.head {
            let version = head.version().as_str().trim_start_matches("HTTP/");
            attributes.push(("network.protocol.version", text(version.as_bytes())));
            if let Some(agent) = head.first("user-agent") {
                attributes.push(("user_agent.original", text(agent)));
            }
        }
        let name = match &route {
            Some(route) => {
                attributes.push(("http.route", AttributeValue::Text(route.as_str().into())));
                format!("{method} {route}")
            }
            None => method,
        };
        Span {
            trace_id: context.trace_id,
            span_id: context.span_id,
            parent_id: context.parent_id,
            state: context.state,
            name: Cow::Owned(name),
            kind: SpanKind::Server,
            start_ns,
            end_ns: start_ns + record.duration_us.unwrap_or(0) * 1000,
            attributes,
            is_error: record.status >= 500,
        }
    }

    fn hand_over(&self, spans: &mut Vec<Span>) {
        let dropped = self.queue.push(spans.drain(..));
        self.counters.add(Metric::TraceSpansDropped, dropped);
    }
}

fn text(bytes: &[u8]) -> AttributeValue {
    AttributeValue::text(bytes.get(..TEXT_BYTES_MAX).unwrap_or(bytes))
}

impl Logger for TraceLogger {
    fn needs(&self, _: usize) -> Option<Needs> {
        Some(Needs {
            duration: true,
            walk: true,
            ..Needs::default()
        })
    }

    fn finished(&self, request: &FinishedRequest<'_>) {
        let known = request.facts.and_then(|facts| facts.trace.as_deref());
        let (context, inner) = match (known, request.record.head) {
            (Some(trace), _) => (trace.context.clone(), trace.take()),
            (None, Some(head)) => {
                let tracing = &self.generation.model.tracing;
                (
                    request_trace::context(tracing, request.client, head),
                    Vec::new(),
                )
            }
            // It could not be parsed.
            (None, None) => return,
        };
        if !context.is_sampled {
            return;
        }
        let mut gathered = self.gathered.borrow_mut();
        gathered.push(self.span(context, request));
        gathered.extend(inner);
        if gathered.len() >= GATHERED_MAX {
            self.hand_over(&mut gathered);
        }
    }

    fn flush(&self) {
        let mut gathered = self.gathered.borrow_mut();
        if !gathered.is_empty() {
            self.hand_over(&mut gathered);
        }
    }
}

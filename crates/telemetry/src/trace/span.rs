//! Spans, and the spans of one request while it is worked on.
//!
//! Called by: features that take time (upstreams, the page cache), and the logger of traces.
//! Caveat: a request has a bounded number of spans.
//! Out of scope: encoding (`otlp`).

use super::context::{TraceContext, new_span_id};
use std::{borrow::Cow, cell::RefCell};

/// Spans of one request beside its own.
const INNER_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    Text(Box<str>),
    Number(i64),
}

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    pub parent_id: Option<[u8; 8]>,
    pub state: Box<[u8]>,
    pub name: Cow<'static, str>,
    pub kind: SpanKind,
    /// Since the epoch.
    pub start_ns: u64,
    pub end_ns: u64,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    pub is_error: bool,
}

/// The trace of a request while it is worked on.
#[derive(Debug)]
pub struct RequestTrace {
    pub context: TraceContext,
    /// The span of the request to an upstream; retries share it.
    pub upstream_id: [u8; 8],
    inner: RefCell<Vec<Span>>,
}

impl RequestTrace {
    pub fn new(context: TraceContext) -> RequestTrace {
        RequestTrace {
            context,
            upstream_id: new_span_id(),
            inner: RefCell::default(),
        }
    }

    /// Adds work that has just ended. Does nothing if the trace is not recorded.
    pub fn add(
        &self,
        span_id: [u8; 8],
        (name, kind): (&'static str, SpanKind),
        start_ns: u64,
        attributes: Vec<(&'static str, AttributeValue)>,
        is_error: bool,
    ) {
        let mut inner = self.inner.borrow_mut();
        if !self.context.is_sampled || inner.len() >= INNER_MAX {
            return;
        }
        inner.push(Span {
            trace_id: self.context.trace_id,
            span_id,
            parent_id: Some(self.context.span_id),
            state: Box::default(),
            name: Cow::Borrowed(name),
            kind,
            start_ns,
            end_ns: saker_net::clock::realtime_precise_ns(),
            attributes,
            is_error,
        });
    }

    /// Takes the spans added so far.
    pub fn take(&self) -> Vec<Span> {
        self.inner.take()
    }
}

impl AttributeValue {
    pub fn text(bytes: &[u8]) -> AttributeValue {
        AttributeValue::Text(String::from_utf8_lossy(bytes).into())
    }
}

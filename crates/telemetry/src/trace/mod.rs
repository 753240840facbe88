//! Traces: W3C Trace Context, spans, their encoding for collectors, and the queue in between.
//!
//! Called by: the pipeline, which gives requests a context; a logger of each worker, which makes
//! spans of finished requests; the exporter, which empties the queue.
//! Caveat: what clients send is parsed strictly (W3C Trace Context, section 3); anything invalid
//! begins a trace.
//! Out of scope: sending (the gateway).

mod context;
mod otlp;
mod queue;
mod span;

pub use context::{Parent, TraceContext, is_trace_state, new_span_id};
pub use otlp::encode;
pub use queue::TraceQueue;
pub use span::{AttributeValue, RequestTrace, Span, SpanKind};

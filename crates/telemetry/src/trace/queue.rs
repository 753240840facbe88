//! The queue of spans between workers and the exporter.
//!
//! Called by: workers, once a second or for many spans; the exporter.
//! Caveat: bounded, so that a collector that is down costs no memory. What does not fit is dropped.
//! Out of scope: counting what was dropped (callers).

use super::span::Span;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// Spans that wait for the exporter.
const SPANS_MAX: usize = 8192;

/// Spans that wait to be sent.
#[derive(Debug, Default)]
pub struct TraceQueue(Mutex<VecDeque<Span>>);

impl TraceQueue {
    /// Adds spans. Returns the number of those that found no room.
    pub fn push(&self, spans: impl Iterator<Item = Span>) -> u64 {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = 0;
        for span in spans {
            match queue.len() < SPANS_MAX {
                true => queue.push_back(span),
                false => dropped += 1,
            }
        }
        dropped
    }

    /// Takes the oldest spans.
    pub fn take(&self, max: usize) -> Vec<Span> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = queue.len().min(max);
        queue.drain(..count).collect()
    }

    pub fn is_empty(&self) -> bool {
        let queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{RequestTrace, SpanKind, TraceContext, new_span_id};

    #[test]
    fn the_queue_is_bounded() {
        let trace = RequestTrace::new(TraceContext::begin(1_000_000));
        trace.add(
            new_span_id(),
            ("a", SpanKind::Internal),
            1,
            Vec::new(),
            false,
        );
        let span = trace.take().remove(0);
        let queue = TraceQueue::default();
        assert_eq!(queue.push(std::iter::repeat_n(span.clone(), SPANS_MAX)), 0);
        assert_eq!(queue.push([span.clone(), span].into_iter()), 2);
        assert_eq!(queue.take(10).len(), 10);
        assert_eq!(queue.take(usize::MAX).len(), SPANS_MAX - 10);
        assert!(queue.is_empty());
    }
}

//! Bodies of responses that have no content of their own to come, or that hold something.
//!
//! Called by: `gateway`, when a head was heard.
//! Out of scope: content on its way from the upstream (`spool`).

use saker_http::Fields;
use saker_pipeline::{BodyError, BodyStream, Chunk, UpstreamPermit};
use std::task::{Context, Poll};

/// Content that is here, and whose length is not told.
pub struct OfUnknownLength(pub Option<Chunk>);

impl BodyStream for OfUnknownLength {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let chunk = self.0.take().filter(|chunk| !chunk.is_empty());
        Poll::Ready(chunk.map(Ok))
    }

    fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(Chunk::is_empty)
    }
}

/// A response body that is still coming, with its places at the upstream.
pub struct WithPlace {
    pub body: Box<dyn BodyStream>,
    pub _permit: UpstreamPermit,
}

impl BodyStream for WithPlace {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.body.poll_chunk(cx)
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }

    fn is_over(&self) -> bool {
        self.body.is_over()
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.body.trailers()
    }

    fn promise_read_ahead(&mut self) {
        self.body.promise_read_ahead();
    }

    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        self.body.read_ahead(cx);
    }

    fn is_prompt(&self) -> bool {
        self.body.is_prompt()
    }

    fn client_left(&mut self) {
        self.body.client_left();
    }
}

/// The length of what a GET would have brought (RFC 9110 section 9.3.2). Never sent.
pub struct Unsent(pub Option<u64>);

impl BodyStream for Unsent {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        self.0
    }
}

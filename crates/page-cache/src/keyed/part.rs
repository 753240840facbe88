//! A range of a content that is being stored: the client gets its part, the cache all of it.
//!
//! Called by: `answer`, for responses of upstreams whose length is known.
//! Caveat: what is in front of the part passes by first, as in nginx. A client that leaves before its
//! part is over leaves nothing stored.
//! Out of scope: content that is there (`saker_content`).

use super::update;
use crate::cache::PageCache;
use saker_http::range::ByteRange;
use saker_pipeline::{BodyError, BodyStream, Chunk};
use std::{
    rc::Rc,
    task::{Context, Poll, ready},
};

/// Chunks that pass by before others get a turn.
const PASSED_CHUNKS_MAX: usize = 16;

pub struct PartOfContent {
    cache: Rc<PageCache>,
    /// `None` when the part is over: the rest is read for the cache.
    content: Option<Box<dyn BodyStream>>,
    /// Bytes in front of the part.
    ahead_bytes: u64,
    left_bytes: u64,
    length: u64,
}

impl PartOfContent {
    pub fn new(
        cache: Rc<PageCache>,
        content: Box<dyn BodyStream>,
        range: ByteRange,
    ) -> PartOfContent {
        let length = range.last - range.first + 1;
        PartOfContent {
            cache,
            content: Some(content),
            ahead_bytes: range.first,
            left_bytes: length,
            length,
        }
    }

    /// The bytes of a chunk that belong to the part.
    fn cut(&mut self, chunk: &Chunk) -> Chunk {
        let length = chunk.len();
        let from = usize::try_from(self.ahead_bytes).map_or(length, |bytes| bytes.min(length));
        let own = usize::try_from(self.left_bytes).map_or(length, |bytes| bytes.min(length - from));
        self.ahead_bytes -= from as u64;
        self.left_bytes -= own as u64;
        chunk.slice(from..from + own)
    }
}

impl BodyStream for PartOfContent {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        for _ in 0..PASSED_CHUNKS_MAX {
            let Some(content) = &mut self.content else {
                return Poll::Ready(None);
            };
            let chunk = match ready!(content.poll_chunk(cx)) {
                Some(Ok(chunk)) => chunk,
                other => return Poll::Ready(other),
            };
            let part = self.cut(&chunk);
            // No further poll may follow the last byte.
            if self.left_bytes == 0
                && let Some(rest) = self.content.take()
            {
                update::leave_to_cache(&self.cache, rest);
            }
            if !part.is_empty() {
                return Poll::Ready(Some(Ok(part)));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn length(&self) -> Option<u64> {
        Some(self.length)
    }
}

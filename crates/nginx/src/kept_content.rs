//! Content of a request that is read before the request goes on, and put back for what comes next.
//!
//! Called by: `mirror`, whose copies have it, too; `request_body`, for `$request_body`.
//! Caveat: what is read is held in memory, so each caller has a limit.

use saker_pipeline::{BodyError, Chunk, ChunkQueue, Exchange, NoBody, RequestBody};
use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll},
};

/// Reads the content and puts it back. `None`: there is more than `bytes_max` of it, or the client has
/// failed.
pub async fn read(exchange: &mut Exchange, bytes_max: u64) -> Option<VecDeque<Chunk>> {
    let length = exchange.body.length();
    if length.is_some_and(|length| length > bytes_max) {
        return None;
    }
    let mut body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    let (mut chunks, mut bytes) = (ChunkQueue::default(), 0);
    loop {
        match poll_fn(|cx| body.poll_chunk(cx)).await {
            Some(Ok(chunk)) => {
                bytes += chunk.len() as u64;
                chunks.push(chunk);
                if bytes > bytes_max {
                    break;
                }
            }
            Some(Err(error)) => {
                let mut content = Content::of(chunks.into_chunks(), Some(body));
                content.failed = Some(error);
                exchange.body = Box::new(content);
                return None;
            }
            None => {
                // Trailers are those of the first.
                let chunks = chunks.into_chunks();
                let mut content = Content::of(chunks.clone(), None);
                content.trailers = body.trailers();
                exchange.body = Box::new(content);
                return Some(chunks);
            }
        }
    }
    let mut content = Content::of(chunks.into_chunks(), Some(body));
    content.length = length;
    exchange.body = Box::new(content);
    None
}

/// Content that has been read, and what follows it.
pub struct Content {
    chunks: VecDeque<Chunk>,
    length: Option<u64>,
    rest: Option<Box<dyn RequestBody>>,
    failed: Option<BodyError>,
    trailers: Option<saker_http::Fields>,
}

impl Content {
    pub fn of(chunks: VecDeque<Chunk>, rest: Option<Box<dyn RequestBody>>) -> Content {
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Content {
            length: rest.is_none().then_some(bytes),
            chunks,
            rest,
            failed: None,
            trailers: None,
        }
    }
}

impl RequestBody for Content {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(chunk) = self.chunks.pop_front() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        if let Some(error) = self.failed {
            return Poll::Ready(Some(Err(error)));
        }
        match &mut self.rest {
            Some(rest) => rest.poll_chunk(cx),
            None => Poll::Ready(None),
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn is_end(&self) -> bool {
        self.chunks.is_empty()
            && self.failed.is_none()
            && self.rest.as_ref().is_none_or(|rest| rest.is_end())
    }

    fn trailers(&mut self) -> Option<saker_http::Fields> {
        match &mut self.rest {
            Some(rest) => rest.trailers(),
            None => self.trailers.take(),
        }
    }

    fn take_time(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.take_time();
        }
    }

    fn throttle(&mut self, throttle: &saker_config::model::Throttle, site: usize) {
        if let Some(rest) = &mut self.rest {
            rest.throttle(throttle, site);
        }
    }

    fn limit(&mut self, bytes_max: u64) {
        if let Some(rest) = &mut self.rest {
            let read: u64 = self.chunks.iter().map(|chunk| chunk.len() as u64).sum();
            // What has been read counts, too.
            let left = bytes_max.saturating_sub(read);
            rest.limit(if bytes_max == 0 { 0 } else { left.max(1) });
        }
    }
}

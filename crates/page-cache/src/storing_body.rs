//! A response body that is stored while it is sent to the client.
//!
//! Called by: `write` and `partial`.
//! Caveat: it may end anywhere. Only a body that ends without an error is stored; a client that
//! leaves, a backend that fails or a full disk leave nothing behind, and waiting requests continue.
//! Out of scope: bodies that are in memory.

use crate::body_bytes::log_not_stored;
use saker_cache_store::{FetchPermit, Writer};
use saker_http::Fields;
use saker_pipeline::{BodyError, BodyStream, Chunk};
use std::task::{Context, Poll};

pub struct StoringBody {
    source: Box<dyn BodyStream>,
    /// `None` when finished or failed.
    writing: Option<Writer>,
    permit: Option<FetchPermit>,
    /// The length that the head promises.
    length: Option<u64>,
    done: Option<Box<dyn FnOnce()>>,
}

impl StoringBody {
    /// `done` is called when the entry is stored.
    pub fn new(
        source: Box<dyn BodyStream>,
        writing: Writer,
        permit: Option<FetchPermit>,
        done: Box<dyn FnOnce()>,
    ) -> StoringBody {
        let length = source.length();
        StoringBody {
            source,
            writing: Some(writing),
            permit,
            length,
            done: Some(done),
        }
    }

    fn write(&mut self, chunk: &Chunk) {
        let Some(writer) = &mut self.writing else {
            return;
        };
        if let Err(error) = writer.write(chunk.bytes()) {
            log_not_stored(&error);
            self.give_up();
        }
        // The promised length has been read; no further poll may follow.
        if self.length.is_some() && self.length == self.writing.as_ref().map(Writer::content_bytes)
        {
            self.finish();
        }
    }

    fn finish(&mut self) {
        let Some(writer) = self.writing.take() else {
            return;
        };
        if self
            .length
            .is_none_or(|length| length == writer.content_bytes())
        {
            match writer.finish() {
                Ok(_) => self.done.take().into_iter().for_each(|done| done()),
                Err(error) => log_not_stored(&error),
            }
        }
        self.permit = None;
    }

    fn give_up(&mut self) {
        self.writing = None;
        self.permit = None;
    }
}

/// A body whose content is collected while it is sent.
pub struct CollectingBody<F> {
    source: Box<dyn BodyStream>,
    /// `None` when it is too long, or finished.
    bytes: Option<Vec<u8>>,
    bytes_max: usize,
    length: Option<u64>,
    done: Option<F>,
}

impl<F: FnOnce(Vec<u8>)> CollectingBody<F> {
    pub fn new(source: Box<dyn BodyStream>, bytes_max: usize, done: F) -> CollectingBody<F> {
        let length = source.length();
        CollectingBody {
            source,
            bytes: Some(Vec::new()),
            bytes_max,
            length,
            done: Some(done),
        }
    }

    fn take(&mut self, chunk: &Chunk) {
        let Some(bytes) = &mut self.bytes else { return };
        if bytes.len() + chunk.len() > self.bytes_max {
            self.bytes = None;
            return;
        }
        bytes.extend_from_slice(chunk.bytes());
        // The promised length has been read; no further poll may follow.
        if self.length == Some(bytes.len() as u64) {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let (Some(bytes), Some(done)) = (self.bytes.take(), self.done.take()) {
            done(bytes);
        }
    }
}

impl<F: FnOnce(Vec<u8>) + Unpin> BodyStream for CollectingBody<F> {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let polled = self.source.poll_chunk(cx);
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => self.take(chunk),
            Poll::Ready(Some(Err(_))) => self.bytes = None,
            Poll::Ready(None) => self.finish(),
            Poll::Pending => {}
        }
        polled
    }

    fn length(&self) -> Option<u64> {
        self.source.length()
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.source.trailers()
    }
}

impl BodyStream for StoringBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let polled = self.source.poll_chunk(cx);
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => {
                let chunk = chunk.clone();
                self.write(&chunk);
            }
            Poll::Ready(Some(Err(_))) => self.give_up(),
            Poll::Ready(None) => self.finish(),
            Poll::Pending => {}
        }
        polled
    }

    fn length(&self) -> Option<u64> {
        self.source.length()
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.source.trailers()
    }
}

//! A response body that is stored while it is sent to the client.
//!
//! Called by: `write` and `partial`.
//! Caveat: it may end anywhere. Only a body that ends without an error is stored; a client that
//! leaves, a backend that fails or a full disk leave nothing behind, and waiting requests continue.
//! The client also sets the pace: the permit is told when it is the client that is waited for.
//! Out of scope: bodies that are in memory.

use crate::{body_bytes::log_not_stored, clock::monotonic_ms};
use saker_cache_store::{FetchPermit, Writer};
use saker_http::Fields;
use saker_pipeline::{BodyError, BodyStream, Chunk};
use std::task::{Context, Poll};

pub struct StoringBody {
    source: Box<dyn BodyStream>,
    /// `None` when finished or failed.
    writing: Option<Writer>,
    permit: Option<FetchPermit>,
    /// Monotonic milliseconds.
    clock: fn() -> u64,
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
            clock: monotonic_ms,
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
        if let Some(permit) = &self.permit {
            permit.taken((self.clock)());
        }
        let polled = self.source.poll_chunk(cx);
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => {
                let chunk = chunk.clone();
                self.write(&chunk);
                if let Some(permit) = &self.permit {
                    permit.hand_out((self.clock)());
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use saker_cache_store::{Bounds, EntryHead, LockOutcome, Store};
    use std::{cell::Cell, task::Waker};

    thread_local! {
        static NOW_MS: Cell<u64> = const { Cell::new(0) };
    }

    /// Gives a chunk at every poll, except while the origin is silent.
    struct Source;

    impl BodyStream for Source {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
            match NOW_MS.get() {
                1..5000 => Poll::Pending,
                _ => Poll::Ready(Some(Ok(Chunk::from(vec![b'x'; 100])))),
            }
        }
    }

    #[test]
    fn the_client_is_waited_for_no_longer_than_a_second() {
        let dir = std::env::temp_dir().join(format!("saker-storing-{}", std::process::id()));
        let store = Store::open(&dir, Bounds::default()).unwrap();
        let hash = store.hash(b"key");
        let acquire = |now_ms| store.cache_lock().acquire(hash, now_ms);
        let LockOutcome::Leader(permit) = acquire(0) else {
            panic!("not the leader")
        };
        let head = EntryHead {
            key: b"key".to_vec(),
            ..EntryHead::default()
        };
        let writer = store.write(&head).unwrap();
        let mut body = StoringBody::new(Box::new(Source), writer, Some(permit), Box::new(|| ()));
        body.clock = || NOW_MS.get();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(body.poll_chunk(&mut cx).is_ready());
        // It took the first chunk in 600 ms; then the origin was silent.
        NOW_MS.set(600);
        assert!(body.poll_chunk(&mut cx).is_pending());
        NOW_MS.set(5000);
        assert!(matches!(acquire(5000), LockOutcome::Follower(_)));
        assert!(body.poll_chunk(&mut cx).is_ready());
        assert!(matches!(acquire(5399), LockOutcome::Follower(_)));
        assert!(matches!(acquire(5400), LockOutcome::Leader(_)));
        drop(body);
        let _ = std::fs::remove_dir_all(&dir);
    }
}

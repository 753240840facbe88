//! Content of a request that may be told to several members, one after the other.
//!
//! Called by: `retry`, for requests that go to another member after a failure.
//! Caveat: what was told is kept in memory, up to a bound; behind it, there is one attempt.
//! Out of scope: whether another member is asked.

use saker_config::model::Throttle;
use saker_http::Fields;
use saker_pipeline::{BodyError, Chunk, ChunkPosition, ChunkQueue, RequestBody};
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};

/// Content that is kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Makes views of the same content, each from its beginning.
pub struct Replay(Rc<RefCell<Source>>);

struct Source {
    inner: Box<dyn RequestBody>,
    length: Option<u64>,
    /// Content that has been read; `None`: too much to be kept.
    chunks: Option<ChunkQueue>,
    bytes: usize,
    has_ended: bool,
    trailers: Option<Fields>,
}

impl Replay {
    pub fn new(inner: Box<dyn RequestBody>) -> Replay {
        Replay(Rc::new(RefCell::new(Source {
            length: inner.length(),
            has_ended: inner.is_end(),
            inner,
            chunks: Some(ChunkQueue::default()),
            bytes: 0,
            trailers: None,
        })))
    }

    /// The content from its beginning; `None`: some of it is gone.
    pub fn view(&self) -> Option<Box<dyn RequestBody>> {
        let is_whole = self.0.borrow().chunks.is_some();
        is_whole.then(|| -> Box<dyn RequestBody> {
            Box::new(View {
                source: Rc::clone(&self.0),
                at: ChunkPosition::default(),
            })
        })
    }
}

struct View {
    source: Rc<RefCell<Source>>,
    /// Behind all that this view has given.
    at: ChunkPosition,
}

impl Source {
    fn keep(&mut self, chunk: &Chunk) {
        self.bytes = self.bytes.saturating_add(chunk.len());
        match &mut self.chunks {
            Some(chunks) if self.bytes <= KEPT_BYTES_MAX => chunks.push(chunk.clone()),
            chunks => *chunks = None,
        }
    }
}

impl RequestBody for View {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let source = &mut *self.source.borrow_mut();
        let kept = source.chunks.as_ref();
        if let Some(chunk) = kept.and_then(|kept| kept.read(&mut self.at)) {
            return Poll::Ready(Some(Ok(chunk)));
        }
        if source.has_ended {
            return Poll::Ready(None);
        }
        let polled = std::task::ready!(source.inner.poll_chunk(cx));
        match &polled {
            Some(Ok(chunk)) => {
                source.keep(chunk);
                self.at = source
                    .chunks
                    .as_ref()
                    .map(ChunkQueue::end)
                    .unwrap_or_default();
            }
            Some(Err(_)) => source.chunks = None,
            None => {
                source.has_ended = true;
                source.trailers = source.inner.trailers();
            }
        }
        Poll::Ready(polled)
    }

    fn length(&self) -> Option<u64> {
        self.source.borrow().length
    }

    fn is_end(&self) -> bool {
        let source = self.source.borrow();
        let given = source
            .chunks
            .as_ref()
            .is_none_or(|kept| kept.is_end(self.at));
        given && (source.has_ended || source.inner.is_end())
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.source.borrow().trailers.clone()
    }

    fn take_time(&mut self) {
        self.source.borrow_mut().inner.take_time();
    }

    fn throttle(&mut self, throttle: &Throttle, site: usize) {
        self.source.borrow_mut().inner.throttle(throttle, site);
    }

    fn limit(&mut self, bytes_max: u64) {
        self.source.borrow_mut().inner.limit(bytes_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_pipeline::WholeBody;
    use std::task::Waker;

    fn read(view: &mut dyn RequestBody) -> Vec<u8> {
        let (mut read, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
        while let Poll::Ready(Some(Ok(chunk))) = view.poll_chunk(&mut cx) {
            read.extend_from_slice(chunk.bytes());
        }
        read
    }

    #[test]
    fn each_view_begins_at_the_beginning() {
        let replay = Replay::new(Box::new(WholeBody(Chunk::from(b"content".to_vec()))));
        let mut first = replay.view().unwrap();
        assert_eq!((first.length(), first.is_end()), (Some(7), false));
        assert_eq!(read(&mut *first), b"content");
        assert!(first.is_end());
        let mut second = replay.view().unwrap();
        assert!(!second.is_end());
        assert_eq!(read(&mut *second), b"content");
    }

    /// Content that comes byte by byte.
    struct Bytes(usize);

    impl RequestBody for Bytes {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
            let byte = self.0 as u8;
            Poll::Ready(self.0.checked_sub(1).map(|left| {
                self.0 = left;
                Ok(Chunk::from(vec![byte]))
            }))
        }

        fn length(&self) -> Option<u64> {
            None
        }

        fn is_end(&self) -> bool {
            self.0 == 0
        }
    }

    #[test]
    fn tiny_pieces_cost_no_more_than_their_bytes() {
        let replay = Replay::new(Box::new(Bytes(100_000)));
        let whole = read(&mut *replay.view().unwrap());
        let count = replay.0.borrow().chunks.as_ref().map(ChunkQueue::count);
        assert!(count.is_some_and(|count| count <= 100_000 / 4096 + 1));
        assert!(whole.len() == 100_000 && read(&mut *replay.view().unwrap()) == whole);
    }

    #[test]
    fn long_content_is_told_once() {
        for (bytes, is_kept) in [(KEPT_BYTES_MAX, true), (KEPT_BYTES_MAX + 1, false)] {
            let replay = Replay::new(Box::new(WholeBody(Chunk::from(vec![b'x'; bytes]))));
            assert_eq!(read(&mut *replay.view().unwrap()).len(), bytes);
            assert_eq!(replay.view().is_some(), is_kept, "{bytes}");
        }
    }
}

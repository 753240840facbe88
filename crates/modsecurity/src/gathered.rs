//! Content that was read ahead, replayed as received: from memory, then from an unnamed file, then
//! from its source if it was not read completely.
//!
//! Called by: `content`, which reads it; the handler, which gets it.
//! Caveat: space on disk is limited per client and in total.
//! Out of scope: the response if there is no space.

use saker_config::model::Throttle;
use saker_files::{
    BufferFile, BufferFiles,
    buffer_files::{ClientKey, Share},
};
use saker_http::Fields;
use saker_pipeline::{BodyError, Chunk, ChunkQueue, RequestBody};
use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

const MEMORY_BYTES_MAX: u64 = 64 << 10;

pub struct Gathered {
    inner: Box<dyn RequestBody>,
    memory: ChunkQueue,
    /// Bytes read so far.
    bytes: u64,
    in_memory: u64,
    file: Option<BufferFile>,
    is_whole: bool,
}

impl Gathered {
    pub fn new(inner: Box<dyn RequestBody>) -> Gathered {
        Gathered {
            inner,
            memory: ChunkQueue::default(),
            bytes: 0,
            in_memory: 0,
            file: None,
            is_whole: false,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the next chunk, to be inspected.
    pub fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let polled = self.inner.poll_chunk(cx);
        self.is_whole |= matches!(polled, Poll::Ready(None));
        polled
    }

    /// Stores an inspected chunk. `false`: there is no space on disk.
    pub async fn keep(
        &mut self,
        chunk: Chunk,
        files: &Arc<BufferFiles>,
        client: ClientKey,
    ) -> bool {
        let length = chunk.len() as u64;
        self.bytes += length;
        if self.file.is_none() && self.in_memory + length <= MEMORY_BYTES_MAX {
            self.memory.push(chunk);
            self.in_memory += length;
            return true;
        }
        let file = self.file.get_or_insert_with(|| {
            BufferFile::new(Arc::clone(files), client, Share::Request, u64::MAX)
        });
        if !file.has_room(chunk.len()) {
            return false;
        }
        file.push(chunk.bytes());
        poll_fn(|cx| file.poll_settled(cx)).await;
        true
    }
}

impl RequestBody for Gathered {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(chunk) = self.memory.pop() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        if let Some(file) = &mut self.file {
            match file.poll_pop(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(bytes))) => return Poll::Ready(Some(Ok(Chunk::from(bytes)))),
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Some(Err(BodyError::Source))),
            }
        }
        if self.is_whole {
            Poll::Ready(None)
        } else {
            self.poll_inner(cx)
        }
    }

    fn length(&self) -> Option<u64> {
        self.inner.length()
    }

    fn is_end(&self) -> bool {
        let is_handed = self.file.as_ref().is_none_or(BufferFile::is_empty);
        self.memory.is_empty() && is_handed && (self.is_whole || self.inner.is_end())
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.inner.trailers()
    }

    fn take_time(&mut self) {
        self.inner.take_time();
    }

    fn throttle(&mut self, throttle: &Throttle, site: usize) {
        self.inner.throttle(throttle, site);
    }

    fn limit(&mut self, bytes_max: u64) {
        self.inner.limit(bytes_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::VecDeque,
        pin::pin,
        task::{Wake, Waker},
        thread,
        time::Duration,
    };

    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Returns the future's output; it waits only for threads.
    fn now<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        for _ in 0..1000 {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return done;
            }
            thread::park_timeout(Duration::from_secs(20));
        }
        panic!("nobody is woken");
    }

    struct Pieces(VecDeque<Vec<u8>>);

    impl RequestBody for Pieces {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Chunk::from(piece))))
        }

        fn length(&self) -> Option<u64> {
            None
        }

        fn is_end(&self) -> bool {
            self.0.is_empty()
        }
    }

    #[test]
    fn content_comes_as_it_came() {
        let piece = |seed: usize, length: usize| -> Vec<u8> {
            (0..length)
                .map(|at| ((at * 7 + seed) % 251) as u8)
                .collect()
        };
        for sizes in [
            vec![3, 5],
            vec![60 << 10, 10 << 10, 5],
            vec![200 << 10, 1],
            vec![0, 1 << 10, 70 << 10, 70 << 10],
        ] {
            let pieces: Vec<Vec<u8>> = sizes
                .iter()
                .enumerate()
                .map(|(seed, length)| piece(seed, *length))
                .collect();
            // All of it gathered, or all but the last piece.
            for gathered in [pieces.len() + 1, pieces.len() - 1] {
                let files = BufferFiles::new(std::env::temp_dir().into());
                let mut body = Gathered::new(Box::new(Pieces(pieces.clone().into())));
                for _ in 0..gathered {
                    if let Some(Ok(chunk)) = now(poll_fn(|cx| body.poll_inner(cx))) {
                        assert!(now(body.keep(chunk, &files, [1; 9])));
                    }
                }
                assert!(!body.is_end());
                let mut all = Vec::new();
                while let Some(Ok(chunk)) = now(poll_fn(|cx| body.poll_chunk(cx))) {
                    all.extend_from_slice(chunk.bytes());
                }
                assert!(
                    all == pieces.concat() && body.is_end(),
                    "{sizes:?} {gathered}"
                );
            }
        }
    }

    #[test]
    fn what_finds_no_room_is_not_kept() {
        let files = BufferFiles::new(std::env::temp_dir().into());
        files.set_bounds(0, 0);
        let mut body = Gathered::new(Box::new(Pieces(VecDeque::new())));
        assert!(now(body.keep(
            Chunk::from(vec![0; 60 << 10]),
            &files,
            [1; 9]
        )));
        assert!(!now(body.keep(
            Chunk::from(vec![0; 60 << 10]),
            &files,
            [1; 9]
        )));
    }
}

//! Content that has been read before its time, handed on as it came: from memory, then from a file without a name, then, where not all of it
//! was read, from where it comes.

use crate::{BodyError, Chunk, RequestBody};
use saker_config::model::Throttle;
use saker_files::unnamed;
use saker_http::Fields;
use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    task::{Context, Poll},
};

const MEMORY_BYTES_MAX: u64 = 64 << 10;
/// What is read back at once.
const PIECE_BYTES: u64 = 64 << 10;

pub(super) struct Gathered {
    inner: Box<dyn RequestBody>,
    memory: VecDeque<Chunk>,
    /// All that was read.
    bytes: u64,
    in_memory: u64,
    file: Option<File>,
    /// Of the file, what has been handed on.
    handed: u64,
    is_whole: bool,
}

impl Gathered {
    pub fn new(inner: Box<dyn RequestBody>) -> Gathered {
        Gathered { inner, memory: VecDeque::new(), bytes: 0, in_memory: 0, file: None, handed: 0, is_whole: false }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// More of it, to be looked at.
    pub fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let polled = self.inner.poll_chunk(cx);
        self.is_whole |= matches!(polled, Poll::Ready(None));
        polled
    }

    pub fn keep(&mut self, chunk: Chunk, folder: &Path) -> io::Result<()> {
        let length = chunk.len() as u64;
        if self.file.is_none() && self.in_memory + length <= MEMORY_BYTES_MAX {
            self.memory.push_back(chunk);
            self.in_memory += length;
        } else {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(unnamed(folder)?),
            };
            file.write_all_at(chunk.bytes(), self.bytes - self.in_memory)?;
        }
        self.bytes += length;
        Ok(())
    }

    fn in_file(&self) -> u64 {
        self.bytes - self.in_memory
    }

    fn next_of_file(&mut self) -> Option<io::Result<Chunk>> {
        let left = self.in_file().saturating_sub(self.handed);
        let file = self.file.as_ref().filter(|_| left > 0)?;
        let mut piece = vec![0; left.min(PIECE_BYTES) as usize];
        let read = file.read_exact_at(&mut piece, self.handed);
        self.handed += piece.len() as u64;
        Some(read.map(|()| Chunk::from(piece)))
    }
}

impl RequestBody for Gathered {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(chunk) = self.memory.pop_front() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        if let Some(piece) = self.next_of_file() {
            return Poll::Ready(Some(piece.map_err(|_| BodyError::Source)));
        }
        if self.is_whole { Poll::Ready(None) } else { self.poll_inner(cx) }
    }

    fn length(&self) -> Option<u64> {
        self.inner.length()
    }

    fn is_end(&self) -> bool {
        self.memory.is_empty() && self.handed >= self.in_file() && (self.is_whole || self.inner.is_end())
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

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
        let piece = |seed: usize, length: usize| -> Vec<u8> { (0..length).map(|at| ((at * 7 + seed) % 251) as u8).collect() };
        for sizes in [vec![3, 5], vec![60 << 10, 10 << 10, 5], vec![200 << 10, 1], vec![0, 1 << 10, 70 << 10, 70 << 10]] {
            let pieces: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(seed, length)| piece(seed, *length)).collect();
            // All of it gathered, or all but the last piece.
            for gathered in [pieces.len() + 1, pieces.len() - 1] {
                let mut cx = Context::from_waker(Waker::noop());
                let mut body = Gathered::new(Box::new(Pieces(pieces.clone().into())));
                for _ in 0..gathered {
                    if let Poll::Ready(Some(Ok(chunk))) = body.poll_inner(&mut cx) {
                        body.keep(chunk, &std::env::temp_dir()).unwrap();
                    }
                }
                assert!(!body.is_end());
                let mut all = Vec::new();
                while let Poll::Ready(Some(Ok(chunk))) = body.poll_chunk(&mut cx) {
                    all.extend_from_slice(chunk.bytes());
                }
                assert!(all == pieces.concat() && body.is_end(), "{sizes:?} {gathered}");
            }
        }
    }
}

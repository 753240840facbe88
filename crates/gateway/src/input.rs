//! Bytes that have come from an upstream and are not used yet.
//!
//! Called by: exchanges over connections of their own.
//! Caveat: content is handed out as runs of the buffer that was read into, so a buffer that
//! receivers still use is left to them, and what is unused is copied to the next one.
//! Out of scope: what the bytes mean.

use saker_pipeline::{Chunk, ReadBuffer};
use std::{io, ops::Range, task::Poll};

/// Room that a read has at least.
const ROOM_BYTES_MIN: usize = 4 << 10;

/// A buffer, lent while there are bytes in it.
#[derive(Default)]
pub struct Input {
    buffer: Option<ReadBuffer>,
    used: usize,
}

impl Input {
    /// Place of the first unused byte.
    pub fn used(&self) -> usize {
        self.used
    }

    pub fn unused(&self) -> &[u8] {
        let buffer = self.buffer.as_deref().unwrap_or_default();
        buffer.get(self.used..).unwrap_or_default()
    }

    /// So many more bytes are used.
    pub fn advance(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// Bytes of the buffer, counted from `from`.
    pub fn bytes(&self, from: usize, range: Range<usize>) -> &[u8] {
        let buffer = self.buffer.as_deref().unwrap_or_default();
        buffer
            .get(from + range.start..from + range.end)
            .unwrap_or_default()
    }

    /// A run of what is in the buffer, counted from `from`, for receivers.
    pub fn run(&self, from: usize, range: Range<usize>) -> Chunk {
        match &self.buffer {
            Some(buffer) => Chunk::of_read(buffer, from + range.start..from + range.end),
            None => Chunk::from(Vec::new()),
        }
    }

    /// Has `read` append to a buffer with room. Where nothing is in it then, none is kept.
    pub fn fill(
        &mut self,
        read: impl FnOnce(&mut Vec<u8>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut buffer = self.with_room();
        let polled = buffer.unshared().map_or(Poll::Pending, read);
        self.buffer = Some(buffer).filter(|buffer| !buffer.is_empty());
        polled
    }

    fn with_room(&mut self) -> ReadBuffer {
        let used = std::mem::take(&mut self.used);
        let mut buffer = self.buffer.take().unwrap_or_else(ReadBuffer::take);
        if buffer.unshared().is_none() {
            let mut next = ReadBuffer::take();
            let unused = buffer.get(used..).unwrap_or_default();
            if let Some(bytes) = next.unshared() {
                bytes.extend_from_slice(unused);
            }
            buffer = next;
        } else if let Some(bytes) = buffer.unshared() {
            drop(bytes.drain(..used));
        }
        if let Some(bytes) = buffer.unshared()
            && bytes.capacity() - bytes.len() < ROOM_BYTES_MIN
        {
            // A head that is longer than the buffer; its own limit bounds it.
            bytes.reserve(bytes.len());
        }
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(input: &mut Input, bytes: &[u8]) {
        let read = input.fill(|room| {
            room.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        });
        assert!(matches!(read, Poll::Ready(Ok(read)) if read == bytes.len()));
    }

    #[test]
    fn what_receivers_use_is_left_to_them() {
        let mut input = Input::default();
        put(&mut input, &[b'a'; 10_000]);
        let run = input.run(0, 0..9_990);
        input.advance(9_990);
        put(&mut input, b"bc");
        assert_eq!(input.unused(), b"aaaaaaaaaabc");
        assert!(run.bytes().iter().all(|byte| *byte == b'a') && run.len() == 9_990);
    }

    #[test]
    fn no_buffer_is_kept_without_bytes() {
        let mut input = Input::default();
        assert!(input.fill(|_| Poll::Pending).is_pending());
        assert!(input.buffer.is_none());
        put(&mut input, b"abc");
        input.advance(3);
        assert!(input.fill(|_| Poll::Pending).is_pending());
        assert!(input.buffer.is_none() && input.unused().is_empty());
    }

    #[test]
    fn a_long_head_gets_more_room_than_one_buffer_has() {
        let mut input = Input::default();
        for _ in 0..50 {
            let more = |room: &mut Vec<u8>| {
                let bytes = (room.capacity() - room.len()).min(3000);
                assert!(bytes > 0);
                room.resize(room.len() + bytes, b'x');
                Poll::Ready(Ok(bytes))
            };
            assert!(input.fill(more).is_ready());
        }
        assert_eq!(input.unused().len(), 150_000);
    }
}

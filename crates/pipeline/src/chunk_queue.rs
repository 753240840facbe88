//! Content that is kept, in the order in which it came.
//!
//! Called by: uploads, buffered and repeated requests, and responses that are read ahead.
//! Caveat: each chunk costs tens of bytes beside its content, and a peer chooses how long its pieces
//! are. So short pieces are joined: what is kept costs about as much memory as it is long.
//! Out of scope: how much is kept.

use crate::Chunk;
use std::collections::VecDeque;

/// Pieces shorter than that are joined.
const JOINED_BYTES: usize = 4 << 10;

/// A queue of content.
#[derive(Default)]
pub struct ChunkQueue {
    chunks: VecDeque<Chunk>,
    /// Short pieces behind the chunks.
    tail: Vec<u8>,
}

/// Position of a reader that leaves the content in its queue.
#[derive(Clone, Copy, Default)]
pub struct ChunkPosition {
    chunk: usize,
    /// Bytes of that chunk that were read.
    bytes: usize,
}

impl ChunkQueue {
    pub fn push(&mut self, chunk: Chunk) {
        if chunk.len() < JOINED_BYTES {
            return self.push_bytes(chunk.bytes());
        }
        self.end_tail();
        self.chunks.push_back(chunk.compact());
    }

    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.len() >= JOINED_BYTES {
            self.end_tail();
            return self.chunks.push_back(Chunk::new(bytes.into()));
        }
        self.tail.extend_from_slice(bytes);
        if self.tail.len() >= JOINED_BYTES {
            self.end_tail();
        }
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.chunks
                .push_back(Chunk::from(std::mem::take(&mut self.tail)));
        }
    }

    /// Takes the first chunk.
    pub fn pop(&mut self) -> Option<Chunk> {
        self.chunks.pop_front().or_else(|| {
            let tail = std::mem::take(&mut self.tail);
            (!tail.is_empty()).then(|| Chunk::from(tail))
        })
    }

    /// Reads the next chunk and leaves it here. For queues that nothing is taken from.
    pub fn read(&self, position: &mut ChunkPosition) -> Option<Chunk> {
        while let Some(chunk) = self.chunks.get(position.chunk) {
            let from = std::mem::take(&mut position.bytes).min(chunk.len());
            position.chunk += 1;
            if from < chunk.len() {
                return Some(chunk.slice(from..chunk.len()));
            }
        }
        let unread = self.tail.get(position.bytes..).unwrap_or_default();
        position.bytes += unread.len();
        (!unread.is_empty()).then(|| Chunk::from(unread.to_vec()))
    }

    /// The position behind all content.
    pub fn end(&self) -> ChunkPosition {
        ChunkPosition {
            chunk: self.chunks.len(),
            bytes: self.tail.len(),
        }
    }

    /// Returns true if nothing is behind a position.
    pub fn is_end(&self, mut position: ChunkPosition) -> bool {
        self.read(&mut position).is_none()
    }

    /// The content, to be read only.
    pub fn into_chunks(mut self) -> VecDeque<Chunk> {
        self.end_tail();
        self.chunks
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.tail.is_empty()
    }

    /// Number of pieces in memory.
    pub fn count(&self) -> usize {
        self.chunks.len() + usize::from(!self.tail.is_empty())
    }

    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(Chunk::len).sum::<usize>() + self.tail.len()
    }

    /// Drops the content and its memory.
    pub fn clear(&mut self) {
        *self = ChunkQueue::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadBuffer;

    fn drained(queue: &mut ChunkQueue) -> Vec<u8> {
        std::iter::from_fn(|| queue.pop())
            .flat_map(|chunk| chunk.bytes().to_vec())
            .collect()
    }

    #[test]
    fn short_pieces_are_joined() {
        const COUNT: usize = 100_000;
        let pieces = (0..COUNT).map(|at| [at as u8]);
        let (mut pushed, mut copied) = (ChunkQueue::default(), ChunkQueue::default());
        for piece in pieces.clone() {
            pushed.push(Chunk::from(piece.to_vec()));
            copied.push_bytes(&piece);
        }
        let whole: Vec<u8> = pieces.flatten().collect();
        for mut queue in [pushed, copied] {
            assert!(queue.count() <= COUNT / JOINED_BYTES + 1);
            assert_eq!(queue.bytes(), COUNT);
            assert!(drained(&mut queue) == whole && queue.is_empty());
            assert!(queue.into_chunks().is_empty());
        }
    }

    #[test]
    fn the_order_is_kept_whatever_the_lengths() {
        let mut queue = ChunkQueue::default();
        let (mut expected, mut buffer) = (Vec::new(), ReadBuffer::take());
        buffer.unshared().unwrap().resize(JOINED_BYTES, b'b');
        for length in [1, JOINED_BYTES, 3, JOINED_BYTES - 1, 2 * JOINED_BYTES, 5] {
            let piece = vec![length as u8; length];
            queue.push_bytes(&piece);
            queue.push(Chunk::of_read(&buffer, 0..JOINED_BYTES));
            expected.extend_from_slice(&piece);
            expected.extend_from_slice(&buffer);
        }
        assert!(buffer.unshared().is_some(), "no read buffer is kept");
        assert_eq!(queue.bytes(), expected.len());
        assert!(drained(&mut queue) == expected);
    }

    #[test]
    fn a_reader_that_leaves_the_content_reads_all_of_it() {
        let (mut queue, mut position) = (ChunkQueue::default(), ChunkPosition::default());
        let (mut read, mut expected) = (Vec::new(), Vec::new());
        for length in [3, JOINED_BYTES - 3, 7, JOINED_BYTES, 1] {
            assert!(queue.is_end(position) && queue.read(&mut position).is_none());
            let piece = vec![length as u8; length];
            queue.push_bytes(&piece);
            expected.extend_from_slice(&piece);
            assert!(!queue.is_end(position));
            let more = std::iter::from_fn(|| queue.read(&mut position));
            read.extend(more.flat_map(|chunk| chunk.bytes().to_vec()));
        }
        assert!(read == expected && queue.is_end(queue.end()));
        let mut again = ChunkPosition::default();
        let all = std::iter::from_fn(|| queue.read(&mut again));
        assert_eq!(all.map(|chunk| chunk.len()).sum::<usize>(), expected.len());
    }
}

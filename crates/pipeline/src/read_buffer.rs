//! Buffers for reading content and sending it without a copy.
//!
//! Called by: socket readers, which fill a buffer and return slices of it as
//! [`Chunk`](crate::Chunk)s.
//! Caveat: a slice keeps the whole buffer alive; code that keeps slices for longer than a write
//! copies them ([`Chunk::compact`](crate::Chunk::compact)). Each thread keeps a few spare buffers,
//! so that consecutive reads reuse the same memory.
//! Out of scope: reading.

use std::{cell::RefCell, ops::Deref, rc::Rc};

/// Capacity of a buffer: one read.
pub const READ_BUFFER_BYTES: usize = 64 << 10;
/// Maximum number of spare buffers per thread.
const SPARE_COUNT_MAX: usize = 8;

thread_local! {
    static SPARE: RefCell<Vec<Rc<Vec<u8>>>> = const { RefCell::new(Vec::new()) };
}

/// A read buffer. Returns to the spare buffers of its thread when its last user drops it.
#[derive(Clone, Debug)]
pub struct ReadBuffer(Option<Rc<Vec<u8>>>);

impl ReadBuffer {
    /// Returns an empty buffer.
    pub fn take() -> ReadBuffer {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
        ReadBuffer(Some(
            spare
                .ok()
                .flatten()
                .unwrap_or_else(|| Rc::new(Vec::with_capacity(READ_BUFFER_BYTES))),
        ))
    }

    /// Returns the buffer if no slice refers to it.
    pub fn unshared(&mut self) -> Option<&mut Vec<u8>> {
        self.0.as_mut().and_then(Rc::get_mut)
    }
}

impl Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let Some(mut buffer) = self.0.take() else {
            return;
        };
        let Some(bytes) = Rc::get_mut(&mut buffer) else {
            return;
        };
        // Drop buffers that have grown.
        if bytes.capacity() != READ_BUFFER_BYTES {
            return;
        }
        bytes.clear();
        // While the thread exits, there is no list of spare buffers.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_COUNT_MAX {
                spare.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_memory_serves_one_read_after_the_other() {
        let mut first = ReadBuffer::take();
        first.unshared().unwrap().extend_from_slice(b"abc");
        let (place, run) = (first.as_ptr(), first.clone());
        assert!(first.unshared().is_none(), "a run refers to it");
        drop(first);
        assert_eq!(*run, *b"abc");
        drop(run);
        let again = ReadBuffer::take();
        assert!(again.as_ptr() == place && again.is_empty());
    }

    #[test]
    fn a_thread_keeps_only_so_many_and_none_that_has_grown() {
        let taken: Vec<ReadBuffer> = (0..SPARE_COUNT_MAX + 3)
            .map(|_| ReadBuffer::take())
            .collect();
        drop(taken);
        let kept = || SPARE.with_borrow(Vec::len);
        assert_eq!(kept(), SPARE_COUNT_MAX);
        let mut grown = ReadBuffer::take();
        grown.unshared().unwrap().reserve(READ_BUFFER_BYTES + 1);
        drop(grown);
        assert_eq!(kept(), SPARE_COUNT_MAX - 1);
    }
}

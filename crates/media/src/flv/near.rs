//! A source with read-ahead, because the next tag is often near: a file of tiny tags costs few
//! reads.
//!
//! Called by: code that walks from tag to tag.
//! Out of scope: large reads, which go to the underlying source.

use crate::Source;
use std::{cell::RefCell, io};

/// Size of a read: as much as a file system reads at once anyway.
const WINDOW_BYTES: usize = 4096;

pub struct Near<'s, S: ?Sized> {
    source: &'s S,
    /// Offset of the buffered bytes, and the bytes.
    window: RefCell<(u64, Vec<u8>)>,
}

impl<'s, S: Source + ?Sized> Near<'s, S> {
    pub fn new(source: &'s S) -> Near<'s, S> {
        Near {
            source,
            window: RefCell::default(),
        }
    }
}

impl<S: Source + ?Sized> Source for Near<'_, S> {
    fn length(&self) -> u64 {
        self.source.length()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let mut window = self.window.borrow_mut();
        if let Some(there) = part(&window, at, into.len()) {
            into.copy_from_slice(there);
            return Ok(());
        }
        let left = self.length().saturating_sub(at);
        let length = usize::try_from(left)
            .unwrap_or(WINDOW_BYTES)
            .min(WINDOW_BYTES);
        if into.len() > length {
            return self.source.read_at(at, into);
        }
        window.1.resize(length, 0);
        let (begins, bytes) = &mut *window;
        *begins = at;
        if let Err(error) = self.source.read_at(at, bytes) {
            bytes.clear();
            return Err(error);
        }
        into.copy_from_slice(bytes.get(..into.len()).unwrap_or_default());
        Ok(())
    }
}

fn part(window: &(u64, Vec<u8>), at: u64, length: usize) -> Option<&[u8]> {
    let from = usize::try_from(at.checked_sub(window.0)?).ok()?;
    window.1.get(from..from.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Counted(Vec<u8>, Cell<usize>);

    impl Source for Counted {
        fn length(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
            self.1.set(self.1.get() + 1);
            self.0.as_slice().read_at(at, into)
        }
    }

    #[test]
    fn what_is_near_is_read_once() {
        let content: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
        let source = Counted(content.clone(), Cell::new(0));
        let near = Near::new(&source);
        let mut some = [0; 13];
        for at in (0..20_000 - 13).step_by(15) {
            near.read_at(at as u64, &mut some).unwrap();
            assert_eq!(some, content[at..at + 13]);
        }
        assert!(source.1.get() <= 6, "{}", source.1.get());
        let mut all = vec![0; 20_000];
        near.read_at(0, &mut all).unwrap();
        assert_eq!(all, content);
        assert!(near.read_at(19_990, &mut some).is_err());
        near.read_at(19_987, &mut some).unwrap();
        assert_eq!(some, content[19_987..]);
    }
}

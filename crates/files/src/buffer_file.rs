//! A queue of bytes in an unnamed file: pushed at one end, popped at the other, in order.
//!
//! Called by: the gateway, for responses that are ahead of their clients and for buffered requests.
//! Nothing here waits for the disk: the writer's thread writes what was pushed, and the reader's
//! thread reads what is popped.
//! Caveat: callers reserve space before they push ([`BufferFile::can_take`]); bytes pushed without
//! it stay in memory.
//! Out of scope: the threshold at which bytes need a file.

use crate::buffer_files::{Backing, BufferFiles, ClientKey, Pending, Share, pending};
use std::{
    io,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

/// Bytes written, or read back, at once.
const PIECE_BYTES: usize = 64 << 10;
/// Waits to be written; more is not taken.
const BACKLOG_BYTES_MAX: usize = 2 * PIECE_BYTES;
/// Space is reserved in steps.
const STEP_BYTES: u64 = 256 << 10;
/// A file that is longer than that is given back when all of it has been read.
const KEPT_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub struct BufferFile {
    files: Arc<BufferFiles>,
    client: ClientKey,
    share: Share,
    bytes_max: u64,
    backing: Option<Arc<Backing>>,
    reserved: u64,
    written: u64,
    read: u64,
    /// Bytes to follow those already written, and their total length.
    tail: Vec<u8>,
    writing: Option<(Pending<Written>, usize)>,
    reading: Option<Pending<io::Result<Vec<u8>>>>,
    /// The disk took no more.
    is_broken: bool,
    is_refused: bool,
}

/// The bytes come back, for the case that they could not be written.
type Written = (Vec<u8>, io::Result<()>);

impl BufferFile {
    /// `bytes_max`: of this file.
    pub fn new(
        files: Arc<BufferFiles>,
        client: ClientKey,
        share: Share,
        bytes_max: u64,
    ) -> BufferFile {
        BufferFile {
            files,
            client,
            share,
            bytes_max,
            backing: None,
            reserved: 0,
            written: 0,
            read: 0,
            tail: Vec::new(),
            writing: None,
            reading: None,
            is_broken: false,
            is_refused: false,
        }
    }

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.read == self.written && self.writing.is_none() && self.tail.is_empty()
    }

    /// Bytes in memory that wait to be written, or are being written.
    pub fn backlog(&self) -> usize {
        self.tail.len() + self.writing.as_ref().map_or(0, |(_, bytes)| *bytes)
    }

    /// Returns true if this many bytes may be pushed now. If the disk has no space for them, it may
    /// have when everything has been popped, or other files have gone.
    pub fn can_take(&mut self, bytes: usize) -> bool {
        self.backlog() < BACKLOG_BYTES_MAX && self.has_room(bytes)
    }

    /// True if there is room on disk for as much, however long that takes.
    pub fn has_room(&mut self, bytes: usize) -> bool {
        let has_room = !self.is_broken
            && self.files.is_usable()
            && self.reserve(self.backlog() as u64 + bytes as u64);
        if !has_room && !std::mem::replace(&mut self.is_refused, true) {
            self.files.count_wait();
        }
        self.is_refused = !has_room;
        has_room
    }

    fn reserve(&mut self, behind: u64) -> bool {
        let wanted = self.written.saturating_add(behind);
        if wanted <= self.reserved {
            return true;
        }
        if wanted > self.bytes_max {
            return false;
        }
        let up_to = wanted.next_multiple_of(STEP_BYTES).min(self.bytes_max);
        if !self
            .files
            .reserve(&self.client, up_to - self.reserved, self.share)
        {
            return false;
        }
        self.reserved = up_to;
        let backing = self
            .backing
            .get_or_insert_with(|| Arc::new(Backing::new(Arc::clone(&self.files), self.client)));
        backing.reserved.store(up_to, Ordering::Relaxed);
        true
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Continues writing; the caller is woken when a piece has been written.
    pub fn poll_write(&mut self, cx: &Context<'_>) {
        loop {
            if let Some((writing, _)) = &self.writing {
                let Poll::Ready(outcome) = writing.poll(cx) else {
                    return;
                };
                let length = self.writing.take().map_or(0, |(_, bytes)| bytes) as u64;
                match outcome {
                    Some((_, Ok(()))) => self.written += length,
                    Some((mut bytes, Err(_))) => {
                        self.is_broken = true;
                        bytes.append(&mut self.tail);
                        self.tail = bytes;
                    }
                    // The thread is gone, and the bytes with it: the next read fails, so that the
                    // loss is noticed.
                    None => {
                        self.is_broken = true;
                        self.written += length;
                    }
                }
            }
            if self.is_broken
                || self.tail.len() < PIECE_BYTES
                || !self.reserve(self.tail.len() as u64)
            {
                return;
            }
            let Some(backing) = self.backing.clone() else {
                return;
            };
            let ((waiting, completion), bytes, at) =
                (pending(), std::mem::take(&mut self.tail), self.written);
            self.writing = Some((waiting, bytes.len()));
            self.files.write(move || {
                let outcome = backing.write(&bytes, at);
                completion.finish((bytes, outcome));
            });
        }
    }

    /// Ready when so little waits to be written that more may be pushed.
    pub fn poll_settled(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.poll_write(cx);
        if self.backlog() < BACKLOG_BYTES_MAX || self.writing.is_none() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Returns the next bytes; `None`: there are none now.
    pub fn poll_pop(&mut self, cx: &Context<'_>) -> Poll<io::Result<Option<Vec<u8>>>> {
        self.poll_write(cx);
        if self.reading.is_none() && self.read < self.written {
            self.begin_read();
        }
        if let Some(reading) = &self.reading {
            let Poll::Ready(outcome) = reading.poll(cx) else {
                return Poll::Pending;
            };
            self.reading = None;
            let bytes = outcome.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))?;
            self.read += bytes.len() as u64;
            self.rewind();
            return Poll::Ready(Ok(Some(bytes)));
        }
        if self.writing.is_some() {
            return Poll::Pending;
        }
        self.rewind();
        let tail = std::mem::take(&mut self.tail);
        Poll::Ready(Ok(Some(tail).filter(|tail| !tail.is_empty())))
    }

    fn begin_read(&mut self) {
        let Some(backing) = self.backing.clone() else {
            return;
        };
        let ((waiting, completion), at) = (pending(), self.read);
        let bytes = usize::try_from(self.written - self.read)
            .unwrap_or(PIECE_BYTES)
            .min(PIECE_BYTES);
        self.reading = Some(waiting);
        self.files
            .read(move || completion.finish(backing.read(bytes, at)));
    }

    /// Rewinds the file when everything has been read, or gives back its space.
    fn rewind(&mut self) {
        if self.read < self.written || self.writing.is_some() {
            return;
        }
        if self.written > KEPT_BYTES_MAX {
            self.close();
        }
        (self.read, self.written) = (0, 0);
    }

    /// Files are long to close, too.
    fn close(&mut self) {
        self.reserved = 0;
        if let Some(backing) = self.backing.take() {
            self.files.write(move || drop(backing));
        }
    }
}

impl Drop for BufferFile {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        path::Path,
        task::{Wake, Waker},
        thread,
        time::{Duration, Instant},
    };

    const CLIENT: ClientKey = [1; 9];
    const PATIENCE: Duration = Duration::from_secs(20);

    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn until<T>(mut poll: impl FnMut(&Context<'_>) -> Poll<T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let (cx, end) = (Context::from_waker(&waker), Instant::now() + PATIENCE);
        loop {
            if let Poll::Ready(done) = poll(&cx) {
                return done;
            }
            assert!(Instant::now() < end, "nobody is woken");
            thread::park_timeout(PATIENCE);
        }
    }

    fn made(folder: &Path, bytes_max: u64) -> (Arc<BufferFiles>, BufferFile) {
        let files = BufferFiles::new(folder.into());
        let file = BufferFile::new(Arc::clone(&files), CLIENT, Share::Response, bytes_max);
        (files, file)
    }

    fn piece(seed: usize, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| ((at * 7 + seed) % 251) as u8).collect()
    }

    fn gone(files: &BufferFiles) {
        let end = Instant::now() + PATIENCE;
        while files.bytes() > 0 {
            assert!(
                Instant::now() < end,
                "{} bytes stay reserved",
                files.bytes()
            );
            thread::yield_now();
        }
    }

    #[test]
    fn bytes_come_out_as_they_went_in() {
        for sizes in [
            vec![3, 5],
            vec![64 << 10],
            vec![64 << 10, 1, 70_000, 200_000, 7],
            vec![50_000; 60],
        ] {
            // Popped as soon as possible, or at the end.
            for is_lazy in [false, true] {
                let (files, mut file) = made(&std::env::temp_dir(), 100 << 20);
                let (mut all, mut expected) = (Vec::new(), Vec::new());
                for (seed, bytes) in sizes.iter().enumerate() {
                    let piece = piece(seed, *bytes);
                    assert!(file.has_room(piece.len()));
                    file.push(&piece);
                    expected.extend(piece);
                    until(|cx| file.poll_settled(cx));
                    if !is_lazy && let Some(popped) = until(|cx| file.poll_pop(cx)).unwrap() {
                        all.extend(popped);
                    }
                }
                while let Some(popped) = until(|cx| file.poll_pop(cx)).unwrap() {
                    all.extend(popped);
                }
                assert!(all == expected && file.is_empty(), "{sizes:?} {is_lazy}");
                drop(file);
                gone(&files);
            }
        }
    }

    #[test]
    fn a_bound_is_never_passed_and_room_comes_back_with_reading() {
        let (files, mut file) = made(&std::env::temp_dir(), 100 << 20);
        files.set_bounds(8 << 20, 2 << 20);
        let mut pushed = 0;
        while file.has_room(64 << 10) {
            file.push(&piece(0, 64 << 10));
            pushed += 64 << 10;
            until(|cx| file.poll_settled(cx));
            assert!(files.bytes() <= 2 << 20);
        }
        assert_eq!((pushed, files.waits()), (2 << 20, 1));
        assert!(!file.has_room(1), "not before all is read");
        assert_eq!(files.waits(), 1, "one wait is one wait");
        let mut popped = 0;
        while let Some(bytes) = until(|cx| file.poll_pop(cx)).unwrap() {
            popped += bytes.len();
        }
        assert_eq!(popped, pushed);
        gone(&files);
        assert!(file.has_room(64 << 10));
        let (_, mut small) = made(&std::env::temp_dir(), 1000);
        assert!(
            small.has_room(1000) && !small.has_room(1001),
            "a file has a bound of its own"
        );
    }

    #[test]
    fn what_the_disk_refuses_stays_in_memory() {
        let (files, mut file) = made(Path::new("/nowhere"), 100 << 20);
        let bytes = piece(1, 100_000);
        assert!(file.can_take(bytes.len()));
        file.push(&bytes);
        until(|cx| file.poll_settled(cx));
        assert_eq!(
            until(|cx| file.poll_pop(cx)).unwrap().as_deref(),
            Some(&*bytes)
        );
        assert!(!file.can_take(1) && file.is_empty());
        drop(file);
        gone(&files);
    }
}

//! Limits and threads of all buffer files of a server: bytes on disk for clients that read, or
//! write, more slowly than programs do.
//!
//! Called by: [`BufferFile`](crate::BufferFile), one per response or request, on any worker. Two
//! threads open, write, read, and close the files, so that a slow disk, or many megabytes at once,
//! delay no worker. Bytes on disk are counted for the server and for each client; without space a
//! program waits for its client.
//! Caveat: a file counts with its length, not with its unread part, because that is what it takes
//! of the disk.
//! Out of scope: memory in front of a file, which has limits of its own.

use crate::unnamed;
use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

/// Limits for all clients together (2 GiB), and for one (64 MiB).
pub const BYTES_MAX: u64 = 2 << 30;
pub const CLIENT_BYTES_MAX: u64 = 64 << 20;
/// Space left free on the disk: a fraction of it, but at most the following number of bytes.
const FREE_PART: u64 = 20;
const FREE_BYTES_MAX: u64 = 1 << 30;
/// The free space is looked at once for so many bytes.
const LOOK_BYTES: u64 = 8 << 20;
/// A disk that was full is left alone for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// The address that stands for a client, as bytes.
pub type ClientKey = [u8; 9];

/// The part of all room that one client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Responses, which cost their client nothing.
    Response,
    /// Requests, which a client has to send: half of the room.
    Request,
}

type Job = Box<dyn FnOnce() + Send>;

/// Buffer files of a server.
#[derive(Debug)]
pub struct BufferFiles {
    folder: Arc<Path>,
    bytes_max: AtomicU64,
    client_bytes_max: AtomicU64,
    /// Bytes on disk, or about to be.
    bytes: AtomicU64,
    clients: Mutex<HashMap<ClientKey, u64>>,
    threads: OnceLock<Option<Threads>>,
    waits: AtomicU64,
    /// Written since the free space was looked at.
    unlooked: AtomicU64,
    full_since: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Threads {
    /// The thread that writes, and also opens and closes files.
    writer: Sender<Job>,
    reader: Sender<Job>,
}

impl BufferFiles {
    /// Files are made in `folder`.
    pub fn new(folder: Arc<Path>) -> Arc<BufferFiles> {
        Arc::new(BufferFiles {
            folder,
            bytes_max: AtomicU64::new(BYTES_MAX),
            client_bytes_max: AtomicU64::new(CLIENT_BYTES_MAX),
            bytes: AtomicU64::new(0),
            clients: Mutex::default(),
            threads: OnceLock::new(),
            waits: AtomicU64::new(0),
            // Looked at before the first byte.
            unlooked: AtomicU64::new(LOOK_BYTES),
            full_since: Mutex::new(None),
        })
    }

    /// Applies the limits of the configuration from now on.
    pub fn set_bounds(&self, bytes_max: u64, client_bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.client_bytes_max
            .store(client_bytes_max, Ordering::Relaxed);
    }

    /// Bytes on disk now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Times that a bound or a full disk had a program wait for its client.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    pub(crate) fn count_wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Maximum number of bytes for one client.
    pub fn share(&self, share: Share) -> u64 {
        let all = self.bytes_max.load(Ordering::Relaxed);
        match share {
            Share::Response => self.client_bytes_max.load(Ordering::Relaxed).min(all),
            Share::Request => all / 2,
        }
    }

    /// Room on disk for a client, if there is some.
    pub(crate) fn reserve(&self, client: &ClientKey, bytes: u64, share: Share) -> bool {
        if self.is_full() {
            return false;
        }
        let max = self.bytes_max.load(Ordering::Relaxed);
        let more = |now: u64| now.checked_add(bytes).filter(|sum| *sum <= max);
        if self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_err()
        {
            return false;
        }
        let mut clients = lock(&self.clients);
        let held = clients
            .get(client)
            .copied()
            .unwrap_or(0)
            .saturating_add(bytes);
        if held > self.share(share) {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        clients.insert(*client, held);
        true
    }

    fn release(&self, client: &ClientKey, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let mut clients = lock(&self.clients);
        let held = clients
            .get(client)
            .copied()
            .unwrap_or(0)
            .saturating_sub(bytes);
        match held {
            0 => drop(clients.remove(client)),
            _ => drop(clients.insert(*client, held)),
        }
    }

    fn is_full(&self) -> bool {
        lock(&self.full_since).is_some_and(|since| since.elapsed() < PAUSE)
    }

    /// `false`: there are no threads, and nothing can be kept on disk.
    pub(crate) fn is_usable(&self) -> bool {
        self.threads().is_some()
    }

    fn threads(&self) -> Option<&Threads> {
        let start = |name: &str| -> io::Result<Sender<Job>> {
            let (sender, jobs) = channel::<Job>();
            thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || run(&jobs))?;
            Ok(sender)
        };
        let made = self.threads.get_or_init(|| {
            Some(Threads {
                writer: start("buffer-writer").ok()?,
                reader: start("buffer-reader").ok()?,
            })
        });
        made.as_ref()
    }

    pub(crate) fn write(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(threads) = self.threads() {
            let _ = threads.writer.send(Box::new(job));
        }
    }

    pub(crate) fn read(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(threads) = self.threads() {
            let _ = threads.reader.send(Box::new(job));
        }
    }
}

fn run(jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        job();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file and the room that it takes. To be dropped on a thread of [`BufferFiles`].
#[derive(Debug)]
pub(crate) struct Backing {
    files: Arc<BufferFiles>,
    client: ClientKey,
    file: OnceLock<File>,
    pub(crate) reserved: AtomicU64,
}

impl Backing {
    pub(crate) fn new(files: Arc<BufferFiles>, client: ClientKey) -> Backing {
        Backing {
            files,
            client,
            file: OnceLock::new(),
            reserved: AtomicU64::new(0),
        }
    }

    /// Called on the writer's thread.
    pub(crate) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let written = self.try_write(bytes, at);
        if written.is_err() {
            *lock(&self.files.full_since) = Some(Instant::now());
        }
        written
    }

    fn try_write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let made = unnamed(&self.files.folder)?;
                self.file.get_or_init(|| made)
            }
        };
        let length = bytes.len() as u64;
        if self
            .files
            .unlooked
            .fetch_add(length, Ordering::Relaxed)
            .saturating_add(length)
            >= LOOK_BYTES
        {
            let space = rustix::fs::fstatvfs(file)?;
            let (all, free) = (
                space.f_blocks.saturating_mul(space.f_frsize),
                space.f_bavail.saturating_mul(space.f_frsize),
            );
            if free < (all / FREE_PART).min(FREE_BYTES_MAX) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.files.unlooked.store(0, Ordering::Relaxed);
        }
        file.write_all_at(bytes, at)
    }

    /// Called on the reader's thread.
    pub(crate) fn read(&self, bytes: usize, at: u64) -> io::Result<Vec<u8>> {
        let mut piece = vec![0; bytes];
        self.file
            .get()
            .ok_or(io::ErrorKind::NotFound)?
            .read_exact_at(&mut piece, at)?;
        Ok(piece)
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        drop(self.file.take());
        self.files.release(&self.client, *self.reserved.get_mut());
    }
}

/// The outcome of a job, for those who wait for it.
#[derive(Debug)]
pub(crate) struct Pending<T>(Arc<Mutex<Slot<T>>>);

/// The end of a job; dropped unfinished, the outcome is an error.
#[derive(Debug)]
pub(crate) struct Completion<T>(Arc<Mutex<Slot<T>>>);

#[derive(Debug)]
struct Slot<T> {
    outcome: Option<T>,
    is_over: bool,
    wakers: Vec<Waker>,
}

pub(crate) fn pending<T>() -> (Pending<T>, Completion<T>) {
    let slot = Arc::new(Mutex::new(Slot {
        outcome: None,
        is_over: false,
        wakers: Vec::new(),
    }));
    (Pending(Arc::clone(&slot)), Completion(slot))
}

impl<T> Pending<T> {
    /// `None`: the job was never carried out. All tasks that have polled are woken, the writer's
    /// and the reader's.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<T>> {
        let mut slot = lock(&self.0);
        if slot.is_over {
            return Poll::Ready(slot.outcome.take());
        }
        if !slot.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            slot.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl<T> Completion<T> {
    pub(crate) fn finish(self, outcome: T) {
        lock(&self.0).outcome = Some(outcome);
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        let wakers = {
            let mut slot = lock(&self.0);
            slot.is_over = true;
            std::mem::take(&mut slot.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ClientKey = [1; 9];
    const OTHER: ClientKey = [2; 9];

    #[test]
    fn room_is_bounded_for_each_client_and_for_all() {
        let files = BufferFiles::new(std::env::temp_dir().into());
        files.set_bounds(100, 40);
        assert!(
            files.reserve(&ONE, 40, Share::Response) && !files.reserve(&ONE, 1, Share::Response)
        );
        assert!(
            files.reserve(&ONE, 10, Share::Request) && !files.reserve(&ONE, 1, Share::Request),
            "half of all is for requests"
        );
        assert!(
            files.reserve(&OTHER, 40, Share::Response)
                && !files.reserve(&[3; 9], 11, Share::Response)
        );
        assert_eq!(files.bytes(), 90, "what was refused takes no room");
        files.release(&ONE, 50);
        files.release(&OTHER, 40);
        assert_eq!((files.bytes(), lock(&files.clients).len()), (0, 0));
        files.set_bounds(10, 40);
        assert!(!files.reserve(&ONE, 11, Share::Response));
        *lock(&files.full_since) = Some(Instant::now());
        assert!(
            !files.reserve(&ONE, 1, Share::Response),
            "a full disk is left alone"
        );
    }

    #[test]
    fn a_job_that_is_lost_is_seen_to_be() {
        let (waiting, completion) = pending::<u8>();
        let cx = Context::from_waker(Waker::noop());
        assert_eq!(waiting.poll(&cx), Poll::Pending);
        drop(completion);
        assert_eq!(waiting.poll(&cx), Poll::Ready(None));
        let (waiting, completion) = pending::<u8>();
        completion.finish(7);
        assert_eq!(waiting.poll(&cx), Poll::Ready(Some(7)));
    }
}

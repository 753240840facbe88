//! The process's only inotify instance.
//!
//! Called by: all workers; `walk` requests tokens. The kernel queues an event before the change's
//! system call returns. So a worker reads the queue itself ([`Watcher::catch_up`]) before it trusts
//! a token; its event loop is notified of events ([`Watcher::events`]). A thread reads the queue
//! too, so that it does not overflow while there are no requests.
//! Caveat: events are taken from the queue by one reader and concern all, so the others wait until
//! they are applied. Watching by path would race with renames, so the open directory is named
//! through /proc/self/fd. inotify does not report changes made by other machines, so file systems
//! are trusted by a list, and others get tokens that expire after a second. Where watching fails on
//! a listed file system (watch limit reached, no read permission, no /proc), tokens never hold, and
//! each request looks again.
//! Out of scope: recursion; what a watch asks for, and what an event touches (`watch_table`).

use crate::{
    Metadata,
    change_token::{ChangeToken, Concern},
    metadata,
    watch_table::{Interest, Watch, WatchTable},
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::inotify::{CreateFlags, ReadFlags, Reader, init},
    io::{Errno, ioctl_fionread},
    time::{ClockId, clock_gettime},
};
use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Lifetime of a result on file systems that do not report changes.
const TIMED_MS: u64 = 1000;

/// Pause of the thread after a batch of events: a flood of them wakes it 200 times a second at most.
const REST: Duration = Duration::from_millis(5);

/// Minimum time between two reports of an overflow.
const OVERFLOW_REPORT_MS: u64 = 60_000;

const EVENT_BYTES: usize = 32 * 1024;

/// An error of the watcher. Answers stay right: what cannot be watched is looked at for each
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchError {
    /// The user's limit on inotify watches is reached (`fs.inotify.max_user_watches`).
    LimitReached,
    /// The kernel's queue of events was full (`fs.inotify.max_queued_events`): everything cached is
    /// looked at again.
    QueueOverflow,
    /// A directory cannot be watched although its file system reports all changes: another error of
    /// inotify_add_watch(2), such as a directory that the server may not read.
    Failed(Errno),
}

/// Called when a watch cannot be added: once, and again after a watch was added in between; and
/// when events were lost, once a minute at most.
pub type ReportError = fn(WatchError);

/// The process's one inotify instance; cheap to clone, shared by all workers. Its thread ends with
/// the last clone.
#[derive(Clone, Debug)]
pub struct Watcher {
    handle: Arc<Handle>,
}

impl Watcher {
    /// Starts the thread. Where the kernel has no inotify instance left to give, no token ever
    /// holds; the error that remains is a thread that can't be started.
    pub fn start(report: ReportError) -> io::Result<Watcher> {
        let Ok(inotify) = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) else {
            return Ok(Watcher::idle());
        };
        let queue = Mutex::new(vec![MaybeUninit::uninit(); EVENT_BYTES].into());
        let shared = Arc::new(Shared {
            inotify,
            queue,
            is_applying: AtomicBool::new(false),
            table: Mutex::default(),
            touches: AtomicU64::new(0),
            report,
            is_reported: AtomicBool::new(false),
            overflow_report_ms: AtomicU64::new(0),
        });
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (thread_shared, thread_stop) = (Arc::clone(&shared), stop.try_clone()?);
        thread::Builder::new()
            .name("saker-watcher".into())
            .spawn(move || listen(&thread_shared, &thread_stop))?;
        Ok(Watcher::of(Some((shared, stop))))
    }

    /// A watcher that watches nothing: no token ever holds.
    pub fn idle() -> Watcher {
        Watcher::of(None)
    }

    /// True if there is an inotify instance.
    pub fn is_watching(&self) -> bool {
        self.handle.watching.is_some()
    }

    /// Becomes readable with each change, for an event loop. Only the watcher reads from it.
    /// `None`: there is no inotify instance.
    pub fn events(&self) -> Option<BorrowedFd<'_>> {
        self.handle.shared().map(|shared| shared.inotify.as_fd())
    }

    /// Applies all events that the kernel has queued: afterwards, tokens of earlier changes no
    /// longer hold. For a worker whose event loop says that [`Watcher::events`] is readable.
    pub fn catch_up(&self) {
        if let Some(shared) = self.handle.shared() {
            // An error ends the thread, which abandons the instance.
            let _ = shared.catch_up();
        }
    }

    /// Calls [`Watcher::catch_up`] if there is an event: one system call if there is none.
    pub fn look(&self) {
        if let Some(shared) = self.handle.shared()
            && (ioctl_fionread(&shared.inotify) != Ok(0) || shared.is_applying())
        {
            let _ = shared.catch_up();
        }
    }

    /// Waits for events that another thread has taken from the queue and not applied yet. For a
    /// worker whose event loop does not say that [`Watcher::events`] is readable. One load if there
    /// are none.
    pub fn await_others(&self) {
        if let Some(shared) = self.handle.shared()
            && shared.is_applying()
        {
            drop(shared.lock_queue());
        }
    }

    fn of(watching: Option<(Arc<Shared>, OwnedFd)>) -> Watcher {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Watcher {
            handle: Arc::new(Handle {
                number: NEXT.fetch_add(1, Ordering::Relaxed),
                watching,
            }),
        }
    }

    /// No other of this process has it.
    pub(crate) fn number(&self) -> u64 {
        self.handle.number
    }

    /// Coarse monotonic milliseconds, the clock of timed tokens.
    pub fn now_ms(&self) -> u64 {
        now_ms()
    }

    /// A token on everything in an open directory, for listings. To be taken before the directory
    /// is read.
    pub fn directory_token(&self, directory: &File) -> ChangeToken {
        let watch = metadata(directory).map_or(Watch::Failed, |metadata| {
            self.watch(directory, &metadata, Interest::Content)
        });
        match watch {
            // Writes in it are not reported, because there are too many.
            Watch::On(_, interest) if interest < Interest::Content => ChangeToken::until(0),
            watch => self.token(&watch, Concern::Any),
        }
    }

    /// A token on the content of an open file by whatever name it is written to (hard links). To be
    /// taken before it is read.
    pub fn file_token(&self, file: impl AsFd, metadata: &Metadata) -> ChangeToken {
        let watch = self.handle.shared().map_or(Watch::Failed, |shared| {
            shared.watch((file.as_fd(), metadata), None)
        });
        self.token(&watch, Concern::Itself)
    }

    /// Stops watching directories that no token refers to; returns how many. To be called now and
    /// then, after caches were swept.
    pub fn sweep(&self) -> usize {
        self.handle.shared().map_or(0, Shared::sweep)
    }

    pub fn watched_directories(&self) -> usize {
        self.handle.shared().map_or(0, |shared| shared.lock().len())
    }

    /// Number of events have touched a watched directory so far (a counter for statistics).
    pub fn touches(&self) -> u64 {
        self.handle
            .shared()
            .map_or(0, |shared| shared.touches.load(Ordering::Relaxed))
    }

    /// Watches an open directory from now on, if that can be done. Take tokens from the result
    /// *before* looking into the directory.
    pub(crate) fn watch(
        &self,
        directory: impl AsFd,
        metadata: &Metadata,
        interest: Interest,
    ) -> Watch {
        self.handle.shared().map_or(Watch::Failed, |shared| {
            shared.watch((directory.as_fd(), metadata), Some(interest))
        })
    }

    pub(crate) fn token(&self, watch: &Watch, concern: Concern<'_>) -> ChangeToken {
        match watch {
            Watch::On(directory, _) => directory
                .token(concern)
                .unwrap_or_else(|| ChangeToken::until(0)),
            Watch::Silent => ChangeToken::until(self.now_ms() + TIMED_MS),
            Watch::Failed => ChangeToken::until(0),
        }
    }
}

fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    let (seconds, nanoseconds) = (
        u64::try_from(now.tv_sec).unwrap_or(0),
        u64::try_from(now.tv_nsec).unwrap_or(0),
    );
    seconds * 1000 + nanoseconds / 1_000_000
}

/// Ends the thread when the last watcher goes.
#[derive(Debug)]
struct Handle {
    number: u64,
    watching: Option<(Arc<Shared>, OwnedFd)>,
}

impl Handle {
    fn shared(&self) -> Option<&Shared> {
        self.watching.as_ref().map(|(shared, _)| &**shared)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some((_, stop)) = &self.watching {
            let _ = rustix::io::write(stop, &1_u64.to_ne_bytes());
        }
    }
}

/// State shared by workers and the thread.
#[derive(Debug)]
struct Shared {
    inotify: OwnedFd,
    /// Locked by the reader of events until they are applied.
    queue: Mutex<Box<[MaybeUninit<u8>]>>,
    /// There may be events that have been read and not applied.
    is_applying: AtomicBool,
    table: Mutex<WatchTable>,
    touches: AtomicU64,
    report: ReportError,
    /// The last attempt to add a watch failed, which has been reported.
    is_reported: AtomicBool,
    /// Time from which an overflow is reported.
    overflow_report_ms: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, WatchTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_queue(&self) -> MutexGuard<'_, Box<[MaybeUninit<u8>]>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader that found the queue empty because another reader took its events sees this set, or
    /// the events applied: the flag is set before reading, and both go through the lock of the
    /// kernel's queue.
    fn is_applying(&self) -> bool {
        self.is_applying.load(Ordering::SeqCst)
    }

    fn catch_up(&self) -> Result<(), Errno> {
        let mut buffer = self.lock_queue();
        self.is_applying.store(true, Ordering::SeqCst);
        let outcome = self.drain(&mut buffer);
        self.is_applying.store(false, Ordering::SeqCst);
        outcome
    }

    fn drain(&self, buffer: &mut [MaybeUninit<u8>]) -> Result<(), Errno> {
        let mut reader = Reader::new(&self.inotify, buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    self.touches.fetch_add(1, Ordering::Relaxed);
                    self.lock().apply(&self.inotify, &event, now_ms());
                    if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                        self.report_overflow();
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The table stays locked during the system call, so that no reader can meet an event of a
    /// watch that isn't in it yet, and `sweep` can't remove the one that is being handed out.
    fn watch(&self, opened: (BorrowedFd<'_>, &Metadata), interest: Option<Interest>) -> Watch {
        let mut table = self.lock();
        let before = table.len();
        let watch = table.watch(&self.inotify, opened, interest, now_ms());
        let is_added = table.len() > before;
        drop(table);
        match watch {
            Ok(watch) => {
                if is_added {
                    self.is_reported.store(false, Ordering::Relaxed);
                }
                watch
            }
            Err(error) => {
                if !self.is_reported.swap(true, Ordering::Relaxed) {
                    (self.report)(match error {
                        Errno::NOSPC => WatchError::LimitReached,
                        error => WatchError::Failed(error),
                    });
                }
                Watch::Failed
            }
        }
    }

    fn report_overflow(&self) {
        let now_ms = now_ms();
        if now_ms >= self.overflow_report_ms.load(Ordering::Relaxed) {
            self.overflow_report_ms
                .store(now_ms + OVERFLOW_REPORT_MS, Ordering::Relaxed);
            (self.report)(WatchError::QueueOverflow);
        }
    }

    fn sweep(&self) -> usize {
        self.lock().sweep(&self.inotify, now_ms())
    }

    /// Invalidates all tokens from now on.
    fn abandon(&self) {
        self.lock().abandon();
    }
}

/// The thread: waits for events or the end.
fn listen(shared: &Shared, stop: &OwnedFd) {
    loop {
        let mut fds = [
            PollFd::new(&shared.inotify, PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            Ok(_) if fds[1].revents().is_empty() => {}
            _ => break,
        }
        if shared.catch_up().is_err() {
            break;
        }
        thread::sleep(REST);
    }
    shared.abandon();
}

#[cfg(test)]
mod tests;

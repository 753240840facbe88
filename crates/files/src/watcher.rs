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
//! Out of scope: recursion, and the kind of a change; a counter is all that is needed.

use crate::{
    change_token::{ChangeToken, Concern, WatchedDirectory},
    metadata,
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::inotify::{
        CreateFlags, Event, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch,
    },
    io::{Errno, ioctl_fionread},
    time::{ClockId, clock_gettime},
};
use std::{
    collections::HashMap,
    fs::File,
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Lifetime of a result on file systems that do not report changes.
const TIMED_MS: u64 = 1000;

/// Pause of the thread after a batch of events: a log written inside a document root wakes it 200
/// times a second at most.
const REST: Duration = Duration::from_millis(5);

const EVENT_BYTES: usize = 32 * 1024;

/// Reason why a directory cannot be watched although its file system reports all changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchError {
    /// The user's limit on inotify watches is reached (`fs.inotify.max_user_watches`).
    LimitReached,
    /// Another error of inotify_add_watch(2), such as a directory that the server may not read.
    Failed(Errno),
}

/// Called when a watch cannot be added: once, and again after a watch was added in between.
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
        let now = clock_gettime(ClockId::MonotonicCoarse);
        let (seconds, nanoseconds) = (
            u64::try_from(now.tv_sec).unwrap_or(0),
            u64::try_from(now.tv_nsec).unwrap_or(0),
        );
        seconds * 1000 + nanoseconds / 1_000_000
    }

    /// A token on everything in an open directory, for listings. To be taken before the directory
    /// is read.
    pub fn directory_token(&self, directory: &File) -> ChangeToken {
        let device = metadata(directory).map_or(0, |metadata| metadata.device);
        self.token(&self.watch(directory, device), Concern::Any)
    }

    /// A token on the content of an open file by whatever name it is written to (hard links). To be
    /// taken before it is read.
    pub fn file_token(&self, file: impl AsFd, device: u64) -> ChangeToken {
        let watch = self.handle.shared().map_or(Watch::Failed, |shared| {
            shared.watch(file.as_fd(), device, file_interest())
        });
        self.token(&watch, Concern::Itself)
    }

    /// Stops watching directories that no token refers to; returns how many. To be called now and
    /// then, after caches were swept.
    pub fn sweep(&self) -> usize {
        self.handle.shared().map_or(0, Shared::sweep)
    }

    pub fn watched_directories(&self) -> usize {
        self.handle
            .shared()
            .map_or(0, |shared| shared.lock().directories.len())
    }

    /// Number of events have touched a watched directory so far (a counter for statistics).
    pub fn touches(&self) -> u64 {
        self.handle
            .shared()
            .map_or(0, |shared| shared.touches.load(Ordering::Relaxed))
    }

    /// Watches an open directory (and the device it is on) from now on, if that can be done. Take
    /// tokens from the result *before* looking into the directory.
    pub(crate) fn watch(&self, directory: impl AsFd, device: u64) -> Watch {
        self.handle.shared().map_or(Watch::Failed, |shared| {
            shared.watch(directory.as_fd(), device, interest())
        })
    }

    pub(crate) fn token(&self, watch: &Watch, concern: Concern) -> ChangeToken {
        match watch {
            Watch::On(directory) => directory
                .token(concern)
                .unwrap_or_else(|| ChangeToken::until(0)),
            Watch::Silent => ChangeToken::until(self.now_ms() + TIMED_MS),
            Watch::Failed => ChangeToken::until(0),
        }
    }
}

/// Result of an attempt to watch.
#[derive(Debug)]
pub(crate) enum Watch {
    On(Arc<WatchedDirectory>),
    /// Its file system does not tell of all changes.
    Silent,
    /// Its file system would report all changes, but the watch failed.
    Failed,
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
    table: Mutex<Table>,
    touches: AtomicU64,
    report: ReportError,
    /// The last attempt to add a watch failed, which has been reported.
    is_reported: AtomicBool,
}

#[derive(Debug, Default)]
struct Table {
    /// Directories by watch descriptor. The kernel returns the same descriptor for the same inode,
    /// and doesn't reuse one before 2^31 others.
    directories: HashMap<i32, Arc<WatchedDirectory>>,
    /// Devices of file systems that can't be watched, so that a network file system isn't asked
    /// again and again. A device number that is reused by a better file system later only costs its
    /// watches.
    unwatchable_devices: Vec<u64>,
    /// The thread has ended: no event will ever be read.
    is_abandoned: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
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
                Ok(event) => self.apply(&event),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn watch(&self, opened: BorrowedFd<'_>, device: u64, interest: WatchFlags) -> Watch {
        if !self.is_watchable(opened, device) {
            return Watch::Silent;
        }
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
        // The table stays locked during the call, so that no reader can meet an event of a watch
        // that isn't in it yet, and `sweep` can't remove the one that is being handed out.
        let mut table = self.lock();
        if table.is_abandoned {
            return Watch::Failed;
        }
        match add_watch(&self.inotify, path, interest) {
            Ok(descriptor) => {
                self.is_reported.store(false, Ordering::Relaxed);
                Watch::On(Arc::clone(
                    table
                        .directories
                        .entry(descriptor)
                        .or_insert_with(|| Arc::new(WatchedDirectory::new())),
                ))
            }
            Err(error) => {
                drop(table);
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

    fn is_watchable(&self, directory: BorrowedFd<'_>, device: u64) -> bool {
        if self.lock().unwatchable_devices.contains(&device) {
            return false;
        }
        let is_local =
            rustix::fs::fstatfs(directory).is_ok_and(|stat| hears_all_changes(stat.f_type as u32));
        if !is_local {
            self.lock().unwatchable_devices.push(device);
        }
        is_local
    }

    /// Removes directories that only the table refers to: new references are handed out under the
    /// same lock.
    fn sweep(&self) -> usize {
        let mut table = self.lock();
        let before = table.directories.len();
        table.directories.retain(|descriptor, directory| {
            let is_used = Arc::strong_count(directory) > 1;
            if !is_used {
                // The kernel answers with IN_IGNORED for a descriptor that is no longer in the
                // table; that event is skipped.
                let _ = remove_watch(&self.inotify, *descriptor);
            }
            is_used
        });
        before - table.directories.len()
    }

    fn apply(&self, event: &Event<'_>) {
        let events = event.events();
        self.touches.fetch_add(1, Ordering::Relaxed);
        let mut table = self.lock();
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            table
                .directories
                .values()
                .for_each(|directory| directory.touch_all());
            return;
        }
        let Some(directory) = table.directories.get(&event.wd()) else {
            return;
        };
        match event.file_name() {
            _ if events.contains(ReadFlags::IGNORED) => {
                directory.end();
                table.directories.remove(&event.wd());
            }
            // Without a name it is about the directory (or file) itself: moved, deleted, unmounted,
            // permissions changed, written to.
            None => directory.touch_all(),
            Some(name)
                if events
                    .difference(ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE)
                    .is_empty() =>
            {
                directory.touch_content(name.to_bytes());
            }
            Some(name) => directory.touch_entry(name.to_bytes()),
        }
    }

    /// Invalidates all tokens from now on.
    fn abandon(&self) {
        let mut table = self.lock();
        table.is_abandoned = true;
        table
            .directories
            .drain()
            .for_each(|(_, directory)| directory.end());
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

/// Everything that changes the target of a name or its content. ONLYDIR: the descriptor is a
/// directory, and must be nothing else. EXCL_UNLINK: a file that has lost its name is irrelevant.
fn interest() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR
        | WatchFlags::EXCL_UNLINK
}

/// Everything that changes a file, through whichever of its names.
fn file_interest() -> WatchFlags {
    WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
}

/// File systems of which every change passes through this kernel (magic numbers of statfs(2) and
/// linux/magic.h). Not among them: NFS, SMB, FUSE (sshfs, virtiofs), 9p, Ceph, Lustre, GFS2, OCFS2,
/// and the kernel's own such as proc and sysfs, whose files change silently.
fn hears_all_changes(magic: u32) -> bool {
    const LOCAL: [u32; 20] = [
        0x0000_ef53, // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683e, // Btrfs
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
        0x794c_7630, // overlayfs
        0xf2f5_2010, // F2FS
        0x2fc1_2fc1, // ZFS
        0xca45_1a4e, // bcachefs
        0x7371_7368, // SquashFS
        0xe0f5_e1e2, // EROFS
        0x0000_9660, // ISO 9660
        0x1501_3346, // UDF
        0x0000_4d44, // FAT
        0x2011_bab0, // exFAT
        0x7366_746e, // NTFS3
        0x3153_464a, // JFS
        0x5265_4973, // ReiserFS
        0x0000_3434, // NILFS
        0x0000_f15f, // eCryptfs
    ];
    LOCAL.contains(&magic)
}

#[cfg(test)]
mod tests;

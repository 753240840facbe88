//! The process's one inotify instance and the thread that reads it.
//!
//! Shared by all workers; `walk` asks it for stamps. The difficulties: watching by path would race with a rename, so the directory that is
//! open already is named through /proc/self/fd; and inotify hears nothing of changes that another machine makes, so file systems are
//! trusted by a list, and everything else (also: watch limit reached, no permission to read the directory, no /proc) gets stamps that run
//! out after a second. Absent on purpose: recursion, and what changed; a counter is all that anybody needs.

use crate::{
    metadata,
    stamp::{Concern, Stamp, WatchedDirectory},
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::inotify::{CreateFlags, Event, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch},
    io::Errno,
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
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Where watching is impossible, an outcome is believed this long.
const TIMED_MS: u64 = 1000;

/// After a batch of events the thread rests: a log written inside a document root wakes it 200 times a second at most.
const REST: Duration = Duration::from_millis(5);

const EVENT_BYTES: usize = 32 * 1024;

/// The process's one inotify instance; cheap to clone, shared by all workers. Its thread ends with the last clone.
#[derive(Clone, Debug)]
pub struct Watcher {
    handle: Arc<Handle>,
}

impl Watcher {
    /// Starts the thread. Where the kernel has no inotify instance left to give, all stamps are timed; the error that remains is a thread
    /// that can't be started.
    pub fn start() -> io::Result<Watcher> {
        let Ok(inotify) = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) else { return Ok(Watcher::timed()) };
        let shared = Arc::new(Shared { inotify, table: Mutex::default(), touches: AtomicU64::new(0) });
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (thread_shared, thread_stop) = (Arc::clone(&shared), stop.try_clone()?);
        thread::Builder::new().name("saker-watcher".into()).spawn(move || listen(&thread_shared, &thread_stop))?;
        Ok(Watcher::of(Some((shared, stop))))
    }

    /// A watcher that watches nothing: every stamp runs out after a second.
    pub fn timed() -> Watcher {
        Watcher::of(None)
    }

    fn of(watching: Option<(Arc<Shared>, OwnedFd)>) -> Watcher {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Watcher { handle: Arc::new(Handle { number: NEXT.fetch_add(1, Ordering::Relaxed), watching }) }
    }

    /// No other of this process has it.
    pub(crate) fn number(&self) -> u64 {
        self.handle.number
    }

    /// Coarse monotonic milliseconds, the clock of timed stamps.
    pub fn now_ms(&self) -> u64 {
        let now = clock_gettime(ClockId::MonotonicCoarse);
        let (seconds, nanoseconds) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
        seconds * 1000 + nanoseconds / 1_000_000
    }

    /// A stamp on everything in an open directory, for listings. To be taken before the directory is read.
    pub fn stamp_directory(&self, directory: &File) -> Stamp {
        let device = metadata(directory).map_or(0, |metadata| metadata.device);
        self.stamp(self.watch(directory, device).as_ref(), Concern::Any)
    }

    /// Stops watching directories that no stamp refers to; returns how many. To be called now and then, after caches were swept.
    pub fn sweep(&self) -> usize {
        self.handle.shared().map_or(0, Shared::sweep)
    }

    pub fn watched_directories(&self) -> usize {
        self.handle.shared().map_or(0, |shared| shared.lock().directories.len())
    }

    /// How many events have touched a watched directory so far (a counter for statistics).
    pub fn touches(&self) -> u64 {
        self.handle.shared().map_or(0, |shared| shared.touches.load(Ordering::Relaxed))
    }

    /// Watches an open directory (and the device it is on) from now on, if that can be done. Take stamps from the result *before* looking into the directory.
    pub(crate) fn watch(&self, directory: impl AsFd, device: u64) -> Option<Arc<WatchedDirectory>> {
        self.handle.shared()?.watch(directory.as_fd(), device)
    }

    pub(crate) fn stamp(&self, directory: Option<&Arc<WatchedDirectory>>, concern: Concern) -> Stamp {
        directory.and_then(|directory| directory.stamp(concern)).unwrap_or_else(|| self.timed_stamp())
    }

    pub(crate) fn timed_stamp(&self) -> Stamp {
        Stamp::until(self.now_ms() + TIMED_MS)
    }
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

/// What workers and the thread share.
#[derive(Debug)]
struct Shared {
    inotify: OwnedFd,
    table: Mutex<Table>,
    touches: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    /// By watch descriptor. The kernel gives the same one for the same inode, and doesn't reuse one before 2^31 others.
    directories: HashMap<i32, Arc<WatchedDirectory>>,
    /// Devices of file systems that can't be watched, so that a network file system isn't asked again and again. A device number that is
    /// reused by a better file system later only costs its watches.
    unwatchable_devices: Vec<u64>,
    /// The thread has ended: no event will ever be read.
    is_abandoned: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, directory: BorrowedFd<'_>, device: u64) -> Option<Arc<WatchedDirectory>> {
        if !self.is_watchable(directory, device) {
            return None;
        }
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        // The table stays locked over the call, so that the thread can't meet an event of a watch that isn't in it yet, and `sweep` can't
        // remove the one that is being given out.
        let mut table = self.lock();
        if table.is_abandoned {
            return None;
        }
        let descriptor = add_watch(&self.inotify, path, interest()).ok()?;
        Some(Arc::clone(table.directories.entry(descriptor).or_insert_with(|| Arc::new(WatchedDirectory::new()))))
    }

    fn is_watchable(&self, directory: BorrowedFd<'_>, device: u64) -> bool {
        if self.lock().unwatchable_devices.contains(&device) {
            return false;
        }
        let is_local = rustix::fs::fstatfs(directory).is_ok_and(|stat| hears_all_changes(stat.f_type as u32));
        if !is_local {
            self.lock().unwatchable_devices.push(device);
        }
        is_local
    }

    /// A directory that only the table refers to is nobody's: new references are given out under the same lock.
    fn sweep(&self) -> usize {
        let mut table = self.lock();
        let before = table.directories.len();
        table.directories.retain(|descriptor, directory| {
            let is_used = Arc::strong_count(directory) > 1;
            if !is_used {
                // The kernel answers with IN_IGNORED for a descriptor that is not in the table any more, which is passed over.
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
            table.directories.values().for_each(|directory| directory.touch_all());
            return;
        }
        let Some(directory) = table.directories.get(&event.wd()) else { return };
        match event.file_name() {
            _ if events.contains(ReadFlags::IGNORED) => {
                directory.end();
                table.directories.remove(&event.wd());
            }
            // Without a name it is about the directory itself: moved, deleted, unmounted, permissions changed.
            None => directory.touch_all(),
            Some(name) if events.difference(ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE).is_empty() => {
                directory.touch_content(name.to_bytes());
            }
            Some(name) => directory.touch_entry(name.to_bytes()),
        }
    }

    /// From here on all stamps are timed, and those given out have run out.
    fn abandon(&self) {
        let mut table = self.lock();
        table.is_abandoned = true;
        table.directories.drain().for_each(|(_, directory)| directory.end());
    }
}

/// The thread: waits for events or the end.
fn listen(shared: &Shared, stop: &OwnedFd) {
    let mut buffer = vec![MaybeUninit::uninit(); EVENT_BYTES];
    loop {
        let mut fds = [PollFd::new(&shared.inotify, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            Ok(_) if fds[1].revents().is_empty() => {}
            _ => break,
        }
        if drain(shared, &mut buffer).is_err() {
            break;
        }
        thread::sleep(REST);
    }
    shared.abandon();
}

fn drain(shared: &Shared, buffer: &mut [MaybeUninit<u8>]) -> Result<(), Errno> {
    let mut reader = Reader::new(&shared.inotify, buffer);
    loop {
        match reader.next() {
            Ok(event) => shared.apply(&event),
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Everything that changes what a name leads to or what is in it. ONLYDIR: the descriptor is a directory, and shall be nothing else.
/// EXCL_UNLINK: a file that has lost its name concerns nobody.
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

/// File systems of which every change passes through this kernel (magic numbers of statfs(2) and linux/magic.h). Not among them: NFS,
/// SMB, FUSE (sshfs, virtiofs), 9p, Ceph, Lustre, GFS2, OCFS2, and the kernel's own such as proc and sysfs, whose files change silently.
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

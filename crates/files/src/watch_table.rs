//! The table of watches: what each of them asks for, and what an event touches.
//!
//! Called by: `watcher`, under its lock.
//! Caveat: a directory is asked for no more than its tokens need. Directories that are only passed
//! through report neither new files nor writes, so a busy log in /tmp costs a site in /tmp/site
//! nothing. A directory whose files are served reports writes to all of them; if most are to files
//! that nothing depends on, such as a log, the watch ends, and for a while files in it are watched
//! one by one.
//! Out of scope: reading the queue of events.

use crate::{Metadata, change_token::WatchedDirectory};
use rustix::{
    fs::inotify::{Event, ReadFlags, WatchFlags, add_watch, remove_watch},
    io::Errno,
};
use std::{
    collections::HashMap,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// Number of writes per [`NOISE_WINDOW_MS`] to files that nothing depends on, above which a
/// directory is noisy.
const NOISE_MAX: u32 = 64;
const NOISE_WINDOW_MS: u64 = 1000;
/// Time during which files of a noisy directory are watched one by one.
const NOISY_MS: u64 = 60_000;
/// Maximum number of noisy directories that are remembered.
const NOISY_MAX: usize = 1024;

/// The changes that a watch reports. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// Entries that exist go, are replaced, or get other attributes.
    Existing,
    /// New entries appear.
    Absent,
    /// Files are written to.
    Content,
}

impl Interest {
    /// ONLYDIR: the descriptor is a directory, and must be nothing else. EXCL_UNLINK: a file that
    /// has lost its name is irrelevant.
    fn flags(self) -> WatchFlags {
        let existing = WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        match self {
            Interest::Existing => existing,
            Interest::Absent => existing | WatchFlags::CREATE,
            Interest::Content => {
                existing | WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE
            }
        }
    }
}

/// Everything that changes a file, through whichever of its names.
fn file_flags() -> WatchFlags {
    WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
}

/// Device and inode.
type Identity = (u64, u64);

/// Result of an attempt to watch.
#[derive(Debug)]
pub(crate) enum Watch {
    /// A directory, with the changes that are reported: possibly more or fewer than requested.
    On(Arc<WatchedDirectory>, Interest),
    /// Its file system does not report all changes.
    Silent,
    /// Its file system would report all changes, but the watch failed.
    Failed,
}

#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    /// By watch descriptor. The kernel returns the same descriptor for the same inode, and doesn't
    /// reuse one before 2^31 others.
    records: HashMap<i32, Record>,
    /// Watches of file systems whose identities are unique. A watch pins its inode, so an identity
    /// is not given to another one while it is here, or the event that ends the watch is queued
    /// before.
    descriptors: HashMap<Identity, i32>,
    /// Devices of file systems that can't be watched, so that a network file system isn't asked
    /// again and again. A device number that is reused by a better file system later only costs its
    /// watches.
    unwatchable_devices: Vec<u64>,
    /// Noisy directories, and the time until which they are.
    noisy: HashMap<Identity, u64>,
    /// No event will ever be read again.
    is_abandoned: bool,
}

/// One watch.
#[derive(Debug)]
struct Record {
    directory: Arc<WatchedDirectory>,
    identity: Identity,
    interest: Interest,
    /// Writes to files that nothing depends on, since a time.
    noise: u32,
    noise_since_ms: u64,
}

impl WatchTable {
    /// Watches an open directory or, with `interest` `None`, a file.
    ///
    /// # Errors
    /// Those of inotify_add_watch(2).
    pub(crate) fn watch(
        &mut self,
        inotify: &OwnedFd,
        (opened, metadata): (BorrowedFd<'_>, &Metadata),
        interest: Option<Interest>,
        now_ms: u64,
    ) -> Result<Watch, Errno> {
        if self.is_abandoned {
            return Ok(Watch::Failed);
        }
        let identity = (metadata.device, metadata.inode);
        let wanted = interest.map(|interest| self.bounded(interest, identity, now_ms));
        if let Some(watch) = self.known(identity, wanted) {
            return Ok(watch);
        }
        if self.unwatchable_devices.contains(&metadata.device) {
            return Ok(Watch::Silent);
        }
        let magic = rustix::fs::fstatfs(opened).map_or(0, |stat| stat.f_type as u32);
        if !hears_all_changes(magic) {
            self.unwatchable_devices.push(metadata.device);
            return Ok(Watch::Silent);
        }
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let flags = wanted.map_or(file_flags(), Interest::flags) | WatchFlags::MASK_ADD;
        let descriptor = add_watch(inotify, path, flags)?;
        // Without levels, a file's interest is always the same.
        let wanted = wanted.unwrap_or(Interest::Content);
        let record = self.records.entry(descriptor).or_insert_with(|| Record {
            directory: Arc::default(),
            identity,
            interest: wanted,
            noise: 0,
            noise_since_ms: now_ms,
        });
        record.interest = record.interest.max(wanted);
        if has_unique_identities(magic) {
            self.descriptors.insert(identity, descriptor);
        }
        Ok(Watch::On(Arc::clone(&record.directory), record.interest))
    }

    fn known(&self, identity: Identity, wanted: Option<Interest>) -> Option<Watch> {
        let record = self.records.get(self.descriptors.get(&identity)?)?;
        (wanted.is_none_or(|wanted| wanted <= record.interest))
            .then(|| Watch::On(Arc::clone(&record.directory), record.interest))
    }

    /// Returns the interest that a directory may have: while it is noisy, not the writes.
    fn bounded(&mut self, interest: Interest, identity: Identity, now_ms: u64) -> Interest {
        if interest < Interest::Content {
            return interest;
        }
        match self.noisy.get(&identity) {
            Some(until_ms) if now_ms < *until_ms => Interest::Absent,
            Some(_) => {
                self.noisy.remove(&identity);
                interest
            }
            None => interest,
        }
    }

    /// Number of watches.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Removes watches that only the table refers to: new references are handed out under the same
    /// lock.
    pub(crate) fn sweep(&mut self, inotify: &OwnedFd, now_ms: u64) -> usize {
        let unused: Vec<i32> = self
            .records
            .iter()
            .filter(|(_, record)| Arc::strong_count(&record.directory) == 1)
            .map(|(descriptor, _)| *descriptor)
            .collect();
        unused
            .iter()
            .for_each(|descriptor| self.remove(inotify, *descriptor));
        self.records
            .values()
            .for_each(|record| record.directory.sweep());
        self.noisy.retain(|_, until_ms| now_ms < *until_ms);
        unused.len()
    }

    /// The kernel answers with IN_IGNORED for a descriptor that is no longer in the table; that
    /// event is skipped.
    fn remove(&mut self, inotify: &OwnedFd, descriptor: i32) {
        let _ = remove_watch(inotify, descriptor);
        self.forget(descriptor);
    }

    fn forget(&mut self, descriptor: i32) {
        let Some(record) = self.records.remove(&descriptor) else {
            return;
        };
        record.directory.end();
        if self.descriptors.get(&record.identity) == Some(&descriptor) {
            self.descriptors.remove(&record.identity);
        }
    }

    /// Invalidates the tokens that an event is about.
    pub(crate) fn apply(&mut self, inotify: &OwnedFd, event: &Event<'_>, now_ms: u64) {
        let events = event.events();
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.records
                .values()
                .for_each(|record| record.directory.touch_all());
            return;
        }
        let Some(record) = self.records.get_mut(&event.wd()) else {
            return;
        };
        let directory = &record.directory;
        match event.file_name() {
            _ if events.contains(ReadFlags::IGNORED) => self.forget(event.wd()),
            // Without a name it is about the directory (or file) itself: moved, deleted, unmounted,
            // permissions changed, written to.
            None => directory.touch_all(),
            Some(name)
                if events
                    .difference(ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE)
                    .is_empty() =>
            {
                let is_noise = !directory.touch_content(name.to_bytes());
                if is_noise && record.is_noisy(now_ms) {
                    let identity = record.identity;
                    self.silence(inotify, event.wd(), identity, now_ms);
                }
            }
            Some(name) => directory.touch_entry(name.to_bytes()),
        }
    }

    /// Ends the watch of a noisy directory: what depends on it is looked at again, and watched
    /// without the writes.
    fn silence(&mut self, inotify: &OwnedFd, descriptor: i32, identity: Identity, now_ms: u64) {
        if self.noisy.len() < NOISY_MAX {
            self.noisy.insert(identity, now_ms + NOISY_MS);
            self.remove(inotify, descriptor);
        }
    }

    /// Invalidates all tokens from now on.
    pub(crate) fn abandon(&mut self) {
        self.is_abandoned = true;
        self.descriptors.clear();
        self.records
            .drain()
            .for_each(|(_, record)| record.directory.end());
    }
}

impl Record {
    /// Counts a write to a file that nothing depends on.
    fn is_noisy(&mut self, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.noise_since_ms) >= NOISE_WINDOW_MS {
            (self.noise, self.noise_since_ms) = (0, now_ms);
        }
        self.noise += 1;
        self.noise > NOISE_MAX
    }
}

/// File systems of which every change passes through this kernel (magic numbers of statfs(2) and
/// linux/magic.h). Not among them: NFS, SMB, FUSE (sshfs, virtiofs), 9p, Ceph, Lustre, GFS2, OCFS2,
/// and the kernel's own such as proc and sysfs, whose files change silently.
fn hears_all_changes(magic: u32) -> bool {
    const LOCAL: [u32; 14] = [
        0x794c_7630, // overlayfs
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
    LOCAL.contains(&magic) || has_unique_identities(magic)
}

/// Those among them whose inode numbers are unique per device for as long as an inode is in use.
/// Not so where several layers or subvolumes share a device.
fn has_unique_identities(magic: u32) -> bool {
    const UNIQUE: [u32; 6] = [
        0x0000_ef53, // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683e, // Btrfs
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
        0xf2f5_2010, // F2FS
    ];
    UNIQUE.contains(&magic)
}

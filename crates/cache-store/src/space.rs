//! The disk reserve: free space that the store leaves to others.
//!
//! Called by: writers before and while they write, and housekeeping once a second.
//! Caveat: a bounded number of bytes is written between two checks, so the reserve may be touched
//! but not used up.
//! Out of scope: the store's own limits, which the index enforces.

use rustix::fs::statvfs;
use saker_telemetry::{error_log, message};
use std::{
    io,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Default reserve, but no more than a twentieth of the disk.
const RESERVE_BYTES: u64 = 1 << 30;

const RESERVE_SHARE: u64 = 20;

/// Bytes written between two checks of the file system.
const LOOK_BYTES: u64 = 4 << 20;

/// Pause after a write that failed for lack of space, perhaps because of a quota.
const PAUSE: Duration = Duration::from_secs(5);

pub(crate) struct Space {
    root: PathBuf,
    /// 0: none. `None`: the default.
    reserve_bytes: Option<u64>,
    is_full: AtomicBool,
    unseen_bytes: AtomicU64,
    began: Instant,
    /// Milliseconds since `began`, before which it counts as full.
    full_until_ms: AtomicU64,
}

impl Space {
    pub fn new(root: PathBuf, reserve_bytes: Option<u64>) -> Space {
        let began = Instant::now();
        let space = Space {
            root,
            reserve_bytes,
            is_full: AtomicBool::new(false),
            unseen_bytes: AtomicU64::new(0),
            began,
            full_until_ms: AtomicU64::new(0),
        };
        space.refresh();
        space
    }

    /// Checks for free space.
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] while the disk has no space beyond the reserve. That is
    /// logged once, not per entry.
    pub fn check(&self) -> io::Result<()> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the disk has no room beyond its reserve",
            )),
            false => Ok(()),
        }
    }

    /// Announces that this many bytes are about to be written.
    pub fn reserve(&self, bytes: u64) -> io::Result<()> {
        if self.unseen_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes >= LOOK_BYTES {
            self.refresh();
        }
        self.check()
    }

    /// Returns the error, and remembers one that means "no space".
    pub fn note_error(&self, error: io::Error) -> io::Error {
        if !is_out_of_space(&error) {
            return error;
        }
        let until_ms = (self.began.elapsed() + PAUSE).as_millis() as u64;
        self.full_until_ms.store(until_ms, Ordering::Relaxed);
        self.set_full(true, &error.to_string());
        io::Error::new(io::ErrorKind::StorageFull, error)
    }

    /// Checks the file system. If that fails, there is space until a write fails.
    pub fn refresh(&self) {
        self.unseen_bytes.store(0, Ordering::Relaxed);
        if (self.began.elapsed().as_millis() as u64) < self.full_until_ms.load(Ordering::Relaxed) {
            return;
        }
        let Ok(disk) = statvfs(&self.root) else {
            return;
        };
        let (free, all) = (
            disk.f_bavail.saturating_mul(disk.f_frsize),
            disk.f_blocks.saturating_mul(disk.f_frsize),
        );
        let reserve = self
            .reserve_bytes
            .unwrap_or(RESERVE_BYTES.min(all / RESERVE_SHARE));
        // Once full, it takes some more space to continue, so that it doesn't flip with each file.
        let wanted = if self.is_full.load(Ordering::Relaxed) {
            reserve.saturating_add(reserve / 8)
        } else {
            reserve
        };
        self.set_full(
            free < wanted,
            &format!(
                "{} MiB are free, and {} MiB are left to others",
                free >> 20,
                reserve >> 20
            ),
        );
    }

    fn set_full(&self, is_full: bool, why: &str) {
        if self.is_full.swap(is_full, Ordering::Relaxed) != is_full {
            let line = if is_full {
                &message::CACHE_DISK_FULL
            } else {
                &message::CACHE_DISK_ROOM
            };
            error_log::log(line, format_args!("{}: {why}", self.root.display()));
        }
    }
}

/// Returns true if an error means that there is no space, on the disk or within a quota or limit.
fn is_out_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_beyond_the_disk_leaves_no_room() {
        let folder = std::env::temp_dir();
        assert!(Space::new(folder.clone(), Some(0)).check().is_ok());
        let full = Space::new(folder.clone(), Some(u64::MAX));
        assert_eq!(
            full.check().map_err(|error| error.kind()),
            Err(io::ErrorKind::StorageFull)
        );
        assert_eq!(
            full.reserve(1).map_err(|error| error.kind()),
            Err(io::ErrorKind::StorageFull)
        );
        assert!(
            Space::new("/nowhere/at/all".into(), Some(u64::MAX))
                .check()
                .is_ok(),
            "a write will tell"
        );
    }

    #[test]
    fn a_write_that_failed_is_remembered() {
        let space = Space::new(std::env::temp_dir(), Some(0));
        assert_eq!(
            space.note_error(io::ErrorKind::NotFound.into()).kind(),
            io::ErrorKind::NotFound
        );
        assert!(space.check().is_ok());
        assert_eq!(
            space.note_error(io::ErrorKind::QuotaExceeded.into()).kind(),
            io::ErrorKind::StorageFull
        );
        space.refresh();
        assert!(
            space.check().is_err(),
            "for a while, whatever the file system says"
        );
    }
}

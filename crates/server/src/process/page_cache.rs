//! The page cache's store: opened by the main thread before there are workers, and kept across
//! reloads.
//!
//! Called by: the start and each reload.
//! Caveat: the user that the server becomes creates the directory below the state directory;
//! elsewhere root may have to ([`hand_over`]), and existing directories are left to the
//! administrator. If the directory is unusable, the server runs uncached and logs it.

use super::{
    cluster,
    hand_on::{hand_on, is_guard},
};
use saker_cache_store::{Bounds, Store};
use saker_config::{Model, model::CacheStore};
use saker_net::folders;
use saker_serving::shared::{PageCache, Shared};
use saker_telemetry::{error_log, message};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown},
    },
    path::{Path, PathBuf},
};

/// Cached pages may contain what logged-in users see.
const FOLDER_MODE: u32 = 0o700;
/// Mode of a directory owned by root, for a group that is the server's alone.
const GUARDED_MODE: u32 = 0o770;
const LOCK: &str = "lock";
/// A server lets go of its cache last of all.
const PREDECESSOR_ATTEMPTS: u32 = 200;
const PREDECESSOR_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

pub fn folder(model: &Model) -> PathBuf {
    model
        .cache
        .folder
        .clone()
        .unwrap_or_else(|| model.server.state_dir.join("cache"))
}

pub fn bounds(cache: &CacheStore) -> Bounds {
    Bounds {
        bytes_max: cache.bytes_max,
        entries_max: cache.entries_max,
        site_bytes_max: cache.site_bytes_max,
        site_entries_max: cache.site_entries_max,
        entry_bytes_max: cache.entry_bytes_max,
        disk_reserve_bytes: cache.disk_reserve_bytes,
    }
}

/// Called as root: creates a missing directory, and hands it to the user. Failures repeat, and are
/// reported, when it is opened. `guard`: the group that the server alone has, which keeps other
/// processes of the user from reading private pages.
pub fn hand_over(model: &Model, uid: u32, guard: Option<u32>) {
    if !model.wants_cache() || model.cache.folder.is_none() {
        return;
    }
    let folder = folder(model);
    if let Some(parent) = folder.parent() {
        let _ = fs::create_dir_all(parent);
    }
    // Only what did not exist, or is root's own from an earlier start.
    let made = match folders::create(&folder, FOLDER_MODE) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_guarded(&folder),
        made => made,
    };
    let Ok(made) = made else { return };
    let _ = match guard {
        Some(gid) => close_to(&made, gid),
        None => fchown(&made, Some(uid), None),
    };
}

fn open_guarded(folder: &Path) -> io::Result<OwnedFd> {
    let opened = folders::open(folder)?;
    let found = rustix::fs::fstat(&opened)?;
    match is_guard(found.st_uid, found.st_gid) {
        true => Ok(opened),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Called as root: hands the content of a directory that root created at an earlier start to this
/// user.
pub fn hand_on_left(model: &Model, uid: u32) {
    if let Some(folder) = model
        .cache
        .folder
        .as_ref()
        .filter(|folder| is_guarded(folder))
    {
        hand_on(folder, uid);
    }
}

/// Made by root at an earlier start, with the group of that start.
fn is_guarded(folder: &Path) -> bool {
    fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && is_guard(found.uid(), found.gid()))
}

/// Closes a directory that belongs to root, so that other users cannot place anything in it.
fn close_to(folder: &OwnedFd, gid: u32) -> io::Result<()> {
    fchown(folder, Some(0), Some(gid))?;
    Ok(rustix::fs::fchmod(
        folder,
        rustix::fs::Mode::from_raw_mode(GUARDED_MODE),
    )?)
}

/// Opens it, where something uses it and it is not open yet.
pub fn open(model: &Model, shared: &Shared) {
    if !model.wants_cache() || shared.store().is_some() {
        return;
    }
    let folder = folder(model);
    let opened = open_in(&folder, bounds(&model.cache)).and_then(|mut cache| {
        cache.cluster = cluster::join(&model.cluster, &cache, &shared.main_counters)?;
        let node = cache.cluster.as_ref();
        cache.peers = node.and_then(|node| cluster::peers(&model.cluster, node));
        Ok(cache)
    });
    match opened {
        Ok(cache) => drop(shared.replace_page_cache(Some(cache))),
        Err(error) => error_log::log(
            &message::CACHE_OFF,
            format_args!("{}: {error}", folder.display()),
        ),
    }
}

/// Opens the cache that another server has let go of, or is about to by ending.
pub async fn open_released(model: &Model, shared: &Shared) {
    let folder = folder(model);
    for _ in 0..PREDECESSOR_ATTEMPTS {
        let is_held = lock(&folder).is_err_and(|error| error.kind() == io::ErrorKind::Other);
        if !model.wants_cache() || !is_held {
            break;
        }
        tokio::time::sleep(PREDECESSOR_PAUSE).await;
    }
    open(model, shared);
}

/// Opens the cache after a predecessor, emptied: purges came meanwhile that could not be recorded.
pub async fn open_emptied(model: &Model, shared: &Shared) {
    let folder = folder(model);
    for _ in 0..PREDECESSOR_ATTEMPTS {
        match lock(&folder) {
            Ok(_held) => {
                saker_cache_store::forget(&folder);
                break;
            }
            // Another server's still.
            Err(error) if error.kind() == io::ErrorKind::Other => {
                tokio::time::sleep(PREDECESSOR_PAUSE).await
            }
            Err(_) => break,
        }
    }
    open(model, shared);
}

fn open_in(folder: &Path, bounds: Bounds) -> io::Result<PageCache> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(folder)?;
    let lock = lock(folder)?;
    Ok(PageCache {
        store: Store::open(folder, bounds)?,
        folder: folder.into(),
        lock: Some(lock),
        cluster: None,
        peers: None,
    })
}

/// Locks the directory: two servers would delete each other's files.
fn lock(folder: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(io::Error::other(
            "another server uses this page cache directory",
        )),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Settings of an open store that a reload can't change, if the new configuration changes them.
pub fn fixed_until_restart(old: &Model, new: &Model) -> impl Iterator<Item = &'static str> {
    let (before, after) = (&old.cache, &new.cache);
    let rows = [
        ("cache.folder", folder(old) != folder(new)),
        ("cache.size", before.bytes_max != after.bytes_max),
        ("cache.entries", before.entries_max != after.entries_max),
        (
            "cache.site_size",
            before.site_bytes_max != after.site_bytes_max,
        ),
        (
            "cache.site_entries",
            before.site_entries_max != after.site_entries_max,
        ),
        (
            "cache.entry_size",
            before.entry_bytes_max != after.entry_bytes_max,
        ),
        ("cluster", old.cluster != new.cluster),
        (
            "cache.reserve",
            before.disk_reserve_bytes != after.disk_reserve_bytes,
        ),
    ];
    rows.into_iter().filter(|row| row.1).map(|row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::{TempDir, wait_until};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_nobody_elses() {
        let scratch = TempDir::private("unit").unwrap();
        let folder = scratch.join("deep/cache");
        let first = open_in(&folder, Bounds::default()).unwrap();
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o7777,
            FOLDER_MODE
        );
        let error = open_in(&folder, Bounds::default())
            .err()
            .expect("two stores in one folder");
        assert!(error.to_string().contains("another server"), "{error}");
        drop(first);
        // Not at once: a program that another test is starting may hold a copy of the lock still.
        wait_until("what a server has left is taken over", || {
            open_in(&folder, Bounds::default()).is_ok()
        });
    }

    #[test]
    fn only_what_changed_needs_a_restart() {
        let (old, mut new) = (Model::default(), Model::default());
        assert_eq!(fixed_until_restart(&old, &new).count(), 0);
        new.cache.bytes_max = 1;
        new.cache.memory_bytes_max = 1;
        new.server.state_dir = "/elsewhere".into();
        assert_eq!(
            fixed_until_restart(&old, &new).collect::<Vec<_>>(),
            ["cache.folder", "cache.size"]
        );
        new.cache.folder = Some(folder(&old));
        assert_eq!(
            fixed_until_restart(&old, &new).collect::<Vec<_>>(),
            ["cache.size"]
        );
    }
}

//! Opens a store.
//!
//! Called by: the server at its start.
//! Caveat: the index is filled in the background; until then keys are looked up on disk.
//! Out of scope: permissions of the directory above.

use crate::{
    bounds::Bounds,
    housekeeping,
    index::Index,
    journal::Journal,
    private_files,
    purges::Purges,
    space::Space,
    store::{Counts, Store},
};
use std::{
    fs,
    hash::BuildHasher,
    io,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64},
    },
    time::SystemTime,
};

impl Store {
    /// Opens or creates the store of a directory. Entries can be found at once; the index is filled
    /// in the background.
    pub fn open(root: &Path, bounds: Bounds) -> io::Result<Arc<Store>> {
        private_files::create_folder(&root.join("entries"))?;
        let new = root.join("new");
        if new.exists() {
            fs::remove_dir_all(&new)?;
        }
        private_files::create_folder(&new)?;
        let (journal, known) = Journal::open(root)?;
        let store = Arc::new(Store {
            seed: seed(root)?,
            root: root.into(),
            index: Index::new(bounds),
            bounds,
            purges: Purges::new(known),
            probes: Arc::default(),
            space: Space::new(root.into(), bounds.disk_reserve_bytes),
            journal: Mutex::new(journal),
            cache_lock: Arc::default(),
            last_id: AtomicU64::new(0),
            is_complete: AtomicBool::new(false),
            counts: Counts::default(),
            forward: OnceLock::new(),
            reads_on: AtomicBool::new(false),
            outgoing: OnceLock::new(),
        });
        housekeeping::start(&store)?;
        Ok(store)
    }
}

/// Created once per directory, so that clients can't choose keys with equal hashes.
fn seed(root: &Path) -> io::Result<u64> {
    let path = root.join("seed");
    if let Ok(bytes) = fs::read(&path)
        && let Ok(bytes) = bytes.try_into()
    {
        private_files::restrict(&path);
        return Ok(u64::from_le_bytes(bytes));
    }
    let seed = foldhash::quality::RandomState::default().hash_one(SystemTime::now());
    private_files::write(&path, &seed.to_le_bytes())?;
    Ok(seed)
}

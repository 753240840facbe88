//! The store's background thread: fills the index after a start, syncs the journal, removes expired
//! entries.
//!
//! Called by: `Store::open`.
//! Caveat: holds the store weakly, and ends with it.
//! Out of scope: eviction, which writers do when they need space.

use crate::{rebuild, store::Store};
use saker_telemetry::{error_log, message};
use std::{
    io,
    sync::{Arc, Weak, atomic::Ordering},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const PAUSE: Duration = Duration::from_millis(200);

/// Shards of the index searched for expired entries per pause.
const SHARDS_AT_A_TIME: usize = 8;

/// Pauses between two checks of free disk space.
const PAUSES_PER_LOOK: u32 = 5;

pub fn start(store: &Arc<Store>) -> io::Result<()> {
    let store = Arc::downgrade(store);
    thread::Builder::new()
        .name("cache".into())
        .spawn(move || run(&store))
        .map(drop)
}

fn run(weak: &Weak<Store>) {
    if let Some(store) = weak.upgrade() {
        // The other owner is the server; once it has let go, the rest need not be read.
        rebuild::rebuild(&store, now_s(), || {
            Arc::strong_count(&store) > 1 && !store.is_handed_over()
        });
    }
    let (mut shard, mut pauses) = (0, 0u32);
    loop {
        thread::sleep(PAUSE);
        let Some(store) = weak.upgrade().filter(|store| !store.is_handed_over()) else {
            return;
        };
        maintain_journal(&store);
        pauses += 1;
        if pauses.is_multiple_of(PAUSES_PER_LOOK) {
            store.space.refresh();
        }
        for _ in 0..SHARDS_AT_A_TIME {
            shard = (shard + 1) % store.index.shards();
            sweep(&store, shard);
        }
    }
}

fn sweep(store: &Store, shard: usize) {
    let now_s = now_s();
    for hash in store.index.expired(shard, now_s) {
        if store.index.remove(
            hash,
            |slot| slot.keep_until_s < now_s,
            |slot| store.unlink(slot),
        ) {
            store.counts.expired.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn maintain_journal(store: &Store) {
    let to_sync = {
        let mut journal = store.journal();
        // It may have become another's while this waited for the lock.
        if store.is_handed_over() {
            return;
        }
        journal.retry();
        if journal.is_worth_compacting()
            && let Err(error) = journal.compact(&store.purges.known())
        {
            error_log::log(
                &message::CACHE_JOURNAL_FAILED,
                format_args!("{}: {error}", store.root.display()),
            );
        }
        journal.take_unsynced()
    };
    if let Some(file) = to_sync {
        let _ = file.sync_data();
    }
}

fn now_s() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs() as u32)
}

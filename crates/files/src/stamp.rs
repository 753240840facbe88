//! Stamps on directory entries, kept current by inotify.

/// Says whether a directory entry may have changed since it was looked at.
#[derive(Clone, Debug)]
pub struct Stamp {}

impl Stamp {
    /// `now_ms`: any monotonic clock that the watcher was told too (see [`Watcher::now_ms`]).
    pub fn is_current(&self, _now_ms: u64) -> bool {
        unimplemented!()
    }
}

/// The process's one inotify instance; cheap to clone, shared by all workers.
#[derive(Clone, Debug)]
pub struct Watcher {}

//! Applies changes of files before a request that came after them is answered.
//!
//! Called by: the drivers, when a request begins. The kernel queues inotify's event before the
//! system call that changes a file returns, and each worker's event loop holds the queue's
//! descriptor. So a request whose first byte was there when the loop woke up has earlier changes in
//! the same wake-up or a previous one: checking the loop's knowledge is one load. Bytes that may
//! have come after the loop's last check (a second request in one read, a read after a full one,
//! the first read of a new connection) cost one system call.
//! Caveat: this holds for file systems that the watcher supports (`saker_files::watcher`).
//! Out of scope: changes while a request is answered.

use saker_files::Watcher;
use saker_net::Readiness;

/// Origin of a request's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrigin {
    /// The first of them was there when the event loop woke up.
    WakeUp,
    /// They may have come since.
    Unknown,
    /// They were read before the last look at the queue of changes.
    LookedAfter,
}

/// A worker's part of the watcher.
pub struct Freshness {
    watcher: Watcher,
    /// `None`: registering with the event loop failed, so each request checks by itself.
    readiness: Option<Readiness>,
}

impl Freshness {
    /// Must be called inside the worker's runtime.
    pub fn new(watcher: &Watcher) -> Freshness {
        let readiness = watcher
            .events()
            .and_then(|events| Readiness::new(events).ok());
        Freshness {
            watcher: watcher.clone(),
            readiness,
        }
    }

    /// Called when a request begins, before any cached result is used. Later requests in the same
    /// bytes may be younger.
    pub fn settle(&self, origin: &mut ReadOrigin) {
        *origin = match origin {
            ReadOrigin::WakeUp => {
                self.hear();
                ReadOrigin::Unknown
            }
            ReadOrigin::Unknown => {
                self.look();
                ReadOrigin::LookedAfter
            }
            ReadOrigin::LookedAfter => ReadOrigin::LookedAfter,
        };
    }

    /// Applies the changes that the event loop knows of.
    pub fn hear(&self) {
        match &self.readiness {
            Some(readiness) if readiness.take() => self.watcher.catch_up(),
            Some(_) => self.watcher.await_others(),
            None => self.watcher.look(),
        }
    }

    /// Applies all changes up to now.
    pub fn look(&self) {
        self.watcher.look();
    }
}

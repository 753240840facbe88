//! Changes of files are heard of before the request behind them is answered.
//!
//! Called by: the drivers, when a request begins. The kernel queues inotify's event before the
//! system call that changes a file returns, and each worker's event loop holds the queue's
//! descriptor. So a request whose first byte was there when the loop woke up has its changes before
//! it in the same wake-up or an earlier one: asking what the loop knows is a load. Bytes that may
//! have come after the loop's last look (a second request in one read, a read behind a full one,
//! the first read of a connection that was not waited for) say nothing about that, and cost one
//! system call. Caveat: it holds for file systems that the watcher hears of
//! (`saker_files::watcher`). Out of scope: changes while a request is answered.

use saker_files::Watcher;
use saker_net::Readiness;

/// How the bytes of a request were read.
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
    /// `None`: the event loop would not have it, so that each request looks by itself.
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

    /// To be called when a request begins, before anything kept is believed. What comes behind it
    /// in the same bytes may be younger.
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

    /// Takes in what the event loop knows to have changed.
    pub fn hear(&self) {
        match &self.readiness {
            Some(readiness) if readiness.take() => self.watcher.catch_up(),
            Some(_) => self.watcher.await_others(),
            None => self.watcher.look(),
        }
    }

    /// Takes in what has changed up to now.
    pub fn look(&self) {
        self.watcher.look();
    }
}

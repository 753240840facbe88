//! Room at programs whose processes serve one connection each: fresh connections that have waited
//! too long for a process, in whatever worker, and the idle connections that are closed for them.
//!
//! Called by: `pool`, whose connections are those of one worker.
//! Caveat: a kept connection holds its process however idle it is, and the worker that keeps it may
//! have nothing to do: it has to be woken.
//! Out of scope: after what time a connection counts as waiting (`unanswered`).

use saker_config::model::Backend;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{Notify, futures::Notified};

/// By the addresses of backends: several pools may lead to the same processes.
static ROOMS: LazyLock<Mutex<HashMap<String, Weak<ProcessRoom>>>> = LazyLock::new(Mutex::default);

/// The processes at one address, as the workers share them.
#[derive(Default)]
pub struct ProcessRoom {
    waiting: Mutex<Waiting>,
    /// Number of those that wait, to be read without the lock.
    count: AtomicUsize,
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    ids: VecDeque<u64>,
    next: u64,
}

impl ProcessRoom {
    /// Returns the room of a backend, which all workers share.
    pub fn of(backend: &Backend) -> Arc<ProcessRoom> {
        let mut rooms = locked(&ROOMS);
        let name = backend.to_string();
        if let Some(room) = rooms.get(&name).and_then(Weak::upgrade) {
            return room;
        }
        rooms.retain(|_, room| room.strong_count() > 0);
        let room = Arc::new(ProcessRoom::default());
        rooms.insert(name, Arc::downgrade(&room));
        room
    }

    /// A fresh connection wants a process, and its own worker has no idle connection to close.
    /// Returns the number to withdraw it by.
    pub fn want(&self) -> u64 {
        let mut waiting = locked(&self.waiting);
        let id = waiting.next;
        waiting.next += 1;
        waiting.ids.push_back(id);
        self.count.store(waiting.ids.len(), Ordering::Relaxed);
        drop(waiting);
        self.news.notify_waiters();
        id
    }

    /// It has a process, or has ended.
    pub fn withdraw(&self, id: u64) {
        let mut waiting = locked(&self.waiting);
        waiting.ids.retain(|one| *one != id);
        self.count.store(waiting.ids.len(), Ordering::Relaxed);
    }

    /// True if a connection is to be closed for one that waits; it is taken for closed.
    pub fn make(&self) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut waiting = locked(&self.waiting);
        let is_wanted = waiting.ids.pop_front().is_some();
        self.count.store(waiting.ids.len(), Ordering::Relaxed);
        is_wanted
    }

    /// Ready when another connection waits, from now on.
    pub fn news(&self) -> Notified<'_> {
        self.news.notified()
    }

    /// Wakes those who wait for news without any.
    pub fn wake(&self) {
        self.news.notify_waiters();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{BackendAddress, Protocol};

    #[test]
    fn room_is_made_once_for_each_that_waits() {
        let address = BackendAddress::Unix("/nowhere/process-room.sock".into());
        let backend = Backend::new(Protocol::FastCgi, address);
        let (room, same) = (ProcessRoom::of(&backend), ProcessRoom::of(&backend));
        assert!(Arc::ptr_eq(&room, &same) && !same.make());
        let (first, second) = (room.want(), room.want());
        room.withdraw(first);
        assert!(same.make() && !same.make());
        room.withdraw(second);
        assert!(!room.make());
    }
}

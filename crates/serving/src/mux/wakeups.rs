//! Wake-ups of streams that wait for their body or for their pace.
//!
//! Called by: `pump`. Each stream has a waker of its own, so the cost of a wake-up depends on the
//! ready streams, not on the waiting ones.
//! Caveat: any thread may call a waker, so the shared list is behind a lock; it is created when the
//! first stream of a connection waits.

use super::wire::StreamId;
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

#[derive(Default)]
pub struct Wakeups {
    shared: Option<Arc<Shared>>,
}

#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    woken: Vec<Arc<StreamWaker>>,
    connection: Option<Waker>,
    /// The connection has ended: wakers must not be added, because they would keep this list
    /// alive.
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct StreamWaker {
    id: StreamId,
    shared: Arc<Shared>,
    /// Stands in the list already.
    is_noted: AtomicBool,
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        if self.is_noted.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if state.is_over {
            return;
        }
        state.woken.push(self);
        let connection = state.connection.take();
        drop(state);
        if let Some(connection) = connection {
            connection.wake();
        }
    }
}

impl Wakeups {
    /// Returns the waker of a stream that begins to wait.
    pub fn waker(&mut self, id: StreamId) -> Waker {
        let shared = Arc::clone(self.shared.get_or_insert_default());
        Arc::new(StreamWaker {
            id,
            shared,
            is_noted: AtomicBool::new(false),
        })
        .into()
    }

    /// Returns the streams woken since the last call; some may be gone by now.
    pub fn take(&self) -> Vec<StreamId> {
        let Some(shared) = &self.shared else {
            return Vec::new();
        };
        let woken = std::mem::take(&mut shared.lock().woken);
        let note = |waker: Arc<StreamWaker>| {
            waker.is_noted.store(false, Ordering::Release);
            waker.id
        };
        woken.into_iter().map(note).collect()
    }

    /// Called by the connection before it waits. Returns true if a stream has been woken already.
    pub fn register(&self, cx: &Context<'_>) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        let mut state = shared.lock();
        if !state
            .connection
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            state.connection = Some(cx.waker().clone());
        }
        !state.woken.is_empty()
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.lock().is_over = true;
        }
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_those_woken_are_told_once_each() {
        let mut wakeups = Wakeups::default();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = Context::from_waker(&waker);
        assert!(!wakeups.register(&cx) && wakeups.take().is_empty());
        let wakers: Vec<Waker> = [1, 3, 5].map(|id| wakeups.waker(StreamId(id))).into();
        assert!(!wakeups.register(&cx));
        wakers[2].wake_by_ref();
        wakers[0].wake_by_ref();
        wakers[2].wake_by_ref();
        assert_eq!(
            count.0.load(Ordering::Relaxed),
            1,
            "the connection is woken once"
        );
        assert!(wakeups.register(&cx));
        assert_eq!(wakeups.take(), [StreamId(5), StreamId(1)]);
        assert!(wakeups.take().is_empty() && !wakeups.register(&cx));
        wakers[2].wake_by_ref();
        assert_eq!(
            (count.0.load(Ordering::Relaxed), wakeups.take()),
            (2, vec![StreamId(5)])
        );
    }

    #[test]
    fn wakers_may_live_longer_and_elsewhere() {
        let mut wakeups = Wakeups::default();
        let (late, elsewhere) = (wakeups.waker(StreamId(1)), wakeups.waker(StreamId(3)));
        std::thread::spawn(move || elsewhere.wake()).join().unwrap();
        assert_eq!(wakeups.take(), [StreamId(3)]);
        late.wake_by_ref();
        let later = wakeups.waker(StreamId(5));
        let shared = Arc::downgrade(wakeups.shared.as_ref().unwrap());
        drop(wakeups);
        drop(late);
        later.wake();
        assert!(shared.upgrade().is_none(), "nothing is left");
    }
}

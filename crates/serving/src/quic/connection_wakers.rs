//! Wakers of QUIC connections: each notes its connection and wakes the endpoint loop.
//!
//! Called by: whatever a connection waits for.
//! Caveat: wakers may be called by any thread, more than once, and after their connection has
//! closed.

use saker_quic::Id;
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

/// Wakers of one endpoint loop.
#[derive(Clone, Default)]
pub struct ConnectionWakers(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    woken: Vec<Arc<ConnectionWaker>>,
    task: Option<Waker>,
    is_over: bool,
}

/// Waker of one connection.
struct ConnectionWaker {
    id: Id,
    wakers: ConnectionWakers,
    /// Stands in the list already.
    is_noted: AtomicBool,
}

impl ConnectionWakers {
    pub fn waker(&self, id: Id) -> Waker {
        Waker::from(Arc::new(ConnectionWaker {
            id,
            wakers: self.clone(),
            is_noted: AtomicBool::new(false),
        }))
    }

    /// Registers the loop's waker; called before it takes the woken connections.
    pub fn register(&self, cx: &Context<'_>) {
        let mut state = self.lock();
        if !state
            .task
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            state.task = Some(cx.waker().clone());
        }
    }

    /// Wakes the loop itself.
    pub fn wake_loop(&self) {
        let task = self.lock().task.clone();
        task.iter().for_each(Waker::wake_by_ref);
    }

    pub fn take(&self, mut each: impl FnMut(Id)) {
        let woken = std::mem::take(&mut self.lock().woken);
        for waker in woken {
            waker.is_noted.store(false, Ordering::Release);
            each(waker.id);
        }
    }

    /// Ends the list with its loop.
    pub fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        let left = (std::mem::take(&mut state.woken), state.task.take());
        drop(state);
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        if self.is_noted.swap(true, Ordering::AcqRel) {
            return;
        }
        let wakers = self.wakers.clone();
        let mut state = wakers.lock();
        if state.is_over {
            return;
        }
        let is_first = state.woken.is_empty();
        state.woken.push(self);
        let task = state.task.clone().filter(|_| is_first);
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

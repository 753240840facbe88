//! A thread with a runtime of its own, for everything that waits for an engine.
//!
//! Called by: `node`, `clients` and `state`, each with one.
//! Caveat: it ends with its value, whose drop waits for it.
//! Out of scope: what the thread does.

use std::{
    future::Future,
    io,
    sync::{Mutex, PoisonError},
    thread::{self, JoinHandle},
};
use tokio::{runtime, sync::oneshot, task::LocalSet};

/// Ends when it gets a message, or when its sender is dropped.
pub type Stopped = oneshot::Receiver<()>;

pub struct OwnThread(Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>);

impl OwnThread {
    /// Starts a thread that does this work, which ends when it is told to.
    ///
    /// # Errors
    /// There is no thread left.
    pub fn start<F: Future<Output = ()>>(
        name: &str,
        work: impl FnOnce(Stopped) -> F + Send + 'static,
    ) -> io::Result<OwnThread> {
        let (stop, stopped) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .build()?;
        let run = move || {
            LocalSet::new().block_on(&runtime, work(stopped));
            // A name server that is still being asked is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(OwnThread(Mutex::new(Some((stop, thread)))))
    }

    /// Tells the thread to end, and waits for it.
    pub fn stop(&self) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((stop, thread)) = running.take() {
            let _ = stop.send(());
            // A panic was reported.
            let _ = thread.join();
        }
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        self.stop();
    }
}

//! The workers as the main thread sees them: their number and placement, commands to them, and
//! their end.
//!
//! Called by: the supervisor.

use saker_config::model::Affinity;
use saker_pipeline::Generation;
use saker_serving::{
    shared::Shared,
    tls_state::TlsState,
    worker_thread::{self, Command, WorkerHandle},
};
use saker_telemetry::{error_log, message};
use std::{
    cell::{Cell, RefCell},
    io,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

pub struct Workers {
    handles: RefCell<Vec<WorkerHandle>>,
}

/// Time for threads to end after they were told to. The end of the process ends the rest.
const THREADS_END_MAX: Duration = Duration::from_secs(5);
/// Time for workers to leave their queues. A busy one accepts for a moment more.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// Interval of checks for the end of the workers.
const POLL: Duration = Duration::from_millis(20);

/// The cores that worker n runs on; empty: the kernel decides.
pub fn placement(affinity: &Affinity) -> impl Fn(usize) -> Vec<usize> + use<> {
    let one_each = |cores: &[usize]| cores.iter().map(|core| vec![*core]).collect();
    let (sets, starts_over): (Vec<Vec<usize>>, bool) = match affinity {
        Affinity::Off => (Vec::new(), true),
        Affinity::Auto => (one_each(&saker_net::process::allowed_cores()), true),
        Affinity::Cores(cores) => (one_each(cores), true),
        Affinity::Sets(sets) => (sets.clone(), false),
    };
    move |worker| {
        let at = match starts_over {
            true => worker.checked_rem(sets.len()).unwrap_or_default(),
            false => worker.min(sets.len().saturating_sub(1)),
        };
        sets.get(at).cloned().unwrap_or_default()
    }
}

impl Workers {
    pub fn start(
        shared: &Arc<Shared>,
        generation: &Arc<Generation>,
        tls: &Arc<TlsState>,
        count: usize,
        cores_of: impl Fn(usize) -> Vec<usize>,
    ) -> io::Result<Workers> {
        let handles = (0..count).map(|index| {
            worker_thread::start(
                index,
                Arc::clone(shared),
                Arc::clone(generation),
                Arc::clone(tls),
                cores_of(index),
            )
        });
        Ok(Workers {
            handles: RefCell::new(handles.collect::<io::Result<_>>()?),
        })
    }

    pub fn len(&self) -> usize {
        self.handles.borrow().len()
    }

    /// `false`: some threads are held up by something, and are left behind.
    async fn join(&self) -> bool {
        let threads: Vec<_> = self
            .handles
            .borrow_mut()
            .iter_mut()
            .filter_map(|handle| handle.thread.take())
            .collect();
        let until = Instant::now() + THREADS_END_MAX;
        while !threads.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            tokio::time::sleep(POLL).await;
        }
        let (ended, held_up): (Vec<_>, Vec<_>) =
            threads.into_iter().partition(JoinHandle::is_finished);
        ended.into_iter().for_each(|thread| drop(thread.join()));
        held_up.is_empty()
    }

    /// Tells one worker; a worker that has ended is reported.
    pub fn tell(&self, index: usize, command: Command) {
        if let Some(handle) = self.handles.borrow().get(index)
            && handle.commands.send(command).is_err()
        {
            error_log::log(&message::WORKER_LOST, format_args!("worker {index}"));
        }
    }

    pub fn tell_all(&self, command: impl Fn() -> Command) {
        (0..self.len()).for_each(|index| self.tell(index, command()));
    }

    /// Returns once all workers have left these addresses to a successor.
    pub async fn leave(&self, addresses: &[String]) {
        let addresses: Arc<[String]> = addresses.into();
        let (left, mut all_left) = tokio::sync::mpsc::unbounded_channel();
        self.tell_all(|| Command::LeaveListeners(Arc::clone(&addresses), left.clone()));
        drop(left);
        // Nothing is sent: it ends with the last worker's sender.
        let _ = tokio::time::timeout(LEAVE_MAX, all_left.recv()).await;
    }

    /// Closes the listeners. The pause covers a worker's last turn, in which it may still accept
    /// and count connections.
    pub async fn refuse(&self) {
        self.tell_all(|| Command::Drain);
        tokio::time::sleep(POLL).await;
    }

    /// Waits for connections until `until`, or until `tired` is set; then ends the threads.
    /// Returns `false` if connections were cut.
    pub async fn end(&self, shared: &Shared, until: Instant, tired: &Cell<bool>) -> bool {
        while shared.connections.now() > 0 && Instant::now() < until && !tired.get() {
            tokio::time::sleep(POLL).await;
        }
        let finished = shared.connections.now() == 0;
        self.tell_all(|| Command::Stop);
        finished & self.join().await
    }
}

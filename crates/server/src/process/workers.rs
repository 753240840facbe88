//! The workers as the main thread sees them: how many, on which cores, told what, ended how.

use crate::{
    secured::Secured,
    shared::Shared,
    worker::{self, Command, WorkerHandle},
};
use saker_config::model::{self, Affinity};
use saker_pipeline::Generation;
use saker_telemetry::{error_log, message};
use std::{
    cell::{Cell, RefCell},
    io,
    sync::Arc,
    time::{Duration, Instant},
};

pub struct Workers {
    handles: RefCell<Vec<WorkerHandle>>,
}

/// How often the end of the workers is looked for.
const POLL: Duration = Duration::from_millis(20);

pub fn count(workers: &model::Workers) -> usize {
    match workers {
        model::Workers::Auto => saker_net::process::allowed_cores().len().max(1),
        model::Workers::Count(count) => (*count).max(1),
    }
}

/// Which core worker n runs on.
pub fn placement(affinity: &Affinity) -> impl Fn(usize) -> Option<usize> {
    let cores = match affinity {
        Affinity::Off => Vec::new(),
        Affinity::Auto => saker_net::process::allowed_cores(),
        Affinity::Cores(cores) => cores.clone(),
    };
    move |worker| (!cores.is_empty()).then(|| cores[worker % cores.len()])
}

impl Workers {
    pub fn start(
        shared: &Arc<Shared>,
        generation: &Arc<Generation>,
        secured: &Arc<Secured>,
        count: usize,
        core_of: impl Fn(usize) -> Option<usize>,
    ) -> io::Result<Workers> {
        let handles =
            (0..count).map(|index| worker::start(index, Arc::clone(shared), Arc::clone(generation), Arc::clone(secured), core_of(index)));
        Ok(Workers { handles: RefCell::new(handles.collect::<io::Result<_>>()?) })
    }

    pub fn len(&self) -> usize {
        self.handles.borrow().len()
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

    /// Lets connections finish for at most `timeout`, or until somebody is `tired` of waiting; then ends the threads. `false`: some were
    /// cut.
    pub async fn end(&self, shared: &Shared, timeout: Duration, tired: &Cell<bool>) -> bool {
        self.tell_all(|| Command::Drain);
        let until = Instant::now() + timeout;
        // A worker counts what it accepts in its last turn; one pause more makes sure that it has.
        tokio::time::sleep(POLL).await;
        while shared.connections.now() > 0 && Instant::now() < until && !tired.get() {
            tokio::time::sleep(POLL).await;
        }
        let finished = shared.connections.now() == 0;
        self.tell_all(|| Command::Stop);
        for handle in self.handles.borrow_mut().iter_mut() {
            if let Some(thread) = handle.thread.take() {
                let _ = thread.join();
            }
        }
        finished
    }
}

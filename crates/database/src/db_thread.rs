//! Thread that runs all queries of a database.
//!
//! Database drivers belong to one runtime, and callers have another or none. So jobs are sent here
//! as functions.
//!
//! Out of scope: a limit on jobs in progress; callers have theirs.

use crate::{Database, Failure, Terms};
use std::{future::Future, io, pin::Pin, rc::Rc, sync::mpsc, thread};
use tokio::{
    runtime,
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::LocalSet,
};

/// Job for the thread; it gets the database.
pub type Job = Box<dyn FnOnce(Rc<Database>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Ends with its last job when it is dropped.
#[derive(Debug)]
pub struct DbThread {
    jobs: UnboundedSender<Job>,
}

impl DbThread {
    /// Starts the thread. The error says what is wrong with the URL.
    pub fn start(name: &str, terms: Terms) -> Result<DbThread, Failure> {
        let (jobs, mut inbox) = unbounded_channel::<Job>();
        let (ready, is_ready) = mpsc::channel();
        let live = move || {
            let made = runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(4)
                .build();
            let runtime = match made {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(failed(error)))),
            };
            LocalSet::new().block_on(&runtime, async move {
                let database = match Database::new(&terms) {
                    Ok(database) => Rc::new(database),
                    Err(failure) => return drop(ready.send(Err(failure))),
                };
                let _ = ready.send(Ok(()));
                while let Some(job) = inbox.recv().await {
                    tokio::task::spawn_local(job(Rc::clone(&database)));
                }
            });
        };
        thread::Builder::new()
            .name(name.into())
            .spawn(live)
            .map_err(failed)?;
        is_ready
            .recv()
            .map_err(|_| Failure("its thread ended".into()))??;
        Ok(DbThread { jobs })
    }

    /// `false`: the thread has ended.
    pub fn run(&self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }
}

fn failed(error: io::Error) -> Failure {
    Failure(error.to_string())
}

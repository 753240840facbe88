//! Blocking jobs of a worker: work that would hold it up, done on the threads of its runtime.
//!
//! Called by: handlers, front ends and the gateway, in place of tokio's `spawn_blocking`. Each kind
//! of job has places of its own, so that none fills the pool for the others, and an owner (a
//! site, or a client for inspections) has only some of them. A job has a deadline and is cancelled when the future that waits for it
//! is dropped, which is when the client has gone, and when the worker ends ([`end`]). Caveat: a job
//! is cancelled by its own looks at [`Cancel`]; one that does not look keeps its place, and nothing
//! else, until it is done. Out of scope: what becomes of the request; see [`JobError`].

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt, io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Directory listings.
    Listing,
    /// Indexes of audio and video files.
    Media,
    /// Content codings.
    Encoding,
    /// Entries of the page cache, and pages put together from them.
    PageCache,
    /// Programs are started.
    Program,
    /// Rules look at content.
    Inspection,
    /// Files, properties, and locks of WebDAV.
    WebDav,
}

const KINDS: usize = 7;

struct Bounds {
    /// At a time; of all owners together it is [`JobKind::running_max`].
    running_of_owner_max: usize,
    /// In front of them.
    waiting_max: usize,
    waiting_of_owner_max: usize,
    time_max: Duration,
}

/// Jobs of a kind at a time.
const RUNNING_MAX: usize = 2;
/// Inspections at a time, which can't be stopped and may take minutes: so that it takes some clients
/// to hold up those of all others.
const INSPECTIONS_MAX: usize = 8;
/// Waits for a place that take longer are given up.
const WAITING_TIME_MAX: Duration = Duration::from_secs(60);
/// Owners whose places are remembered, if nothing runs for them.
const IDLE_OWNERS_MAX: usize = 256;
/// Threads for what tokio itself looks up beside these jobs.
const SPARE_THREADS: usize = 4;
/// Threads that a worker's runtime needs, so that a job that has a place has a thread.
pub const THREADS_MAX: usize = RUNNING_MAX * (KINDS - 1) + INSPECTIONS_MAX + SPARE_THREADS;

impl JobKind {
    const fn bounds(self) -> Bounds {
        let (waiting_max, waiting_of_owner_max, seconds) = match self {
            JobKind::Listing | JobKind::Media => (256, 32, 60),
            JobKind::Encoding | JobKind::Program => (4096, 4096, 60),
            JobKind::PageCache => (16_384, 16_384, 60),
            JobKind::Inspection => (16_384, 1024, 60),
            // Trees are copied and removed.
            JobKind::WebDav => (1024, 256, 600),
        };
        let running_of_owner_max = match self {
            JobKind::Listing | JobKind::Media | JobKind::Inspection => 1,
            _ => RUNNING_MAX,
        };
        Bounds {
            running_of_owner_max,
            waiting_max,
            waiting_of_owner_max,
            time_max: Duration::from_secs(seconds),
        }
    }

    /// Jobs of the kind with this number at a time.
    const fn running_max(number: usize) -> usize {
        if number == JobKind::Inspection.number() {
            INSPECTIONS_MAX
        } else {
            RUNNING_MAX
        }
    }

    const fn number(self) -> usize {
        self as usize
    }
}

/// The reason why a job has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobError {
    /// Too many of its kind are waiting, or have been for too long: 503.
    Busy,
    /// Its deadline has passed: 503.
    Late,
    /// It has panicked, or there is no thread for it: 500.
    Failed,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobError::Busy => "too much of the same kind is waiting already",
            JobError::Late => "it took too long",
            JobError::Failed => "it was not carried through",
        })
    }
}

impl From<JobError> for io::Error {
    fn from(error: JobError) -> io::Error {
        let kind = match error {
            JobError::Busy => io::ErrorKind::ResourceBusy,
            JobError::Late => io::ErrorKind::TimedOut,
            JobError::Failed => io::ErrorKind::Other,
        };
        io::Error::new(kind, error.to_string())
    }
}

/// Tells a job that its result is no longer wanted.
#[derive(Clone, Debug)]
pub struct Cancel {
    abandoned: Arc<AtomicBool>,
    /// The worker ends.
    ending: Arc<AtomicBool>,
    deadline: Instant,
}

impl Cancel {
    /// To be asked between two pieces of work of a millisecond or less.
    pub fn is_cancelled(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
            || self.ending.load(Ordering::Relaxed)
            || Instant::now() >= self.deadline
    }

    /// The same as an error, for what reads.
    ///
    /// # Errors
    /// `TimedOut`, once the job is cancelled.
    pub fn check(&self) -> io::Result<()> {
        if self.is_cancelled() {
            Err(JobError::Late.into())
        } else {
            Ok(())
        }
    }
}

/// The right to run jobs of a kind, one after the other.
pub struct JobPlace {
    kind: JobKind,
    held: Arc<Held>,
    deadline: Instant,
}

/// Given back when the place and the last job that was begun with it have gone.
struct Held {
    _of_kind: OwnedSemaphorePermit,
    _of_owner: Option<OwnedSemaphorePermit>,
}

/// A worker thread's record of its jobs.
struct Lanes {
    ending: Arc<AtomicBool>,
    kinds: [Lane; KINDS],
    owners: HashMap<(JobKind, usize), Lane>,
}

#[derive(Clone)]
struct Lane {
    places: Arc<Semaphore>,
    waiting: Rc<Cell<usize>>,
}

impl Lane {
    fn new(places: usize) -> Lane {
        Lane {
            places: Arc::new(Semaphore::new(places)),
            waiting: Rc::default(),
        }
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.places) == 1
    }

    async fn enter(&self, waiting_max: usize) -> Result<OwnedSemaphorePermit, JobError> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(permit);
        }
        if self.waiting.get() >= waiting_max {
            return Err(JobError::Busy);
        }
        let _waiting = Waiting::new(&self.waiting);
        match timeout(WAITING_TIME_MAX, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(JobError::Busy),
        }
    }
}

/// Counted as long as it waits.
struct Waiting(Rc<Cell<usize>>);

impl Waiting {
    fn new(count: &Rc<Cell<usize>>) -> Waiting {
        count.set(count.get() + 1);
        Waiting(Rc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

thread_local! {
    static LANES: RefCell<Lanes> = RefCell::new(Lanes {
        ending: Arc::default(),
        kinds: std::array::from_fn(|at| Lane::new(JobKind::running_max(at))),
        owners: HashMap::new(),
    });
}

fn lanes(kind: JobKind, owner: Option<usize>) -> Option<(Lane, Option<Lane>)> {
    LANES.with_borrow_mut(|lanes| {
        if lanes.owners.len() > IDLE_OWNERS_MAX {
            lanes.owners.retain(|_, lane| !lane.is_idle());
        }
        let places = kind.bounds().running_of_owner_max;
        let of_owner = owner.map(|owner| {
            lanes
                .owners
                .entry((kind, owner))
                .or_insert_with(|| Lane::new(places))
                .clone()
        });
        Some((lanes.kinds.get(kind.number())?.clone(), of_owner))
    })
}

/// Waits for a place. `owner`: the site or client that the work is for, where it is for one. Its deadline
/// begins when there is a place.
///
/// # Errors
/// [`JobError::Busy`].
pub async fn place(kind: JobKind, owner: Option<usize>) -> Result<JobPlace, JobError> {
    let bounds = kind.bounds();
    let (of_kind, of_owner) = lanes(kind, owner).ok_or(JobError::Failed)?;
    let own = match of_owner {
        Some(lane) => Some(lane.enter(bounds.waiting_of_owner_max).await?),
        None => None,
    };
    let held = Held {
        _of_kind: of_kind.enter(bounds.waiting_max).await?,
        _of_owner: own,
    };
    Ok(JobPlace {
        kind,
        held: Arc::new(held),
        deadline: Instant::now() + bounds.time_max,
    })
}

impl JobPlace {
    pub fn kind(&self) -> JobKind {
        self.kind
    }

    /// True if the time for all jobs of this place is over.
    pub fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Runs `work` on another thread. Dropping the future cancels it.
    ///
    /// # Errors
    /// [`JobError::Late`], [`JobError::Failed`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<T, JobError> {
        let ending = LANES.with_borrow(|lanes| Arc::clone(&lanes.ending));
        let cancel = Cancel {
            abandoned: Arc::default(),
            ending,
            deadline: self.deadline,
        };
        let _abandon = Abandon(Arc::clone(&cancel.abandoned));
        let held = Arc::clone(&self.held);
        let running = tokio::task::spawn_blocking(move || {
            let result = work(&cancel);
            drop(held);
            result
        });
        let left = self.deadline.saturating_duration_since(Instant::now());
        match timeout(left, running).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(JobError::Failed),
            Err(_) => Err(JobError::Late),
        }
    }
}

/// Cancels its job when it is dropped; one that is done does not mind.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits for a place and runs one job.
///
/// # Errors
/// See [`JobError`].
pub async fn run<T: Send + 'static>(
    kind: JobKind,
    owner: Option<usize>,
    work: impl FnOnce(&Cancel) -> T + Send + 'static,
) -> Result<T, JobError> {
    place(kind, owner).await?.run(work).await
}

/// Begins a job that no one waits for. Where there is no place for it, it is not done.
pub fn begin(kind: JobKind, work: impl FnOnce(&Cancel) + Send + 'static) {
    drop(tokio::task::spawn_local(run(kind, None, work)));
}

/// Cancels all jobs of this thread's runtime, for good.
pub fn end() {
    LANES.with_borrow(|lanes| lanes.ending.store(true, Ordering::Relaxed));
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;

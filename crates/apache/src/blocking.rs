//! Work that would hold up a worker (password hashes, name servers): done by a few threads of its own, each piece once, its result kept.
//!
//! A step of the rules asks; where the result is not there it answers with [`Verdict::Wait`](saker_pipeline::Verdict) and is asked again
//! when it is. Difficulty: everything is bounded: threads, the queue in front of them, results that are kept; and work that panics must
//! not leave anybody waiting.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

/// Pieces of work that wait for a thread.
const QUEUE_MAX: usize = 256;
const THREADS_MAX: usize = 4;

type Job = Box<dyn FnOnce() + Send>;
pub type Pause = Pin<Box<dyn Future<Output = ()>>>;

/// What is known about a question.
pub enum Answer<V> {
    Known(V),
    /// Ask again when this is done.
    Wait(Pause),
    /// Too much is waiting already.
    Busy,
}

impl<V: fmt::Debug> fmt::Debug for Answer<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Known(value) => write!(f, "Known({value:?})"),
            Answer::Wait(_) => f.write_str("Wait"),
            Answer::Busy => f.write_str("Busy"),
        }
    }
}

enum Entry<V> {
    Running(Vec<Waker>),
    Done { value: V, until: Instant },
}

type Entries<K, V> = HashMap<K, Entry<V>>;

/// Results by what they are the answer to; for a `static`.
pub struct Answers<K, V> {
    entries: Mutex<Option<Entries<K, V>>>,
    kept_max: usize,
    kept_for: Duration,
}

impl<K: Hash + Eq + Clone + Send + Unpin + 'static, V: Clone + Send + 'static> Answers<K, V> {
    pub const fn new(kept_max: usize, kept_for: Duration) -> Answers<K, V> {
        Answers { entries: Mutex::new(None), kept_max, kept_for }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Entries<K, V>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer, or what has to be waited for. `otherwise` stands for the result of work that panics.
    pub fn ask(&'static self, key: &K, otherwise: V, work: impl FnOnce() -> V + Send + 'static) -> Answer<V> {
        if let Some(answer) = self.known_or_running(key) {
            return answer;
        }
        let own = key.clone();
        let job = move || {
            let value = catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise);
            self.finish(own, Some(value));
        };
        if run(Box::new(job)) {
            return self.wait(key);
        }
        self.finish(key.clone(), None);
        Answer::Busy
    }

    fn wait(&'static self, key: &K) -> Answer<V> {
        Answer::Wait(Box::pin(Waiting { answers: self, key: key.clone() }))
    }

    /// `None`: the caller is the one to have it done.
    fn known_or_running(&'static self, key: &K) -> Option<Answer<V>> {
        let mut guard = self.lock();
        let entries = guard.get_or_insert_default();
        match entries.get(key) {
            Some(Entry::Done { value, until }) if *until > Instant::now() => return Some(Answer::Known(value.clone())),
            Some(Entry::Running(_)) => return Some(self.wait(key)),
            _ => {}
        }
        if entries.len() >= self.kept_max {
            entries.retain(|_, entry| matches!(entry, Entry::Running(_)));
        }
        entries.insert(key.clone(), Entry::Running(Vec::new()));
        None
    }

    fn finish(&self, key: K, value: Option<V>) {
        let mut guard = self.lock();
        let entries = guard.get_or_insert_default();
        let before = match value {
            Some(value) => entries.insert(key, Entry::Done { value, until: Instant::now() + self.kept_for }),
            None => entries.remove(&key),
        };
        drop(guard);
        if let Some(Entry::Running(wakers)) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// Done when the work is; whoever waited asks again.
struct Waiting<K: 'static, V: 'static> {
    answers: &'static Answers<K, V>,
    key: K,
}

impl<K: Hash + Eq + Clone + Send + Unpin + 'static, V: Clone + Send + 'static> Future for Waiting<K, V> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut guard = self.answers.lock();
        match guard.as_mut().and_then(|entries| entries.get_mut(&self.key)) {
            Some(Entry::Running(wakers)) => {
                if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

/// Hands work to the threads; `false`: the queue is full, or there is no thread to be had.
fn run(job: Job) -> bool {
    static QUEUE: OnceLock<SyncSender<Job>> = OnceLock::new();
    QUEUE.get_or_init(start).try_send(job).is_ok()
}

fn start() -> SyncSender<Job> {
    let (sender, receiver) = sync_channel::<Job>(QUEUE_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    let count = thread::available_parallelism().map_or(1, usize::from).div_ceil(2).clamp(1, THREADS_MAX);
    for _ in 0..count {
        let receiver = Arc::clone(&receiver);
        // Where none can be had, nobody receives and all is refused.
        drop(thread::Builder::new().name("blocking".into()).spawn(move || work(&receiver)));
    }
    sender
}

fn work(receiver: &Mutex<Receiver<Job>>) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(pause: Pause) {
        struct Unpark(thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Arc::new(Unpark(thread::current())).into();
        let mut pause = pause;
        while pause.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            thread::park_timeout(Duration::from_secs(10));
        }
    }

    #[test]
    fn work_is_done_once_and_its_result_kept() {
        static ANSWERS: Answers<u32, u32> = Answers::new(10, Duration::from_secs(100));
        let Answer::Wait(pause) = ANSWERS.ask(&1, 0, || 5) else { panic!("known before it was done") };
        wait(pause);
        assert!(matches!(ANSWERS.ask(&1, 0, || 6), Answer::Known(5)));
    }

    #[test]
    fn a_panic_is_an_answer() {
        static ANSWERS: Answers<u32, bool> = Answers::new(10, Duration::from_secs(100));
        let Answer::Wait(pause) = ANSWERS.ask(&1, false, || std::panic::resume_unwind(Box::new("x"))) else { panic!("known") };
        wait(pause);
        assert!(matches!(ANSWERS.ask(&1, true, || true), Answer::Known(false)));
    }

    #[test]
    fn results_run_out_and_are_bounded() {
        static SHORT: Answers<u32, u32> = Answers::new(3, Duration::ZERO);
        for key in 0..20 {
            if let Answer::Wait(pause) = SHORT.ask(&key, 0, || 1) {
                wait(pause);
            }
            assert!(SHORT.lock().as_ref().is_some_and(|entries| entries.len() <= 3));
            assert!(matches!(SHORT.ask(&key, 0, || 2), Answer::Wait(_)), "not kept");
        }
    }
}

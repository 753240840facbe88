//! Blocking work (password hashes, name servers, programs) on a few threads of its own: each piece
//! is done once and its result kept.
//!
//! A caller asks [`Answers`]; without a result it gets a future, and asks again when that is ready.
//!
//! Called by: auth, and the rewrite maps of a front end.
//! Caveat: everything is bounded: threads, the queue in front of them, the results kept. Work that
//! panics has a default result, so that no caller waits forever.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    future::Future,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

/// Pieces of work waiting for a thread: in total and of one owner.
const QUEUE_MAX: usize = 1024;
const QUEUE_OF_OWNER_MAX: usize = 64;
const THREADS_MAX: usize = 4;

type Job = Box<dyn FnOnce() + Send>;
pub type Pause = Pin<Box<dyn Future<Output = ()>>>;

/// The state of a look-up.
pub enum Answer<V> {
    Known(V),
    /// Ask again when this future is ready.
    Wait(Pause),
    /// Too many wait already.
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
    Running {
        wakers: Vec<Waker>,
        /// Callers waiting. Work that has not begun when the last of them has gone is skipped.
        waiting: usize,
    },
    Done {
        value: V,
        until: Instant,
    },
}

type Entries<K, V> = HashMap<K, Entry<V>>;

/// Results by key; for a `static`.
pub struct Answers<K: 'static, V: 'static> {
    pool: &'static Pool,
    entries: Mutex<Option<Entries<K, V>>>,
    kept_max: usize,
    kept_for: Duration,
}

impl<K: Hash + Eq + Clone + Send + Unpin + 'static, V: Clone + Send + 'static> Answers<K, V> {
    pub const fn new(pool: &'static Pool, kept_max: usize, kept_for: Duration) -> Answers<K, V> {
        Answers {
            pool,
            entries: Mutex::new(None),
            kept_max,
            kept_for,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Entries<K, V>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result, or the future to wait for. `owner`: whose turn the work takes.
    /// `otherwise`: the result if the work panics.
    pub fn ask(
        &'static self,
        owner: u64,
        key: &K,
        otherwise: V,
        work: impl FnOnce() -> V + Send + 'static,
    ) -> Answer<V> {
        if let Some(answer) = self.known_or_running(key) {
            return answer;
        }
        let (own, waiting) = (key.clone(), self.wait(key));
        let job = move || {
            if self.is_abandoned(&own) {
                return self.finish(own, None);
            }
            let value = catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise);
            self.finish(own, Some(value));
        };
        if self.pool.run(owner, Box::new(job)) {
            return waiting;
        }
        self.finish(key.clone(), None);
        Answer::Busy
    }

    fn wait(&'static self, key: &K) -> Answer<V> {
        if let Some(Entry::Running { waiting, .. }) = self
            .lock()
            .as_mut()
            .and_then(|entries| entries.get_mut(key))
        {
            *waiting += 1;
        }
        Answer::Wait(Box::pin(Waiting {
            answers: self,
            key: key.clone(),
            is_over: false,
        }))
    }

    fn is_abandoned(&self, key: &K) -> bool {
        matches!(
            self.lock().as_ref().and_then(|entries| entries.get(key)),
            Some(Entry::Running { waiting: 0, .. })
        )
    }

    /// `None`: the caller has to start the work.
    fn known_or_running(&'static self, key: &K) -> Option<Answer<V>> {
        let mut guard = self.lock();
        let entries = guard.get_or_insert_default();
        match entries.get(key) {
            Some(Entry::Done { value, until }) if *until > Instant::now() => {
                return Some(Answer::Known(value.clone()));
            }
            Some(Entry::Running { .. }) => {
                drop(guard);
                return Some(self.wait(key));
            }
            _ => {}
        }
        if entries.len() >= self.kept_max {
            entries.retain(|_, entry| matches!(entry, Entry::Running { .. }));
        }
        entries.insert(
            key.clone(),
            Entry::Running {
                wakers: Vec::new(),
                waiting: 0,
            },
        );
        None
    }

    fn finish(&self, key: K, value: Option<V>) {
        let mut guard = self.lock();
        let entries = guard.get_or_insert_default();
        let before = match value {
            Some(value) => entries.insert(
                key,
                Entry::Done {
                    value,
                    until: Instant::now() + self.kept_for,
                },
            ),
            None => entries.remove(&key),
        };
        drop(guard);
        if let Some(Entry::Running { wakers, .. }) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// Ready when the work is done; the caller asks again.
struct Waiting<K: Hash + Eq + Clone + Send + Unpin + 'static, V: Clone + Send + 'static> {
    answers: &'static Answers<K, V>,
    key: K,
    /// The same work may have been started again since.
    is_over: bool,
}

impl<K: Hash + Eq + Clone + Send + Unpin + 'static, V: Clone + Send + 'static> Drop
    for Waiting<K, V>
{
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(Entry::Running { waiting, .. }) = self
            .answers
            .lock()
            .as_mut()
            .and_then(|entries| entries.get_mut(&self.key))
        {
            *waiting = waiting.saturating_sub(1);
        }
    }
}

impl<K: Hash + Eq + Clone + Send + Unpin + 'static, V: Clone + Send + 'static> Future
    for Waiting<K, V>
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut guard = self.answers.lock();
        match guard
            .as_mut()
            .and_then(|entries| entries.get_mut(&self.key))
        {
            Some(Entry::Running { wakers, .. }) => {
                if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            _ => {
                drop(guard);
                self.is_over = true;
                Poll::Ready(())
            }
        }
    }
}

/// Threads for one kind of work. Owners (sites) take turns, and each uses at most all threads but
/// one, so that slow work of one owner does not delay others.
pub struct Pool {
    name: &'static str,
    queue: Mutex<Queue>,
    has_work: Condvar,
}

struct Queue {
    is_started: bool,
    /// Work by owner in the order of their turns; no entry is empty.
    waiting: VecDeque<(u64, VecDeque<Job>)>,
    /// The owner of the work of each busy thread.
    running: Vec<u64>,
}

impl Pool {
    /// A pool whose threads start with its first work. `name`: that of the threads.
    pub const fn new(name: &'static str) -> Pool {
        let queue = Queue {
            is_started: false,
            waiting: VecDeque::new(),
            running: Vec::new(),
        };
        Pool {
            name,
            queue: Mutex::new(queue),
            has_work: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `false`: too much is waiting, or there is no thread to be had.
    fn run(&'static self, owner: u64, job: Job) -> bool {
        let mut queue = self.lock();
        if !queue.is_started {
            queue.is_started = (0..threads()).filter(|_| self.start_thread()).count() > 0;
        }
        let has_begun = queue.is_started && queue.push(owner, job);
        drop(queue);
        self.has_work.notify_one();
        has_begun
    }

    fn start_thread(&'static self) -> bool {
        thread::Builder::new()
            .name(self.name.into())
            .spawn(move || self.work())
            .is_ok()
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            match queue.next(threads() - 1) {
                Some((owner, job)) => {
                    drop(queue);
                    job();
                    queue = self.lock();
                    queue.finished(owner);
                    // Another one's turn may have come by that.
                    self.has_work.notify_one();
                }
                None => {
                    queue = self
                        .has_work
                        .wait(queue)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }
}

impl Queue {
    fn push(&mut self, owner: u64, job: Job) -> bool {
        if self
            .waiting
            .iter()
            .map(|(_, jobs)| jobs.len())
            .sum::<usize>()
            >= QUEUE_MAX
        {
            return false;
        }
        match self.waiting.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, jobs)) if jobs.len() >= QUEUE_OF_OWNER_MAX => return false,
            Some((_, jobs)) => jobs.push_back(job),
            None => self.waiting.push_back((owner, VecDeque::from([job]))),
        }
        true
    }

    /// Takes work of the first owner with fewer than `running_max` busy threads; its next turn
    /// comes last.
    fn next(&mut self, running_max: usize) -> Option<(u64, Job)> {
        let is_free =
            |owner: u64| self.running.iter().filter(|one| **one == owner).count() < running_max;
        let at = self.waiting.iter().position(|(owner, _)| is_free(*owner))?;
        let (owner, mut jobs) = self.waiting.remove(at)?;
        let job = jobs.pop_front()?;
        if !jobs.is_empty() {
            self.waiting.push_back((owner, jobs));
        }
        self.running.push(owner);
        Some((owner, job))
    }

    fn finished(&mut self, owner: u64) {
        if let Some(at) = self.running.iter().position(|one| *one == owner) {
            self.running.swap_remove(at);
        }
    }
}

/// Threads of a pool. At least two: one for an owner, one for the others.
fn threads() -> usize {
    thread::available_parallelism()
        .map_or(1, usize::from)
        .div_ceil(2)
        .clamp(2, THREADS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc::channel};

    static TEST: Pool = Pool::new("test");

    fn wait(pause: Pause) {
        struct Unpark(thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Arc::new(Unpark(thread::current())).into();
        let mut pause = pause;
        while pause
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            thread::park_timeout(Duration::from_secs(10));
        }
    }

    #[test]
    fn work_is_done_once_and_its_result_kept() {
        static ANSWERS: Answers<u32, u32> = Answers::new(&TEST, 10, Duration::from_secs(100));
        let Answer::Wait(pause) = ANSWERS.ask(0, &1, 0, || 5) else {
            panic!("known before it was done")
        };
        wait(pause);
        assert!(matches!(ANSWERS.ask(0, &1, 0, || 6), Answer::Known(5)));
    }

    #[test]
    fn a_panic_is_an_answer() {
        static ANSWERS: Answers<u32, bool> = Answers::new(&TEST, 10, Duration::from_secs(100));
        let Answer::Wait(pause) =
            ANSWERS.ask(0, &1, false, || std::panic::resume_unwind(Box::new("x")))
        else {
            panic!("known")
        };
        wait(pause);
        assert!(matches!(
            ANSWERS.ask(0, &1, true, || true),
            Answer::Known(false)
        ));
    }

    #[test]
    fn results_run_out_and_are_bounded() {
        static SHORT: Answers<u32, u32> = Answers::new(&TEST, 3, Duration::ZERO);
        for key in 0..20 {
            if let Answer::Wait(pause) = SHORT.ask(0, &key, 0, || 1) {
                wait(pause);
            }
            assert!(
                SHORT
                    .lock()
                    .as_ref()
                    .is_some_and(|entries| entries.len() <= 3)
            );
            assert!(
                matches!(SHORT.ask(0, &key, 0, || 2), Answer::Wait(_)),
                "not kept"
            );
        }
    }

    #[test]
    fn an_owner_leaves_others_a_thread() {
        static POOL: Pool = Pool::new("owners");
        let (go, may_go) = channel::<()>();
        let may_go = Arc::new(Mutex::new(may_go));
        for _ in 0..QUEUE_OF_OWNER_MAX {
            let may_go = Arc::clone(&may_go);
            assert!(POOL.run(
                1,
                Box::new(move || {
                    let _ = may_go.lock().unwrap().recv();
                })
            ));
        }
        let (done, is_done) = channel();
        assert!(POOL.run(
            2,
            Box::new(move || {
                let _ = done.send(());
            })
        ));
        is_done.recv_timeout(Duration::from_secs(20)).unwrap();
        drop(go);
    }

    #[test]
    fn queues_are_bounded() {
        let mut queue = Queue {
            is_started: true,
            waiting: VecDeque::new(),
            running: Vec::new(),
        };
        for _ in 0..QUEUE_OF_OWNER_MAX {
            assert!(queue.push(1, Box::new(|| {})));
        }
        assert!(!queue.push(1, Box::new(|| {})) && queue.push(2, Box::new(|| {})));
        let turns: Vec<u64> = (0..3)
            .map_while(|_| queue.next(2).map(|(owner, _)| owner))
            .collect();
        assert_eq!(turns, [1, 2, 1], "owners take turns");
        assert!(queue.next(2).is_none(), "and have so many threads at most");
        queue.finished(1);
        assert!(queue.next(2).is_some_and(|(owner, _)| owner == 1));
        let rest = (3..100_000)
            .take_while(|owner| queue.push(*owner, Box::new(|| {})))
            .count();
        assert_eq!(rest + QUEUE_OF_OWNER_MAX - 3, QUEUE_MAX);
    }

    #[test]
    fn work_that_nobody_waits_for_is_not_begun() {
        static POOL: Pool = Pool::new("abandoned");
        static ANSWERS: Answers<u32, u32> = Answers::new(&POOL, 10, Duration::from_secs(100));
        let (go, may_go) = channel::<()>();
        let may_go = Arc::new(Mutex::new(may_go));
        // All threads that an owner has are busy.
        for _ in 1..threads() {
            let may_go = Arc::clone(&may_go);
            assert!(POOL.run(
                0,
                Box::new(move || {
                    let _ = may_go.lock().unwrap().recv();
                })
            ));
        }
        drop(ANSWERS.ask(0, &1, 0, || panic!("the client is gone")));
        let Answer::Wait(pause) = ANSWERS.ask(0, &2, 0, || 2) else {
            panic!("known before it was done")
        };
        drop(go);
        wait(pause);
        assert!(matches!(ANSWERS.ask(0, &2, 0, || 3), Answer::Known(2)));
        let Answer::Wait(pause) = ANSWERS.ask(0, &1, 0, || 7) else {
            panic!("its work was done, or is thought to be under way")
        };
        wait(pause);
        assert!(matches!(ANSWERS.ask(0, &1, 0, || 3), Answer::Known(7)));
    }
}

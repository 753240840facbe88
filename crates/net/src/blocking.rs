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

/// Pieces of work waiting for a thread: in total, of one owner, of one client of an owner, and of an
/// owner where it is for no client.
const QUEUE_MAX: usize = 2048;
const QUEUE_OF_OWNER_MAX: usize = 512;
const QUEUE_OF_CLIENT_MAX: usize = 16;
const QUEUE_OF_NO_CLIENT_MAX: usize = 64;
const THREADS_MAX: usize = 4;

type Job = Box<dyn FnOnce() + Send>;
pub type Pause = Pin<Box<dyn Future<Output = ()>>>;

/// The turn that work takes: owners (sites) take turns, and within an owner its clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    owner: u64,
    client: Option<u64>,
}

impl Turn {
    /// `client`: a number for the network that the request is from.
    pub fn of_client(owner: u64, client: u64) -> Turn {
        Turn {
            owner,
            client: Some(client),
        }
    }
}

impl From<u64> for Turn {
    /// Work that is for no client of the owner in particular.
    fn from(owner: u64) -> Turn {
        Turn {
            owner,
            client: None,
        }
    }
}

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
    /// Results that are kept for another time, and make room for the others.
    brief: Option<Brief<V>>,
}

struct Brief<V> {
    is_it: fn(&V) -> bool,
    kept_for: Duration,
}

impl<K: Hash + Eq + Clone + Send + Unpin + 'static, V: Clone + Send + 'static> Answers<K, V> {
    pub const fn new(pool: &'static Pool, kept_max: usize, kept_for: Duration) -> Answers<K, V> {
        Answers {
            pool,
            entries: Mutex::new(None),
            kept_max,
            kept_for,
            brief: None,
        }
    }

    /// Keeps results for which `is_it` holds for `kept_for`, and drops them first.
    pub const fn with_brief(mut self, is_it: fn(&V) -> bool, kept_for: Duration) -> Answers<K, V> {
        self.brief = Some(Brief { is_it, kept_for });
        self
    }

    fn lock(&self) -> MutexGuard<'_, Option<Entries<K, V>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result, or the future to wait for. `turn`: the one that the work takes.
    /// `otherwise`: the result if the work panics.
    pub fn ask(
        &'static self,
        turn: impl Into<Turn>,
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
        if self.pool.run(turn.into(), Box::new(job)) {
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
        self.make_room(entries);
        entries.insert(
            key.clone(),
            Entry::Running {
                wakers: Vec::new(),
                waiting: 0,
            },
        );
        None
    }

    /// Drops results, if there are too many: first those that are brief or too old.
    fn make_room(&self, entries: &mut Entries<K, V>) {
        if entries.len() < self.kept_max {
            return;
        }
        let now = Instant::now();
        entries.retain(|_, entry| match entry {
            Entry::Running { .. } => true,
            Entry::Done { value, until } => {
                let is_brief = self
                    .brief
                    .as_ref()
                    .is_some_and(|brief| (brief.is_it)(value));
                *until > now && !is_brief
            }
        });
        if entries.len() >= self.kept_max {
            entries.retain(|_, entry| matches!(entry, Entry::Running { .. }));
        }
    }

    fn kept_for(&self, value: &V) -> Duration {
        match &self.brief {
            Some(brief) if (brief.is_it)(value) => brief.kept_for,
            _ => self.kept_for,
        }
    }

    fn finish(&self, key: K, value: Option<V>) {
        let mut guard = self.lock();
        let entries = guard.get_or_insert_default();
        let before = match value {
            Some(value) => entries.insert(
                key,
                Entry::Done {
                    until: Instant::now() + self.kept_for(&value),
                    value,
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
/// one, so that slow work of one owner does not delay others; clients of an owner take turns, too.
pub struct Pool {
    name: &'static str,
    queue: Mutex<Queue>,
    has_work: Condvar,
}

struct Queue {
    is_started: bool,
    /// Owners in the order of their turns; each has work.
    waiting: VecDeque<Owner>,
    /// The owner of the work of each busy thread.
    running: Vec<u64>,
}

/// Work of an owner by client in the order of their turns; no entry is empty.
struct Owner {
    number: u64,
    count: usize,
    clients: VecDeque<(Option<u64>, VecDeque<Job>)>,
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
    fn run(&'static self, turn: Turn, job: Job) -> bool {
        let mut queue = self.lock();
        if !queue.is_started {
            queue.is_started = (0..threads()).filter(|_| self.start_thread()).count() > 0;
        }
        let has_begun = queue.is_started && queue.push(turn, job);
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
    fn push(&mut self, turn: Turn, job: Job) -> bool {
        let count: usize = self.waiting.iter().map(|owner| owner.count).sum();
        if count >= QUEUE_MAX {
            return false;
        }
        let known = self
            .waiting
            .iter_mut()
            .find(|known| known.number == turn.owner);
        match known {
            Some(owner) => owner.push(turn.client, job),
            None => {
                self.waiting.push_back(Owner {
                    number: turn.owner,
                    count: 1,
                    clients: VecDeque::from([(turn.client, VecDeque::from([job]))]),
                });
                true
            }
        }
    }

    /// Takes work of the first owner with fewer than `running_max` busy threads; its next turn
    /// comes last.
    fn next(&mut self, running_max: usize) -> Option<(u64, Job)> {
        let is_free =
            |owner: u64| self.running.iter().filter(|one| **one == owner).count() < running_max;
        let at = self
            .waiting
            .iter()
            .position(|owner| is_free(owner.number))?;
        let mut owner = self.waiting.remove(at)?;
        let (number, job) = (owner.number, owner.next()?);
        if owner.count > 0 {
            self.waiting.push_back(owner);
        }
        self.running.push(number);
        Some((number, job))
    }

    fn finished(&mut self, owner: u64) {
        if let Some(at) = self.running.iter().position(|one| *one == owner) {
            self.running.swap_remove(at);
        }
    }
}

impl Owner {
    fn push(&mut self, client: Option<u64>, job: Job) -> bool {
        let of_client_max = match client {
            Some(_) => QUEUE_OF_CLIENT_MAX,
            None => QUEUE_OF_NO_CLIENT_MAX,
        };
        if self.count >= QUEUE_OF_OWNER_MAX {
            return false;
        }
        match self.clients.iter_mut().find(|(known, _)| *known == client) {
            Some((_, jobs)) if jobs.len() >= of_client_max => return false,
            Some((_, jobs)) => jobs.push_back(job),
            None => self.clients.push_back((client, VecDeque::from([job]))),
        }
        self.count += 1;
        true
    }

    /// Takes work of the first client, whose next turn comes last.
    fn next(&mut self) -> Option<Job> {
        let (client, mut jobs) = self.clients.pop_front()?;
        let job = jobs.pop_front()?;
        if !jobs.is_empty() {
            self.clients.push_back((client, jobs));
        }
        self.count -= 1;
        Some(job)
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
        for _ in 0..QUEUE_OF_NO_CLIENT_MAX {
            let may_go = Arc::clone(&may_go);
            assert!(POOL.run(
                1.into(),
                Box::new(move || {
                    let _ = may_go.lock().unwrap().recv();
                })
            ));
        }
        let (done, is_done) = channel();
        assert!(POOL.run(
            2.into(),
            Box::new(move || {
                let _ = done.send(());
            })
        ));
        is_done.recv_timeout(Duration::from_secs(20)).unwrap();
        drop(go);
    }

    fn queue() -> Queue {
        Queue {
            is_started: true,
            waiting: VecDeque::new(),
            running: Vec::new(),
        }
    }

    #[test]
    fn queues_are_bounded() {
        let mut queue = queue();
        let mut push = |turn: Turn| queue.push(turn, Box::new(|| {}));
        assert!((0..QUEUE_OF_NO_CLIENT_MAX).all(|_| push(1.into())));
        assert!(!push(1.into()) && push(2.into()));
        let turns: Vec<u64> = (0..3)
            .map_while(|_| queue.next(2).map(|(owner, _)| owner))
            .collect();
        assert_eq!(turns, [1, 2, 1], "owners take turns");
        assert!(queue.next(2).is_none(), "and have so many threads at most");
        queue.finished(1);
        assert!(queue.next(2).is_some_and(|(owner, _)| owner == 1));
        let rest = (3..100_000_u64)
            .take_while(|owner| queue.push((*owner).into(), Box::new(|| {})))
            .count();
        assert_eq!(rest + QUEUE_OF_NO_CLIENT_MAX - 3, QUEUE_MAX);
    }

    #[test]
    fn clients_of_an_owner_take_turns() {
        let (mut queue, done) = (queue(), Arc::new(Mutex::new(Vec::new())));
        let mut push = |client: u64| {
            let done = Arc::clone(&done);
            let job = Box::new(move || done.lock().unwrap().push(client));
            queue.push(Turn::of_client(1, client), job)
        };
        assert!((0..QUEUE_OF_CLIENT_MAX).all(|_| push(7)));
        assert!(!push(7) && push(8) && push(9) && push(8));
        let first = (0..6).filter_map(|_| queue.next(99));
        first.for_each(|(_, job)| job());
        assert_eq!(*done.lock().unwrap(), [7, 8, 9, 7, 8, 7]);
        let rest = (100..100_000)
            .take_while(|client| queue.push(Turn::of_client(1, *client), Box::new(|| {})))
            .count();
        assert_eq!(rest + QUEUE_OF_CLIENT_MAX - 3, QUEUE_OF_OWNER_MAX);
        assert!(queue.push(Turn::of_client(2, 7), Box::new(|| {})));
    }

    #[test]
    fn brief_results_make_room_for_the_others() {
        const LONG: Duration = Duration::from_secs(100);
        static ANSWERS: Answers<u32, bool> =
            Answers::new(&TEST, 5, LONG).with_brief(|is_right| !is_right, LONG);
        for key in 0..40 {
            let is_right = key == 3;
            if let Answer::Wait(pause) = ANSWERS.ask(0, &key, false, move || is_right) {
                wait(pause);
            }
        }
        assert!(matches!(
            ANSWERS.ask(0, &3, false, || false),
            Answer::Known(true)
        ));
        static SHORT: Answers<u32, bool> =
            Answers::new(&TEST, 5, LONG).with_brief(|is_right| !is_right, Duration::ZERO);
        for is_right in [true, false] {
            let key = u32::from(is_right);
            if let Answer::Wait(pause) = SHORT.ask(0, &key, false, move || is_right) {
                wait(pause);
            }
            let again = SHORT.ask(0, &key, false, || false);
            assert_eq!(matches!(again, Answer::Known(true)), is_right);
        }
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
                0.into(),
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

//! Change tokens of directory entries, and the per-directory counters that they are compared with.
//!
//! Called by: `watcher` and `walk`, which create tokens; caches, which hold them and check them
//! once per request.
//! Caveat: order. A counter is read *after* its directory is being watched and *before* the entry
//! is examined. A change before the examination was seen by it; a change after it has its event
//! still to come, and that event makes the counter differ. The only remaining error is a token that
//! expires too early.
//! Out of scope: changes that inotify does not report: writes through a shared memory mapping,
//! changes made on the server of a network file system or below an overlay, a file system mounted
//! over a directory, and writes through another name of the same file (hard link) in a directory
//! that is not watched. `walk` watches files with several names themselves, and creates timed
//! tokens on network file systems; a mount requires a reload.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

/// Number of names of a directory above which names without a token are dropped when one is added.
const NAMES_SWEPT: usize = 32;

/// Says whether a directory entry may have changed since it was looked at.
#[derive(Clone, Debug)]
pub struct ChangeToken(Basis);

#[derive(Clone, Debug)]
enum Basis {
    Watched {
        /// Keeps the watch.
        directory: Arc<WatchedDirectory>,
        counters: Arc<Counters>,
        is_content: bool,
        seen: u32,
    },
    Timed {
        until_ms: u64,
    },
    Leased(Lease),
}

/// Validity of something other than a file, until a point in time; its owner extends or ends it.
#[derive(Clone, Debug, Default)]
pub struct Lease(Arc<AtomicU64>);

impl Lease {
    pub fn until(until_ms: u64) -> Lease {
        Lease(Arc::new(AtomicU64::new(until_ms)))
    }

    pub fn extend(&self, until_ms: u64) {
        self.0.store(until_ms, Ordering::Release);
    }

    pub fn end(&self) {
        self.extend(0);
    }

    pub fn until_ms(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub fn token(&self) -> ChangeToken {
        ChangeToken(Basis::Leased(self.clone()))
    }
}

impl ChangeToken {
    /// `now_ms`: any monotonic clock that the watcher was told too (see
    /// [`crate::Watcher::now_ms`]).
    pub fn is_current(&self, now_ms: u64) -> bool {
        match &self.0 {
            Basis::Watched {
                counters,
                is_content,
                seen,
                ..
            } => counters.count(*is_content) == *seen,
            Basis::Timed { until_ms } => now_ms < *until_ms,
            Basis::Leased(lease) => now_ms < lease.until_ms(),
        }
    }

    /// True if the other one says the same, so that one of them is enough.
    pub fn is_same(&self, other: &ChangeToken) -> bool {
        match (&self.0, &other.0) {
            (
                Basis::Watched {
                    directory: a,
                    counters: i,
                    is_content: k,
                    seen: x,
                },
                Basis::Watched {
                    directory: b,
                    counters: j,
                    is_content: l,
                    seen: y,
                },
            ) => Arc::ptr_eq(a, b) && Arc::ptr_eq(i, j) && (k, x) == (l, y),
            (Basis::Timed { until_ms: a }, Basis::Timed { until_ms: b }) => a == b,
            (Basis::Leased(a), Basis::Leased(b)) => Arc::ptr_eq(&a.0, &b.0),
            _ => false,
        }
    }

    /// A token that runs out by time only.
    pub fn until(until_ms: u64) -> ChangeToken {
        ChangeToken(Basis::Timed { until_ms })
    }

    /// True if it runs out by time (or has never held), because watching was impossible.
    pub fn is_timed(&self) -> bool {
        matches!(self.0, Basis::Timed { .. })
    }
}

/// The changes to an entry that invalidate a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concern<'n> {
    /// Created, removed, moved, attributes changed: enough for directories, links and absent names.
    Entry(&'n [u8]),
    /// That, or written to: for files.
    Content(&'n [u8]),
    /// Anything in the directory: for listings.
    Any,
    /// The watched directory or file, not its content.
    Itself,
}

/// Counters of one name: changes to the entry, and changes to the entry or its content.
#[derive(Debug, Default)]
struct Counters {
    entry: AtomicU32,
    content: AtomicU32,
}

impl Counters {
    fn count(&self, is_content: bool) -> u32 {
        self.of(is_content).load(Ordering::Acquire)
    }

    fn of(&self, is_content: bool) -> &AtomicU32 {
        if is_content {
            &self.content
        } else {
            &self.entry
        }
    }

    fn touch_content(&self) {
        self.content.fetch_add(1, Ordering::AcqRel);
    }

    fn touch(&self) {
        self.entry.fetch_add(1, Ordering::AcqRel);
        self.touch_content();
    }
}

/// The counters of one directory. The watcher's table holds one reference, tokens the others.
#[derive(Debug, Default)]
pub(crate) struct WatchedDirectory {
    /// `entry`: the directory itself; `content`: anything in it.
    own: Arc<Counters>,
    names: Mutex<Names>,
    is_dead: AtomicBool,
}

/// The names that tokens are about. Events of other names change nothing here.
#[derive(Debug, Default)]
struct Names {
    counters: HashMap<Box<[u8]>, Arc<Counters>>,
    /// Number of names at which unused ones are dropped next.
    sweep_at: usize,
}

impl Names {
    fn counters(&mut self, name: &[u8]) -> Arc<Counters> {
        if let Some(known) = self.counters.get(name) {
            return Arc::clone(known);
        }
        // Names come from clients, too: those that nothing depends on any more make room.
        if self.counters.len() >= self.sweep_at.max(NAMES_SWEPT) {
            self.sweep();
        }
        let counters = Arc::default();
        self.counters.insert(name.into(), Arc::clone(&counters));
        counters
    }

    /// Drops names without tokens: new references are handed out under the same lock.
    fn sweep(&mut self) {
        self.counters
            .retain(|_, counters| Arc::strong_count(counters) > 1);
        self.sweep_at = self.counters.len() * 2;
    }
}

impl WatchedDirectory {
    /// A token as of now; `None` when the watch has ended, so that no event would ever come. Death
    /// is looked at last and announced first ([`WatchedDirectory::end`]): a token that misses it
    /// has a count from before the final touch.
    pub(crate) fn token(self: &Arc<Self>, concern: Concern<'_>) -> Option<ChangeToken> {
        let (counters, is_content) = match concern {
            Concern::Entry(name) => (self.names().counters(name), false),
            Concern::Content(name) => (self.names().counters(name), true),
            Concern::Any => (Arc::clone(&self.own), true),
            Concern::Itself => (Arc::clone(&self.own), false),
        };
        let seen = counters.count(is_content);
        let is_dead = self.is_dead.load(Ordering::Acquire);
        (!is_dead).then(|| {
            ChangeToken(Basis::Watched {
                directory: Arc::clone(self),
                counters,
                is_content,
                seen,
            })
        })
    }

    /// The entry `name` came, went or got other attributes. Its content may be another's then, too.
    pub(crate) fn touch_entry(&self, name: &[u8]) {
        if let Some(counters) = self.names().counters.get(name) {
            counters.touch();
        }
        self.own.touch_content();
    }

    /// The entry `name` was written to. Returns true if a token is about that, or about anything in
    /// the directory.
    pub(crate) fn touch_content(&self, name: &[u8]) -> bool {
        let is_listed = Arc::strong_count(&self.own) > 1;
        self.own.touch_content();
        let names = self.names();
        let counters = names.counters.get(name);
        if let Some(counters) = counters {
            counters.touch_content();
        }
        is_listed || counters.is_some_and(|counters| Arc::strong_count(counters) > 1)
    }

    pub(crate) fn touch_all(&self) {
        self.own.touch();
        self.names().counters.values().for_each(|one| one.touch());
    }

    /// No more events will come.
    pub(crate) fn end(&self) {
        self.is_dead.store(true, Ordering::Release);
        self.touch_all();
    }

    /// Drops the counters of names without tokens.
    pub(crate) fn sweep(&self) {
        self.names().sweep();
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(directory: &Arc<WatchedDirectory>, name: &[u8]) -> [ChangeToken; 3] {
        [Concern::Entry(name), Concern::Content(name), Concern::Any]
            .map(|concern| directory.token(concern).unwrap())
    }

    fn current(tokens: &[ChangeToken; 3]) -> [bool; 3] {
        tokens.each_ref().map(|token| token.is_current(0))
    }

    #[test]
    fn the_same_are_those_of_one_counter_and_one_count() {
        let directory = Arc::new(WatchedDirectory::default());
        let first = directory.token(Concern::Entry(b"a")).unwrap();
        assert!(first.is_same(&directory.token(Concern::Entry(b"a")).unwrap()));
        assert!(!first.is_same(&directory.token(Concern::Content(b"a")).unwrap()));
        assert!(
            !first.is_same(
                &Arc::new(WatchedDirectory::default())
                    .token(Concern::Entry(b"a"))
                    .unwrap()
            )
        );
        assert!(!first.is_same(&ChangeToken::until(1)));
        directory.touch_entry(b"a");
        assert!(!first.is_same(&directory.token(Concern::Entry(b"a")).unwrap()));
    }

    #[test]
    fn each_concern_hears_what_it_must() {
        let directory = Arc::new(WatchedDirectory::default());
        let kept = tokens(&directory, b"a");
        assert_eq!(current(&kept), [true; 3]);
        directory.touch_content(b"a");
        assert_eq!(current(&kept), [true, false, false]);
        let kept = tokens(&directory, b"a");
        directory.touch_entry(b"a");
        assert_eq!(current(&kept), [false; 3]);
        let kept = tokens(&directory, b"a");
        directory.touch_all();
        assert_eq!(current(&kept), [false; 3]);
    }

    #[test]
    fn other_names_are_left_alone() {
        let directory = Arc::new(WatchedDirectory::default());
        let kept = tokens(&directory, b"a");
        for number in 0..1000 {
            directory.touch_entry(format!("file-{number}").as_bytes());
        }
        assert_eq!(current(&kept), [true, true, false]);
        assert_eq!(directory.names().counters.len(), 1);
    }

    #[test]
    fn writes_concern_those_with_tokens() {
        let directory = Arc::new(WatchedDirectory::default());
        let kept = directory.token(Concern::Content(b"a"));
        assert!(directory.touch_content(b"a"));
        assert!(!directory.touch_content(b"log"));
        drop(kept);
        assert!(!directory.touch_content(b"a"));
        let listed = directory.token(Concern::Any);
        assert!(directory.touch_content(b"log"));
        drop(listed);
        assert!(!directory.touch_content(b"log"));
    }

    #[test]
    fn names_without_tokens_are_dropped() {
        let directory = Arc::new(WatchedDirectory::default());
        let kept: Vec<_> = (0..100_u8)
            .map(|name| directory.token(Concern::Entry(&[name])).unwrap())
            .collect();
        for number in 0..10_000 {
            let _ = directory.token(Concern::Entry(format!("absent-{number}").as_bytes()));
        }
        let names = directory.names().counters.len();
        assert!((100..=200).contains(&names), "{names}");
        directory.touch_entry(&[7]);
        let outdated = kept.iter().filter(|token| !token.is_current(0)).count();
        assert_eq!(outdated, 1);
        drop(kept);
        directory.sweep();
        assert_eq!(directory.names().counters.len(), 0);
    }

    #[test]
    fn an_ended_watch_gives_no_tokens() {
        let directory = Arc::new(WatchedDirectory::default());
        let kept = tokens(&directory, b"a");
        directory.end();
        assert_eq!(current(&kept), [false; 3]);
        assert!(directory.token(Concern::Any).is_none());
    }

    #[test]
    fn a_lease_is_extended_and_ended() {
        let lease = Lease::until(10);
        let token = lease.token();
        assert!(
            token.is_current(9)
                && !token.is_current(10)
                && token.is_same(&lease.token())
                && !token.is_same(&Lease::until(10).token())
        );
        lease.extend(20);
        assert!(token.is_current(10));
        lease.end();
        assert!(!token.is_current(0));
    }

    #[test]
    fn a_timed_stamp_runs_out() {
        let token = ChangeToken::until(1000);
        assert!(token.is_timed());
        assert!(token.is_current(999));
        assert!(!token.is_current(1000));
    }
}

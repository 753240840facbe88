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

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// Number of counters shared by the names of a directory, so that a busy name seldom invalidates
/// another entry.
const BUCKETS: usize = 16;

/// Number of counters: two per bucket (one for the entry, one for the entry or its content), one
/// for anything in the directory, and one for the directory itself.
const COUNTERS: usize = 2 * BUCKETS + 2;
const ANY: usize = 2 * BUCKETS;
const ITSELF: usize = ANY + 1;

/// Says whether a directory entry may have changed since it was looked at.
#[derive(Clone, Debug)]
pub struct ChangeToken(Basis);

#[derive(Clone, Debug)]
enum Basis {
    Watched {
        directory: Arc<WatchedDirectory>,
        counter: u8,
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
                directory,
                counter,
                seen,
            } => directory.count(usize::from(*counter)) == *seen,
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
                    counter: i,
                    seen: x,
                },
                Basis::Watched {
                    directory: b,
                    counter: j,
                    seen: y,
                },
            ) => Arc::ptr_eq(a, b) && (i, x) == (j, y),
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
pub(crate) enum Concern {
    /// Created, removed, moved, attributes changed: enough for directories, links and absent names.
    Entry(u8),
    /// That, or written to: for files.
    Content(u8),
    /// Anything in the directory: for listings.
    Any,
    /// The watched directory or file, not its content.
    Itself,
}

impl Concern {
    pub(crate) fn entry(name: &[u8]) -> Concern {
        Concern::Entry(bucket(name))
    }

    pub(crate) fn content(name: &[u8]) -> Concern {
        Concern::Content(bucket(name))
    }

    fn counter(self) -> u8 {
        match self {
            Concern::Entry(bucket) => bucket,
            Concern::Content(bucket) => BUCKETS as u8 + bucket,
            Concern::Any => ANY as u8,
            Concern::Itself => ITSELF as u8,
        }
    }
}

/// The counters of one directory. The watcher's table holds one reference, tokens the others.
#[derive(Debug)]
pub(crate) struct WatchedDirectory {
    counters: [AtomicU32; COUNTERS],
    is_dead: AtomicBool,
}

impl WatchedDirectory {
    pub(crate) fn new() -> Self {
        WatchedDirectory {
            counters: [const { AtomicU32::new(0) }; COUNTERS],
            is_dead: AtomicBool::new(false),
        }
    }

    /// A token as of now; `None` when the watch has ended, so that no event would ever come. Death
    /// is looked at last and announced first ([`WatchedDirectory::end`]): a token that misses it
    /// has a count from before the final touch.
    pub(crate) fn token(self: &Arc<Self>, concern: Concern) -> Option<ChangeToken> {
        let counter = concern.counter();
        let seen = self.count(usize::from(counter));
        let is_dead = self.is_dead.load(Ordering::Acquire);
        (!is_dead).then(|| {
            ChangeToken(Basis::Watched {
                directory: Arc::clone(self),
                counter,
                seen,
            })
        })
    }

    /// The entry `name` came, went or got other attributes. Its content may be another's then, too.
    pub(crate) fn touch_entry(&self, name: &[u8]) {
        self.bump(Concern::entry(name));
        self.touch_content(name);
    }

    pub(crate) fn touch_content(&self, name: &[u8]) {
        self.bump(Concern::content(name));
        self.bump(Concern::Any);
    }

    pub(crate) fn touch_all(&self) {
        for counter in &self.counters {
            counter.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// No more events will come.
    pub(crate) fn end(&self) {
        self.is_dead.store(true, Ordering::Release);
        self.touch_all();
    }

    fn bump(&self, concern: Concern) {
        if let Some(counter) = self.counters.get(usize::from(concern.counter())) {
            counter.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn count(&self, counter: usize) -> u32 {
        self.counters
            .get(counter)
            .map_or(0, |counter| counter.load(Ordering::Acquire))
    }
}

/// FNV-1a, mixed once more for the sake of short names; the upper bits of that. A collision costs a
/// look-up, nothing more, so no secret is needed.
fn bucket(name: &[u8]) -> u8 {
    let hash = name.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    ((hash ^ (hash >> 15)).wrapping_mul(0x9e37_79b1) >> 28) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(directory: &Arc<WatchedDirectory>, name: &[u8]) -> [ChangeToken; 3] {
        [Concern::entry(name), Concern::content(name), Concern::Any]
            .map(|concern| directory.token(concern).unwrap())
    }

    fn current(tokens: &[ChangeToken; 3]) -> [bool; 3] {
        tokens.each_ref().map(|token| token.is_current(0))
    }

    #[test]
    fn the_same_are_those_of_one_counter_and_one_count() {
        let directory = Arc::new(WatchedDirectory::new());
        let first = directory.token(Concern::entry(b"a")).unwrap();
        assert!(first.is_same(&directory.token(Concern::entry(b"a")).unwrap()));
        assert!(!first.is_same(&directory.token(Concern::content(b"a")).unwrap()));
        assert!(
            !first.is_same(
                &Arc::new(WatchedDirectory::new())
                    .token(Concern::entry(b"a"))
                    .unwrap()
            )
        );
        assert!(!first.is_same(&ChangeToken::until(1)));
        directory.touch_entry(b"a");
        assert!(!first.is_same(&directory.token(Concern::entry(b"a")).unwrap()));
    }

    #[test]
    fn each_concern_hears_what_it_must() {
        let directory = Arc::new(WatchedDirectory::new());
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
    fn another_bucket_is_left_alone() {
        let directory = Arc::new(WatchedDirectory::new());
        let kept = tokens(&directory, b"a");
        let other = (b'b'..=b'z')
            .find(|other| bucket(&[*other]) != bucket(b"a"))
            .unwrap();
        directory.touch_entry(&[other]);
        assert_eq!(current(&kept), [true, true, false]);
    }

    #[test]
    fn names_spread_over_all_buckets() {
        for (names, expected) in [(1600, 50..200), (16, 0..6)] {
            let mut counts = [0; BUCKETS];
            for number in 0..names {
                counts[usize::from(bucket(format!("image-{number}.jpg").as_bytes()))] += 1;
            }
            assert!(
                counts.iter().all(|count| expected.contains(count)),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn an_ended_watch_gives_no_tokens() {
        let directory = Arc::new(WatchedDirectory::new());
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

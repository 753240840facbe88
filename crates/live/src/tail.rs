//! Requests as they finish, for operators who watch them.
//!
//! Called by: a logger of each worker ([`Tail::note`]); the console, which makes watchers, takes
//! their lines, and drops them.
//! Caveat: bounded in watchers and in lines per watcher; lines beyond are counted. The text of a
//! line is the client's, and hostile: pages must escape it.
//! Out of scope: switching the loggers on and off (`Loggers::watch`).

pub use crate::line::Line;
use crate::tops::Tops;
use saker_telemetry::latency::{BucketCounts, Histogram};
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// Lines that wait for a watcher.
pub const LINES_MAX: usize = 200;
/// Watchers at a time.
pub const WATCHERS_MAX: usize = 8;
/// Longest text of a line, of each of its parts.
pub const TEXT_BYTES_MAX: usize = 1024;

/// The requests that a watcher wants to see; empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Part of the requested host, or of the site's name.
    pub host: String,
    /// Part of the path or query.
    pub path: String,
    /// Beginning of the client address.
    pub client: String,
    /// `404`, or `4` for a class.
    pub status: Option<u16>,
    pub duration_us_min: u64,
    /// Part of the cache outcome.
    pub cache: String,
    /// Name of the only site whose requests are seen, whatever else the filter says.
    pub site: Option<String>,
}

impl Filter {
    pub fn admits(&self, line: &Line) -> bool {
        let has = |text: &str, part: &str| {
            part.is_empty()
                || text
                    .to_ascii_lowercase()
                    .contains(&part.to_ascii_lowercase())
        };
        let status = self.status.is_none_or(|status| match status {
            class @ 1..=9 => line.status / 100 == class,
            status => line.status == status,
        });
        self.site.as_ref().is_none_or(|site| *site == line.site)
            && status
            && line.duration_us >= self.duration_us_min
            && line.client.starts_with(&self.client)
            && has(&line.target, &self.path)
            && has(&line.cache, &self.cache)
            && (has(&line.host, &self.host) || has(&line.site, &self.host))
    }
}

#[derive(Debug)]
struct Watcher {
    id: u64,
    filter: Filter,
    lines: VecDeque<Line>,
    missed: u64,
}

/// Lines for a watcher, and the number of those that there was no room for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub lines: Vec<Line>,
    pub missed: u64,
}

/// The watchers of this process, and the latencies of what they watch.
#[derive(Debug, Default)]
pub struct Tail {
    watchers: Mutex<(u64, Vec<Watcher>)>,
    /// Parties that keep the loggers running: watchers, and pages that show latencies.
    interested: AtomicUsize,
    /// Number of watchers, which is read without the lock.
    watching: AtomicUsize,
    latencies: Histogram,
    /// The most frequent of everything; `None`: no operator looks at them.
    tops: Mutex<Option<Tops>>,
    /// Tells that there are some, which is read without the lock.
    counts_tops: AtomicBool,
}

impl Tail {
    /// Returns whether loggers have to run.
    pub fn is_watched(&self) -> bool {
        self.interested.load(Ordering::Relaxed) > 0
    }

    /// Returns whether an operator watches single requests, and not latencies alone.
    pub fn has_watchers(&self) -> bool {
        self.watching.load(Ordering::Relaxed) > 0
    }

    pub fn latencies(&self) -> BucketCounts {
        self.latencies.counts()
    }

    /// Begins to count the most frequent URLs, clients, and so on, or goes on; `false` forgets
    /// them.
    pub fn count_tops(&self, is_wanted: bool) {
        let mut tops = self.tops.lock().unwrap_or_else(PoisonError::into_inner);
        match is_wanted {
            true => drop(tops.get_or_insert_default()),
            false => *tops = None,
        }
        self.counts_tops.store(is_wanted, Ordering::Relaxed);
    }

    /// The most frequent of everything since counting began.
    pub fn tops(&self) -> Value {
        let tops = self.tops.lock().unwrap_or_else(PoisonError::into_inner);
        tops.as_ref().map_or(Value::Null, Tops::to_json)
    }

    /// Keeps loggers running for as long as the returned value lives.
    pub fn interest(self: &Arc<Self>) -> Interest {
        self.interested.fetch_add(1, Ordering::Relaxed);
        Interest(Arc::clone(self))
    }

    /// Registers a watcher; `None`: there are too many.
    pub fn watch(self: &Arc<Self>, filter: Filter) -> Option<Watching> {
        let mut watchers = self.lock();
        if watchers.1.len() >= WATCHERS_MAX {
            return None;
        }
        watchers.0 += 1;
        let id = watchers.0;
        watchers.1.push(Watcher {
            id,
            filter,
            lines: VecDeque::new(),
            missed: 0,
        });
        self.watching.store(watchers.1.len(), Ordering::Relaxed);
        drop(watchers);
        Some(Watching {
            id,
            interest: self.interest(),
        })
    }

    /// Takes in a finished request. The line is made only if a watcher may want it. `duration_us`:
    /// `None` if it was not measured, because the request began before loggers ran.
    pub fn note(&self, duration_us: Option<u64>, line: impl FnOnce() -> Line) {
        if let Some(duration_us) = duration_us {
            self.latencies.observe(duration_us);
        }
        let counts_tops = self.counts_tops.load(Ordering::Relaxed);
        if !self.has_watchers() && !counts_tops {
            return;
        }
        if counts_tops {
            let line = line();
            let mut tops = self.tops.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(tops) = tops.as_mut() {
                tops.note(&line);
            }
            drop(tops);
            return self.show(|| line);
        }
        self.show(line);
    }

    /// Shows a request to those that watch.
    fn show(&self, line: impl FnOnce() -> Line) {
        let mut watchers = self.lock();
        let has_room = |watcher: &Watcher| watcher.lines.len() < LINES_MAX;
        if !watchers.1.iter().any(has_room) {
            watchers.1.iter_mut().for_each(|full| full.missed += 1);
            return;
        }
        let line = line();
        for watcher in &mut watchers.1 {
            match watcher.filter.admits(&line) {
                true if watcher.lines.len() < LINES_MAX => watcher.lines.push_back(line.clone()),
                true => watcher.missed += 1,
                false => {}
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, Vec<Watcher>)> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps loggers running.
#[derive(Debug)]
pub struct Interest(Arc<Tail>);

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.interested.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A registered watcher.
#[derive(Debug)]
pub struct Watching {
    id: u64,
    interest: Interest,
}

impl Watching {
    /// Takes the lines that have come since the last call.
    pub fn take(&self) -> Taken {
        let mut watchers = self.interest.0.lock();
        let own = watchers.1.iter_mut().find(|watcher| watcher.id == self.id);
        own.map_or_else(Taken::default, |own| Taken {
            lines: own.lines.drain(..).collect(),
            missed: std::mem::take(&mut own.missed),
        })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watchers = self.interest.0.lock();
        watchers.1.retain(|watcher| watcher.id != self.id);
        let count = watchers.1.len();
        self.interest.0.watching.store(count, Ordering::Relaxed);
    }
}

/// Text of a request as it can be shown: bounded, and valid.
pub fn text(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    String::from_utf8_lossy(cut).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(target: &str, status: u16) -> Line {
        Line {
            target: target.into(),
            status,
            client: "192.0.2.7".into(),
            host: "shop.example".into(),
            duration_us: 500,
            ..Line::default()
        }
    }

    #[test]
    fn lines_and_watchers_are_bounded() {
        let tail = Arc::new(Tail::default());
        assert!(!tail.is_watched());
        let interest = tail.interest();
        tail.note(Some(7), || {
            unreachable!("no line is made for latencies alone")
        });
        tail.note(None, || unreachable!("nor for what was not measured"));
        assert!(tail.is_watched() && !tail.has_watchers());
        drop(interest);
        let watching = tail.watch(Filter::default()).expect("the first");
        assert!(tail.is_watched() && tail.has_watchers());
        for number in 0..LINES_MAX + 3 {
            tail.note(Some(1), || line(&format!("/{number}"), 200));
        }
        let taken = watching.take();
        assert_eq!((taken.lines.len(), taken.missed), (LINES_MAX, 3));
        assert_eq!(watching.take(), Taken::default());
        let more: Vec<_> = (1..WATCHERS_MAX)
            .map(|_| tail.watch(Filter::default()).expect("within the limit"))
            .collect();
        assert!(tail.watch(Filter::default()).is_none());
        drop((more, watching));
        assert!(!tail.is_watched() && tail.watch(Filter::default()).is_some());
    }

    #[test]
    fn tops_are_counted_while_they_are_wanted() {
        let tail = Arc::new(Tail::default());
        tail.note(Some(1), || unreachable!("no line is made"));
        tail.count_tops(true);
        let watching = tail.watch(Filter::default()).expect("the first");
        tail.note(Some(1), || line("/a", 200));
        tail.count_tops(true);
        tail.note(None, || line("/a", 200));
        assert_eq!(tail.tops()["requests"], 2);
        assert_eq!(watching.take().lines.len(), 2);
        tail.count_tops(false);
        drop(watching);
        tail.note(Some(1), || unreachable!("no line is made"));
        assert_eq!(tail.tops(), Value::Null);
    }

    #[test]
    fn filters() {
        let admits = |filter: Filter| filter.admits(&line("/Shop?a=1", 404));
        let base = Filter::default;
        assert!(admits(base()));
        assert!(admits(Filter {
            status: Some(404),
            ..base()
        }));
        assert!(admits(Filter {
            status: Some(4),
            ..base()
        }));
        assert!(!admits(Filter {
            status: Some(5),
            ..base()
        }));
        assert!(admits(Filter {
            path: "shop".into(),
            ..base()
        }));
        assert!(!admits(Filter {
            path: "cart".into(),
            ..base()
        }));
        assert!(admits(Filter {
            client: "192.0.".into(),
            ..base()
        }));
        assert!(!admits(Filter {
            client: "0.2".into(),
            ..base()
        }));
        assert!(admits(Filter {
            host: "SHOP.example".into(),
            ..base()
        }));
        assert!(admits(Filter {
            duration_us_min: 500,
            ..base()
        }));
        assert!(!admits(Filter {
            duration_us_min: 501,
            ..base()
        }));
        assert!(!admits(Filter {
            cache: "hit".into(),
            ..base()
        }));
    }

    #[test]
    fn text_is_bounded_and_valid() {
        assert_eq!(text(&[b'a'; TEXT_BYTES_MAX + 1]).len(), TEXT_BYTES_MAX);
        assert_eq!(text(b"\xff<"), "\u{fffd}<");
    }
}

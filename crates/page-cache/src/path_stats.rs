//! Outcomes by prefix of the path, and causes of passes, while an operator looks at them.
//!
//! Called by: the look-up and the store filter, for each outcome; the main thread, which switches
//! the counting on and off and sums the workers up.
//! Caveat: while it is off, an outcome costs one load. Memory is bounded, whatever clients send, and
//! so is time: of more than [`COUNTED_MAX`] outcomes in a second the first are counted.
//! Out of scope: totals per site (`stats`); the words of reasons (`refusal`).

use crate::{
    pass_cause::{self, PassCause},
    refusal::Refusal,
};
use saker_http::Fields;
use saker_live::sketch::Sketch;
use saker_net::clock;
use saker_pipeline::Exchange;
use serde_json::{Value, json};
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// Outcomes that a worker counts in a second.
const COUNTED_MAX: u32 = 500;

/// Outcomes of one worker's page cache, by path.
#[derive(Debug, Default)]
pub struct PathStats {
    is_on: AtomicBool,
    counts: Mutex<PathCounts>,
}

#[derive(Debug, Default)]
struct PathCounts {
    prefixes: Sketch<Outcomes>,
    /// By prefix and word of the reason; with the cause of the last one.
    passes: Sketch<Option<PassCause>>,
    /// The second that is counted, and the outcomes so far.
    second: (i64, u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcomes {
    hits: u64,
    misses: u64,
    passes: u64,
}

impl PathStats {
    /// Begins or ends the counting; either forgets what was counted before.
    fn switch(&self, is_on: bool) {
        if self.is_on.swap(is_on, Ordering::Relaxed) != is_on {
            *self.lock() = PathCounts::default();
        }
    }

    /// Counts a response made from a stored page. `url` is the beginning of its key.
    pub fn hit(&self, site: &[u8], url: &[u8]) {
        self.count(site, url, |outcomes| outcomes.hits += 1);
    }

    /// Counts a response that was stored.
    pub fn miss(&self, site: &[u8], url: &[u8]) {
        self.count(site, url, |outcomes| outcomes.misses += 1);
    }

    /// Counts a response that was not stored; `fields` are those of the response, if there is one.
    pub fn pass(
        &self,
        (site, url): (&[u8], &[u8]),
        exchange: &Exchange,
        fields: Option<&Fields>,
        why: &Refusal,
    ) {
        let Some((mut counts, prefix)) = self.count(site, url, |outcomes| outcomes.passes += 1)
        else {
            return;
        };
        let cause = counts.passes.count(&format!("{prefix}: {}", why.word));
        *cause = Some(pass_cause::of(exchange, fields, why));
    }

    /// `None`: nothing is counted.
    fn count(
        &self,
        site: &[u8],
        url: &[u8],
        count: impl FnOnce(&mut Outcomes),
    ) -> Option<(MutexGuard<'_, PathCounts>, String)> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        let mut counts = self.lock();
        let now_s = clock::turn_s();
        if counts.second.0 != now_s {
            counts.second = (now_s, 0);
        }
        if counts.second.1 >= COUNTED_MAX {
            return None;
        }
        counts.second.1 += 1;
        let site = String::from_utf8_lossy(site);
        let prefix = format!("{site}{}", String::from_utf8_lossy(prefix(url)));
        count(counts.prefixes.count(&prefix));
        Some((counts, prefix))
    }

    fn lock(&self) -> MutexGuard<'_, PathCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Switches the counting of all workers on or off.
pub fn watch<'w>(workers: impl Iterator<Item = &'w PathStats>, is_on: bool) {
    workers.for_each(|worker| worker.switch(is_on));
}

/// The most frequent prefixes with their outcomes, and the most frequent reasons of passes with the
/// cause of the last one of each.
pub fn rows<'w>(workers: impl Iterator<Item = &'w PathStats>) -> (Value, Value) {
    let mut sum = PathCounts::default();
    for worker in workers {
        let counts = worker.lock();
        sum.prefixes.merge(&counts.prefixes, |to, from| {
            to.hits += from.hits;
            to.misses += from.misses;
            to.passes += from.passes;
        });
        sum.passes.merge(&counts.passes, |to, from| {
            to.clone_from(from);
        });
    }
    let outcomes =
        |one: &Outcomes| json!({ "hits": one.hits, "misses": one.misses, "passes": one.passes });
    let cause = |one: &Option<PassCause>| one.as_ref().map_or(Value::Null, PassCause::to_json);
    (sum.prefixes.rows(outcomes), sum.passes.rows(cause))
}

/// The first part of the path of a key's URL, with a slash if there are further ones.
fn prefix(url: &[u8]) -> &[u8] {
    let end = memchr::memchr2(0, b'?', url).unwrap_or(url.len());
    let url = url.get(..end).unwrap_or(url);
    let from = memchr::memmem::find(url, b"://").map_or(0, |at| at + 3);
    let rest = url.get(from..).unwrap_or_default();
    let path = memchr::memchr(b'/', rest).and_then(|at| rest.get(at..));
    let path = path.unwrap_or_default();
    let inner = path.get(1..).unwrap_or_default();
    let length = memchr::memchr(b'/', inner).map_or(1, |at| at + 2);
    path.get(..length).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        for (url, expected) in [
            ("http://a:80/a/b/c", "/a/"),
            ("http://a:80/a", "/"),
            ("http://a:80/", "/"),
            ("http://a:80/a?x=/b/c", "/"),
            ("http://a:80/a/?x\0/b", "/a/"),
            ("http://a:80", ""),
            ("", ""),
        ] {
            assert_eq!(prefix(url.as_bytes()), expected.as_bytes(), "{url}");
        }
    }

    #[test]
    fn workers_are_summed_up_while_an_operator_looks() {
        let workers = [PathStats::default(), PathStats::default()];
        let url = b"http://a.example:80/shop/1";
        workers[0].hit(b"a.example", url);
        assert_eq!(rows(workers.iter()).0, json!([]));
        watch(workers.iter(), true);
        workers[0].hit(b"a.example", url);
        workers[1].hit(b"a.example", b"http://a.example:80/shop/2?q");
        workers[1].miss(b"a.example", url);
        let shop = json!([{
            "text": "a.example/shop/", "count": 3, "error": 0, "hits": 2, "misses": 1, "passes": 0,
        }]);
        assert_eq!(rows(workers.iter()), (shop.clone(), json!([])));
        // Being told again forgets nothing; the end does.
        watch(workers.iter(), true);
        assert_eq!(rows(workers.iter()).0, shop);
        watch(workers.iter(), false);
        assert_eq!(rows(workers.iter()).0, json!([]));
    }

    #[test]
    fn time_is_bounded() {
        let worker = PathStats::default();
        worker.switch(true);
        worker.lock().second = (clock::turn_s(), COUNTED_MAX - 1);
        worker.hit(b"a", b"http://a:80/");
        worker.hit(b"a", b"http://a:80/");
        let counts = worker.lock();
        assert_eq!(counts.second.1, COUNTED_MAX);
        assert_eq!(counts.prefixes.rows(|_| Value::Null)[0]["count"], 1);
    }
}

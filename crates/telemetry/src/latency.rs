//! Histograms of latency by site and route.
//!
//! Called by: a logger of each worker, for finished requests; the metrics endpoint, which writes
//! them out.
//! Caveat: names come from the configuration, never from requests, and their number is bounded:
//! routes beyond the bound share one histogram.
//! Out of scope: counters of workers (`metrics`).

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Upper bounds of buckets, in microseconds, and as written.
const BOUNDS: [(u64, &str); 14] = [
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1.0"),
    (2_500_000, "2.5"),
    (5_000_000, "5.0"),
    (10_000_000, "10.0"),
    (30_000_000, "30.0"),
];
/// Histograms with names of their own.
pub const HISTOGRAMS_MAX: usize = 1000;
/// Name of what has none of its own.
const OTHER: &str = "other";
const FAMILY: &str = "saker_request_duration_seconds";

/// Format of an exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus text exposition, format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0: families of counters have no `_total`, and the end is marked.
    OpenMetrics,
}

/// The latencies of one route.
#[derive(Debug, Default)]
pub struct Histogram {
    /// By bound; the last one is for all beyond.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    pub fn observe(&self, us: u64) {
        let at = BOUNDS.partition_point(|(bound, _)| *bound < us);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns the number of observations by bucket.
    pub fn counts(&self) -> BucketCounts {
        std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed))
    }
}

/// Observations by bucket; the last one is for all beyond the bounds.
pub type BucketCounts = [u64; BOUNDS.len() + 1];

/// Estimates the latency, in microseconds, that this share of the observations does not exceed:
/// the place within a bucket is interpolated. `None`: there are no observations.
pub fn percentile(counts: &BucketCounts, share: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let wanted = total as f64 * share;
    let (mut below, mut lower) = (0.0, 0.0);
    for (at, count) in counts.iter().enumerate() {
        // Beyond the last bound, the bound is all that is known.
        let upper = BOUNDS.get(at).map_or(lower, |(bound, _)| *bound as f64);
        let (first, count) = (below, *count as f64);
        below += count;
        if count > 0.0 && below >= wanted {
            return Some(lower + (upper - lower) * ((wanted - first) / count));
        }
        lower = upper;
    }
    None
}

/// All histograms of the process. They outlive reloads.
#[derive(Debug, Default)]
pub struct Latencies(Mutex<BTreeMap<Labels, Arc<Histogram>>>);

/// Site and route.
type Labels = (Box<str>, Box<str>);

impl Latencies {
    /// Returns the histogram of a route; `route` is empty for requests that no route matches.
    pub fn histogram(&self, site: &str, route: &str) -> Arc<Histogram> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = match all.len() < HISTOGRAMS_MAX {
            true => (site.into(), route.into()),
            false => {
                let own = (Box::from(site), Box::from(route));
                match all.get(&own) {
                    Some(known) => return Arc::clone(known),
                    None => (OTHER.into(), OTHER.into()),
                }
            }
        };
        Arc::clone(all.entry(key).or_default())
    }

    /// Returns all histograms: site, route, and numbers, the sum in microseconds last.
    pub fn all(&self) -> Vec<(Box<str>, Box<str>, Vec<u64>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = |histogram: &Histogram| {
            let mut figures = histogram.counts().to_vec();
            figures.push(histogram.sum_us.load(Ordering::Relaxed));
            figures
        };
        all.iter()
            .map(|((site, route), histogram)| (site.clone(), route.clone(), figures(histogram)))
            .collect()
    }

    /// Adds what another process has observed. Numbers of other buckets are not added.
    pub fn add(&self, site: &str, route: &str, figures: &[u64]) {
        let Some((sum_us, counts)) = figures.split_last() else {
            return;
        };
        if counts.len() == BOUNDS.len() + 1 {
            let histogram = self.histogram(site, route);
            for (bucket, count) in histogram.buckets.iter().zip(counts) {
                bucket.fetch_add(*count, Ordering::Relaxed);
            }
            histogram.sum_us.fetch_add(*sum_us, Ordering::Relaxed);
        }
    }

    /// Appends all histograms.
    pub fn write(&self, exposition: Exposition, out: &mut String) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "# HELP {FAMILY} Time from a request's head to the end of its response, by site and route.\n# TYPE {FAMILY} histogram"
        );
        if exposition == Exposition::OpenMetrics {
            let _ = writeln!(out, "# UNIT {FAMILY} seconds");
        }
        for ((site, route), histogram) in all.iter() {
            let labels = format!("site=\"{}\",route=\"{}\"", label(site), label(route));
            let mut count = 0;
            for (at, bucket) in histogram.buckets.iter().enumerate() {
                count += bucket.load(Ordering::Relaxed);
                let bound = BOUNDS.get(at).map_or("+Inf", |(_, text)| text);
                let _ = writeln!(out, "{FAMILY}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let sum_s = histogram.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
            let _ = writeln!(
                out,
                "{FAMILY}_sum{{{labels}}} {sum_s}\n{FAMILY}_count{{{labels}}} {count}"
            );
        }
    }
}

/// The value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_goes_on() {
        let (before, after) = (Latencies::default(), Latencies::default());
        before.histogram("a", "/x").observe(3000);
        after.histogram("a", "/x").observe(4000);
        for (site, route, figures) in before.all() {
            after.add(&site, &route, &figures);
            after.add(&site, &route, &figures[1..]);
            after.add(&site, &route, &[]);
        }
        let all = after.all();
        assert_eq!((all.len(), all[0].2.last()), (1, Some(&7000)));
        assert_eq!(after.histogram("a", "/x").counts()[2], 2);
    }

    #[test]
    fn buckets_are_cumulative_and_bounds_inclusive() {
        let latencies = Latencies::default();
        let histogram = latencies.histogram("a\"b", "/x\\*");
        for us in [0, 1000, 1001, 30_000_000, 30_000_001] {
            histogram.observe(us);
        }
        let mut text = String::new();
        latencies.write(Exposition::Prometheus, &mut text);
        let count = |bound: &str| {
            let line = text
                .lines()
                .find(|line| line.contains(&format!("le=\"{bound}\"")));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        };
        assert_eq!(
            [
                count("0.001"),
                count("0.0025"),
                count("30.0"),
                count("+Inf")
            ],
            [Some(2), Some(3), Some(4), Some(5)]
        );
        assert!(
            text.contains("{site=\"a\\\"b\",route=\"/x\\\\*\"} 5"),
            "{text}"
        );
        assert!(
            text.contains("_sum{site=\"a\\\"b\",route=\"/x\\\\*\"} 60.002002"),
            "{text}"
        );
    }

    #[test]
    fn percentiles_are_interpolated_and_bounded() {
        let histogram = Histogram::default();
        assert_eq!(percentile(&histogram.counts(), 0.5), None);
        (0..10).for_each(|_| histogram.observe(500));
        (0..10).for_each(|_| histogram.observe(2_000));
        let counts = histogram.counts();
        assert_eq!(percentile(&counts, 0.25), Some(500.0));
        assert_eq!(percentile(&counts, 0.5), Some(1_000.0));
        assert_eq!(percentile(&counts, 1.0), Some(2_500.0));
        histogram.observe(u64::MAX / 4);
        assert_eq!(percentile(&histogram.counts(), 1.0), Some(30_000_000.0));
    }

    #[test]
    fn names_are_bounded() {
        let latencies = Latencies::default();
        for number in 0..HISTOGRAMS_MAX {
            latencies.histogram("a", &number.to_string());
        }
        let other = latencies.histogram("a", "one more");
        assert!(Arc::ptr_eq(&other, &latencies.histogram("b", "another")));
        let known = latencies.histogram("a", "7");
        assert!(!Arc::ptr_eq(&other, &known));
    }
}

//! Counters to samples: rates are the differences between two moments.
//!
//! Called by: the main thread, once a second while there is a console.
//! Caveat: counters are read worker by worker, so a difference may be off by a request.
//! Out of scope: keeping samples (`history`).

use crate::{
    history::{Field, Sample},
    process::ProcessFacts,
};
use saker_telemetry::{
    Metric, Snapshot,
    latency::{BucketCounts, percentile},
};

/// Everything that a sample is made from.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Milliseconds of a clock that never goes back.
    pub monotonic_ms: u64,
    /// Seconds since 1970.
    pub at_s: i64,
    pub counters: Snapshot,
    /// Latencies of the requests that were watched.
    pub latencies: BucketCounts,
    pub process: Option<ProcessFacts>,
}

/// Compares each reading with the one before.
#[derive(Debug, Default)]
pub struct Sampler(Option<Reading>);

impl Sampler {
    /// Returns the sample between the last reading and this one; `None` for the first, or if no
    /// time has passed.
    pub fn sample(&mut self, reading: Reading) -> Option<Sample> {
        let before = self.0.replace(reading.clone())?;
        let elapsed_ms = reading.monotonic_ms.checked_sub(before.monotonic_ms)?;
        if elapsed_ms == 0 {
            return None;
        }
        let per_second = 1000.0 / elapsed_ms as f64;
        let difference = |metric| {
            let (now, then) = (&reading.counters, &before.counters);
            now.value(metric).saturating_sub(then.value(metric)) as f64
        };
        let mut sample = Sample::new(reading.at_s);
        for (field, metric) in RATES {
            sample.set(*field, difference(*metric) * per_second);
        }
        let requests = [
            Metric::RequestsHttp1,
            Metric::RequestsHttp2,
            Metric::RequestsHttp3,
        ];
        let requests: f64 = requests.into_iter().map(difference).sum();
        sample.set(Field::Requests, requests * per_second);
        for (field, metric) in GAUGES {
            sample.set(*field, reading.counters.value(*metric) as f64);
        }
        let latencies: BucketCounts =
            std::array::from_fn(|at| reading.latencies[at].saturating_sub(before.latencies[at]));
        for (field, share) in PERCENTILES {
            if let Some(us) = percentile(&latencies, *share) {
                sample.set(*field, us / 1000.0);
            }
        }
        if let (Some(now), Some(then)) = (reading.process, before.process) {
            let ticks = now.cpu_ticks.saturating_sub(then.cpu_ticks) as f64;
            // A tick is 10 ms, so ticks per second are percents of one core.
            sample.set(Field::Cpu, ticks * per_second);
            sample.set(Field::Memory, now.memory_bytes as f64);
        }
        Some(sample)
    }
}

const RATES: &[(Field, Metric)] = &[
    (Field::Http1, Metric::RequestsHttp1),
    (Field::Http2, Metric::RequestsHttp2),
    (Field::Http3, Metric::RequestsHttp3),
    (Field::Status2xx, Metric::Responses2xx),
    (Field::Status3xx, Metric::Responses3xx),
    (Field::Status4xx, Metric::Responses4xx),
    (Field::Status5xx, Metric::Responses5xx),
    (Field::BytesIn, Metric::BytesIn),
    (Field::BytesOut, Metric::BytesOut),
    (Field::RouteHits, Metric::ResourceCacheHits),
    (Field::RouteMisses, Metric::ResourceCacheMisses),
    (Field::PageHits, Metric::PageCacheHits),
    (Field::PageStale, Metric::PageCacheStale),
    (Field::PageMisses, Metric::PageCacheMisses),
    (Field::PagePasses, Metric::PageCachePasses),
];

const GAUGES: &[(Field, Metric)] = &[
    (Field::Connections, Metric::ConnectionsOpen),
    (Field::RequestsOpen, Metric::RequestsOpen),
];

const PERCENTILES: &[(Field, f64)] = &[
    (Field::LatencyP50, 0.5),
    (Field::LatencyP90, 0.9),
    (Field::LatencyP99, 0.99),
];

#[cfg(test)]
mod tests {
    use super::*;
    use saker_telemetry::{Counters, latency::Histogram};

    #[test]
    fn rates_are_per_second_and_gauges_as_they_are() {
        let (counters, latencies) = (Counters::new(), Histogram::default());
        let reading = |monotonic_ms, cpu_ticks| Reading {
            monotonic_ms,
            at_s: 100,
            counters: Counters::sum(std::slice::from_ref(&counters)),
            latencies: latencies.counts(),
            process: Some(ProcessFacts {
                cpu_ticks,
                memory_bytes: 4096,
            }),
        };
        let mut sampler = Sampler::default();
        assert_eq!(sampler.sample(reading(0, 0)), None);
        counters.add(Metric::RequestsHttp1, 20);
        counters.add(Metric::RequestsHttp2, 10);
        counters.set(Metric::ConnectionsOpen, 3);
        (0..4).for_each(|_| latencies.observe(1_000));
        assert_eq!(sampler.sample(reading(0, 0)), None, "no time has passed");
        counters.add(Metric::RequestsHttp1, 20);
        (0..4).for_each(|_| latencies.observe(1_000));
        let sample = sampler.sample(reading(2_000, 100)).expect("a sample");
        let value = |field| sample.value(field);
        assert_eq!(value(Field::Requests), 10.0);
        assert_eq!(value(Field::Http2), 0.0);
        assert_eq!(value(Field::Connections), 3.0);
        assert_eq!(value(Field::LatencyP50), 0.5);
        assert_eq!(value(Field::Cpu), 50.0);
        assert_eq!(value(Field::Memory), 4096.0);
        let idle = sampler.sample(reading(3_000, 100)).expect("a sample");
        assert!(idle.value(Field::LatencyP50).is_nan());
    }
}

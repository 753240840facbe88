//! Ring buffers of samples: 15 minutes by the second, 24 hours by the minute.
//!
//! Called by: the main thread, which adds a sample per second; the console, which shows ranges.
//! Caveat: a minute is the mean of its samples; unknown values (NaN) do not count, and are `null`
//! in JSON.

use serde_json::{Value, json};
use std::collections::VecDeque;

/// Seconds that are kept.
pub const SECONDS_MAX: usize = 15 * 60;
/// Minutes that are kept.
pub const MINUTES_MAX: usize = 24 * 60;

macro_rules! fields {
    ($($field:ident $name:literal;)*) => {
        /// A figure of a sample.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field { $($field,)* }

        /// Names of the fields, in their order, as in JSON.
        pub const NAMES: &[&str] = &[$($name,)*];
    };
}

fields! {
    Requests "requests";
    Http1 "http1";
    Http2 "http2";
    Http3 "http3";
    Status2xx "status_2xx";
    Status3xx "status_3xx";
    Status4xx "status_4xx";
    Status5xx "status_5xx";
    BytesIn "bytes_in";
    BytesOut "bytes_out";
    LatencyP50 "latency_p50_ms";
    LatencyP90 "latency_p90_ms";
    LatencyP99 "latency_p99_ms";
    Connections "connections";
    RequestsOpen "requests_open";
    RouteHits "route_cache_hits";
    RouteMisses "route_cache_misses";
    PageHits "page_cache_hits";
    PageStale "page_cache_stale";
    PageMisses "page_cache_misses";
    PagePasses "page_cache_passes";
    Cpu "cpu_percent";
    Memory "memory_bytes";
}

const COUNT: usize = NAMES.len();

/// Figures of one second, or their means of one minute. Rates are per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seconds since 1970.
    pub at_s: i64,
    values: [f32; COUNT],
}

impl Sample {
    /// A sample whose values are unknown.
    pub fn new(at_s: i64) -> Sample {
        Sample {
            at_s,
            values: [f32::NAN; COUNT],
        }
    }

    pub fn set(&mut self, field: Field, value: f64) {
        self.values[field as usize] = value as f32;
    }

    pub fn value(&self, field: Field) -> f32 {
        self.values[field as usize]
    }

    /// Values by name.
    pub fn to_json(&self) -> Value {
        let mut object = serde_json::Map::new();
        object.insert("at".into(), self.at_s.into());
        for (name, value) in NAMES.iter().zip(self.values) {
            object.insert((*name).into(), number(value));
        }
        Value::Object(object)
    }
}

/// The time span of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// By the second.
    Minutes15,
    /// By the minute.
    Hours24,
}

/// Samples of the past.
#[derive(Debug, Default)]
pub struct History {
    seconds: VecDeque<Sample>,
    minutes: VecDeque<Sample>,
    /// Samples of the minute that has begun.
    minute: Vec<Sample>,
}

impl History {
    pub fn add(&mut self, sample: Sample) {
        let is_new = |last: &Sample| last.at_s.div_euclid(60) != sample.at_s.div_euclid(60);
        if self.minute.last().is_some_and(is_new) {
            let minute = mean(&self.minute);
            self.minute.clear();
            push(&mut self.minutes, minute, MINUTES_MAX);
        }
        // A clock that is set back many times must not make a minute long.
        if self.minute.len() < 120 {
            self.minute.push(sample);
        }
        push(&mut self.seconds, sample, SECONDS_MAX);
    }

    pub fn latest(&self) -> Option<&Sample> {
        self.seconds.back()
    }

    /// Columns of a range: times, and values by name.
    pub fn to_json(&self, range: Range) -> Value {
        self.last_to_json(range, usize::MAX)
    }

    /// The last columns of a range, of at most that many samples.
    pub fn last_to_json(&self, range: Range, max: usize) -> Value {
        let samples = match range {
            Range::Minutes15 => &self.seconds,
            Range::Hours24 => &self.minutes,
        };
        let samples = samples.range(samples.len().saturating_sub(max)..);
        let times: Vec<i64> = samples.clone().map(|sample| sample.at_s).collect();
        let mut columns = serde_json::Map::new();
        for (at, name) in NAMES.iter().enumerate() {
            let column = samples.clone().map(|sample| number(sample.values[at]));
            columns.insert((*name).into(), column.collect());
        }
        json!({ "at": times, "series": columns })
    }
}

fn push(samples: &mut VecDeque<Sample>, sample: Sample, max: usize) {
    if samples.len() >= max {
        samples.pop_front();
    }
    samples.push_back(sample);
}

fn mean(samples: &[Sample]) -> Sample {
    let at_s = samples
        .first()
        .map_or(0, |first| first.at_s.div_euclid(60) * 60);
    let mut result = Sample::new(at_s);
    for at in 0..COUNT {
        let known = samples.iter().map(|sample| sample.values[at]);
        let known: Vec<f32> = known.filter(|value| !value.is_nan()).collect();
        if !known.is_empty() {
            result.values[at] = known.iter().sum::<f32>() / known.len() as f32;
        }
    }
    result
}

/// Three decimals are more than a graph shows.
fn number(value: f32) -> Value {
    match value.is_finite() {
        true => json!((f64::from(value) * 1000.0).round() / 1000.0),
        false => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: i64, requests: f64) -> Sample {
        let mut sample = Sample::new(at_s);
        sample.set(Field::Requests, requests);
        sample
    }

    #[test]
    fn seconds_and_minutes_are_bounded_and_minutes_are_means() {
        let mut history = History::default();
        let last = (MINUTES_MAX as i64 + 2) * 60;
        for at_s in 0..=last {
            history.add(sample(at_s, (at_s % 60) as f64));
        }
        let seconds = history.to_json(Range::Minutes15);
        let minutes = history.to_json(Range::Hours24);
        assert_eq!(seconds["at"].as_array().map(Vec::len), Some(SECONDS_MAX));
        let few = history.last_to_json(Range::Minutes15, 2);
        assert_eq!(few["at"], json!([last - 1, last]));
        assert_eq!(minutes["at"].as_array().map(Vec::len), Some(MINUTES_MAX));
        assert_eq!(seconds["at"][SECONDS_MAX - 1], last);
        assert_eq!(minutes["at"][MINUTES_MAX - 1], last - 60);
        assert_eq!(minutes["series"]["requests"][0], 29.5);
        assert_eq!(minutes["series"]["latency_p50_ms"][0], Value::Null);
    }

    #[test]
    fn a_clock_that_stands_still_fills_nothing() {
        let mut history = History::default();
        (0..10_000).for_each(|_| history.add(sample(7, 1.0)));
        assert!(history.minute.len() <= 120);
        assert_eq!(history.latest().map(|latest| latest.at_s), Some(7));
    }
}

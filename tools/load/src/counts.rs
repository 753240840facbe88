//! Counts of a load, and their report.

use crate::histogram::Histogram;
use std::{collections::BTreeMap, fmt, time::Duration};

/// Lines by which a bench knows when to look at the server's CPU time; h2load says the same.
pub const COUNTING_BEGINS: &str = "Main benchmark duration is started";
pub const COUNTING_ENDS: &str = "Main benchmark duration is over";
/// Before requests, bytes, microseconds in all, errors, and the latencies within which 50 %, 99 %
/// and all requests stayed.
pub const EXACT_FIGURES: &str = "exact-figures";
/// Kinds of errors that are told apart.
const KINDS_MAX: usize = 20;

#[derive(Clone, Debug, Default)]
pub struct LoadCounts {
    pub latencies: Histogram,
    /// Bytes of content.
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub handshakes: u64,
    /// Connections whose first requests left with the first packets and were taken.
    pub early: u64,
    /// By what is wrong.
    pub errors: BTreeMap<String, u64>,
    pub time: Duration,
    /// CPU time of this program.
    pub cpu: Duration,
    /// Packets that the connections found lost, ours alone.
    pub lost_packets: u64,
}

impl LoadCounts {
    pub fn error(&mut self, what: String) {
        if self.errors.len() < KINDS_MAX || self.errors.contains_key(&what) {
            *self.errors.entry(what).or_default() += 1;
        } else {
            *self.errors.entry("others".into()).or_default() += 1;
        }
    }

    pub fn errors_in_all(&self) -> u64 {
        self.errors.values().sum()
    }

    pub fn requests(&self) -> u64 {
        self.latencies.count()
    }
}

impl fmt::Display for LoadCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, seconds) = (self.requests(), self.time.as_secs_f64());
        let per = |amount: f64, of: f64| if of > 0.0 { amount / of } else { 0.0 };
        let (received, sent) = (self.bytes_received, self.bytes_sent);
        writeln!(
            f,
            "{requests} requests in {seconds:.3} s: {:.0} requests/s, {:.0} kB/s",
            per(requests as f64, seconds),
            per((received + sent) as f64 / 1e3, seconds)
        )?;
        writeln!(
            f,
            "content: {received} bytes received, {sent} sent; {} handshakes, {} with early data",
            self.handshakes, self.early
        )?;
        let [p50, p90, p99, p999] =
            [0.5, 0.9, 0.99, 0.999].map(|share| self.latencies.within(share).as_micros());
        let longest = self.latencies.longest().as_micros();
        writeln!(
            f,
            "latency in µs: 50 % {p50}, 90 % {p90}, 99 % {p99}, 99.9 % {p999}, longest {longest}"
        )?;
        writeln!(
            f,
            "this program: {:.3} s of CPU, {:.2} µs per request; {} packets lost",
            self.cpu.as_secs_f64(),
            per(self.cpu.as_secs_f64() * 1e6, requests as f64),
            self.lost_packets
        )?;
        for (what, count) in &self.errors {
            writeln!(f, "error: {count} times: {what}")?;
        }
        let (micros, errors) = (self.time.as_micros(), self.errors_in_all());
        writeln!(
            f,
            "{EXACT_FIGURES} {requests} {received} {micros} {errors} {p50} {p99} {longest}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_figures() {
        let mut counts = LoadCounts {
            bytes_received: 4096,
            time: Duration::from_secs(2),
            ..LoadCounts::default()
        };
        (1..=10).for_each(|number| counts.latencies.record(Duration::from_micros(number)));
        counts.error("reset".into());
        counts.error("reset".into());
        let text = counts.to_string();
        assert!(
            text.ends_with("\nexact-figures 10 4096 2000000 2 5 10 10\n"),
            "{text}"
        );
        assert!(
            text.contains("error: 2 times: reset\n") && text.contains("5 requests/s"),
            "{text}"
        );
    }

    #[test]
    fn errors_of_a_thousand_kinds_are_still_counted() {
        let mut counts = LoadCounts::default();
        (0..1000).for_each(|number| counts.error(number.to_string()));
        assert_eq!(
            (counts.errors_in_all(), counts.errors.len()),
            (1000, KINDS_MAX + 1)
        );
    }
}

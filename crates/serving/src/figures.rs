//! Figures for the server-status page: counters of all workers, and the system's data about the
//! process.
//!
//! Called by: the status handler, through [`Figures`].
//! Out of scope: the look of the page, which is that of Apache's `mod_status`.

use crate::shared::Shared;
use saker_apache::status::{Counts, Figures, OpenRequest, Report, WorkerReport};
use saker_telemetry::{Counters, Metric};
use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Figures of the running server.
pub struct LiveFigures {
    pub shared: Arc<Shared>,
    pub generation: u64,
}

/// Figures where no server runs (`saker explain`).
pub struct NoFigures;

impl Figures for NoFigures {
    fn report(&self) -> Report {
        Report::default()
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

impl Figures for LiveFigures {
    fn report(&self) -> Report {
        let shared = &*self.shared;
        let (sum, uptime) = (Counters::sum(&shared.counters), shared.started.elapsed());
        let now_unix_s = unix_s(SystemTime::now());
        Report {
            started_unix_s: now_unix_s.saturating_sub(uptime.as_secs() as i64),
            now_unix_s,
            uptime,
            built_unix_s: built(),
            generation: self.generation,
            requests: sum.value(Metric::RequestsHttp1)
                + sum.value(Metric::RequestsHttp2)
                + sum.value(Metric::RequestsHttp3),
            bytes_out: sum.value(Metric::BytesOut),
            busy: Duration::from_micros(sum.value(Metric::RequestMicroseconds)),
            workers: shared
                .counters
                .iter()
                .map(|counters| worker(counters))
                .collect(),
            cpu_s: fs::read_to_string("/proc/self/stat")
                .ok()
                .and_then(|text| cpu_s(&text))
                .unwrap_or_default(),
            load: fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| load(&text)),
            open: self.open(),
        }
    }

    fn counts(&self) -> Counts {
        let sum = Counters::sum(&self.shared.counters);
        let workers = self.shared.counters.iter().map(|counters| worker(counters));
        let (open, busy) = workers.fold((0, 0), |(open, busy), worker| {
            (open + worker.connections, busy + worker.busy)
        });
        Counts {
            accepted: sum.value(Metric::ConnectionsAccepted),
            open,
            requests: sum.value(Metric::RequestsHttp1)
                + sum.value(Metric::RequestsHttp2)
                + sum.value(Metric::RequestsHttp3),
            busy,
            reading: sum
                .value(Metric::ConnectionsReading)
                .min(u64::from(u32::MAX)),
        }
    }
}

impl LiveFigures {
    fn open(&self) -> Vec<OpenRequest> {
        let now_ns = saker_net::clock::monotonic_ns();
        let shown = self
            .shared
            .open_requests
            .all()
            .into_iter()
            .map(|(worker, open)| OpenRequest {
                worker,
                age: Duration::from_nanos(now_ns.saturating_sub(open.began_ns)),
                client: open.client,
                host: open.host,
                request: open.request,
                protocol: open.protocol,
            });
        shown.collect()
    }
}

/// A gauge may be lowered before it was raised, if both are looked at from elsewhere.
fn worker(counters: &Counters) -> WorkerReport {
    let gauge = |metric| counters.value(metric).min(u64::from(u32::MAX));
    WorkerReport {
        connections: gauge(Metric::ConnectionsOpen),
        busy: gauge(Metric::RequestsOpen),
    }
}

fn unix_s(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}

/// The program's file is as old as the program.
fn built() -> i64 {
    fs::metadata(Path::new("/proc/self/exe"))
        .and_then(|metadata| metadata.modified())
        .map_or(0, unix_s)
}

/// Ticks of `utime`, `stime`, `cutime`, and `cstime` (proc(5)); the fields before them end with the
/// bracket of the name.
fn cpu_s(stat: &str) -> Option<[f64; 4]> {
    // USER_HZ, on every Linux that there is.
    const TICKS_PER_S: f64 = 100.0;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let seconds = |at: usize| Some(fields.get(at)?.parse::<f64>().ok()? / TICKS_PER_S);
    Some([seconds(11)?, seconds(12)?, seconds(13)?, seconds(14)?])
}

fn load(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_whitespace().map(str::parse);
    Some([
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 25 5 20 0 4 0 100";
        assert_eq!(cpu_s(stat), Some([1.5, 0.5, 0.25, 0.05]));
        assert_eq!((cpu_s(""), cpu_s("1 (x) S")), (None, None));
        assert_eq!(load("0.10 0.25 2.00 1/100 99\n"), Some([0.1, 0.25, 2.0]));
        assert_eq!(load("x"), None);
        assert!(built() > 1_700_000_000);
    }
}

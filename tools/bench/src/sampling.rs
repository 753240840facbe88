//! CPU, RSS and PSS of a whole stand through a run, with idle time either side, as psrecord draws
//! them.
//!
//! The one difficulty is not to be part of what is measured: the thread that looks stays on the
//! core of the load, and looks a few times a second. Absent on purpose: averages. The report draws
//! the samples themselves.

use crate::running_server::RunningServer;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const EVERY: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub at_ms: u64,
    /// Percent of one core, since the previous sample.
    pub cpu_percent: f64,
    pub rss_bytes: u64,
    pub pss_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeLine {
    pub samples: Vec<Sample>,
    pub load_from_ms: u64,
    pub load_to_ms: u64,
}

/// Does the work and looks at the stand meanwhile, from `idle` before it to `idle` after it.
pub fn record<T>(
    running: &RunningServer,
    core: Option<usize>,
    idle: Duration,
    work: impl FnOnce() -> T,
) -> (T, TimeLine) {
    let start = Instant::now();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let recorder = scope.spawn(|| watch(running, core, start, &is_over));
        thread::sleep(idle);
        let load_from_ms = milliseconds(start.elapsed());
        let value = work();
        let load_to_ms = milliseconds(start.elapsed());
        thread::sleep(idle);
        is_over.store(true, Ordering::Release);
        recorder.thread().unpark();
        let samples = recorder.join().unwrap_or_default();
        (
            value,
            TimeLine {
                samples,
                load_from_ms,
                load_to_ms,
            },
        )
    })
}

fn watch(
    running: &RunningServer,
    core: Option<usize>,
    start: Instant,
    is_over: &AtomicBool,
) -> Vec<Sample> {
    stay_on(core);
    let mut samples = Vec::new();
    let (mut seen_at, mut seen_cpu) = (Instant::now(), running.cpu_time());
    // A last look comes after the end.
    let mut is_last = false;
    while !is_last {
        is_last = is_over.load(Ordering::Acquire);
        if !is_last {
            thread::park_timeout(EVERY);
        }
        let (now, cpu, memory) = (Instant::now(), running.cpu_time(), running.memory());
        let share = cpu.saturating_sub(seen_cpu).as_secs_f64()
            / now.duration_since(seen_at).as_secs_f64().max(1e-3);
        let at_ms = milliseconds(now.duration_since(start));
        samples.push(Sample {
            at_ms,
            cpu_percent: share * 100.0,
            rss_bytes: memory.rss_bytes,
            pss_bytes: memory.pss_bytes,
        });
        (seen_at, seen_cpu) = (now, cpu);
    }
    samples
}

/// If pinning is refused, the thread runs on any core: no reason to measure nothing.
fn stay_on(core: Option<usize>) {
    let Some(core) = core else { return };
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::ServerProcess;
    use std::{net::SocketAddr, process::Command};

    #[test]
    fn work_lies_between_idle_times_and_is_seen() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let busy = ServerProcess::spawn(
            Command::new("sh").args(["-c", "while :; do :; done"]),
            address,
        )
        .expect("started");
        let running = RunningServer::alone(busy);
        let idle = Duration::from_millis(250);
        // As long as it takes to be seen, however busy the machine is.
        let worked = || while running.cpu_time() < Duration::from_millis(60) {};
        let ((), line) = record(&running, None, idle, worked);
        assert!(
            line.load_from_ms >= 250 && line.load_to_ms >= line.load_from_ms,
            "{line:?}"
        );
        let last = line.samples.last().expect("samples");
        assert!(
            last.at_ms >= line.load_to_ms && last.rss_bytes > 0,
            "{line:?}"
        );
        assert!(
            line.samples.iter().any(|sample| sample.cpu_percent > 0.0),
            "{line:?}"
        );
    }
}

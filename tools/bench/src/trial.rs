//! Trials: one server under load once; series of them; and how many there are.
//!
//! Called by: the runner and the links, which measure; the reports, which compare.
//! Caveat: the cost of a trial is CPU time per request of the whole process tree, or bytes per
//! connection; everything else is reported beside it.
//! Out of scope: measuring (`runner`), comparing (`report`, `lab`).

use crate::{
    load::Load,
    row::Row,
    running_server::RunningServer,
    sampling::TimeLine,
    sheets::Sheet,
    subject::Subject,
    tool::{Tool, Yardstick},
};
use saker_testkit::{Peer, bench_files};
use std::time::Duration;

/// A row, and how much of it is run.
#[derive(Clone, Copy, Debug)]
pub struct RowPlan {
    pub row: &'static Row,
    pub rounds: usize,
    /// Load per trial.
    pub seconds: u64,
    /// Divisor of the requests of rows that count requests.
    pub requests_divisor: u64,
    /// Before and after the load of the first round, for the time lines.
    pub idle: Duration,
}

/// All trials of a row.
#[derive(Debug)]
pub struct RowResult {
    pub plan: RowPlan,
    /// As typed.
    pub load_command: String,
    pub series: Vec<Series>,
}

#[derive(Debug)]
pub struct Series {
    pub subject: Subject,
    pub trials: Vec<Trial>,
    /// Per keep-alive request; only where the row asks for it.
    pub system_calls: Option<f64>,
    /// Trials that came to nothing, and why: the others go on, the row is refused.
    pub complaints: Vec<String>,
    /// Sheets of the first trial.
    pub sheets: Vec<Sheet>,
}

impl Series {
    pub fn new(subject: Subject) -> Series {
        Series {
            subject,
            trials: Vec::new(),
            system_calls: None,
            complaints: Vec::new(),
            sheets: Vec::new(),
        }
    }

    pub fn record(&mut self, outcome: Result<Trial, String>) {
        match outcome {
            Ok(trial) => self.trials.push(trial),
            Err(complaint) => {
                eprintln!("saker-bench: {}: {complaint}", self.subject);
                self.complaints.push(complaint);
            }
        }
    }
}

/// One server under load once.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// The figure that counts: CPU µs per request of the whole tree, or bytes per idle connection.
    pub cost: f64,
    pub errors: f64,
    pub requests: f64,
    pub seconds: f64,
    pub requests_per_s: f64,
    pub bytes_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub longest_us: f64,
    pub shortest_us: f64,
    pub peak_rss_bytes: f64,
    pub pss_bytes: f64,
    /// Handshakes of the wanted kind.
    pub verified: f64,
    pub line: TimeLine,
}

/// Observer of a run's progress.
pub trait Progress {
    fn trial(&self, row: &Row, round: usize, subject: Subject);

    /// True if there is time for this round (from 0), which is not the first.
    fn has_time(&self, _row: &Row, _round: usize) -> bool {
        true
    }
}

/// With the tool that the subject's protocol asks for.
pub fn tool_for(tool: Tool, subject: Subject) -> Tool {
    let is_without_http3 = matches!(subject, Subject::SakerHttp2 | Subject::Peer(Peer::Nginx));
    match tool {
        Tool::H3load {
            streams,
            yardstick: Yardstick::Http2,
        } if is_without_http3 => Tool::H2load { streams },
        Tool::H3load {
            yardstick: Yardstick::PlainHttp1,
            ..
        } if is_without_http3 => Tool::Wrk,
        other => other,
    }
}

pub fn outcome(paths: &[&str], load: &Load, running: &RunningServer, line: TimeLine) -> Trial {
    let memory = running.memory();
    Trial {
        cost: cost(paths, load),
        errors: load.errors,
        requests_per_s: load.requests / load.seconds,
        bytes_per_s: load.bytes / load.seconds,
        p50_us: load.p50_us,
        p99_us: load.p99_us,
        longest_us: load.longest_us,
        shortest_us: load.shortest_us,
        peak_rss_bytes: memory.peak_rss_bytes as f64,
        pss_bytes: memory.pss_bytes as f64,
        verified: load.verified,
        requests: load.requests,
        seconds: load.seconds,
        line,
    }
}

/// Few of the large files are finished when the time is over, so the bytes sent count.
fn cost(paths: &[&str], load: &Load) -> f64 {
    let requests = match paths {
        [bench_files::LARGE] => load.bytes / bench_files::LARGE_BYTES as f64,
        [bench_files::HUGE] => load.bytes / bench_files::HUGE_BYTES as f64,
        _ => load.requests.max(1.0),
    };
    load.cpu.as_secs_f64() * 1e6 / requests
}

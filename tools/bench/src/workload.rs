//! A workload: a row that needs more than a tool and a path.
//!
//! Called by: the runner.
//! Caveat: a workload says what is served and asked for; the runner measures, so that all rows are
//! measured alike.
//! Out of scope: the workloads themselves, a file each in `workloads`.

use crate::{
    conditions::Site, load::Load, running_server::RunningServer, subject::Subject,
    test_env::TestEnv, tool::Tool,
};
use std::fmt;

/// Which figure decides a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// CPU time of the whole stand per request: less is better.
    Cpu,
    /// Requests per second: more is better.
    Rate,
    /// The time that a given number of requests takes: less is better.
    Seconds,
    /// Bytes per connection: less is better.
    Memory,
}

impl Measure {
    pub fn name(self) -> &'static str {
        match self {
            Measure::Cpu => "CPU µs per request",
            Measure::Rate => "requests/s",
            Measure::Seconds => "seconds",
            Measure::Memory => "bytes per connection",
        }
    }
}

/// Target and generator of a load.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub tool: Tool,
    /// Without a leading slash.
    pub paths: &'static [&'static str],
    pub connections: usize,
}

pub trait Workload: fmt::Debug + Sync {
    fn measure(&self) -> Measure;

    /// Everybody that can serve it; of the peers those are measured that the run has.
    fn subjects(&self) -> &'static [Subject];

    fn load(&self) -> Asked;

    /// Minimum seconds of load in the lab: a stall takes time to show.
    fn seconds_at_least(&self, _is_quick: bool) -> u64 {
        0
    }

    /// True if servers that the user brings (`--peer`) can serve it from the folder alone.
    fn admits_others(&self) -> bool {
        false
    }

    /// Upstream behind all participants alike, which is not counted.
    fn site(&self) -> Site {
        Site::Files
    }

    /// Once in a run, before any server: what is served, below `test_env.root` or `test_env.work`, from
    /// one seed.
    fn prepare(&self, _ground: TestEnv<'_>) -> Result<(), String> {
        Ok(())
    }

    fn start(&self, subject: Subject, test_env: TestEnv<'_>) -> Result<RunningServer, String> {
        subject.start(test_env)
    }

    /// Asked once of each contender before it is measured for the first time: all have to say the
    /// same, or the row is refused.
    fn answer(&self, _stand: &RunningServer, _ground: TestEnv<'_>) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }

    /// After the load, while the servers are still there: what is wrong now refuses the row.
    fn afterwards(
        &self,
        _contender: Subject,
        _stand: &RunningServer,
        _load: &Load,
        _ground: TestEnv<'_>,
    ) -> Result<(), String> {
        Ok(())
    }
}

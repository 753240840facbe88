//! Rows that need more than a tool and a path: sites that are made, servers that stand together,
//! logs that are looked at afterwards.
//!
//! A workload is a file below this folder and its rows a line each in [`ALL`]; the runner, the
//! sampling and the report are everybody's. Absent on purpose: figures. A workload says what is
//! served and asked for, the runner measures.

mod b1;
mod b3;
mod b4;
mod b5;
mod noise;
mod plain;
mod shop;

use crate::{
    contender::{Contender, Ground},
    load::Load,
    rows::{Row, Site, Tool},
    stand::Stand,
};
use plain::Plain;
use std::fmt;

/// In the order of the report.
pub const ALL: &[&[Row]] = &[noise::ROWS, b1::ROWS, b3::ROWS, b4::ROWS, b5::ROWS];

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
    fn contenders(&self) -> &'static [Contender];

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

    /// Once in a run, before any server: what is served, below `ground.root` or `ground.work`, from
    /// one seed.
    fn prepare(&self, _ground: Ground<'_>) -> Result<(), String> {
        Ok(())
    }

    fn start(&self, contender: Contender, ground: Ground<'_>) -> Result<Stand, String> {
        contender.start(ground)
    }

    /// Asked once of each contender before it is measured for the first time: all have to say the
    /// same, or the row is refused.
    fn answer(&self, _stand: &Stand, _ground: Ground<'_>) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }

    /// After the load, while the servers are still there: what is wrong now refuses the row.
    fn afterwards(
        &self,
        _contender: Contender,
        _stand: &Stand,
        _load: &Load,
        _ground: Ground<'_>,
    ) -> Result<(), String> {
        Ok(())
    }
}

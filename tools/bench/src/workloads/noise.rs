//! A against A: the same server twice in each round. What they differ by is the machine's noise,
//! and no smaller difference means anything.

use super::{Asked, Measure, Workload};
use crate::{
    contender::Contender,
    rows::{self, Kind, Row, Tool},
};
use saker_testkit::bench_files;

pub const ROWS: &[Row] = &[
    Row {
        name: "noise",
        title: "A against A: the same Saker twice, 285 bytes, keep-alive, 10 connections",
        kind: Kind::Own(&CPU),
    },
    Row {
        name: "noise-rate",
        title: "A against A, a connection per request, 10 at a time: requests/s",
        kind: Kind::Own(&RATE),
    },
];

const CPU: Noise = Noise {
    measure: Measure::Cpu,
    tool: Tool::Wrk,
};
const RATE: Noise = Noise {
    measure: Measure::Rate,
    tool: rows::CLOSE,
};

#[derive(Debug)]
struct Noise {
    measure: Measure,
    tool: Tool,
}

impl Workload for Noise {
    fn measure(&self) -> Measure {
        self.measure
    }

    fn contenders(&self) -> &'static [Contender] {
        &[Contender::Saker, Contender::SakerAgain]
    }

    fn load(&self) -> Asked {
        Asked {
            tool: self.tool,
            paths: &[bench_files::SMALL],
            connections: 10,
        }
    }
}

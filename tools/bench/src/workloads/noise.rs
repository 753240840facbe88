//! A against A: the same server twice in each round. What they differ by is the machine's noise,
//! and no smaller difference means anything.

use crate::{
    row::{Kind, Row},
    subject::Subject,
    tool::{CLOSE, Tool},
    workload::{Asked, Measure, Workload},
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
    tool: CLOSE,
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

    fn subjects(&self) -> &'static [Subject] {
        &[Subject::Saker, Subject::SakerAgain]
    }

    fn load(&self) -> Asked {
        Asked {
            tool: self.tool,
            paths: &[bench_files::SMALL],
            connections: 10,
        }
    }
}

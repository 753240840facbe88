//! A against A: the same server twice in each round. What they differ by is the machine's noise, and no smaller difference means anything.

use super::{Asked, Measure, Workload};
use crate::{
    contender::Contender,
    rows::{Kind, Row, Tool},
};
use saker_testkit::bench_files;

pub const ROWS: &[Row] =
    &[Row { name: "noise", title: "A against A: the same Saker twice, 285 bytes, keep-alive, 10 connections", kind: Kind::Own(&Noise) }];

#[derive(Debug)]
struct Noise;

impl Workload for Noise {
    fn measure(&self) -> Measure {
        Measure::Cpu
    }

    fn contenders(&self) -> &'static [Contender] {
        &[Contender::Saker, Contender::SakerAgain]
    }

    fn load(&self) -> Asked {
        Asked { tool: Tool::Wrk, paths: &[bench_files::SMALL], connections: 10 }
    }
}

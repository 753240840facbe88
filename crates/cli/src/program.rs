//! The program as the command line knows it.
//!
//! Called by: `main`, which hands it in; `serve`, `run` and `explain` use it.

use crate::source::Source;
use saker_serving::services::MakeServices;
use std::process::ExitCode;

/// Parts of the program that stand above the command line; `main` hands them in.
#[derive(Clone, Copy)]
pub struct Program {
    pub run_server: RunServer,
    pub make_services: MakeServices,
}

/// Runs a server until it is stopped, and returns the program's exit status.
pub type RunServer = fn(Source) -> ExitCode;

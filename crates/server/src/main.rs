//! The `saker` binary: hands the supervisor and the registry to the command line.

use saker_cli::Program;
use std::process::ExitCode;

fn main() -> ExitCode {
    saker_cli::main(Program {
        run_server: saker_server::process::run,
        make_services: saker_server::registry::services,
    })
}

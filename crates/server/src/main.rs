//! The `saker` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    saker_server::cli::main()
}

//! `saker-load`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    match saker_load::run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("saker-load: {complaint}");
            ExitCode::FAILURE
        }
    }
}

//! Output to standard output and standard error.
//!
//! Called by: every command.
//! Caveat: `println!` panics when the reader has closed the pipe (`saker reference | head`); these
//! functions end the command quietly.

use crate::exit_status::{CANNOT, OK};
use std::{
    fmt,
    io::{self, ErrorKind, IsTerminal, Write},
    process::ExitCode,
};

/// The whole outcome of a command that only prints.
pub fn print(text: impl AsRef<[u8]>) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_ref())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            self::error(format_args!("saker: standard output: {error}\n"));
            ExitCode::from(CANNOT)
        }
        _ => ExitCode::from(OK),
    }
}

pub fn error(text: impl fmt::Display) {
    let _ = write!(io::stderr().lock(), "{text}");
}

/// Returns true if errors are colored: standard error is a terminal, and the user has not disabled
/// colors (no-color.org).
pub fn errors_are_colored() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints one sentence about wrong usage, or an unsupported request, on standard error.
pub fn cannot(why: impl std::fmt::Display) -> ExitCode {
    error(format_args!("saker: {why}\n"));
    ExitCode::from(CANNOT)
}

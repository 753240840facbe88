//! Options of the command, and what every part of it needs.
//!
//! Called by: all parts of `package`.
//! Out of scope: reading the command line.

use std::{io, path::PathBuf, process::Command};

/// Options of the command.
pub struct Options {
    pub root: PathBuf,
    pub binary: PathBuf,
    pub out: PathBuf,
    pub version: String,
    /// Time of all files, in seconds since 1970.
    pub time: u64,
    /// For tests: little compression.
    pub is_quick: bool,
}

impl Options {
    pub fn level(&self) -> flate2::Compression {
        match self.is_quick {
            true => flate2::Compression::fast(),
            false => flate2::Compression::best(),
        }
    }
}

/// The maintainer of the packages, as Debian's tools have it (`DEBFULLNAME`, `DEBEMAIL`).
pub fn maintainer() -> String {
    let said = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    let name = said("DEBFULLNAME", "The Saker contributors");
    format!("{name} <{}>", said("DEBEMAIL", "saker@example.org"))
}

/// An error with this text.
pub fn wrong(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// Runs a program to its end; its output.
pub fn run(command: &mut Command) -> io::Result<Vec<u8>> {
    let output = command.output().map_err(|error| {
        wrong(format!(
            "{}: {error}",
            command.get_program().to_string_lossy()
        ))
    })?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(wrong(format!(
            "{}: {}\n{}",
            command.get_program().to_string_lossy(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

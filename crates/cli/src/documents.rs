//! Commands that print built-in documents: schema, reference, completions, manual pages, version.
//!
//! Called by: `lib`.

use crate::{
    arguments::Cli,
    output::{self, cannot},
};
use clap::CommandFactory;
use clap_complete::Shell;
use std::{io, path::Path, process::ExitCode};

pub fn schema() -> ExitCode {
    output::print(ending_in_newline(saker_config::json_schema()))
}

pub fn reference() -> ExitCode {
    output::print(ending_in_newline(saker_config::reference_markdown()))
}

pub fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "saker", &mut script);
    output::print(script)
}

/// The page of the program on standard output, or every command's in a directory.
pub fn man(directory: Option<&Path>) -> ExitCode {
    let written = match directory {
        None => render_man().map(output::print),
        Some(directory) => write_man(directory).map(output::print),
    };
    written.unwrap_or_else(|error| cannot(format_args!("manual pages: {error}")))
}

pub fn version() -> ExitCode {
    output::print(format!("saker {}\n", env!("CARGO_PKG_VERSION")))
}

fn render_man() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    Ok(page)
}

fn write_man(directory: &Path) -> io::Result<String> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)?;
    Ok(format!("manual pages written to {}\n", directory.display()))
}

fn ending_in_newline(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

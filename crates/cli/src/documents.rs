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

pub fn version(json: bool) -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    if !json {
        return output::print(format!("saker {version}\n"));
    }
    let mut numbers = version
        .split(['.', '-', '+'])
        .map(|number| number.parse::<u64>().unwrap_or(0));
    let mut number = || numbers.next().unwrap_or(0);
    let (major, minor, patch) = (number(), number(), number());
    let report = serde_json::json!({
        "name": "saker", "version": version, "major": major, "minor": minor, "patch": patch,
        "os": std::env::consts::OS, "architecture": std::env::consts::ARCH,
        "is_debug_build": cfg!(debug_assertions),
    });
    output::print(format!("{report:#}\n"))
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

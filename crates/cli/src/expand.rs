//! `saker config`: the configuration's files, or one configuration with everything resolved.
//!
//! Called by: `lib`.
//! Out of scope: Apache configurations, which have `apachectl -S` and `-t -D DUMP_CONFIG`.

use crate::{
    arguments::Config,
    check,
    exit_status::CONFIGURATION_ERRORS,
    locations,
    output::{self, cannot},
    source::load_native,
};
use saker_config::{Diagnostics, Expanded};
use saker_console::LiveChanges;
use std::{path::Path, process::ExitCode};

pub fn config(config: &Config) -> ExitCode {
    let path = match locations::configuration(config.config.as_deref()) {
        Ok(path) => path,
        Err(why) => return cannot(why),
    };
    match saker_config::expand(&path) {
        Ok(expanded) => {
            check::report(&Diagnostics(expanded.warnings.clone()));
            output::print(match (config.json, config.expanded) {
                (true, _) => format!("{:#}\n", expanded.to_json()),
                (false, true) => expanded.to_toml() + &live_changes(&path),
                (false, false) => files(&expanded),
            })
        }
        Err(diagnostics) => {
            check::report(&diagnostics);
            ExitCode::from(CONFIGURATION_ERRORS)
        }
    }
}

/// The files one after the other, each below a comment with its name.
fn files(expanded: &Expanded) -> String {
    let each = expanded.files.iter().map(|(name, text)| {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        format!("# file: {name}\n{text}{end}")
    });
    each.collect::<Vec<_>>().join("\n")
}

/// Comments about the changes that operators have made in the running server, which keeps them
/// beside its configuration.
fn live_changes(path: &Path) -> String {
    let state_dir = load_native(path).map(|loaded| loaded.model.server.state_dir);
    let lines = match state_dir.map(|state_dir| LiveChanges::load(&state_dir)) {
        Ok(Ok(changes)) => changes.summary(),
        Ok(Err(why)) => vec![why],
        Err(_) => Vec::new(),
    };
    let lines = lines
        .into_iter()
        .map(|line| format!("# {line}\n"))
        .collect::<String>();
    match lines.is_empty() {
        true => lines,
        false => format!("\n# In the running server, through the console:\n{lines}"),
    }
}

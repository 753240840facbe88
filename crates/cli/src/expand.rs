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
};
use saker_config::{Diagnostics, Expanded};
use std::process::ExitCode;

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
                (false, true) => expanded.to_toml(),
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

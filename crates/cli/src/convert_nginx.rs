//! `saker convert --nginx`: an nginx configuration as saker.toml, and what it can't say.
//!
//! Called by: `lib`.
//! Caveat: the result goes to standard output, findings to standard error, so that one can be
//! stored and the other read.
//! Out of scope: the conversion itself (`saker_nginx_syntax::convert`).

use crate::{check::report, exit_status::CONFIGURATION_ERRORS, output};
use saker_config::Diagnostics;
use saker_nginx::{Conversion, OnDisk};
use std::{path::Path, process::ExitCode};

/// Prints the saker.toml.
pub fn convert(path: &Path) -> ExitCode {
    let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Conversion {
        toml,
        report: found,
    } = saker_nginx::convert(&OnDisk, &file);
    let has_errors = found.has_errors();
    report(&Diagnostics(found.diagnostics));
    let printed = output::print(toml);
    match has_errors {
        true => ExitCode::from(CONFIGURATION_ERRORS),
        false => printed,
    }
}

//! `saker convert --vcl` and `saker check --vcl`: a Varnish configuration as saker.toml, and what
//! it can't say.
//!
//! Called by: `lib` and `check`.
//! Caveat: the result goes to standard output, findings to standard error, so that one can be
//! stored and the other read.
//! Out of scope: the conversion itself (`saker_vcl`).

use crate::{
    check::report,
    exit_status::CONFIGURATION_ERRORS,
    output::{self, cannot},
};
use saker_config::Diagnostics;
use saker_vcl::Conversion;
use std::{fs, path::Path, process::ExitCode};

/// Prints the saker.toml.
pub fn convert(path: &Path) -> ExitCode {
    match read(path) {
        Ok(Ok(Conversion { toml, findings })) => {
            report(&findings);
            let printed = output::print(toml);
            match has_errors(&findings) {
                true => ExitCode::from(CONFIGURATION_ERRORS),
                false => printed,
            }
        }
        Ok(Err(errors)) => {
            report(&errors);
            ExitCode::from(CONFIGURATION_ERRORS)
        }
        Err(why) => cannot(why),
    }
}

/// Reports what can't be converted, and nothing else.
pub fn check(path: &Path) -> ExitCode {
    let findings = match read(path) {
        Ok(Ok(conversion)) => conversion.findings,
        Ok(Err(errors)) => errors,
        Err(why) => return cannot(why),
    };
    report(&findings);
    match has_errors(&findings) {
        true => ExitCode::from(CONFIGURATION_ERRORS),
        false => output::print(format!(
            "{}: ok: `saker convert --vcl` prints it as saker.toml\n",
            path.display()
        )),
    }
}

fn has_errors(findings: &Diagnostics) -> bool {
    findings.iter().any(|finding| finding.is_error())
}

fn read(path: &Path) -> Result<Result<Conversion, Diagnostics>, String> {
    let name = path.display().to_string();
    let text = fs::read(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    Ok(saker_vcl::convert(&String::from_utf8_lossy(&text), &name))
}

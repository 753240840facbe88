//! Converts VCL, Varnish's language, to saker.toml, as far as it has counterparts.
//!
//! Called by: `saker check --vcl` and `saker convert --vcl`.
//! Caveat: VCL is a program, saker.toml is not. The rules of common files are converted; the rest is
//! reported with its place, as an error where it refuses requests.
//! Out of scope: running VCL.

mod conditions;
mod convert;
mod converter;
mod lexer;
mod output;
mod parser;
mod patterns;
mod receive;
mod respond;
mod syntax;

use converter::Weight;
use saker_config::{Diagnostic, Diagnostics, Severity, model::Origin};
use std::sync::Arc;

/// A converted file.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// Text of a saker.toml.
    pub toml: String,
    /// Statements without a counterpart, and those with a different one.
    pub findings: Diagnostics,
}

/// Converts the text of a VCL file; `name` is its name in diagnostics.
/// # Errors
/// The first error of syntax.
pub fn convert(text: &str, name: &str) -> Result<Conversion, Diagnostics> {
    let lines: Vec<&str> = text.lines().collect();
    let file: Arc<str> = name.into();
    let diagnostic = |severity, (line, column): (u32, u32), message, help| {
        let origin = Origin {
            file: Arc::clone(&file),
            line,
            column,
        };
        let shown = usize::try_from(line)
            .ok()
            .and_then(|line| lines.get(line.checked_sub(1)?))
            .copied()
            .unwrap_or_default();
        Diagnostic::with_line(severity, origin, 1, message, help, shown)
    };
    let read = parser::parse(text).map_err(|error| {
        let place = (error.line, error.column);
        Diagnostics(vec![diagnostic(
            Severity::Error,
            place,
            error.message,
            None,
        )])
    })?;
    let (output, findings) = convert::convert(&read);
    let findings = findings.into_iter().map(|finding| {
        let severity = match finding.weight {
            Weight::Error => Severity::Error,
            Weight::Warning => Severity::Warning,
        };
        let place = (finding.place.line, finding.place.column);
        diagnostic(severity, place, finding.message, finding.help)
    });
    Ok(Conversion {
        findings: Diagnostics(findings.collect()),
        toml: output.to_toml(),
    })
}

#[cfg(test)]
mod tests;

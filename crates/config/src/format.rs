//! The layout of a configuration file: spaces, blank lines, and line breaks, nothing else.
//!
//! Called by: `saker fmt`.
//! Caveat: comments, the order of keys, and the spelling of values stay. A comment behind a value
//! keeps its column where it can, so that aligned comments stay aligned. The result is compared
//! with the original value by value before it is returned.
//! Out of scope: files with syntax errors, which are reported and not formatted.

mod layout;
mod statement;

#[cfg(test)]
mod tests;

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Severity},
    load::syntax_error,
    source::{Location, Source},
};
use std::{path::PathBuf, sync::Arc};
use toml::de::DeTable;

/// Formats the text of a file; `name` is for diagnostics.
///
/// # Errors
/// The syntax errors of the text.
pub fn format(text: &str, name: &str) -> Result<String, Diagnostics> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Arc::new(Source::new(name, PathBuf::new(), text.to_owned(), 0));
    let (_, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let each = errors.iter().map(|error| syntax_error(&source, error));
        return Err(Diagnostics(each.collect()));
    }
    let statements = statement::parse(text);
    let formatted = layout::lay_out(&statements);
    if is_same(text, &formatted) {
        return Ok(formatted);
    }
    let at = Location { source, span: 0..0 };
    let message = "this file can't be formatted without changing it".to_owned();
    let help = Some("please report this file".to_owned());
    Err(Diagnostics(vec![Diagnostic::new(
        Severity::Error,
        &at,
        message,
        help,
    )]))
}

/// Returns true if both texts have the same values and the same comments in the same order.
fn is_same(before: &str, after: &str) -> bool {
    let values = |text: &str| toml::from_str::<toml::Table>(text).ok();
    values(before).is_some_and(|values_before| values(after) == Some(values_before))
        && statement::comments(before) == statement::comments(after)
}

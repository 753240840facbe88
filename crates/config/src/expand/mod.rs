//! The configuration as the server sees it: includes and presets resolved, each value with its
//! origin.
//!
//! Called by: `saker config`.
//! Caveat: values are those of the files, so that the output is a configuration that serves the
//! same: relative paths become absolute, redirects become routes, and deprecated keys get their
//! new names. Defaults are shown for the tables in which a missing key has its default; in a route,
//! it has the value of the site.
//! Out of scope: what the values mean (`model`), and Apache configurations.

mod document;
mod entry;
mod write;

#[cfg(test)]
mod tests;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    load::{load_with_texts, parse_with_texts},
    source::Source,
};
use entry::Entry;
use std::{path::Path, sync::Arc};

/// A valid configuration with its includes and presets resolved.
#[derive(Debug)]
pub struct Expanded {
    entries: Vec<Entry>,
    /// Files that were read, as shown to the user, with their texts.
    pub files: Vec<(String, String)>,
    pub warnings: Vec<Diagnostic>,
}

/// Reads a file and what it includes.
///
/// # Errors
/// All diagnostics of a configuration with errors.
pub fn expand(path: &Path) -> Result<Expanded, Diagnostics> {
    let (loaded, texts) = load_with_texts(path)?;
    Ok(expanded(&texts, loaded.warnings))
}

/// Reads a text as if it were in `base`/`file_name`.
///
/// # Errors
/// As for [`expand`].
pub fn expand_text(text: &str, file_name: &str, base: &Path) -> Result<Expanded, Diagnostics> {
    let (loaded, texts) = parse_with_texts(text, file_name, base)?;
    Ok(expanded(&texts, loaded.warnings))
}

fn expanded(texts: &[Arc<Source>], warnings: Vec<Diagnostic>) -> Expanded {
    Expanded {
        entries: document::entries(texts),
        files: texts
            .iter()
            .map(|source| (source.name.to_string(), source.text.clone()))
            .collect(),
        warnings,
    }
}

impl Expanded {
    /// Returns the configuration as TOML, with origins as comments.
    pub fn to_toml(&self) -> String {
        write::toml(&self.entries)
    }

    /// Returns the configuration as JSON: `configuration`, and `origins` by JSON Pointer (RFC 6901).
    pub fn to_json(&self) -> serde_json::Value {
        write::json(&self.entries)
    }
}

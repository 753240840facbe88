//! The reference page of the configuration, generated from the rows.
//!
//! Called by: `cargo xtask docs`, and the test that keeps the page fresh.

use crate::{
    context::{CONTEXTS, ContextRow},
    directives::catalog,
    kind::Kind,
    row::Directive,
};
use std::fmt::Write as _;

const INTRODUCTION: &str = "# Configuration reference

<!-- Generated from the table of directives (crates/config/src/directives): edit the rows, not this page. -->

A configuration is one TOML file, `saker.toml`, and the files it includes. `saker check -c saker.toml` reports all errors at
once. [saker.example.toml](saker.example.toml) shows every table in use.

Sizes are numbers of bytes, or strings with a unit: `\"64KiB\"` (1024), `\"1MB\"` (1,000,000). Durations need a unit: `\"500ms\"`,
`\"30s\"`, `\"2m\"`, `\"1h\"`, `\"1d\"`. Paths are relative to the file that contains them. Settings of a route override those of its
site: single values and lists replace, tables (`headers`, `types`, `error_pages`) are merged key by key.
";

/// Returns the page as Markdown.
pub fn reference_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for context in CONTEXTS {
        section(&mut page, context);
    }
    apache(&mut page);
    page
}

/// A key, and the headers of the tables that have it.
#[derive(Clone, Debug)]
pub struct KeyUse {
    pub name: &'static str,
    pub tables: Vec<&'static str>,
    /// The reference has a value for it, which a test of the rows reads: an example, the default, or
    /// the table's own header.
    pub has_example: bool,
}

/// Returns all keys, in the order of the catalog.
pub fn key_uses() -> Vec<KeyUse> {
    let keys = catalog().iter().map(|row| KeyUse {
        name: row.name,
        tables: row.contexts.each().map(|table| table.header).collect(),
        has_example: row.example.or(row.default).is_some()
            || matches!(row.kind, Kind::Section(_) | Kind::Sections(_)),
    });
    keys.collect()
}

fn section(page: &mut String, context: &ContextRow) {
    let _ = writeln!(
        page,
        "\n## {}\n\n{}",
        title(context.header),
        context.summary
    );
    for row in catalog().within(context.context) {
        directive(page, row);
    }
}

fn title(header: &str) -> String {
    if header.contains(['[', '{']) {
        format!("`{header}`")
    } else {
        "The file".to_owned()
    }
}

fn directive(page: &mut String, row: &Directive) {
    let _ = writeln!(page, "\n### `{}`\n\n{}\n", row.name, row.summary);
    let mut value = sentence(&row.kind.expects());
    if let Some(unit) = row.unit {
        let _ = write!(value, " A bare number is in {unit}.");
    }
    let _ = writeln!(page, "- Value: {value}");
    match row.default {
        Some(default) => drop(writeln!(page, "- Default: `{default}`")),
        None if row.required => drop(writeln!(page, "- Required")),
        None => {}
    }
    if let Some(example) = row.example {
        let _ = writeln!(page, "- Example: `{} = {example}`", row.name);
    }
    let contexts: Vec<String> = row
        .contexts
        .each()
        .map(|context| title(context.header))
        .collect();
    let _ = writeln!(page, "- In: {}", contexts.join(", "));
    if let Some(names) = row.apache {
        let _ = writeln!(
            page,
            "- Apache: {}",
            names
                .split(", ")
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    if !row.deprecated.is_empty() {
        let old: Vec<String> = row
            .deprecated
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let _ = writeln!(page, "- Deprecated spelling: {}", old.join(", "));
    }
    let _ = writeln!(page, "- Since: {}", row.since);
}

fn sentence(phrase: &str) -> String {
    format!("{}.", phrase.replace('<', "\\<").replace('*', "\\*"))
}

fn apache(page: &mut String) {
    let mut pairs: Vec<(&str, &Directive)> = catalog()
        .iter()
        .flat_map(|row| {
            row.apache
                .into_iter()
                .flat_map(|names| names.split(", "))
                .map(move |name| (name, row))
        })
        .collect();
    pairs.sort_by_key(|(name, _)| name.to_ascii_lowercase());
    page.push_str("\n## Apache directives\n\n| Apache | Saker |\n| --- | --- |\n");
    for (name, row) in pairs {
        let home = row
            .contexts
            .each()
            .next()
            .map_or_else(String::new, |context| title(context.header));
        let _ = writeln!(page, "| `{name}` | `{}` in {home} |", row.name);
    }
}

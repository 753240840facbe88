//! Forms of the tables of a file: each setting with its help text, its default, its value, and
//! where the value comes from; and changed texts of the file.
//!
//! Called by: the console, for its forms and wizards.
//! Caveat: forms are made of one file's text; values of other files that are included are not seen.
//! A changed text keeps comments and layout, and is not checked here.
//! Out of scope: what values mean; `saker check` says whether a text is right.

mod change;
mod input;
mod path;

#[cfg(test)]
mod tests;

pub use change::{add, append, change, quoted, quoted_list};
pub use input::Input;

use crate::{context::FILE, directives::catalog, row::Directive};
pub(crate) use input::children;
use input::shown;
use path::{Steps, Visited, item_of, line_of, visit};
use toml_edit::{Document, Item, TableLike};

/// The form of a table.
#[derive(Clone, Debug)]
pub struct Form {
    /// `site.0.route.2`; empty for the file itself.
    pub path: String,
    pub header: &'static str,
    pub summary: &'static str,
    /// Line of the table; `None`: it is not in the file yet.
    pub line: Option<usize>,
    /// The table around it.
    pub parent: Option<String>,
    pub settings: Vec<Setting>,
    pub tables: Vec<SubTable>,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub summary: &'static str,
    /// Noun phrase: "true or false".
    pub expects: String,
    pub unit: Option<&'static str>,
    pub default: Option<&'static str>,
    pub example: Option<&'static str>,
    pub is_required: bool,
    pub input: Input,
    /// As the input shows it; `None`: the key is not in the table.
    pub value: Option<String>,
    pub origin: Origin,
}

/// The source of the value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This table, at a line of the file.
    Here(usize),
    /// A table around it, with its header, at a line of the file.
    Inherited {
        header: &'static str,
        line: usize,
        value: String,
    },
    /// The row's default, or nothing.
    Default,
}

/// A table inside of another.
#[derive(Clone, Debug)]
pub struct SubTable {
    pub name: &'static str,
    pub path: String,
    pub summary: &'static str,
    /// Tells entries of a list apart.
    pub label: String,
    /// In the file; otherwise the form adds it.
    pub exists: bool,
}

/// Makes the form of a table. The path may name a table that is not there yet.
///
/// # Errors
///
/// A sentence: the text is no TOML, or there is no such table.
pub fn form(text: &str, path: &str) -> Result<Form, String> {
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let steps = Steps::parse(path)?;
    let visited = visit(document.as_table(), &steps)?;
    let Some(own) = visited.last() else {
        return Err("there is no such table".into());
    };
    let around = &visited[..visited.len() - 1];
    let mut form = Form {
        path: steps.to_string(),
        header: own.context.described().header,
        summary: own.context.described().summary,
        line: own
            .table
            .map(|_| own.start.map_or(1, |at| line_of(text, at))),
        parent: steps.parent(),
        settings: Vec::new(),
        tables: Vec::new(),
    };
    for row in catalog().within(own.context) {
        let item = own.table.and_then(|table| item_of(table, row));
        if row.kind.has_plain_form() {
            form.settings
                .push(setting(text, row, (own.table, item), around));
        }
        sub_tables(&mut form.tables, (&steps, row), item.map(|(_, item)| item));
    }
    Ok(form)
}

fn setting(
    text: &str,
    row: &'static Directive,
    (table, item): (Option<&dyn TableLike>, Option<(&str, &Item)>),
    around: &[Visited<'_>],
) -> Setting {
    let place = |table: &dyn TableLike, key: &str| {
        let span = table.key(key).and_then(toml_edit::Key::span);
        span.map_or(1, |span| line_of(text, span.start))
    };
    let input = Input::of(row.kind);
    let origin = match (table, item) {
        (Some(table), Some((key, _))) => Origin::Here(place(table, key)),
        _ => around
            .iter()
            .rev()
            .filter(|outer| outer.context != FILE && row.contexts.includes(outer.context))
            .find_map(|outer| {
                let table = outer.table?;
                let (key, item) = item_of(table, row)?;
                Some(Origin::Inherited {
                    header: outer.context.described().header,
                    line: place(table, key),
                    value: shown(input, item),
                })
            })
            .unwrap_or(Origin::Default),
    };
    Setting {
        name: row.name,
        summary: row.summary,
        expects: row.kind.expects(),
        unit: row.unit,
        default: row.default,
        example: row.example,
        is_required: row.required,
        input,
        value: item.map(|(_, item)| shown(input, item)),
        origin,
    }
}

/// Adds the tables that a key has or may have.
fn sub_tables(
    tables: &mut Vec<SubTable>,
    (steps, row): (&Steps, &'static Directive),
    item: Option<&Item>,
) {
    let children = children(row.kind);
    let mut add = |index: Option<usize>, label: String, exists| {
        tables.push(SubTable {
            name: row.name,
            path: steps.with(row.name, index),
            summary: row.summary,
            label,
            exists,
        });
    };
    if children.one.is_some() {
        add(None, String::new(), item.is_some_and(Item::is_table_like));
    }
    if children.listed.is_some() {
        let entries = item.map_or_else(Vec::new, path::entries);
        for (at, entry) in entries.iter().enumerate() {
            if let Some(entry) = entry {
                add(Some(at), label(*entry), true);
            }
        }
        add(Some(entries.len()), String::new(), false);
    }
}

/// The value that tells an entry of a list apart.
fn label(table: &dyn TableLike) -> String {
    const TELLING: [&str; 8] = [
        "name",
        "names",
        "path",
        "path_regex",
        "from",
        "from_regex",
        "address",
        "rate",
    ];
    let found = TELLING.iter().find_map(|key| table.get(key));
    found.map_or_else(String::new, |item| item.to_string().trim().to_owned())
}

/// A table's place in a file, by the name of its list or key.
#[derive(Clone, Debug)]
pub struct Place {
    pub path: String,
    pub label: String,
}

/// The entries of a list of tables at the top of a file, as `site`.
pub fn places(text: &str, list: &str) -> Vec<Place> {
    let Ok(form) = form(text, "") else {
        return Vec::new();
    };
    let own = form.tables.into_iter();
    own.filter(|table| table.exists && table.name == list)
        .map(|table| Place {
            path: table.path,
            label: table.label,
        })
        .collect()
}

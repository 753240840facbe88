//! Paths of tables: `site.0.route.2.throttle`, with the number of an entry after the name of a
//! list.
//!
//! Called by: forms and changes.
//! Caveat: only keys of the catalog are steps; a path cannot lead into a table of free keys.

use super::input::children;
use crate::{
    context::{Contexts, FILE},
    directives::catalog,
    row::Directive,
};
use std::fmt;
use toml_edit::{Item, TableLike};

/// Steps from the file to a table.
const STEPS_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub name: String,
    pub index: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps(pub Vec<Step>);

impl Steps {
    pub fn parse(path: &str) -> Result<Steps, String> {
        let mut steps: Vec<Step> = Vec::new();
        for word in path.split('.').filter(|_| !path.is_empty()) {
            match (word.parse::<usize>(), steps.last_mut()) {
                (Ok(index), Some(last)) if last.index.is_none() => last.index = Some(index),
                (Ok(_), _) => return Err("there is no such table".into()),
                (Err(_), _) => steps.push(Step {
                    name: word.to_owned(),
                    index: None,
                }),
            }
        }
        match steps.len() <= STEPS_MAX {
            true => Ok(Steps(steps)),
            false => Err("there is no such table".into()),
        }
    }

    /// The path of a table in this one.
    pub fn with(&self, name: &str, index: Option<usize>) -> String {
        let mut steps = self.clone();
        steps.0.push(Step {
            name: name.to_owned(),
            index,
        });
        steps.to_string()
    }

    /// The path of the table around this one.
    pub fn parent(&self) -> Option<String> {
        let (_, around) = self.0.split_last()?;
        Some(Steps(around.to_vec()).to_string())
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            let dot = if at == 0 { "" } else { "." };
            write!(f, "{dot}{}", step.name)?;
            if let Some(index) = step.index {
                write!(f, ".{index}")?;
            }
        }
        Ok(())
    }
}

/// A table on the way of a path; `None`: it is not in the file.
pub(crate) struct Visited<'t> {
    pub context: Contexts,
    pub table: Option<&'t dyn TableLike>,
    /// Offset of the table in the text.
    pub start: Option<usize>,
}

/// The tables on the way of a path, the file first.
pub(crate) fn visit<'t>(
    file: &'t dyn TableLike,
    steps: &Steps,
) -> Result<Vec<Visited<'t>>, String> {
    let mut visited = vec![Visited {
        context: FILE,
        table: Some(file),
        start: Some(0),
    }];
    for step in &steps.0 {
        let Some(outer) = visited.last() else {
            break;
        };
        let (row, context) = child(outer.context, step)?;
        let item = outer.table.and_then(|table| item_of(table, row));
        let item = item.map(|(_, item)| item);
        let listed = item.map_or_else(Vec::new, entries);
        let (table, start) = match step.index {
            None => (
                item.and_then(Item::as_table_like),
                item.and_then(Item::span).map(|span| span.start),
            ),
            Some(index) if index > listed.len() => return Err("there is no such table".into()),
            Some(index) => {
                let table = listed.get(index).copied().flatten();
                (table, item.and_then(|item| start_of(item, index)))
            }
        };
        visited.push(Visited {
            context,
            table,
            start,
        });
    }
    Ok(visited)
}

/// The row and the context that a step leads to.
pub(crate) fn child(
    context: Contexts,
    step: &Step,
) -> Result<(&'static Directive, Contexts), String> {
    let row = catalog().find(&step.name, context);
    let row = row.ok_or("there is no such table")?;
    let children = children(row.kind);
    let context = match step.index {
        None => children.one,
        Some(_) => children.listed,
    };
    Ok((row, context.ok_or("there is no such table")?))
}

/// The entries of a list; `None`: an entry that is no table.
pub(crate) fn entries(item: &Item) -> Vec<Option<&dyn TableLike>> {
    if let Some(tables) = item.as_array_of_tables() {
        return tables
            .iter()
            .map(|table| Some(table as &dyn TableLike))
            .collect();
    }
    let values = item.as_array().into_iter().flat_map(|array| array.iter());
    values
        .map(|value| value.as_inline_table().map(|table| table as &dyn TableLike))
        .collect()
}

fn start_of(item: &Item, index: usize) -> Option<usize> {
    let span = match item.as_array_of_tables() {
        Some(tables) => tables.get(index)?.span(),
        None => item.as_array()?.get(index)?.span(),
    };
    span.map(|span| span.start)
}

/// The value of a row's key, under its name or a deprecated spelling.
pub(crate) fn item_of<'t>(
    table: &'t dyn TableLike,
    row: &'static Directive,
) -> Option<(&'static str, &'t Item)> {
    let mut names = std::iter::once(&row.name).chain(row.deprecated);
    names.find_map(|name| Some((*name, table.get(name)?)))
}

/// Line of an offset, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

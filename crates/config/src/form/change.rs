//! Changed texts of a file: keys set and removed, tables added.
//!
//! Called by: the console's forms and wizards.
//! Caveat: everything else in the text stays as it is, byte by byte.
//! Out of scope: checks of the outcome.

use super::{
    input::{Input, shown, typed},
    path::{Steps, child, item_of},
};
use crate::{
    context::{Contexts, FILE},
    directives::catalog,
    kind::Kind,
    row::Directive,
};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// Sets keys of a table, which is added if it is not there. An empty value removes its key; one
/// that is shown already changes nothing.
///
/// # Errors
///
/// A sentence: the text is no TOML, there is no such table or key, or a value is of another kind.
pub fn change(text: &str, path: &str, values: &[(&str, &str)]) -> Result<String, String> {
    let mut document = parse(text)?;
    let steps = Steps::parse(path)?;
    let (table, context) = table_mut(document.as_table_mut(), &steps)?;
    for (name, value) in values {
        let row = catalog().within(context).find(|row| row.name == *name);
        let row = row.ok_or_else(|| format!("there is no key `{name}` in this table"))?;
        set(table, row, value).map_err(|error| format!("`{name}` {error}"))?;
    }
    Ok(document.to_string())
}

/// Adds an entry to a list of tables. `fragment`: TOML of the entry's keys.
///
/// # Errors
///
/// A sentence: a text is no TOML, or there is no such list.
pub fn append(text: &str, list: &str, fragment: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let steps = Steps::parse(list)?;
    let Some((last, around)) = steps.0.split_last() else {
        return Err("there is no such list".into());
    };
    let (outer, _) = table_mut(document.as_table_mut(), &Steps(around.to_vec()))?;
    let count = outer.get(&last.name).map_or(0, count);
    let mut entry = last.clone();
    entry.index = Some(count);
    let whole = Steps(around.iter().cloned().chain([entry]).collect());
    let (table, _) = table_mut(document.as_table_mut(), &whole)?;
    for (key, mut item) in parse(fragment)?.into_table() {
        unplace(&mut item);
        table.insert(&key, item);
    }
    Ok(document.to_string())
}

/// Adds strings to a list that is a key of a table; those that it has already are left out.
///
/// # Errors
///
/// As for [`change`].
pub fn add(text: &str, path: &str, name: &str, values: &[&str]) -> Result<String, String> {
    let mut document = parse(text)?;
    let (table, context) = table_mut(document.as_table_mut(), &Steps::parse(path)?)?;
    let row = catalog().within(context).find(|row| row.name == name);
    let row = row.filter(|row| matches!(row.kind, Kind::ListOf(_)));
    let row = row.ok_or_else(|| format!("there is no list `{name}` in this table"))?;
    let key = item_of(table, row).map_or(row.name, |(key, _)| key);
    if table.get(key).is_none() {
        table.insert(key, Item::Value(Value::Array(Array::new())));
    }
    let list = table.get_mut(key).and_then(Item::as_array_mut);
    let list = list.ok_or_else(|| format!("`{name}` is not a list"))?;
    for value in values {
        if !list.iter().any(|own| own.as_str() == Some(value)) {
            list.push(*value);
        }
    }
    Ok(document.to_string())
}

/// A string in TOML.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A list of strings in TOML.
pub fn quoted_list(texts: &[&str]) -> String {
    Value::Array(texts.iter().copied().collect()).to_string()
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse::<DocumentMut>()
        .map_err(|error| error.to_string())
}

/// Takes the places in their own text from tables: they follow the table that they are put into.
fn unplace(item: &mut Item) {
    match item {
        Item::Table(table) => {
            table.set_position(None);
            table.iter_mut().for_each(|(_, item)| unplace(item));
        }
        Item::ArrayOfTables(tables) => {
            for table in tables.iter_mut() {
                table.set_position(None);
                table.iter_mut().for_each(|(_, item)| unplace(item));
            }
        }
        _ => {}
    }
}

fn count(item: &Item) -> usize {
    match item {
        Item::ArrayOfTables(tables) => tables.len(),
        item => item.as_array().map_or(0, Array::len),
    }
}

/// The table of a path, added with those around it where they are missing.
fn table_mut<'d>(
    file: &'d mut Table,
    steps: &Steps,
) -> Result<(&'d mut dyn TableLike, Contexts), String> {
    let missing = || "there is no such table".to_owned();
    let (mut table, mut context): (&mut dyn TableLike, _) = (file, FILE);
    // Only blocks hold blocks; a table within a line is written within a line.
    let mut in_block = true;
    for step in &steps.0 {
        let (row, inner) = child(context, step)?;
        let key = item_of(table, row).map_or(row.name, |(key, _)| key);
        let is_there = match (step.index, table.get(key)) {
            (None, item) => item.is_some_and(Item::is_table_like),
            (Some(_), item) => item.is_some_and(|one| one.is_array_of_tables() || one.is_array()),
        };
        if !is_there {
            table.remove(key);
            let item = match (step.index, in_block) {
                (None, true) => Item::Table(Table::new()),
                (None, false) => Item::Value(Value::InlineTable(InlineTable::new())),
                (Some(_), true) => Item::ArrayOfTables(ArrayOfTables::new()),
                (Some(_), false) => Item::Value(Value::Array(Array::new())),
            };
            table.insert(key, item);
        }
        let item = table.get_mut(key).ok_or_else(missing)?;
        in_block = item.is_table() || item.is_array_of_tables();
        table = match step.index {
            None => item.as_table_like_mut().ok_or_else(missing)?,
            Some(index) => entry_mut(item, index)?,
        };
        context = inner;
    }
    Ok((table, context))
}

/// An entry of a list; the one after the last is added.
fn entry_mut(item: &mut Item, index: usize) -> Result<&mut dyn TableLike, String> {
    let missing = || "there is no such table".to_owned();
    if let Item::ArrayOfTables(tables) = item {
        if index == tables.len() {
            tables.push(Table::new());
        }
        let table = tables.get_mut(index).ok_or_else(missing)?;
        return Ok(table);
    }
    let array = item.as_array_mut().ok_or_else(missing)?;
    if index == array.len() {
        array.push(InlineTable::new());
    }
    let value = array.get_mut(index).ok_or_else(missing)?;
    let table = value.as_inline_table_mut().ok_or_else(missing)?;
    Ok(table)
}

fn set(table: &mut dyn TableLike, row: &'static Directive, text: &str) -> Result<(), String> {
    let before = item_of(table, row);
    let same = match before {
        Some((_, item)) => shown(Input::of(row.kind), item).trim() == text.trim(),
        None => text.trim().is_empty(),
    };
    if same {
        return Ok(());
    }
    let key = before.map_or(row.name, |(key, _)| key);
    if text.trim().is_empty() {
        table.remove(key);
        return Ok(());
    }
    let mut value = typed(row.kind, text.trim())?;
    // Spaces and a comment behind the value stay.
    if let Some(Item::Value(old)) = table.get(key) {
        *value.decor_mut() = old.decor().clone();
    }
    match table.get_mut(key) {
        Some(item) if item.is_value() => *item = Item::Value(value),
        _ => {
            table.remove(key);
            table.insert(key, Item::Value(value));
        }
    }
    Ok(())
}

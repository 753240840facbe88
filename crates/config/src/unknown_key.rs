//! What to say about a key that no row knows.

use crate::directives::{rows, rows_in};
use crate::{
    diagnostic::quoted,
    row::{Contexts, Row},
    suggest,
};

/// Message and help.
pub fn explain(key: &str, context: Contexts) -> (String, Option<String>) {
    let message = format!("unknown key {} {}", quoted(key), context.place());
    let same_table = foreign(key, |row| row.contexts.includes(context));
    let other_table = || elsewhere(key, context).or_else(|| foreign(key, |_| true));
    (
        message,
        same_table
            .or_else(other_table)
            .or_else(|| similar(key, context)),
    )
}

/// Whether an unknown key seems to stand for the one that is missing.
pub fn stands_for(key: &str, missing: &str, context: Contexts) -> bool {
    rows_in(context).all(|row| row.name != key)
        && explain(key, context)
            .1
            .is_some_and(|help| help.contains(&format!("`{missing}`")))
}

/// The right word in the wrong table.
fn elsewhere(key: &str, context: Contexts) -> Option<String> {
    if rows_in(context).any(|row| suggest::same_word(row.name, key)) {
        return None;
    }
    let homes: Vec<&str> = rows()
        .iter()
        .filter(|row| row.name == key)
        .flat_map(|row| row.contexts.each())
        .map(|row| row.header)
        .collect();
    match homes.as_slice() {
        [] => None,
        homes => Some(format!("this key belongs in {}", homes.join(" or "))),
    }
}

/// The word of another server, for a row among those.
fn foreign(key: &str, among: impl Fn(&Row) -> bool) -> Option<String> {
    let row = rows()
        .iter()
        .find(|row| among(row) && row.is_known_elsewhere_as(key))?;
    let home = row.contexts.each().next()?;
    Some(format!(
        "here it is called `{}`, {}",
        row.name,
        home.context.place()
    ))
}

fn similar(key: &str, context: Contexts) -> Option<String> {
    if let Some(name) = suggest::nearest(key, rows_in(context).map(|row| row.name)) {
        return Some(format!("did you mean `{name}`?"));
    }
    let name = suggest::nearest(key, rows().iter().map(|row| row.name))?;
    let home = rows()
        .iter()
        .find(|row| row.name == name)?
        .contexts
        .each()
        .next()?;
    Some(format!(
        "did you mean `{name}`? It stands {}",
        home.context.place()
    ))
}

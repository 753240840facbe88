//! Messages about unknown keys.
//!
//! Called by: the reader. Suggests the key that another server's word stands for, the table that a
//! key belongs in, or the most similar key.

use crate::{
    context::{CACHE, ContextRow, Contexts, FILE, LIMITS, LISTENER, ROUTE, SERVER, SITE, UPSTREAM},
    diagnostic::quoted,
    foreign_words,
    kind::Kind,
    row::{Catalog, Directive},
    suggest,
};

/// Returns message and help.
pub fn explain(catalog: Catalog, key: &str, context: Contexts) -> (String, Option<String>) {
    let message = format!("unknown key {} {}", quoted(key), context.location());
    // Other tables have words of their own that look like another server's.
    let is_main = [FILE, SERVER, LIMITS, LISTENER, SITE, ROUTE, UPSTREAM].contains(&context);
    let same_table = foreign(catalog, key, context, |row| row.contexts.includes(context));
    let other_table =
        || elsewhere(catalog, key, context).or_else(|| foreign(catalog, key, context, |_| true));
    let advice = foreign_words::advice(key, context)
        .filter(|advice| advice.is_for(context) || (is_main && advice.home != CACHE))
        .and_then(|advice| {
            let is_here = catalog.find(advice.key, context).is_some();
            let table = if is_here { context } else { advice.home };
            (is_here || same_table.is_none()).then(|| advice.text(table))
        });
    (
        message,
        advice
            .or(same_table)
            .or_else(other_table)
            .or_else(|| similar(catalog, key, context)),
    )
}

/// Returns whether an unknown key seems to be meant for a missing one.
pub fn stands_for(catalog: Catalog, key: &str, missing: &str, context: Contexts) -> bool {
    catalog.within(context).all(|row| row.name != key)
        && explain(catalog, key, context)
            .1
            .is_some_and(|help| help.contains(&format!("`{missing}`")))
}

/// A known key in the wrong table.
fn elsewhere(catalog: Catalog, key: &str, context: Contexts) -> Option<String> {
    if catalog
        .within(context)
        .any(|row| suggest::same_word(row.name, key))
    {
        return None;
    }
    let homes: Vec<&ContextRow> = catalog
        .iter()
        .filter(|row| row.name == key)
        .flat_map(|row| row.contexts.each())
        .collect();
    match homes.as_slice() {
        [] => None,
        [home] => Some(format!("this key belongs {}", home.context.location())),
        homes => {
            let headers: Vec<&str> = homes.iter().map(|home| home.header).collect();
            Some(format!("this key belongs in {}", headers.join(" or ")))
        }
    }
}

/// Another server's word for a key.
fn foreign(
    catalog: Catalog,
    key: &str,
    context: Contexts,
    among: impl Fn(&Directive) -> bool,
) -> Option<String> {
    let row = catalog
        .iter()
        .find(|row| among(row) && row.is_known_elsewhere_as(key))?;
    let home = match row.contexts.includes(context) {
        true => context,
        false => row.contexts.each().next()?.context,
    };
    let place = format!("use `{}` {}", row.name, home.location());
    Some(match row.kind {
        Kind::Sections(_) if home == FILE => format!("{place}, as [[{}]]", row.name),
        _ => place,
    })
}

fn similar(catalog: Catalog, key: &str, context: Contexts) -> Option<String> {
    if let Some(name) = suggest::nearest(key, catalog.within(context).map(|row| row.name)) {
        return Some(format!("did you mean `{name}`?"));
    }
    // Every short word is near to another one.
    let elsewhere = catalog.iter().map(|row| row.name);
    let name = suggest::nearest(key, elsewhere.filter(|name| name.len() > 3))?;
    let home = catalog
        .iter()
        .find(|row| row.name == name)?
        .contexts
        .each()
        .next()?;
    Some(format!(
        "did you mean `{name}`? It belongs {}",
        home.context.location()
    ))
}

//! The table of directives: contexts, number of arguments, block, and support.
//!
//! Called by: `read`, which checks directives against it; `saker-nginx-model`, whose setters must
//! have a row each; the reference page.
//! Caveat: a name may have several rows, for contexts with different forms (`server`).
//! Out of scope: types and defaults of arguments, which setters know.

mod content;
mod http;
mod origin;
mod process;
mod stream;
mod upstreams;

use crate::row::Row;

/// Directives by module, with the module's name.
pub const MODULES: &[(&str, &[Row])] = &[
    ("core", process::CORE),
    ("http", http::CORE),
    ("rewrite", http::REWRITE),
    ("access, auth_basic, auth_request, limits", http::ACCESS),
    (
        "headers, gzip, charset, sub, ssi, and other filters",
        content::FILTERS,
    ),
    ("index, autoindex, and other handlers", content::HANDLERS),
    (
        "map, geo, split_clients, and other variables",
        content::VARIABLES,
    ),
    ("log", content::LOG),
    ("ssl, v2, v3", content::TLS),
    ("proxy", upstreams::PROXY),
    ("fastcgi", upstreams::FASTCGI),
    ("uwsgi", upstreams::UWSGI),
    ("scgi", upstreams::SCGI),
    ("grpc", upstreams::GRPC),
    ("memcached", upstreams::MEMCACHED),
    ("upstream", upstreams::UPSTREAM),
    ("stream", stream::STREAM),
    ("mail", stream::MAIL),
];

/// Rows of nginx's own open-source modules without `mail`.
pub fn of_open_source() -> impl Iterator<Item = &'static Row> {
    let modules = MODULES.iter().filter(|(name, _)| *name != origin::MAIL);
    let others = [origin::COMMERCIAL, origin::APART, origin::REMOVED];
    modules
        .flat_map(|(_, rows)| rows.iter())
        .filter(move |row| !others.iter().any(|names| names.contains(&row.name)))
        .filter(|row| row.name != origin::MAIL)
}

/// Iterates over all rows.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    MODULES.iter().flat_map(|(_, rows)| rows.iter())
}

/// Iterates over the rows of a name.
pub fn all(name: &str) -> impl Iterator<Item = &'static Row> + use<'_> {
    rows().filter(move |row| row.name == name)
}

/// Returns the row of a name in a context.
pub fn row(name: &str, context: u32) -> Option<&'static Row> {
    all(name).find(|row| row.contexts & context != 0)
}

/// Returns a known name that a misspelled one probably stands for.
pub fn similar(name: &str) -> Option<&'static str> {
    let close = |row: &&Row| distance(name, row.name) <= 2;
    rows().find(close).map(|row| row.name)
}

/// Levenshtein's distance, up to 3.
fn distance(one: &str, other: &str) -> usize {
    if one.len().abs_diff(other.len()) > 2 {
        return 3;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, left) in one.bytes().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, right) in other.bytes().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or_default();
            let before = row.get(j).copied().unwrap_or_default();
            let cost = diagonal + usize::from(left != right);
            if let Some(cell) = row.get_mut(j + 1) {
                *cell = cost.min(above + 1).min(before + 1);
            }
            diagonal = above;
        }
    }
    row.last().copied().unwrap_or(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contexts_are_unique() {
        for row in rows() {
            let same = all(row.name).filter(|other| other.contexts & row.contexts != 0);
            assert_eq!(same.count(), 1, "{}", row.name);
            assert!(row.arguments_min <= row.arguments_max, "{}", row.name);
        }
    }

    #[test]
    fn others_are_rows() {
        for name in [origin::COMMERCIAL, origin::APART, origin::REMOVED].concat() {
            assert!(all(name).count() > 0, "{name}");
        }
        assert!(of_open_source().count() < rows().count());
    }

    #[test]
    fn misspelled_names() {
        assert_eq!(similar("proxy_pas"), Some("proxy_pass"));
        assert_eq!(similar("sever_name"), Some("server_name"));
        assert_eq!(similar("nonsense_of_it"), None);
    }
}

//! Scenarios with one of their keys taken out: the proof that a scenario fails without its keys.
//!
//! Called by: the runner, if `SAKER_REMOVE_KEYS` is set (`docs/contributing.md`).
//! Caveat: texts in which placeholders stand outside of quotes are no TOML and have no keys here.
//! Out of scope: included files, and keys with names of their own, such as those of fields.

use super::file::Scenario;
use saker_config::key_uses;
use std::{collections::HashSet, ops::Range};
use toml::de::{DeTable, DeValue};

/// A scenario without a key.
pub struct Removal {
    /// The key in its table, routes and conditions left out: `site.cache.ttl`.
    pub key: String,
    pub scenario: Scenario,
}

/// A key in a text: its path, and its bytes.
type Found = (String, Range<usize>);

/// Tables whose keys are names that a configuration makes up.
const OF_OWN_NAMES: &[&str] = &[
    "claims",
    "concurrent_by_key",
    "cookie",
    "environment",
    "error_pages",
    "exact",
    "fields",
    "header",
    "headers",
    "map",
    "matcher",
    "prefix",
    "query",
    "regex",
    "requests_by_key",
    "status_ttl",
    "suffix",
    "upstream_headers",
    "variable",
    "vars",
];

/// The scenario without each of its keys, one at a time.
pub fn removals(scenario: &Scenario) -> Vec<Removal> {
    let names: HashSet<&str> = key_uses().iter().map(|key| key.name).collect();
    let mut all = Vec::new();
    for (part, table) in [(0, ""), (1, "server"), (2, "site")] {
        for (path, bytes) in keys(text(&mut scenario.clone(), part), table, &names) {
            let mut without = scenario.clone();
            text(&mut without, part).replace_range(bytes, "");
            all.push(Removal {
                key: shown(&path),
                scenario: without,
            });
        }
    }
    all
}

fn text(scenario: &mut Scenario, part: usize) -> &mut String {
    match part {
        0 => &mut scenario.top,
        1 => &mut scenario.global,
        _ => &mut scenario.site,
    }
}

fn keys(text: &str, table: &str, names: &HashSet<&str>) -> Vec<Found> {
    let mut found = Vec::new();
    if let Ok(parsed) = DeTable::parse(text) {
        for (key, value) in parsed.get_ref() {
            // A header begins at the top, a key in the table that the text begins in.
            let is_header = line_before(text, key.span().start)
                .trim_start()
                .starts_with('[');
            let outer = if is_header { "" } else { table };
            walk(text, outer, (key.get_ref(), key.span()), value, &mut found);
        }
    }
    found.retain(|(path, _)| {
        let name = path.rsplit('.').next().unwrap_or_default();
        names.contains(name)
    });
    found
}

fn line_before(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    &text[start..at]
}

fn walk(
    text: &str,
    outer: &str,
    (key, key_at): (&str, Range<usize>),
    value: &toml::Spanned<DeValue<'_>>,
    found: &mut Vec<Found>,
) {
    let table = outer.rsplit('.').next().unwrap_or_default();
    let path = match outer {
        "" => key.to_owned(),
        outer if OF_OWN_NAMES.contains(&table) => format!("{outer}.*"),
        outer => format!("{outer}.{key}"),
    };
    let tables: Vec<&DeTable<'_>> = match value.get_ref() {
        DeValue::Table(inner) => vec![inner],
        DeValue::Array(list) => {
            let tables = list.iter().filter_map(|one| one.get_ref().as_table());
            tables.collect()
        }
        _ => Vec::new(),
    };
    // The value of a header, or of dotted names, is not behind an equals sign.
    let between = text.get(key_at.end..value.span().start).unwrap_or(".");
    let is_given = between.contains('=') && !between.contains('\n');
    if is_given {
        found.push((path.clone(), whole(text, key_at.start, value.span().end)));
    }
    for table in tables {
        for (key, value) in table {
            walk(text, &path, (key.get_ref(), key.span()), value, found);
        }
    }
}

/// The bytes of a key and its value, with the names before it and one comma.
fn whole(text: &str, key: usize, end: usize) -> Range<usize> {
    let before = text[..key].rfind(['\n', '{', ',']).map_or(0, |at| at + 1);
    let is_dotted = text[before..key].trim_end().ends_with('.');
    let start = if is_dotted { before } else { key };
    let rest = &text[end..];
    let spaces = rest.len() - rest.trim_start().len();
    let is_inline = matches!(text[..before].chars().next_back(), Some('{' | ','));
    if !is_inline {
        return start..end;
    }
    match rest[spaces..].starts_with(',') {
        true => start..end + spaces + 1,
        false if text[..before].ends_with(',') => before - 1..end,
        false => start..end,
    }
}

/// The path without routes and conditions, whose settings are the site's.
fn shown(path: &str) -> String {
    let mut names: Vec<&str> = path.split('.').collect();
    if names[0] == "site" {
        while names.len() > 2 && matches!(names[1], "route" | "when") {
            names.remove(1);
        }
    }
    names.retain(|name| *name != "*");
    // A request rate has the same keys wherever it is.
    let rate = |name: &&str| name.starts_with("requests_");
    match (
        names[..names.len() - 1].iter().rposition(rate),
        names.last(),
    ) {
        (Some(_), Some(key)) => format!("request rate.{key}"),
        _ => names.join("."),
    }
}

#[test]
fn keys_are_taken_out_one_by_one() {
    let scenario = Scenario {
        global: "workers = 1\n[[upstream]]\nname = \"a\"\nservers = [\"b\"]\n".into(),
        site: "cache = { ttl = \"1m\", max_size = 5 }\nheaders.X-A = \"b\"\n\
               [[site.route]]\npath = \"/a\"\nmatch = { any = [{ method = \"GET\" }, { host = \"b\" }] }\n\
               [site.route.limits]\nbody_size = 5\n[site.throttle]\n\
               requests_by_key = { \"$claim{a.b}\" = { rate = \"1/s\", burst = 2 } }\n\
               [site.matcher.c]\nquery = { to = \"d\" }\n"
            .into(),
        ..Scenario::default()
    };
    let all = removals(&scenario);
    let without = |key: &str| {
        let one = all.iter().find(|one| one.key == key);
        let one = one.unwrap_or_else(|| panic!("{key}"));
        let whole = format!("{}|{}", one.scenario.global, one.scenario.site);
        whole.replace(' ', "")
    };
    for (key, part) in [
        ("upstream.servers", "name=\"a\"\n\n|cache"),
        ("site.cache", "|\nheaders.X-A"),
        ("site.cache.ttl", "cache={max_size=5}"),
        ("site.cache.max_size", "cache={ttl=\"1m\"}"),
        ("site.match.any.method", "any=[{},{host"),
        ("site.path", "[[site.route]]\n\nmatch"),
        ("request rate.burst", "={rate=\"1/s\"}"),
        ("site.matcher.query", "[site.matcher.c]\n\n"),
        ("server.workers", "[[upstream]]"),
    ] {
        assert!(without(key).contains(part), "{key}: {}", without(key));
    }
    assert!(!without("server.workers").contains("workers"));
    let is_own_name = |one: &Removal| one.key.ends_with(".to") || one.key.ends_with('*');
    assert!(!all.iter().any(is_own_name));
}

//! Entries of the expanded configuration, made of the texts of its files.
//!
//! Called by: `expand`, for files that have been checked; what is broken is left out.
//! Caveat: a preset's keys are merged as `site` and `read_route` read them: first the preset, then
//! the site or route. Both must go together, which the round-trip test compares by the model.

use super::entry::{Entry, Item};
use crate::{
    context::{
        ABUSE, ACME, CACHE_STORE, CLUSTER, CONSOLE, Contexts, DYNAMIC_VHOSTS, FILE, LIMITS,
        LISTENER, METRICS, PHP, REDIRECT, ROUTE, SERVER, SITE, STREAM, TLS, TRACING, UPSTREAM,
    },
    directives::catalog,
    kind::{Kind, TableKind, shape},
    preset,
    reader::{Node, Table, in_order, narrow, narrow_text},
    row::Directive,
    source::{Location, Source},
};
use serde_json::{Map, Value};
use std::{path::Path, sync::Arc};
use toml::de::{DeTable, DeValue};

/// Tables that appear once in all files together.
const ONCE: &[(&str, Contexts)] = &[
    ("server", SERVER),
    ("limits", LIMITS),
    ("tls", TLS),
    ("acme", ACME),
    ("php", PHP),
    ("cache", CACHE_STORE),
    ("abuse", ABUSE),
    ("dynamic_vhosts", DYNAMIC_VHOSTS),
    ("metrics", METRICS),
    ("tracing", TRACING),
    ("cluster", CLUSTER),
    ("console", CONSOLE),
];

/// Those of them that apply even if they are not written, and whose keys all have their defaults
/// where they are missing.
const WITH_DEFAULTS: Contexts = SERVER.or(LIMITS).or(SITE);

/// Shown instead of a place.
const DEFAULT: &str = "default";

pub(super) fn entries(texts: &[Arc<Source>]) -> Vec<Entry> {
    let parsed: Vec<(&Arc<Source>, DeTable<'_>)> = texts
        .iter()
        .map(|source| {
            let table = DeTable::parse_recoverable(&source.text).0.into_inner();
            (source, table)
        })
        .collect();
    let mut all = Vec::new();
    for (name, context) in ONCE {
        all.extend(once(&parsed, name, *context));
    }
    let each = |source, table| of_table(table, FILE, source);
    let maps = parsed
        .iter()
        .flat_map(|(source, table)| each(source, table))
        .filter(|entry| entry.key == "map");
    all.extend(maps.reduce(merged));
    for (key, context) in [
        ("listener", LISTENER),
        ("upstream", UPSTREAM),
        ("stream", STREAM),
        ("site", SITE),
    ] {
        let tables: Vec<_> = parsed
            .iter()
            .flat_map(|(source, table)| tables(table, key, source))
            .map(|(table, at)| (shown(&at), of_section(table, context, &at.source)))
            .collect();
        if !tables.is_empty() {
            all.push(Entry {
                key: key.to_owned(),
                origin: String::new(),
                item: Item::Tables(tables),
            });
        }
    }
    all
}

fn once(parsed: &[(&Arc<Source>, DeTable<'_>)], name: &str, context: Contexts) -> Option<Entry> {
    let written = parsed.iter().find_map(|(source, table)| {
        let is_it = |key: &str| {
            catalog()
                .find(key, FILE)
                .is_some_and(|row| row.name == name)
        };
        let (_, node) = table.iter().find(|(key, _)| is_it(key.get_ref()))?;
        let origin = shown(&location(source, node));
        Some((
            origin,
            of_section(node.get_ref().as_table()?, context, source),
        ))
    });
    let (origin, entries) = match written {
        Some(written) => written,
        None if WITH_DEFAULTS.includes(context) => {
            (DEFAULT.to_owned(), with_defaults(Vec::new(), context))
        }
        None => return None,
    };
    Some(Entry {
        key: name.to_owned(),
        origin,
        item: Item::Table(entries),
    })
}

/// The keys of a table with what is true of its kind: a preset, routes in one list, defaults.
fn of_section(table: &Table<'_>, context: Contexts, source: &Arc<Source>) -> Vec<Entry> {
    let entries = match context {
        SITE => of_site(table, source),
        ROUTE => of_route(table, source),
        REDIRECT => of_redirect(table, source),
        _ => of_table(table, context, source),
    };
    with_defaults(entries, context)
}

fn of_table(table: &Table<'_>, context: Contexts, source: &Arc<Source>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (key, node) in in_order(table) {
        let Some(directive) = catalog().find(key.get_ref(), context) else {
            continue;
        };
        // A preset's headers that the site has, too, were all of them.
        if node
            .get_ref()
            .as_table()
            .is_some_and(|table| table.is_empty())
            && matches!(directive.kind, Kind::MapOf(..))
        {
            continue;
        }
        if context != STREAM
            && matches!(directive.name, "preset" | "route" | "redirect")
            && matches!(directive.kind, Kind::Sections(_) | Kind::Choice(_))
        {
            continue;
        }
        entries.push(Entry {
            key: directive.name.to_owned(),
            origin: shown(&location(source, node)),
            item: item(node, directive.kind, source),
        });
    }
    entries
}

fn of_site(table: &Table<'_>, source: &Arc<Source>) -> Vec<Entry> {
    let preset = preset::named_in(table).map(|preset| preset.source("", source));
    let mut own: Vec<_> = tables(table, "route", source)
        .into_iter()
        .map(|(table, at)| (table, at, ROUTE))
        .collect();
    let redirects = tables(table, "redirect", source).into_iter();
    own.extend(redirects.map(|(table, at)| (table, at, REDIRECT)));
    own.sort_by_key(|(_, at, _)| at.span.start);
    with_preset(table, SITE, source, preset, own)
}

fn of_route(table: &Table<'_>, source: &Arc<Source>) -> Vec<Entry> {
    let preset = preset::named_in(table)
        .and_then(|preset| Some(preset.source(&preset::base_of(table)?, source)));
    let own = tables(table, "route", source)
        .into_iter()
        .map(|(table, at)| (table, at, ROUTE))
        .collect();
    with_preset(table, ROUTE, source, preset, own)
}

/// The keys of a site or route over those of its preset, and its routes among the preset's.
fn with_preset(
    table: &Table<'_>,
    context: Contexts,
    source: &Arc<Source>,
    preset: Option<Arc<Source>>,
    own: Vec<(&Table<'_>, Location, Contexts)>,
) -> Vec<Entry> {
    let of_preset = preset
        .as_ref()
        .map(|source| (source, preset::parsed(source, table)));
    let mut entries = Vec::new();
    let mut routes: Vec<(String, Vec<Entry>)> = Vec::new();
    let mut read = |(table, at, context): (&Table<'_>, Location, Contexts)| {
        routes.push((shown(&at), of_section(table, context, &at.source)));
    };
    match &of_preset {
        Some((source, preset)) => {
            entries = of_table(preset, context, source);
            let its = preset::routes(preset, source).into_iter();
            let its = its.map(|(table, at)| (table, at, ROUTE)).collect();
            let all = preset::around(own, its, |(table, ..)| table);
            all.into_iter().for_each(&mut read);
        }
        None => own.into_iter().for_each(&mut read),
    }
    for entry in of_table(table, context, source) {
        over(&mut entries, entry);
    }
    if !routes.is_empty() {
        entries.push(Entry {
            key: "route".to_owned(),
            origin: String::new(),
            item: Item::Tables(routes),
        });
    }
    entries
}

/// A redirect with the keys of a route.
fn of_redirect(table: &Table<'_>, source: &Arc<Source>) -> Vec<Entry> {
    let mut entries = of_table(table, REDIRECT, source);
    for entry in &mut entries {
        entry.key = match entry.key.as_str() {
            "from" => "path".into(),
            "from_regex" => "path_regex".into(),
            "to" => "redirect".into(),
            _ => continue,
        };
    }
    entries
}

/// Puts an entry over one of the same key; tables are merged.
fn over(entries: &mut Vec<Entry>, entry: Entry) {
    let same = entries
        .iter()
        .position(|below| below.key.eq_ignore_ascii_case(&entry.key));
    match same {
        Some(at) => {
            let below = entries.remove(at);
            entries.push(merged(below, entry));
        }
        None => entries.push(entry),
    }
}

fn merged(below: Entry, above: Entry) -> Entry {
    let item = match (below.item, above.item) {
        (Item::Map(mut entries), Item::Map(more)) => {
            more.into_iter().for_each(|entry| over(&mut entries, entry));
            Item::Map(entries)
        }
        (_, item) => item,
    };
    Entry { item, ..above }
}

/// Adds keys that are not written with their defaults, as far as these are values.
fn with_defaults(mut entries: Vec<Entry>, context: Contexts) -> Vec<Entry> {
    if !WITH_DEFAULTS.includes(context) {
        return entries;
    }
    let missing: Vec<Entry> = catalog()
        .within(context)
        .filter(|row| !entries.iter().any(|entry| entry.key == row.name))
        .filter_map(default_of)
        .collect();
    let at = entries
        .iter()
        .position(|entry| !matches!(entry.item, Item::Value(_)))
        .unwrap_or(entries.len());
    entries.splice(at..at, missing);
    entries
}

fn default_of(row: &'static Directive) -> Option<Entry> {
    let table: toml::Table = toml::from_str(&format!("value = {}", row.default?)).ok()?;
    let value = serde_json::to_value(table.get("value")?).ok()?;
    let is_nothing =
        value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    (!is_nothing).then(|| Entry {
        key: row.name.to_owned(),
        origin: DEFAULT.to_owned(),
        item: Item::Value(value),
    })
}

fn item(node: &Node<'_>, kind: &Kind, source: &Arc<Source>) -> Item {
    let value = node.get_ref();
    let shape = shape(value);
    match (narrow(kind, |kind| kind.accepts(shape)), value) {
        (
            Kind::Section(context) | Kind::Table(TableKind { context, .. }),
            DeValue::Table(table),
        ) => Item::Table(of_section(table, *context, source)),
        (Kind::Sections(context), DeValue::Array(list)) => {
            let each = list.iter().filter_map(|one| {
                let entries = of_section(one.get_ref().as_table()?, *context, source);
                Some((shown(&location(source, one)), entries))
            });
            Item::Tables(each.collect())
        }
        (Kind::MapOf(_, kind), DeValue::Table(table)) => Item::Map(of_map(table, kind, source)),
        _ => Item::Value(plain(node, kind, source)),
    }
}

fn of_map(table: &Table<'_>, kind: &Kind, source: &Arc<Source>) -> Vec<Entry> {
    let each = in_order(table).into_iter().map(|(key, node)| Entry {
        key: key.get_ref().to_string(),
        origin: shown(&location(source, node)),
        // On one line, because the order of names may matter.
        item: Item::Value(plain(node, kind, source)),
    });
    each.collect()
}

/// A value, with absolute paths.
fn plain(node: &Node<'_>, kind: &Kind, source: &Arc<Source>) -> Value {
    match node.get_ref() {
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Integer(value) => i64::from_str_radix(value.as_str(), value.radix())
            .map_or_else(|_| value.to_string().into(), Into::into),
        DeValue::Float(value) => value.to_string().into(),
        DeValue::Datetime(value) => value.to_string().into(),
        DeValue::String(text) => match narrow_text(kind, text) {
            Kind::PathOrProgram if text.starts_with('|') => text.as_ref().into(),
            Kind::Path | Kind::PathOrProgram => absolute(&source.base, text).into(),
            _ => text.as_ref().into(),
        },
        DeValue::Array(list) => {
            let element = match narrow(kind, |kind| matches!(kind, Kind::ListOf(_))) {
                Kind::ListOf(element) => element,
                other => other,
            };
            list.iter().map(|one| plain(one, element, source)).collect()
        }
        DeValue::Table(_) => match item(node, kind, source) {
            Item::Table(entries) | Item::Map(entries) => object(entries).into(),
            Item::Value(value) => value,
            Item::Tables(_) => Value::Null,
        },
    }
}

/// Entries as one value.
fn object(entries: Vec<Entry>) -> Map<String, Value> {
    let value = |item| match item {
        Item::Value(value) => value,
        Item::Table(entries) | Item::Map(entries) => object(entries).into(),
        Item::Tables(list) => list
            .into_iter()
            .map(|(_, entries)| Value::from(object(entries)))
            .collect(),
    };
    entries
        .into_iter()
        .map(|entry| (entry.key, value(entry.item)))
        .collect()
}

fn absolute(base: &Path, text: &str) -> String {
    base.join(text).to_string_lossy().into_owned()
}

fn tables<'n, 't>(
    table: &'n Table<'t>,
    key: &str,
    source: &Arc<Source>,
) -> Vec<(&'n Table<'t>, Location)> {
    let Some(DeValue::Array(list)) = table.get(key).map(|node| node.get_ref()) else {
        return Vec::new();
    };
    list.iter()
        .filter_map(|one| Some((one.get_ref().as_table()?, location(source, one))))
        .collect()
}

fn location(source: &Arc<Source>, node: &Node<'_>) -> Location {
    Location {
        source: Arc::clone(source),
        span: node.span(),
    }
}

/// File and line, or the name of the preset.
fn shown(at: &Location) -> String {
    let origin = at.origin();
    match preset::is_preset(&origin.file) {
        true => origin.file.to_string(),
        false => format!("{}:{}", origin.file, origin.line),
    }
}

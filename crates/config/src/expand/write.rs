//! The expanded configuration as TOML and as JSON.
//!
//! Called by: `expand`.
//! Caveat: in a table of names (`headers`, `vars`), keys are quoted, because the reader takes a
//! bare key that is also a setting of the table around for a misplaced one. Values stay on one
//! line, so that each has its origin behind it.

use super::entry::{Entry, Item};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

pub(super) fn toml(entries: &[Entry]) -> String {
    let mut text = String::new();
    table(&mut text, "", entries, false);
    text.trim_start_matches('\n').to_owned()
}

/// The keys of a table, then the tables in it.
fn table(text: &mut String, path: &str, entries: &[Entry], is_map: bool) {
    for entry in entries {
        if let Item::Value(value) = &entry.item {
            let key = key(&entry.key, is_map);
            let line = format!("{key} = {}", inline(value));
            let _ = writeln!(text, "{line}  # {}", entry.origin);
        }
    }
    for entry in entries {
        let key = key(&entry.key, is_map);
        let path = match path {
            "" => key,
            path => format!("{path}.{key}"),
        };
        match &entry.item {
            Item::Value(_) => {}
            Item::Table(inner) | Item::Map(inner) => {
                let _ = writeln!(text, "\n[{path}]  # {}", entry.origin);
                table(text, &path, inner, matches!(entry.item, Item::Map(_)));
            }
            Item::Tables(list) => {
                for (origin, inner) in list {
                    let _ = writeln!(text, "\n[[{path}]]  # {origin}");
                    table(text, &path, inner, false);
                }
            }
        }
    }
}

fn key(key: &str, is_quoted: bool) -> String {
    let is_bare = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    match is_bare && !is_quoted {
        true => key.to_owned(),
        false => quoted(key),
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            let each: Vec<String> = list.iter().map(inline).collect();
            format!("[{}]", each.join(", "))
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let each = map
                .iter()
                .map(|(name, value)| format!("{} = {}", key(name, false), inline(value)));
            format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A literal string where that saves escapes, as in regular expressions; else a basic one.
fn quoted(text: &str) -> String {
    if text.contains('\\') && !text.chars().any(|c| c == '\'' || c.is_control()) {
        return format!("'{text}'");
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

pub(super) fn json(entries: &[Entry]) -> Value {
    let mut origins = Map::new();
    let configuration = object(entries, "", &mut origins);
    json!({ "configuration": configuration, "origins": origins })
}

fn object(entries: &[Entry], pointer: &str, origins: &mut Map<String, Value>) -> Value {
    let mut map = Map::new();
    for entry in entries {
        let name = entry.key.replace('~', "~0").replace('/', "~1");
        let pointer = format!("{pointer}/{name}");
        let value = match &entry.item {
            Item::Value(value) => value.clone(),
            Item::Table(inner) | Item::Map(inner) => object(inner, &pointer, origins),
            Item::Tables(list) => {
                let each = list.iter().enumerate().map(|(at, (origin, inner))| {
                    let pointer = format!("{pointer}/{at}");
                    origins.insert(pointer.clone(), origin.as_str().into());
                    object(inner, &pointer, origins)
                });
                each.collect()
            }
        };
        if !entry.origin.is_empty() {
            origins.insert(pointer, entry.origin.as_str().into());
        }
        map.insert(entry.key.clone(), value);
    }
    map.into()
}

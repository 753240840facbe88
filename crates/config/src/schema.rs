//! The JSON Schema (draft 2020-12) of `saker.toml`, made from the rows, for completion and checks
//! in editors.
//!
//! Out of scope: rules about several values (duplicate names, `$N` without a star), which only
//! `saker check` knows.

use crate::{
    context::{CONTEXTS, Contexts, FILE},
    directives::catalog,
    kind::{Kind, TableKind},
    row::Directive,
    units::{DURATION_PATTERN, SIZE_PATTERN},
};
use serde_json::{Map, Value, json};

/// Returns the schema as text.
pub fn json_schema() -> String {
    let definitions: Map<String, Value> = CONTEXTS
        .iter()
        .filter(|row| row.context != FILE)
        .map(|row| (row.id.to_owned(), table(row.context)))
        .collect();
    let mut schema = table(FILE);
    if let Some(object) = schema.as_object_mut() {
        object.insert(
            "$schema".into(),
            "https://json-schema.org/draft/2020-12/schema".into(),
        );
        object.insert("title".into(), "Saker configuration".into());
        object.insert("$defs".into(), definitions.into());
    }
    format!("{schema:#}\n")
}

fn table(context: Contexts) -> Value {
    let mut properties = Map::new();
    for directive in catalog().within(context) {
        properties.insert(directive.name.to_owned(), property(directive));
        for old in directive.deprecated {
            properties.insert((*old).to_owned(), deprecated(directive));
        }
    }
    let required: Vec<&str> = catalog()
        .within(context)
        .filter(|row| row.required)
        .map(|row| row.name)
        .collect();
    let description = context.described().summary;
    json!({ "type": "object", "description": description, "properties": properties, "required": required, "additionalProperties": false })
}

fn property(row: &Directive) -> Value {
    let mut schema = kind(row.kind);
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".into(), row.summary.into());
        if let Some(default) = row.default.and_then(json_of) {
            object.insert("default".into(), default);
        }
    }
    schema
}

/// A deprecated spelling.
fn deprecated(directive: &Directive) -> Value {
    let mut schema = kind(directive.kind);
    if let Some(object) = schema.as_object_mut() {
        let description = format!("Deprecated: use `{}`.", directive.name);
        object.insert("description".into(), description.into());
        object.insert("deprecated".into(), true.into());
    }
    schema
}

fn kind(kind_of_value: &Kind) -> Value {
    match kind_of_value {
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Fraction => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Bytes { min, max } => {
            json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, { "type": "string", "pattern": SIZE_PATTERN }] })
        }
        Kind::Duration { .. } => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        Kind::Text | Kind::Path | Kind::PathOrProgram => {
            json!({ "type": "string", "minLength": 1 })
        }
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Word(word) if word.pattern.is_empty() => json!({ "type": "string" }),
        Kind::Word(word) => json!({ "type": "string", "pattern": word.pattern }),
        Kind::OneOf(kinds) => json!({ "anyOf": kinds.iter().map(kind).collect::<Vec<_>>() }),
        Kind::ListOf(element) => json!({ "type": "array", "items": kind(element) }),
        Kind::MapOf(key, value) => {
            json!({ "type": "object", "propertyNames": { "pattern": key.pattern }, "additionalProperties": kind(value) })
        }
        Kind::Section(context) | Kind::Table(TableKind { context, .. }) => reference(*context),
        Kind::Sections(context) => json!({ "type": "array", "items": reference(*context) }),
    }
}

fn reference(context: Contexts) -> Value {
    json!({ "$ref": format!("#/$defs/{}", context.described().id) })
}

/// Converts a row's default from TOML to JSON.
fn json_of(default: &str) -> Option<Value> {
    let table: toml::Table = toml::from_str(&format!("value = {default}")).ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

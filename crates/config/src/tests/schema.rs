//! The JSON Schema accepts what loads and refuses what can be seen to be wrong, by a checker of the
//! keywords that it uses.

#![allow(clippy::unwrap_used, clippy::panic)]

use saker_config::json_schema;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// The first thing that the schema has against the value.
fn violation(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => root
            .pointer(reference.strip_prefix('#').unwrap())
            .unwrap_or_else(|| panic!("{reference} leads nowhere")),
        None => schema,
    };
    for keyword in schema.as_object().unwrap().keys() {
        assert!(
            KEYWORDS.contains(&keyword.as_str()),
            "the checker does not know {keyword}"
        );
    }
    scalar_violation(schema, value, at)
        .or_else(|| alternatives_violation(root, schema, value, at))
        .or_else(|| match value {
            Value::Array(items) => {
                let schema = schema.get("items")?;
                items.iter().enumerate().find_map(|(index, item)| {
                    violation(root, schema, item, &format!("{at}[{index}]"))
                })
            }
            Value::Object(_) => object_violation(root, schema, value, at),
            _ => None,
        })
}

const KEYWORDS: &[&str] = &[
    "deprecated",
    "$schema",
    "$defs",
    "$ref",
    "title",
    "description",
    "default",
    "type",
    "minimum",
    "maximum",
    "pattern",
    "minLength",
    "enum",
    "anyOf",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "propertyNames",
];

fn scalar_violation(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let kind = match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null => "null",
    };
    if schema.get("type").is_some_and(|expected| expected != kind) {
        return Some(format!("{at}: {kind}, not {}", schema["type"]));
    }
    if schema
        .get("enum")
        .is_some_and(|words| !words.as_array().unwrap().contains(value))
    {
        return Some(format!("{at}: not one of {}", schema["enum"]));
    }
    if let Some(number) = value.as_i64() {
        let below = schema
            .get("minimum")
            .is_some_and(|min| number < min.as_i64().unwrap());
        let above = schema
            .get("maximum")
            .is_some_and(|max| number > max.as_i64().unwrap());
        return (below || above).then(|| format!("{at}: out of range"));
    }
    let short = schema.get("minLength").is_some_and(|min| {
        value
            .as_str()
            .is_some_and(|text| (text.len() as u64) < min.as_u64().unwrap())
    });
    short.then(|| format!("{at}: too short"))
}

fn alternatives_violation(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let alternatives = schema.get("anyOf")?.as_array().unwrap();
    let reasons: Option<Vec<String>> = alternatives
        .iter()
        .map(|one| violation(root, one, value, at))
        .collect();
    reasons.map(|reasons| reasons.join(" and "))
}

fn object_violation(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let object = value.as_object().unwrap();
    if let Some(missing) = schema.get("required").and_then(|r| {
        r.as_array()?
            .iter()
            .find(|key| !object.contains_key(key.as_str().unwrap()))
    }) {
        return Some(format!("{at}: lacks {missing}"));
    }
    object.iter().find_map(|(key, value)| {
        let at = format!("{at}.{key}");
        match (
            schema.pointer(&format!("/properties/{key}")),
            schema.get("additionalProperties"),
        ) {
            (Some(schema), _) => violation(root, schema, value, &at),
            (None, Some(Value::Bool(false))) => Some(format!("{at}: unknown")),
            (None, Some(schema)) => violation(root, schema, value, &at),
            (None, None) => None,
        }
    })
}

fn check(text: &str) -> Option<String> {
    let table: toml::Table = toml::from_str(text).unwrap();
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    violation(&schema, &schema, &serde_json::to_value(table).unwrap(), "")
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

#[test]
fn accepts_what_loads() {
    assert_eq!(
        check(&fs::read_to_string(folder("docs/saker.example.toml")).unwrap()),
        None
    );
    let mut accepted = 0;
    for entry in fs::read_dir(folder("tests/config")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap_or_default();
        if !expected.contains(": error: ") {
            assert_eq!(
                check(&fs::read_to_string(&path).unwrap()),
                None,
                "{}",
                path.display()
            );
            accepted += 1;
        }
    }
    assert!(accepted >= 3, "{accepted} golden files load");
}

#[test]
fn refuses_what_can_be_seen() {
    for wrong in [
        "sever = {}",
        "server = 1",
        "[server]\nworkers = 0",
        "[server]\nworkers = \"many\"",
        "[limits]\nhead_size = true",
        "[[site]]\nnames = \"example.org\"",
        "[[site]]\nlisting = \"on\"",
        "[[site.route]]\nlisting = true",
        "[[site]]\n[site.compression]\ngzip_level = 10",
        "[[site]]\n[site.headers]\nA = { sett = \"x\" }",
    ] {
        assert!(check(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn every_table_is_defined_once() {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    assert_eq!(
        schema["$schema"],
        json!("https://json-schema.org/draft/2020-12/schema")
    );
    assert!(schema["$defs"].as_object().unwrap().len() >= 12);
}

/// Configurations of the repository, with their names; `true`: they load.
fn configurations() -> Vec<(String, String, bool)> {
    let mut all = Vec::new();
    for file in ["docs/saker.example.toml", "contrib/saker.toml"] {
        all.push((
            file.to_owned(),
            fs::read_to_string(folder(file)).unwrap(),
            true,
        ));
    }
    for entry in fs::read_dir(folder("tests/config")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let expected = fs::read_to_string(path.with_extension("expected")).unwrap_or_default();
            let text = fs::read_to_string(&path).unwrap();
            all.push((
                path.display().to_string(),
                text,
                !expected.contains(": error: "),
            ));
        }
    }
    for entry in fs::read_dir(folder("crates/server/tests/scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(scenario) = toml::from_str::<toml::Table>(&fs::read_to_string(&path).unwrap())
        else {
            continue;
        };
        let site = scenario
            .get("site")
            .and_then(|site| site.as_str())
            .unwrap_or("");
        let text = format!("[[listener]]\naddress = \":80\"\n[[site]]\nroot = \"/\"\n{site}");
        let loads = saker_config::parse(&text, "saker.toml", Path::new("/srv")).is_ok();
        all.push((path.display().to_string(), text, loads));
    }
    all
}

#[test]
fn a_validator_of_others_accepts_what_loads() {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("saker.json", schema).unwrap();
    let index = compiler.compile("saker.json", &mut schemas).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for (name, text, loads) in configurations() {
        let Ok(table) = toml::from_str::<toml::Table>(&text) else {
            continue;
        };
        let value = serde_json::to_value(table).unwrap();
        match schemas.validate(&value, index) {
            Ok(()) => accepted += 1,
            Err(error) if loads => panic!("{name}: {error:#}"),
            Err(_) => refused += 1,
        }
    }
    assert!(
        accepted >= 60 && refused >= 40,
        "{accepted} accepted, {refused} refused"
    );
}

/// Every key and its example are accepted where they belong.
#[test]
fn a_validator_of_others_accepts_every_example() {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    for directive in crate::directives::catalog().iter() {
        let Some(text) = directive.example.or(directive.default) else {
            continue;
        };
        let table: toml::Table = toml::from_str(&format!("value = {text}")).unwrap();
        let value = serde_json::to_value(&table["value"]).unwrap();
        for context in directive.contexts.each() {
            let base = match context.context == crate::context::FILE {
                true => "/properties".to_owned(),
                false => format!("/$defs/{}/properties", context.id),
            };
            let row = schema.pointer(&format!("{base}/{}", directive.name));
            let mut row = row
                .unwrap_or_else(|| panic!("{base}/{}", directive.name))
                .clone();
            row["$defs"] = schema["$defs"].clone();
            let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
            compiler.add_resource("row.json", row).unwrap();
            let index = compiler.compile("row.json", &mut schemas).unwrap();
            if let Err(error) = schemas.validate(&value, index) {
                panic!("{} in {}: {error:#}", directive.name, context.id);
            }
        }
    }
}

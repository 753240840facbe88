//! Answers of the API held against the schemas of its OpenAPI document.
//!
//! Called by: the fixture, for each answer that a test gets.
//! Caveat: a field that the schema does not list is a fault, although JSON Schema would admit it.

use serde_json::Value;
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> = LazyLock::new(saker_console::openapi_document);

/// Panics if an answer is not as described.
pub fn check(method: &str, path: &str, status: u16, answer: &Value) {
    let path = path.split('?').next().unwrap_or_default();
    let operation = &DOCUMENT["paths"][path][method.to_ascii_lowercase()];
    let described = &operation["responses"][status.to_string()];
    let schema = &described["content"]["application/json"]["schema"];
    // Other paths are none of the API, and 5xx say what is wrong with the server.
    if operation.is_null() || status >= 500 {
        return;
    }
    assert!(
        schema.is_object(),
        "{method} {path}: {status} is not described: {answer}"
    );
    if let Err(why) = validate(schema, answer) {
        panic!("{method} {path}: {why}: {answer}");
    }
}

fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let shape = name.trim_start_matches('#');
        let shape = DOCUMENT.pointer(shape).ok_or(format!("no shape {name}"))?;
        return validate(shape, value);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let mut results = any.iter().map(|one| validate(one, value));
        return match results.any(|result| result.is_ok()) {
            true => Ok(()),
            false => Err(format!("{value} is none of {schema}")),
        };
    }
    if let Some(wanted) = schema.get("const") {
        return match wanted == value {
            true => Ok(()),
            false => Err(format!("{value} is not {wanted}")),
        };
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        Value::String(kind) => vec![kind.as_str()],
        _ => return Ok(()),
    };
    if !kinds.iter().any(|kind| is_of(kind, value)) {
        return Err(format!("{value} is not of type {kinds:?}"));
    }
    let at =
        |name: &str, result: Result<(), String>| result.map_err(|why| format!("{name}: {why}"));
    for element in value.as_array().into_iter().flatten() {
        at("[]", validate(&schema["items"], element))?;
    }
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if value.get(name).is_none() {
            return Err(format!("{name} is missing"));
        }
    }
    let Some(properties) = schema["properties"].as_object() else {
        return Ok(());
    };
    for (name, value) in value.as_object().into_iter().flatten() {
        let schema = properties
            .get(name)
            .ok_or(format!("{name} is not described"))?;
        at(name, validate(schema, value))?;
    }
    Ok(())
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => value.is_null(),
    }
}

#[test]
fn wrong_answers_are_found() {
    let judge = |text: &str| {
        let schema = &DOCUMENT["paths"]["/api/v1/explain"]["get"]["responses"]["200"];
        let answer: Value = serde_json::from_str(text).unwrap();
        validate(&schema["content"]["application/json"]["schema"], &answer)
    };
    let good = r#"{"ok":true,"steps":[{"phase":"a","text":"b","place":""}]}"#;
    assert_eq!(judge(good), Ok(()));
    for wrong in [
        "[]",
        r#"{"steps":[]}"#,
        r#"{"ok":true}"#,
        r#"{"ok":false,"steps":[]}"#,
        r#"{"ok":true,"steps":{}}"#,
        r#"{"ok":true,"steps":[],"more":1}"#,
        r#"{"ok":true,"steps":[{"phase":"a","text":"b"}]}"#,
        r#"{"ok":true,"steps":[{"phase":"a","text":1,"place":""}]}"#,
    ] {
        assert!(judge(wrong).is_err(), "{wrong}");
    }
}

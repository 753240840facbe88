//! Members of a JSON request, checked by type.
//!
//! Called by: the parsers of verbs. The error of each is the sentence that the client is told.

use serde_json::Value;

/// A string that may be missing.
pub fn text(request: &Value, name: &str) -> Result<Option<String>, String> {
    match request.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("\"{name}\" must be a string")),
    }
}

/// A list of strings; missing means empty.
pub fn texts(request: &Value, name: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("\"{name}\" must be a list of strings");
    match request.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list
            .iter()
            .map(|one| one.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect(),
        Some(_) => Err(wrong()),
    }
}

/// A Boolean; missing means `false`.
pub fn flag(request: &Value, name: &str) -> Result<bool, String> {
    match request.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(format!("\"{name}\" must be true or false")),
    }
}

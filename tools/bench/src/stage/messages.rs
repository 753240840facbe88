//! Parts of the messages between the two machines.
//!
//! Called by: both sides.
//! Caveat: a part that is missing is an error with the whole message.
//! Out of scope: the messages themselves (`ask`, `serve`).

use serde_json::Value;

pub fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
    value
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("no `{name}` in {value}"))
}

pub fn count(value: &Value, name: &str) -> Result<u64, String> {
    value
        .get(name)
        .and_then(Value::as_u64)
        .ok_or_else(|| format!("no `{name}` in {value}"))
}

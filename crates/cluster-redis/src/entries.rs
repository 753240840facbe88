//! Entries of streams.
//!
//! Called by: `redis_log` and `redis_feeds`.
//! Caveat: anything may be in the keys; what does not have the expected shape is an entry that is
//! none of Saker's, or an error, never a panic.

use crate::connection::failed;
use redis::Value;
use saker_cluster::{Entry, EntryId, LogError};

/// The only field of our entries.
pub const FIELD: &str = "r";

/// Entries of a stream: pairs of an id and a list of names and values.
pub fn entries(answer: Value) -> Result<Vec<Entry>, LogError> {
    let Value::Array(all) = answer else {
        return Err(failed("the answer is not a list of entries"));
    };
    all.into_iter()
        .map(|one| entry(one).ok_or_else(|| failed("the answer has an entry without an id")))
        .collect()
}

fn entry(one: Value) -> Option<Entry> {
    let Value::Array(parts) = one else {
        return None;
    };
    let mut parts = parts.into_iter();
    let Value::BulkString(id) = parts.next()? else {
        return None;
    };
    let id = EntryId::parse(std::str::from_utf8(&id).ok()?)?;
    let payload = match parts.next() {
        Some(Value::Array(fields)) => payload(fields),
        _ => None,
    };
    Some(Entry { id, payload })
}

fn payload(fields: Vec<Value>) -> Option<Vec<u8>> {
    match <[Value; 2]>::try_from(fields) {
        Ok([Value::BulkString(name), Value::BulkString(value)]) if name == FIELD.as_bytes() => {
            Some(value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn stream(id: &str, fields: &[&str]) -> Value {
        let fields = fields.iter().map(|field| text(field)).collect();
        Value::Array(vec![Value::Array(vec![text(id), Value::Array(fields)])])
    }

    #[test]
    fn entries_of_others_have_no_payload() {
        let id = EntryId { major: 5, minor: 1 };
        for (fields, payload) in [
            (&["r", "bytes"][..], Some(b"bytes".to_vec())),
            (&["x", "bytes"], None),
            (&["r", "bytes", "more", "fields"], None),
            (&["r"], None),
            (&[], None),
        ] {
            assert_eq!(
                entries(stream("5-1", fields)),
                Ok(vec![Entry { id, payload }]),
                "{fields:?}"
            );
        }
        for odd in [Value::Nil, Value::Int(1), stream("no id", &["r", "x"])] {
            assert!(entries(odd).is_err());
        }
    }
}

//! Keys and values of the expanded configuration.
//!
//! Called by: `document`, which makes them; `write`, which shows them.
//! Out of scope: what the keys mean.

/// A key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub origin: String,
    pub item: Item,
}

#[derive(Clone, Debug)]
pub enum Item {
    Value(serde_json::Value),
    Table(Vec<Entry>),
    /// A table whose keys are names, not settings.
    Map(Vec<Entry>),
    /// Tables with their origins.
    Tables(Vec<(String, Vec<Entry>)>),
}

//! The most frequent texts of a stream, in bounded memory.
//!
//! Called by: `tops`; the page cache, which counts prefixes of paths and reasons.
//! Caveat: there are [`ENTRIES_MAX`] counters (space-saving, Metwally et al. 2005). A count is at
//! most `error` too high, and what was more than the `ENTRIES_MAX`th part of the stream is never
//! missing.

use serde_json::{Value, json};
use std::collections::HashMap;

/// Counters of a list.
pub const ENTRIES_MAX: usize = 128;
/// Rows of a list in an answer.
pub const SHOWN_MAX: usize = 10;
/// Longest text of a row.
const TEXT_BYTES_MAX: usize = 256;

/// The heavy hitters of a stream of texts, each with what else is counted of it.
#[derive(Debug, Default)]
pub struct Sketch<V>(HashMap<String, Counter<V>>);

#[derive(Debug, Default)]
struct Counter<V> {
    count: u64,
    /// So much of the count may be that of texts before.
    error: u64,
    value: V,
}

impl<V: Default> Sketch<V> {
    /// Counts a text, in place of the rarest one if it is new and there is no room.
    pub fn count(&mut self, text: &str) -> &mut V {
        let text = cut(text);
        let mut error = 0;
        if !self.0.contains_key(text) && self.0.len() >= ENTRIES_MAX {
            let rarest = self.0.iter().min_by_key(|(_, counter)| counter.count);
            let rarest = rarest.map(|(text, counter)| (text.clone(), counter.count));
            if let Some((rarest, count)) = rarest {
                self.0.remove(&rarest);
                error = count;
            }
        }
        let counter = self.0.entry(text.to_owned()).or_insert_with(|| Counter {
            count: error,
            error,
            value: V::default(),
        });
        counter.count += 1;
        &mut counter.value
    }

    /// Adds the counts of another part of the stream.
    pub fn merge(&mut self, other: &Sketch<V>, join: impl Fn(&mut V, &V)) {
        for (text, from) in &other.0 {
            let counter = self.0.entry(text.clone()).or_default();
            counter.count += from.count;
            counter.error += from.error;
            join(&mut counter.value, &from.value);
        }
    }

    /// The most frequent ones, each with what `more` says of it.
    pub fn rows(&self, more: impl Fn(&V) -> Value) -> Value {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by(|(one, a), (other, b)| b.count.cmp(&a.count).then(one.cmp(other)));
        let rows = all.into_iter().take(SHOWN_MAX).map(|(text, counter)| {
            let mut row = json!({ "text": text, "count": counter.count, "error": counter.error });
            if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more(&counter.value)) {
                row.extend(more);
            }
            row
        });
        rows.collect()
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_texts_are_found_in_bounded_memory() {
        let mut sketch = Sketch::<()>::default();
        for number in 0..20_000 {
            sketch.count(&format!("rare {number}"));
            if number % 10 == 0 {
                sketch.count("frequent");
            }
        }
        assert_eq!(sketch.0.len(), ENTRIES_MAX);
        let found = &sketch.0["frequent"];
        assert!(found.count - found.error <= 2_000 && found.count >= 2_000);
        assert_eq!(sketch.rows(|()| Value::Null)[0]["text"], "frequent");
        let mut sum = Sketch::default();
        sum.merge(&sketch, |(), ()| {});
        sum.merge(&sketch, |(), ()| {});
        assert_eq!(sum.0["frequent"].count, 2 * sketch.0["frequent"].count);
        sketch.count(&"ä".repeat(TEXT_BYTES_MAX));
        assert!(sketch.0.keys().all(|text| text.len() <= TEXT_BYTES_MAX));
    }
}

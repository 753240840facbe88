//! Names and values that tell a program about its request: an ordered list in one buffer.
//!
//! The one difficulty is cost: a request has thirty to fifty of them, and making them is a good
//! part of what a gateway costs. So a variable is bytes at the end of a buffer that the worker uses
//! again, and four numbers.
//!
//! Absent on purpose: uniqueness. [`Variables::push`] does not look; [`Variables::set`] does, for
//! those who need it.

/// Position of a variable's name and value. The variable begins with its name; the value need not
/// follow the name directly.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name: (u32, u32),
    value: (u32, u32),
}

/// An ordered list of names and values. Offsets have 32 bits, far beyond what limits on heads let
/// through.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Variables {
    pub fn new() -> Variables {
        Variables::default()
    }

    /// Forgets all and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Adds one at the end, whether there is one of that name or not.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let (start, middle) = (self.bytes.len(), self.bytes.len() + name.len());
        self.bytes.reserve(name.len() + value.len());
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push(Entry {
            name: (start as u32, name.len() as u32),
            value: (middle as u32, value.len() as u32),
        });
    }

    /// The same, name and value given in parts.
    pub fn push_parts(&mut self, name: &[&[u8]], value: &[&[u8]]) {
        let entry = Entry {
            name: self.append(name),
            value: self.append(value),
        };
        self.entries.push(entry);
    }

    /// Replaces the value of the first of that name, in its place, or adds it at the end.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.set_among(self.entries.len(), name, value);
    }

    /// The value of the first of that name. Names are compared as they are written.
    pub fn first(&self, name: &[u8]) -> Option<&[u8]> {
        self.entries
            .iter()
            .find(|entry| self.part(entry.name) == name)
            .map(|entry| self.part(entry.value))
    }

    pub fn remove(&mut self, name: &[u8]) {
        let bytes = &self.bytes;
        self.entries.retain(|entry| part(bytes, entry.name) != name);
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        self.entries
            .iter()
            .map(|entry| (self.part(entry.name), self.part(entry.value)))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Replaces one of the first `among` variables, or adds: who knows that only those can have the
    /// name spares the look at the rest.
    pub(crate) fn set_among(&mut self, among: usize, name: &[u8], value: &[u8]) {
        match self
            .entries
            .iter()
            .take(among)
            .position(|entry| self.part(entry.name) == name)
        {
            Some(at) => self.entries[at].value = self.append(&[value]),
            None => self.push(name, value),
        }
    }

    fn append(&mut self, parts: &[&[u8]]) -> (u32, u32) {
        let start = self.bytes.len();
        parts
            .iter()
            .for_each(|part| self.bytes.extend_from_slice(part));
        (start as u32, (self.bytes.len() - start) as u32)
    }

    fn part(&self, span: (u32, u32)) -> &[u8] {
        part(&self.bytes, span)
    }
}

/// The same names and values in the same order, wherever they lie.
impl PartialEq for Variables {
    fn eq(&self, other: &Variables) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Variables {}

fn part(bytes: &[u8], (start, len): (u32, u32)) -> &[u8] {
    &bytes[start as usize..start as usize + len as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Variables {
        let mut variables = Variables::new();
        pairs
            .iter()
            .for_each(|(name, value)| variables.push(name.as_bytes(), value.as_bytes()));
        variables
    }

    fn text(variables: &Variables) -> String {
        variables
            .iter()
            .map(|(name, value)| format!("{}={};", name.escape_ascii(), value.escape_ascii()))
            .collect()
    }

    #[test]
    fn order_stays_and_set_replaces_in_place() {
        let mut some = of(&[("A", "1"), ("B", "2"), ("A", "3")]);
        some.set(b"A", b"one");
        some.set(b"C", b"");
        assert_eq!(text(&some), "A=one;B=2;A=3;C=;");
        assert_eq!(
            (some.first(b"A"), some.first(b"a"), some.len()),
            (Some(&b"one"[..]), None, 4)
        );
        some.remove(b"A");
        assert_eq!(text(&some), "B=2;C=;");
        some.clear();
        assert!(some.is_empty() && some.first(b"B").is_none());
    }

    #[test]
    fn only_the_first_few_are_looked_at_where_asked() {
        let mut some = of(&[("A", "1"), ("B", "2")]);
        some.set_among(1, b"B", b"34");
        assert_eq!(text(&some), "A=1;B=2;B=34;");
    }
}

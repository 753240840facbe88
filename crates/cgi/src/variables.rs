//! Names and values that tell a program about its request: an ordered list in one buffer.
//!
//! Called by: `meta`, which fills it, and every codec, which sends it.
//! Caveat: a request has thirty to fifty variables, and making them is a good part of what a
//! gateway costs. So the buffer, which the worker uses again, has them as FastCGI sends them; that
//! codec copies it in one piece ([`Variables::pairs`]).
//! Out of scope: uniqueness. [`Variables::push`] does not look; [`Variables::set`] does, for those
//! who need it.

use saker_http::field_name::{is_alike, push_variable};

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
    /// Each variable is a name-value pair of FastCGI (section 3.4), replaced values apart.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Variables were replaced or removed: the buffer has more than the entries.
    is_edited: bool,
}

impl Variables {
    pub fn new() -> Variables {
        Variables::default()
    }

    /// Forgets all and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.is_edited = false;
    }

    /// Adds one at the end, whether there is one of that name or not.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.begin(name.len(), value.len());
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
    }

    /// The same for a name of known length, whose bytes need no loop.
    #[inline]
    pub(crate) fn push_named<const N: usize>(&mut self, name: &[u8; N], value: &[u8]) {
        self.begin(N, value.len());
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
    }

    /// Adds one at the end, whose value `write` appends to what it gets.
    pub fn push_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        // The value is taken for a short one until it is known.
        self.begin(name.len(), 0);
        self.bytes.extend_from_slice(name);
        let at = self.bytes.len();
        write(&mut self.bytes);
        let value = self.bytes.len().saturating_sub(at);
        if let Some(entry) = self.entries.last_mut() {
            entry.value.1 = value as u32;
        }
        let length_at = at - name.len() - 1;
        match value {
            short @ 0..128 => self.bytes[length_at] = short as u8,
            long => self.make_room(length_at, long),
        }
    }

    /// Gives the last value the longer form of its length.
    fn make_room(&mut self, length_at: usize, value: usize) {
        const MORE: usize = LENGTH_BYTES_MAX - 1;
        let mut length = Vec::with_capacity(LENGTH_BYTES_MAX);
        push_length(value, &mut length);
        self.bytes.splice(length_at..=length_at, length);
        if let Some(entry) = self.entries.last_mut() {
            entry.name.0 += MORE as u32;
            entry.value.0 += MORE as u32;
        }
    }

    /// Adds all of another list at the end.
    pub fn append(&mut self, other: &Variables) {
        let before = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&other.bytes);
        self.is_edited |= other.is_edited;
        let moved = |(start, length): (u32, u32)| (start + before, length);
        self.entries.extend(other.entries.iter().map(|entry| Entry {
            name: moved(entry.name),
            value: moved(entry.value),
        }));
    }

    /// Adds one whose value `write` appends, unless that is empty.
    pub fn push_filled(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let (bytes, entries) = (self.bytes.len(), self.entries.len());
        self.push_with(name, write);
        if self.entries.last().is_some_and(|last| last.value.1 == 0) {
            self.bytes.truncate(bytes);
            self.entries.truncate(entries);
        }
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// A field of the request: `HTTP_` and its name in capitals (RFC 3875 section 4.1.18). Replaces
    /// one of the first `among` variables, as [`Variables::set_among`].
    pub(crate) fn set_field_among(&mut self, among: usize, name: &[u8], value: &[u8]) {
        self.begin(FIELD_PREFIX.len() + name.len(), value.len());
        self.bytes.extend_from_slice(FIELD_PREFIX);
        push_variable(name, &mut self.bytes);
        self.bytes.extend_from_slice(value);
        if among > 0 {
            self.fold_last(among);
        }
    }

    /// The last variable becomes the value of the one of its name among the first.
    fn fold_last(&mut self, among: usize) {
        let Some((last, before)) = self.entries.split_last() else {
            return;
        };
        let (name, value) = (self.part(last.name), last.value);
        let mut same = before.iter().take(among);
        if let Some(at) = same.position(|entry| self.part(entry.name) == name) {
            self.entries.pop();
            self.entries[at].value = value;
            self.is_edited = true;
        }
    }

    /// The same, name and value given in parts.
    pub fn push_parts(&mut self, name: &[&[u8]], value: &[&[u8]]) {
        let length = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum();
        self.begin(length(name), length(value));
        for part in name.iter().chain(value) {
            self.bytes.extend_from_slice(part);
        }
    }

    /// Appends the lengths, and the entry of the name and value that the caller appends next.
    #[inline(always)]
    fn begin(&mut self, name: usize, value: usize) {
        self.bytes.reserve(name + value + 2 * LENGTH_BYTES_MAX);
        match (name, value) {
            (0..128, 0..128) => self.bytes.extend_from_slice(&[name as u8, value as u8]),
            _ => {
                push_length(name, &mut self.bytes);
                push_length(value, &mut self.bytes);
            }
        }
        let start = self.bytes.len();
        self.entries.push(Entry {
            name: (start as u32, name as u32),
            value: ((start + name) as u32, value as u32),
        });
    }

    /// All variables in order, as FastCGI sends them; `None` where some were replaced or removed.
    pub fn pairs(&self) -> Option<&[u8]> {
        (!self.is_edited).then_some(&self.bytes)
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
        let (bytes, before) = (&self.bytes, self.entries.len());
        self.entries.retain(|entry| part(bytes, entry.name) != name);
        self.is_edited |= self.entries.len() != before;
    }

    /// Removes all that programs could take for that name, see [`is_alike`].
    pub(crate) fn remove_alike(&mut self, name: &[u8]) {
        let (bytes, before) = (&self.bytes, self.entries.len());
        self.entries
            .retain(|entry| !is_alike(part(bytes, entry.name), name));
        self.is_edited |= self.entries.len() != before;
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
            Some(at) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(value);
                self.entries[at].value = (start as u32, value.len() as u32);
                self.is_edited = true;
            }
            None => self.push(name, value),
        }
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

/// In front of fields of the request.
pub(crate) const FIELD_PREFIX: &[u8; 5] = b"HTTP_";
/// Bytes of the longer form of a length.
const LENGTH_BYTES_MAX: usize = 4;

/// A length as FastCGI has it (section 3.4).
pub(crate) fn push_length(length: usize, out: &mut Vec<u8>) {
    match length {
        short @ 0..128 => out.push(short as u8),
        long => out.extend_from_slice(&(long as u32 | 1 << 31).to_be_bytes()),
    }
}

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
    fn pairs_are_those_of_fastcgi_unless_something_was_replaced() {
        let mut some = of(&[("A", "1"), ("BC", "")]);
        some.push_parts(&[b"X_", b"_"], &[&[b'v'; 128]]);
        let long = [&b"\x03\x80\0\0\x80X__"[..], &[b'v'; 128]].concat();
        assert_eq!(
            some.pairs(),
            Some([&b"\x01\x01A1\x02\0BC"[..], &long].concat().as_slice())
        );
        some.set(b"D", b"2");
        assert!(
            some.pairs()
                .is_some_and(|pairs| pairs.ends_with(b"\x01\x01D2"))
        );
        let mut replaced = some.clone();
        replaced.set(b"A", b"2");
        assert_eq!(replaced.pairs(), None);
        some.remove(b"nothing");
        assert!(some.pairs().is_some());
        some.remove(b"A");
        assert_eq!(some.pairs(), None);
        some.clear();
        assert_eq!(some.pairs(), Some(&b""[..]));
    }

    #[test]
    fn values_that_are_written_in_place_are_those_of_fastcgi() {
        for length in [0, 1, 127, 128, 70_000] {
            let value = vec![b'v'; length];
            let (mut written, mut pushed) = (of(&[("A", "1")]), of(&[("A", "1")]));
            for name in [&b"NAME"[..], &[b'N'; 200]] {
                written.push_with(name, |out| out.extend_from_slice(&value));
                pushed.push(name, &value);
            }
            written.push(b"Z", b"2");
            pushed.push(b"Z", b"2");
            assert_eq!(written, pushed);
            assert_eq!(written.pairs(), pushed.pairs(), "{length}");
        }
        let mut some = of(&[("A", "1")]);
        some.push_filled(b"B", |_| ());
        some.push_filled(b"C", |out| out.push(b'3'));
        assert_eq!(some, of(&[("A", "1"), ("C", "3")]));
        assert_eq!(some.pairs(), of(&[("A", "1"), ("C", "3")]).pairs());
    }

    #[test]
    fn a_list_is_added_as_it_is() {
        let mut some = of(&[("A", "1")]);
        let mut more = of(&[("B", "2"), ("C", "3")]);
        some.append(&more);
        let all = of(&[("A", "1"), ("B", "2"), ("C", "3")]);
        assert_eq!((&some, some.pairs()), (&all, all.pairs()));
        more.set(b"B", b"4");
        some.append(&more);
        assert_eq!(text(&some), "A=1;B=2;C=3;B=4;C=3;");
        assert_eq!(some.pairs(), None);
    }

    #[test]
    fn fields_replace_what_stands_among_the_first() {
        let mut some = of(&[("HTTP_A_B", "1"), ("X", "2"), ("HTTP_C", "3")]);
        some.set_field_among(2, b"a-b", b"4");
        some.set_field_among(2, b"c", b"5");
        assert_eq!(text(&some), "HTTP_A_B=4;X=2;HTTP_C=3;HTTP_C=5;");
        assert_eq!(some.pairs(), None);
        let mut none = Variables::new();
        none.set_field_among(0, b"X-Long-Enough", b"");
        assert_eq!(none.pairs(), Some(&b"\x12\0HTTP_X_LONG_ENOUGH"[..]));
    }

    #[test]
    fn only_the_first_few_are_looked_at_where_asked() {
        let mut some = of(&[("A", "1"), ("B", "2")]);
        some.set_among(1, b"B", b"34");
        assert_eq!(text(&some), "A=1;B=2;B=34;");
    }
}

//! The table of who encodes, with a way to find a field in it.
//!
//! The one difficulty: to do that without a search through it and without a map beside it. Entries
//! of one name are chained from the newest to the oldest; a chain is entered by the name's place in
//! the static table or by three of its bytes. Entries are known by the number of the insertion,
//! which tells their index, and that they are gone, without anything to be done when they go.
//!
//! Absent on purpose: deciding what is worth an entry or must not have one; the caller says so by
//! [`Indexing`].

use crate::dynamic_table::{DynamicTable, Found};

const BUCKETS: usize = 64;
/// No static table has so many names.
const NO_STATIC_NAME: u8 = u8::MAX;

/// Permitted uses of tables for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// Worth a table entry: it will come again on this connection.
    Add,
    /// Sent as a reference if it is there, but given no entry.
    Without,
    /// A secret: no table on the whole way may have it (RFC 7541 section 7.1.3, RFC 9204 section
    /// 7.1.3).
    Never,
}

/// Best match for a field in the table; the number counts from 0, the newest entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Field(usize),
    Name(usize),
    None,
}

pub struct FieldIndex {
    table: DynamicTable<Link>,
    /// Number of the newest entry by [`bucket`]; empty before the first.
    newest: Vec<u32>,
    /// Entries ever made; the number of the newest. May wrap.
    inserted: u32,
}

/// Data of an entry besides its bytes.
#[derive(Clone, Copy)]
struct Link {
    /// The name's first index in the static table.
    name: u8,
    /// Number of the next older entry in the same bucket.
    older: u32,
}

impl FieldIndex {
    pub fn new(size_max: usize) -> Self {
        FieldIndex {
            table: DynamicTable::new(size_max),
            newest: Vec::new(),
            inserted: 0,
        }
    }

    /// Size of the entries as RFC 7541 section 4.1 counts it.
    pub fn size(&self) -> usize {
        self.table.size()
    }

    pub fn size_max(&self) -> usize {
        self.table.size_max()
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Nothing is allocated before the first entry.
    pub fn holds_no_memory(&self) -> bool {
        self.newest.capacity() == 0 && self.table.holds_no_memory()
    }

    pub fn set_size_max(&mut self, size_max: usize) {
        self.table.set_size_max(size_max);
    }

    /// Number of of the oldest entries an insertion of that size would evict.
    pub fn evictions_for(&self, size: usize) -> usize {
        self.table.evictions_for(size)
    }

    /// `static_name`: the name's first index in the static table; the name in any case.
    pub fn find(&self, static_name: Option<usize>, name: &[u8], value: &[u8]) -> Match {
        let mut found = Match::None;
        let mut next = self.newest.get(bucket(static_name, name)).copied();
        while let Some((nth, entry)) = next.and_then(|number| self.numbered(number)) {
            if entry.has_name(static_name, name) {
                if entry.value == value {
                    return Match::Field(nth);
                }
                if matches!(found, Match::None) {
                    found = Match::Name(nth);
                }
            }
            // Older than this one, or its number has come round since.
            next = Some(entry.note.older)
                .filter(|older| self.inserted.wrapping_sub(*older) as usize > nth);
        }
        found
    }

    pub fn insert(&mut self, static_name: Option<usize>, name: &[u8], value: &[u8]) {
        if self.newest.is_empty() {
            self.newest = vec![0; BUCKETS];
        }
        let number = self.inserted.wrapping_add(1);
        let older = std::mem::replace(&mut self.newest[bucket(static_name, name)], number);
        self.table.insert(
            name,
            value,
            Link {
                name: static_name.map_or(NO_STATIC_NAME, |index| index as u8),
                older,
            },
        );
        self.inserted = number;
    }

    /// An entry that is still there, by the number of its insertion, with its place counted from
    /// the newest.
    fn numbered(&self, number: u32) -> Option<(usize, Found<'_, Link>)> {
        let nth = self.inserted.wrapping_sub(number) as usize;
        self.table.entry(nth).map(|entry| (nth, entry))
    }
}

impl Found<'_, Link> {
    fn has_name(&self, static_name: Option<usize>, name: &[u8]) -> bool {
        match static_name {
            Some(index) => usize::from(self.note.name) == index,
            None => self.note.name == NO_STATIC_NAME && self.name.eq_ignore_ascii_case(name),
        }
    }
}

/// Names of the static table have a chain each, as far as there are buckets; the others share.
fn bucket(static_name: Option<usize>, name: &[u8]) -> usize {
    let place = |at: usize| name.get(at).map_or(0, |byte| usize::from(*byte | 0x20));
    static_name.unwrap_or_else(|| {
        name.len() + 7 * place(name.len() / 2) + 13 * place(name.len().wrapping_sub(1))
    }) % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_names_are_found_until_they_are_evicted() {
        let mut index = FieldIndex::new(3 * 34);
        assert_eq!(index.find(None, b"a", b"1"), Match::None);
        index.insert(None, b"a", b"1");
        index.insert(None, b"a", b"2");
        index.insert(Some(64), b"b", b"1");
        assert_eq!(index.find(None, b"a", b"1"), Match::Field(2));
        assert_eq!(index.find(None, b"A", b"2"), Match::Field(1));
        assert_eq!(index.find(None, b"a", b"3"), Match::Name(1));
        assert_eq!(index.find(Some(64), b"b", b"1"), Match::Field(0));
        assert_eq!(
            index.find(Some(0), b"b", b"1"),
            Match::None,
            "another name in the same bucket"
        );
        assert_eq!(
            (index.size(), index.len(), index.evictions_for(34)),
            (3 * 34, 3, 1)
        );
        index.insert(None, b"c", b"1");
        assert_eq!(index.find(None, b"a", b"1"), Match::Name(2));
        index.set_size_max(34);
        assert_eq!(
            (index.find(None, b"a", b"2"), index.find(None, b"c", b"1")),
            (Match::None, Match::Field(0))
        );
    }

    /// The number of an entry comes round after 2^32 insertions; chains end where their next number
    /// is not older.
    #[test]
    fn numbers_may_wrap() {
        let mut index = FieldIndex::new(10 * 34);
        index.inserted = u32::MAX - 2;
        for value in b"0123456" {
            index.insert(None, b"n", &[*value]);
        }
        for (nth, value) in b"6543210".iter().enumerate() {
            assert_eq!(index.find(None, b"n", &[*value]), Match::Field(nth));
        }
        assert_eq!(index.find(None, b"n", b"x"), Match::Name(0));
    }
}

//! The dynamic table (RFC 7541 section 2.3.2, RFC 9204 section 3.2), for the decoder and, with
//! other notes on its entries, for the encoder.
//!
//! Names and values stand behind each other in one buffer in the order in which they came, so that
//! an entry is one slice and an insertion one copy. Evicted bytes stay in front until a new entry
//! does not fit; then those that live are moved down. That is done only when a third of the buffer
//! is dead, so a byte is moved at most twice per byte inserted. Nothing is allocated before the
//! first entry.
//!
//! The one difficulty: positions in the buffer change with a move, so entries keep a position that
//! counts on (`start`), and the buffer knows which of them its first byte has (`base`). Both may
//! wrap.

use std::collections::VecDeque;

/// Bytes that an entry counts in addition to its name and value (RFC 7541 section 4.1).
pub const ENTRY_OVERHEAD: usize = 32;

pub struct DynamicTable<Note> {
    /// The oldest in front.
    entries: VecDeque<Entry<Note>>,
    bytes: Vec<u8>,
    base: u32,
    size: usize,
    size_max: usize,
}

struct Entry<Note> {
    start: u32,
    name_len: u32,
    value_len: u32,
    note: Note,
}

impl<Note> Entry<Note> {
    fn size(&self) -> usize {
        (self.name_len + self.value_len) as usize + ENTRY_OVERHEAD
    }
}

/// An entry as it is read.
pub struct Found<'a, Note> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    pub note: Note,
}

/// Size of an entry as RFC 7541 section 4.1 counts it.
pub fn entry_size(name: &[u8], value: &[u8]) -> usize {
    name.len() + value.len() + ENTRY_OVERHEAD
}

impl<Note: Copy> DynamicTable<Note> {
    pub fn new(size_max: usize) -> Self {
        DynamicTable {
            entries: VecDeque::new(),
            bytes: Vec::new(),
            base: 0,
            size: 0,
            size_max,
        }
    }

    pub fn holds_no_memory(&self) -> bool {
        self.entries.capacity() == 0 && self.bytes.capacity() == 0
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn size_max(&self) -> usize {
        self.size_max
    }

    /// RFC 7541 section 4.3: what does not fit any more is evicted.
    pub fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict_to(size_max);
    }

    /// `nth` counts from 0, the newest.
    #[inline]
    pub fn entry(&self, nth: usize) -> Option<Found<'_, Note>> {
        let entry = self.entries.get(self.entries.len().checked_sub(nth + 1)?)?;
        let start = entry.start.wrapping_sub(self.base) as usize;
        let both = self
            .bytes
            .get(start..start + (entry.name_len + entry.value_len) as usize)?;
        let (name, value) = both.split_at_checked(entry.name_len as usize)?;
        Some(Found {
            name,
            value,
            note: entry.note,
        })
    }

    /// RFC 7541 section 4.4: evicts until it fits; an entry larger than the table empties it and is
    /// not kept.
    pub fn insert(&mut self, name: &[u8], value: &[u8], note: Note) {
        let size = entry_size(name, value);
        let Some(others_max) = self.size_max.checked_sub(size) else {
            return self.evict_to(0);
        };
        self.evict_to(others_max);
        self.make_room(name.len() + value.len());
        let start = self.base.wrapping_add(self.bytes.len() as u32);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_back(Entry {
            start,
            name_len: name.len() as u32,
            value_len: value.len() as u32,
            note,
        });
        self.size += size;
    }

    /// Number of of the oldest entries an insertion of that size would evict.
    pub fn evictions_for(&self, size: usize) -> usize {
        let mut left = self.size.saturating_sub(self.size_max.saturating_sub(size));
        let goes = |entry: &&Entry<Note>| {
            let is_needed = left > 0;
            left = left.saturating_sub(entry.size());
            is_needed
        };
        self.entries.iter().take_while(goes).count()
    }

    fn evict_to(&mut self, size_max: usize) {
        while self.size > size_max {
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            self.size -= entry.size();
        }
    }

    fn make_room(&mut self, len: usize) {
        if self.bytes.len() + len <= self.bytes.capacity() {
            return;
        }
        let dead = self.entries.front().map_or(self.bytes.len(), |oldest| {
            oldest.start.wrapping_sub(self.base) as usize
        });
        if dead * 3 >= self.bytes.len() {
            self.bytes.drain(..dead);
            self.base = self.base.wrapping_add(dead as u32);
        }
        let needed = self.bytes.len() + len;
        if needed > self.bytes.capacity() {
            let wanted = (self.bytes.capacity() * 2)
                .min(self.size_max + self.size_max / 2)
                .max(needed);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(table: &DynamicTable<u8>) -> Vec<(String, u8)> {
        let text = |entry: Found<'_, u8>| {
            (
                String::from_utf8_lossy(&[entry.name, b"=", entry.value].concat()).into_owned(),
                entry.note,
            )
        };
        (0..table.len())
            .filter_map(|nth| table.entry(nth))
            .map(text)
            .collect()
    }

    #[test]
    fn the_newest_is_first_and_the_oldest_goes() {
        let mut table = DynamicTable::new(3 * 34);
        for note in 0..4 {
            table.insert(b"a", &[b'0' + note], note);
        }
        assert_eq!(
            listed(&table),
            [("a=3".into(), 3), ("a=2".into(), 2), ("a=1".into(), 1)]
        );
        assert!(table.entry(3).is_none() && table.entry(usize::MAX - 1).is_none());
        assert_eq!(table.size(), 3 * 34);
        table.set_size_max(2 * 34 - 1);
        assert_eq!(
            (listed(&table), table.size()),
            (vec![("a=3".into(), 3)], 34)
        );
    }

    #[test]
    fn evictions_are_foreseen() {
        let mut table = DynamicTable::new(100);
        table.insert(b"", b"", 1);
        table.insert(b"a", b"b", 2);
        for (size, want) in [
            (0, 0),
            (34, 0),
            (35, 1),
            (66, 1),
            (67, 2),
            (100, 2),
            (1_000, 2),
        ] {
            assert_eq!(table.evictions_for(size), want, "{size}");
        }
    }

    #[test]
    fn an_entry_as_large_as_the_table_stays_and_a_larger_one_empties_it() {
        let mut table = DynamicTable::new(64);
        table.insert(b"name", &[b'v'; 28], 1);
        assert_eq!((table.len(), table.size()), (1, 64));
        table.insert(b"name", &[b'v'; 29], 2);
        assert_eq!((table.len(), table.size()), (0, 0));
        table.insert(b"", b"", 3);
        assert_eq!(listed(&table), [("=".into(), 3)]);
    }

    #[test]
    fn entries_survive_moves_and_a_wrapping_position() {
        let mut table = DynamicTable::new(400);
        table.base = u32::MAX - 500;
        let mut model = VecDeque::new();
        for turn in 0..2_000usize {
            let (name, value) = (vec![b'n'; turn % 7], vec![turn as u8; turn * 31 % 90]);
            table.insert(&name, &value, turn as u8);
            model.push_front((name, value));
            model.truncate(table.len());
            assert_eq!(
                table.size(),
                model
                    .iter()
                    .map(|(name, value)| entry_size(name, value))
                    .sum::<usize>()
            );
            assert!(
                table.size() <= 400 && table.bytes.capacity() <= 600,
                "{}",
                table.bytes.capacity()
            );
            for (nth, (name, value)) in model.iter().enumerate() {
                let entry = table.entry(nth).unwrap();
                assert_eq!((entry.name, entry.value), (&name[..], &value[..]));
            }
        }
        assert!(table.base < 1_000_000, "it has wrapped");
    }
}

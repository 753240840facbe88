//! Decoding of field sections, and the table that the peer's encoder stream fills (RFC 9204
//! sections 2.2, 4.3 and 4.5).
//!
//! The one difficulty: a reference has to be as cheap as a look-up, so a section is walked once and
//! each field is lent to the sink from where it stands: from a table, from the section itself, or,
//! if it came in the Huffman code, from a scratch buffer.

use super::instructions::{STRING, Unfinished, length_to_decoder, to_decoder, to_encoder};
use super::static_table::{self, Row};
use super::{FieldSink, NameKind, QpackError};
use saker_http_mux::dynamic_table::{DynamicTable, ENTRY_OVERHEAD, Found, entry_size};
use saker_http_mux::integer::{self, Cursor};
use saker_http_mux::strings::{Scratch, Text};

/// Prefix of a field section (RFC 9204 section 4.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Number of entries must have been inserted before it can be decoded; 0 where it refers to
    /// none.
    pub required: u64,
    base: u64,
    /// Bytes of the prefix.
    at: usize,
}

/// One per connection, for what the peer sends.
pub struct Decoder {
    table: DynamicTable<NameKind>,
    /// Our SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    capacity_max: usize,
    inserted: u64,
    /// Part of `inserted` that the peer has been told of.
    acknowledged: u64,
    unfinished: Unfinished,
    scratch: Scratch,
    /// For our decoder stream, but for the increment that is due.
    out: Vec<u8>,
}

impl Decoder {
    pub fn new(capacity_max: usize) -> Self {
        Decoder {
            // RFC 9204 section 3.2.3: of no capacity until the peer sets it.
            table: DynamicTable::new(0),
            capacity_max,
            inserted: 0,
            acknowledged: 0,
            unfinished: Unfinished::default(),
            scratch: Scratch::default(),
            out: Vec::new(),
        }
    }

    /// Entries that the peer has ever inserted: whether a section can be decoded.
    #[inline]
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Bytes from the peer's encoder stream. `count` is called for each instruction; `false` stops.
    pub fn receive(
        &mut self,
        input: &[u8],
        mut count: impl FnMut() -> bool,
    ) -> Result<(), QpackError> {
        let mut unfinished = std::mem::take(&mut self.unfinished);
        let capacity = self.capacity_max;
        let outcome = unfinished.each(
            input,
            |input| length_to_decoder(input, capacity),
            |instruction| {
                if count() {
                    self.obey(instruction)
                } else {
                    Err(QpackError::Stopped)
                }
            },
        );
        self.unfinished = unfinished;
        self.scratch.shrink();
        outcome
    }

    /// Reads the prefix of a section (RFC 9204 section 4.5.1). Call it when the
    /// section arrives: the number is relative to the insertions so far.
    #[inline]
    pub fn section(&self, bytes: &[u8]) -> Result<Section, QpackError> {
        if let [0, 0, ..] = bytes {
            Ok(Section {
                required: 0,
                base: 0,
                at: 2,
            })
        } else {
            self.dynamic_section(bytes)
        }
    }

    /// Decodes a section whose requirements are met.
    pub fn decode(
        &mut self,
        section: Section,
        bytes: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<(), QpackError> {
        let mut cursor = Cursor::new(bytes.get(section.at..).unwrap_or_default());
        while let Some(first) = cursor.byte() {
            self.line(first, section, &mut cursor, sink)?;
        }
        self.scratch.shrink();
        Ok(())
    }

    /// RFC 9204 section 4.4.1: to be said of each section that has been decoded.
    #[inline]
    pub fn acknowledge(&mut self, section: Section, stream: u64) {
        if section.required > 0 {
            integer::encode(
                to_encoder::ACKNOWLEDGE.0,
                to_encoder::ACKNOWLEDGE.1,
                stream as usize,
                &mut self.out,
            );
            self.acknowledged = self.acknowledged.max(section.required);
        }
    }

    /// RFC 9204 section 4.4.2: no more sections of this stream will be decoded. Said only where a
    /// section could refer to anything.
    pub fn cancel(&mut self, stream: u64) {
        if self.capacity_max > 0 {
            integer::encode(
                to_encoder::CANCEL.0,
                to_encoder::CANCEL.1,
                stream as usize,
                &mut self.out,
            );
        }
    }

    /// Returns the pending bytes of our decoder stream, including the increment that is due (RFC
    /// 9204 section 4.4.3).
    pub fn output(&mut self) -> &mut Vec<u8> {
        if self.inserted > self.acknowledged {
            let increment = (self.inserted - self.acknowledged) as usize;
            integer::encode(
                to_encoder::INCREMENT.0,
                to_encoder::INCREMENT.1,
                increment,
                &mut self.out,
            );
            self.acknowledged = self.inserted;
        }
        &mut self.out
    }

    pub fn has_output(&self) -> bool {
        !self.out.is_empty() || self.inserted > self.acknowledged
    }

    pub fn output_bytes(&self) -> usize {
        self.out.len()
    }

    /// Size of the table's entries as RFC 9204 section 3.2.1 counts it.
    pub fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// True if the encoder stream stands between two instructions.
    pub fn is_at_instruction(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// RFC 9204 sections 4.5.1.1 and 4.5.1.2.
    #[cold]
    fn dynamic_section(&self, bytes: &[u8]) -> Result<Section, QpackError> {
        let mut cursor = Cursor::new(bytes);
        let first = cursor.byte().ok_or(QpackError::Truncated)?;
        let required = self.required_insert_count(cursor.long_integer(first, 0xff)?)?;
        let second = cursor.byte().ok_or(QpackError::Truncated)?;
        let delta = cursor.long_integer(second, 0x7f)?;
        let base = match second & 0x80 {
            0 => required.checked_add(delta),
            _ => required
                .checked_sub(delta)
                .and_then(|base| base.checked_sub(1)),
        };
        Ok(Section {
            required,
            base: base.ok_or(QpackError::BadBase)?,
            at: bytes.len() - cursor.remaining(),
        })
    }

    fn required_insert_count(&self, encoded: u64) -> Result<u64, QpackError> {
        if encoded == 0 {
            return Ok(0);
        }
        let entries_max = (self.capacity_max / ENTRY_OVERHEAD) as u64;
        let full_range = 2 * entries_max;
        if encoded > full_range {
            return Err(QpackError::BadRequiredInsertCount);
        }
        let max = self.inserted + entries_max;
        let mut required = max / full_range * full_range + encoded - 1;
        if required > max {
            required = required
                .checked_sub(full_range)
                .ok_or(QpackError::BadRequiredInsertCount)?;
        }
        if required == 0 {
            Err(QpackError::BadRequiredInsertCount)
        } else {
            Ok(required)
        }
    }

    /// RFC 9204 sections 4.5.2 to 4.5.6, by the highest bits of `first`.
    #[inline]
    fn line(
        &mut self,
        first: u8,
        section: Section,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FieldSink,
    ) -> Result<(), QpackError> {
        match first {
            0xc0.. => lend(static_field(cursor.long_integer(first, 0x3f)?)?, sink),
            0x80..0xc0 => lend(
                self.field(section, below(section, cursor.long_integer(first, 0x3f)?)?)?,
                sink,
            ),
            0x40..0x80 => self.literal_with_name(first, section, cursor, sink),
            0x20..0x40 => self.literal(first, cursor, sink),
            0x10..0x20 => lend(
                self.field(section, above(section, cursor.long_integer(first, 0x0f)?)?)?,
                sink,
            ),
            0x00..0x10 => {
                let entry = above(section, cursor.long_integer(first, 0x07)?)?;
                self.literal_with(
                    Name::Entry(self.checked(section, entry)?),
                    first & 0x08 != 0,
                    cursor,
                    sink,
                )
            }
        }
    }

    /// RFC 9204 section 4.5.4.
    fn literal_with_name(
        &mut self,
        first: u8,
        section: Section,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FieldSink,
    ) -> Result<(), QpackError> {
        let index = cursor.long_integer(first, 0x0f)?;
        let name = match first & 0x10 {
            0 => Name::Entry(self.checked(section, below(section, index)?)?),
            _ => Name::Static(static_table::row(index).ok_or(QpackError::NoStaticEntry)?),
        };
        self.literal_with(name, first & 0x20 != 0, cursor, sink)
    }

    /// RFC 9204 section 4.5.6.
    fn literal(
        &mut self,
        first: u8,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FieldSink,
    ) -> Result<(), QpackError> {
        self.scratch.clear();
        let name = self.scratch.string(first, 0x07, cursor)?;
        let value = string(&mut self.scratch, cursor)?;
        let (name, value) = (self.scratch.text(&name), self.scratch.text(&value));
        let kind = NameKind::of_name(name).with_value(value);
        if sink.field(kind, name, value, first & 0x10 != 0) {
            Ok(())
        } else {
            Err(QpackError::Stopped)
        }
    }

    fn literal_with(
        &mut self,
        name: Name,
        never_indexed: bool,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FieldSink,
    ) -> Result<(), QpackError> {
        self.scratch.clear();
        let value = string(&mut self.scratch, cursor)?;
        let value = self.scratch.text(&value);
        let (kind, name) = match name {
            Name::Static(row) => (row.kind, row.name),
            Name::Entry(entry) => {
                let name = entry_at(&self.table, self.inserted, entry)?.name;
                (NameKind::of_name(name), name)
            }
        };
        if sink.field(kind.with_value(value), name, value, never_indexed) {
            Ok(())
        } else {
            Err(QpackError::Stopped)
        }
    }

    /// An entry by its absolute index (RFC 9204 section 3.2.4), as a section may refer to it.
    #[inline]
    fn field(&self, section: Section, entry: u64) -> Result<Found<'_, NameKind>, QpackError> {
        entry_at(&self.table, self.inserted, self.checked(section, entry)?)
    }

    /// RFC 9204 section 2.2.3: only entries below the Required Insert Count.
    #[inline]
    fn checked(&self, section: Section, entry: u64) -> Result<u64, QpackError> {
        if entry < section.required {
            Ok(entry)
        } else {
            Err(QpackError::NoEntry)
        }
    }

    /// One instruction of the peer's encoder (RFC 9204 section 4.3).
    fn obey(&mut self, instruction: &[u8]) -> Result<(), QpackError> {
        let mut cursor = Cursor::new(instruction);
        let first = cursor.byte().ok_or(QpackError::Truncated)?;
        self.scratch.clear();
        if first & to_decoder::INSERT_WITH_NAME.0 != 0 {
            self.insert_with_name(first, &mut cursor)
        } else if first & to_decoder::INSERT.0 != 0 {
            let name = self
                .scratch
                .string(first, to_decoder::INSERT.1, &mut cursor)?;
            let value = string(&mut self.scratch, &mut cursor)?;
            self.insert(None, &name, &value)
        } else if first & to_decoder::SET_CAPACITY.0 != 0 {
            self.set_capacity(cursor.long_integer(first, to_decoder::SET_CAPACITY.1)?)
        } else {
            self.duplicate(cursor.long_integer(first, to_decoder::DUPLICATE.1)?)
        }
    }

    fn insert_with_name(&mut self, first: u8, cursor: &mut Cursor<'_>) -> Result<(), QpackError> {
        let index = cursor.long_integer(first, to_decoder::INSERT_WITH_NAME.1)?;
        if first & to_decoder::STATIC != 0 {
            let row = static_table::row(index).ok_or(QpackError::NoStaticEntry)?;
            let value = string(&mut self.scratch, cursor)?;
            return self.insert(Some(row.kind), &Text::Block(row.name), &value);
        }
        // Making the new entry may evict the one whose name it has (RFC 9204 section 3.2.2), hence
        // a copy.
        let name = self.scratch.copy(entry_of(&self.table, index)?.name);
        let value = string(&mut self.scratch, cursor)?;
        self.insert(None, &name, &value)
    }

    fn insert(
        &mut self,
        kind: Option<NameKind>,
        name: &Text<'_>,
        value: &Text<'_>,
    ) -> Result<(), QpackError> {
        let (name, value) = (self.scratch.text(name), self.scratch.text(value));
        if entry_size(name, value) > self.table.size_max() {
            return Err(QpackError::EntryTooLarge);
        }
        let kind = kind
            .unwrap_or_else(|| NameKind::of_name(name))
            .with_value(value);
        self.table.insert(name, value, kind);
        self.inserted += 1;
        Ok(())
    }

    fn duplicate(&mut self, index: u64) -> Result<(), QpackError> {
        let entry = entry_of(&self.table, index)?;
        let (name, value) = (
            self.scratch.copy(entry.name),
            self.scratch.copy(entry.value),
        );
        self.insert(None, &name, &value)
    }

    /// RFC 9204 section 4.3.1.
    fn set_capacity(&mut self, capacity: u64) -> Result<(), QpackError> {
        let capacity = usize::try_from(capacity)
            .ok()
            .filter(|capacity| *capacity <= self.capacity_max);
        self.table
            .set_size_max(capacity.ok_or(QpackError::CapacityTooLarge)?);
        Ok(())
    }
}

/// Whose name a literal has.
enum Name {
    Static(&'static Row),
    /// By absolute index.
    Entry(u64),
}

/// The absolute index of a relative one (RFC 9204 section 3.2.5).
#[inline]
fn below(section: Section, index: u64) -> Result<u64, QpackError> {
    section
        .base
        .checked_sub(index)
        .and_then(|above| above.checked_sub(1))
        .ok_or(QpackError::NoEntry)
}

/// The absolute index of a post-base one (RFC 9204 section 3.2.6).
fn above(section: Section, index: u64) -> Result<u64, QpackError> {
    section.base.checked_add(index).ok_or(QpackError::NoEntry)
}

#[inline]
fn entry_at(
    table: &DynamicTable<NameKind>,
    inserted: u64,
    entry: u64,
) -> Result<Found<'_, NameKind>, QpackError> {
    entry_of(
        table,
        inserted
            .checked_sub(entry)
            .and_then(|above| above.checked_sub(1))
            .ok_or(QpackError::NoEntry)?,
    )
}

/// By its index counted from the newest, as instructions do (RFC 9204 section 3.2.5).
#[inline]
fn entry_of(table: &DynamicTable<NameKind>, nth: u64) -> Result<Found<'_, NameKind>, QpackError> {
    usize::try_from(nth)
        .ok()
        .filter(|nth| *nth < table.len())
        .and_then(|nth| table.entry(nth))
        .ok_or(QpackError::NoEntry)
}

#[inline]
fn static_field(index: u64) -> Result<Found<'static, NameKind>, QpackError> {
    let row = static_table::row(index).ok_or(QpackError::NoStaticEntry)?;
    Ok(Found {
        name: row.name,
        value: row.value,
        note: row.kind,
    })
}

#[inline]
fn lend(field: Found<'_, NameKind>, sink: &mut impl FieldSink) -> Result<(), QpackError> {
    if sink.field(field.note, field.name, field.value, false) {
        Ok(())
    } else {
        Err(QpackError::Stopped)
    }
}

/// RFC 9204 section 4.1.2.
fn string<'b>(scratch: &mut Scratch, cursor: &mut Cursor<'b>) -> Result<Text<'b>, QpackError> {
    let first = cursor.byte().ok_or(QpackError::Truncated)?;
    Ok(scratch.string(first, STRING.1, cursor)?)
}

#[cfg(test)]
mod tests;

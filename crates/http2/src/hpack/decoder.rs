//! Decoding of field blocks (RFC 7541 sections 3 and 6).
//!
//! The one difficulty: a reference has to be as cheap as a look-up, so a block is walked once and
//! each field is lent to the sink from where it stands: from a table, from the block itself, or, if
//! it came in the Huffman code, from a scratch buffer.

use super::{
    HpackError,
    static_table::{self, ROWS_COUNT, Row},
};
use saker_http_mux::dynamic_table::{DynamicTable, Found};
use saker_http_mux::integer::Cursor;
use saker_http_mux::strings::{Scratch, Text};
use saker_http_mux::{FieldSink, NameKind};

/// Size of both ends' tables until SETTINGS_HEADER_TABLE_SIZE says otherwise (RFC 9113 section
/// 6.5.2).
pub(super) const TABLE_BYTES_INITIAL: usize = 4096;

/// One per connection, for what the peer sends.
pub struct Decoder {
    table: DynamicTable<NameKind>,
    /// The most that a size update may ask for.
    size_limit: usize,
    /// Limit from the next [`Decoder::settings_acknowledged`] on.
    announced: usize,
    scratch: Scratch,
}

impl Decoder {
    /// `table_bytes_max` is our SETTINGS_HEADER_TABLE_SIZE. If it is below the initial 4096, the
    /// peer may use those until it has acknowledged.
    pub fn new(table_bytes_max: usize) -> Self {
        Decoder {
            table: DynamicTable::new(TABLE_BYTES_INITIAL),
            size_limit: table_bytes_max.max(TABLE_BYTES_INITIAL),
            announced: table_bytes_max,
            scratch: Scratch::default(),
        }
    }

    /// The peer has acknowledged our SETTINGS: from here on its table has to be within them, and
    /// its next block has to begin with a size update if it was not (RFC 7541 section 4.2).
    pub fn settings_acknowledged(&mut self) {
        self.size_limit = self.announced;
    }

    /// Decodes a whole block (HEADERS with its CONTINUATION frames). After an error the decoder is
    /// of no more use.
    pub fn decode(&mut self, block: &[u8], sink: &mut impl FieldSink) -> Result<(), HpackError> {
        let mut cursor = Cursor::new(block);
        self.size_updates(&mut cursor)?;
        while let Some(first) = cursor.byte() {
            if first & 0x80 != 0 {
                self.indexed(first, &mut cursor, sink)?;
            } else {
                self.literal(first, &mut cursor, sink)?;
            }
        }
        self.scratch.shrink();
        Ok(())
    }

    /// Size of the table's entries as RFC 7541 section 4.1 counts it.
    pub fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// RFC 7541 section 4.2: they stand at the beginning of a block only.
    fn size_updates(&mut self, cursor: &mut Cursor<'_>) -> Result<(), HpackError> {
        while let Some(first) = cursor.byte_if(|byte| byte & 0xe0 == 0x20) {
            let size_max = cursor.integer(first, 0x1f)?;
            if size_max > self.size_limit {
                return Err(HpackError::SizeUpdateTooLarge);
            }
            self.table.set_size_max(size_max);
        }
        if self.table.size_max() > self.size_limit {
            Err(HpackError::SizeUpdateMissing)
        } else {
            Ok(())
        }
    }

    /// RFC 7541 section 6.1.
    #[inline]
    fn indexed(
        &self,
        first: u8,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FieldSink,
    ) -> Result<(), HpackError> {
        let field = entry(&self.table, cursor.integer(first, 0x7f)?)?;
        if sink.field(field.note, field.name, field.value, false) {
            Ok(())
        } else {
            Err(HpackError::Stopped)
        }
    }

    /// RFC 7541 section 6.2, by the four highest bits of `first`.
    fn literal(
        &mut self,
        first: u8,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FieldSink,
    ) -> Result<(), HpackError> {
        match first >> 4 {
            0b0000 => self.literal_with(Keep::No, cursor.integer(first, 0x0f)?, cursor, sink),
            0b0001 => self.literal_with(Keep::Never, cursor.integer(first, 0x0f)?, cursor, sink),
            0b0010 | 0b0011 => Err(HpackError::SizeUpdateLate),
            _ => self.literal_with(Keep::Add, cursor.integer(first, 0x3f)?, cursor, sink),
        }
    }

    fn literal_with(
        &mut self,
        keep: Keep,
        index: usize,
        cursor: &mut Cursor<'_>,
        sink: &mut impl FieldSink,
    ) -> Result<(), HpackError> {
        let Decoder { table, scratch, .. } = self;
        scratch.clear();
        let name = read_name(table, scratch, index, cursor)?;
        let value = string(scratch, cursor)?;
        let value = scratch.text(&value);
        let (kind, name) = match &name {
            Name::Static(row) => (row.kind, row.name),
            Name::Text(text) => (NameKind::of_name(scratch.text(text)), scratch.text(text)),
        };
        let kind = kind.with_value(value);
        if !sink.field(kind, name, value, keep == Keep::Never) {
            return Err(HpackError::Stopped);
        }
        if keep == Keep::Add {
            table.insert(name, value, kind);
        }
        Ok(())
    }
}

/// Indexing that a literal requests from our table and from those further on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Add,
    No,
    Never,
}

enum Name<'b> {
    Static(&'static Row),
    Text(Text<'b>),
}

/// The name of a literal. One from the dynamic table is copied, since making the new entry may
/// evict it (RFC 7541 section 4.4).
fn read_name<'b>(
    table: &DynamicTable<NameKind>,
    scratch: &mut Scratch,
    index: usize,
    cursor: &mut Cursor<'b>,
) -> Result<Name<'b>, HpackError> {
    if index == 0 {
        return string(scratch, cursor).map(Name::Text);
    }
    match static_table::row(index) {
        Some(row) => Ok(Name::Static(row)),
        None => Ok(Name::Text(scratch.copy(dynamic(table, index)?.name))),
    }
}

/// RFC 7541 section 5.2.
fn string<'b>(scratch: &mut Scratch, cursor: &mut Cursor<'b>) -> Result<Text<'b>, HpackError> {
    let first = cursor.byte().ok_or(HpackError::Truncated)?;
    Ok(scratch.string(first, 0x7f, cursor)?)
}

/// A field by its index in both tables (RFC 7541 section 2.3.3).
#[inline]
fn entry(table: &DynamicTable<NameKind>, index: usize) -> Result<Found<'_, NameKind>, HpackError> {
    match static_table::row(index) {
        Some(row) => Ok(Found {
            name: row.name,
            value: row.value,
            note: row.kind,
        }),
        None => dynamic(table, index),
    }
}

#[inline]
fn dynamic(
    table: &DynamicTable<NameKind>,
    index: usize,
) -> Result<Found<'_, NameKind>, HpackError> {
    let nth = index
        .checked_sub(ROWS_COUNT + 1)
        .ok_or(HpackError::IndexZero)?;
    table.entry(nth).ok_or(HpackError::IndexBeyondTable)
}

#[cfg(test)]
mod tests;

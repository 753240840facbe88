//! Encoding of field lists (RFC 7541 section 6).
//!
//! Absent on purpose: deciding what is worth an entry or must not have one; the caller says so by
//! [`Indexing`].

use super::{
    decoder::TABLE_BYTES_INITIAL,
    static_table::{self, ROWS_COUNT},
};
use saker_http_mux::dynamic_table::entry_size;
use saker_http_mux::field_index::{self, FieldIndex};
use saker_http_mux::{FieldEncoder, Indexing, huffman, integer};

/// We never keep more, whatever the peer offers.
const TABLE_BYTES_MAX: usize = TABLE_BYTES_INITIAL;

/// Literal with incremental indexing, without indexing, never indexed (RFC 7541 sections 6.2.1 to
/// 6.2.3): pattern and mask of the index.
const ADD: (u8, u8) = (0x40, 0x3f);
const WITHOUT: (u8, u8) = (0x00, 0x0f);
const NEVER: (u8, u8) = (0x10, 0x0f);
const INDEXED: (u8, u8) = (0x80, 0x7f);
const SIZE_UPDATE: (u8, u8) = (0x20, 0x1f);
/// RFC 7541 section 5.2.
const STRING: (u8, u8) = (0, 0x7f);
const STATUS_NAME: &[u8] = b":status";

/// One per connection, for what we send.
pub struct Encoder {
    table: FieldIndex,
    /// Table size due at the next block, and the smallest size requested since the last block.
    wanted: usize,
    smallest: usize,
}

/// Best reference to a field; the index is that of RFC 7541 section 2.3.3.
enum Match {
    Field(usize),
    Name(usize),
    None,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder::new()
    }
}

impl Encoder {
    /// With the table of 4096 bytes that every peer has until it says otherwise.
    pub fn new() -> Self {
        let size = TABLE_BYTES_INITIAL;
        Encoder {
            table: FieldIndex::new(size),
            wanted: size,
            smallest: size,
        }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE, from the next block on.
    pub fn set_table_bytes_max(&mut self, bytes: usize) {
        self.wanted = bytes.min(TABLE_BYTES_MAX);
        self.smallest = self.smallest.min(self.wanted);
    }

    /// Begins a block with the size updates that are due: the smallest size the peer has asked for
    /// since the last block, and the last one (RFC 7541 section 4.2).
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.smallest != self.table.size_max() || self.wanted != self.smallest {
            self.update_size(out);
        }
    }

    /// Size of the table's entries as RFC 7541 section 4.1 counts it.
    pub fn table_bytes(&self) -> usize {
        self.table.size()
    }

    #[cold]
    fn update_size(&mut self, out: &mut Vec<u8>) {
        for size in [self.smallest, self.wanted] {
            if size != self.table.size_max() {
                encode(SIZE_UPDATE, size, out);
                self.table.set_size_max(size);
            }
        }
        self.smallest = self.wanted;
    }

    fn find(&self, static_name: Option<usize>, name: &[u8], value: &[u8]) -> Match {
        if let Some(index) = static_name.and_then(|index| static_table::pair_index(index, value)) {
            return Match::Field(index);
        }
        match self.table.find(static_name, name, value) {
            field_index::Match::Field(nth) => Match::Field(ROWS_COUNT + 1 + nth),
            field_index::Match::Name(nth) => {
                Match::Name(static_name.unwrap_or(ROWS_COUNT + 1 + nth))
            }
            field_index::Match::None => static_name.map_or(Match::None, Match::Name),
        }
    }
}

impl FieldEncoder for Encoder {
    #[inline]
    fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        match indexed_status(status) {
            Some(byte) => out.push(byte),
            None => self.field(STATUS_NAME, &digits(status), Indexing::Add, out),
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let static_name = static_table::name_index(name);
        if indexing == Indexing::Never {
            return literal(NEVER, static_name.unwrap_or(0), name, value, out);
        }
        let index = match self.find(static_name, name, value) {
            Match::Field(index) => return encode(INDEXED, index, out),
            Match::Name(index) => index,
            Match::None => 0,
        };
        // An entry of most of the table would evict what else is there, for one field.
        if indexing == Indexing::Without || entry_size(name, value) > self.table.size_max() / 2 {
            return literal(WITHOUT, index, name, value, out);
        }
        literal(ADD, index, name, value, out);
        self.table.insert(static_name, name, value);
    }
}

/// One field without any table but the static one, for heads that are encoded once and sent on many
/// connections.
pub fn encode_stateless(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let static_name = static_table::name_index(name);
    match static_name.and_then(|index| static_table::pair_index(index, value)) {
        Some(index) => encode(INDEXED, index, out),
        None => literal(WITHOUT, static_name.unwrap_or(0), name, value, out),
    }
}

/// `:status`, from 100 to 999, without any table but the static one.
pub fn encode_status_stateless(status: u16, out: &mut Vec<u8>) {
    match indexed_status(status) {
        Some(byte) => out.push(byte),
        None => encode_stateless(STATUS_NAME, &digits(status), out),
    }
}

/// The whole representation, for those in the static table.
fn indexed_status(status: u16) -> Option<u8> {
    let index = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => return None,
    };
    Some(INDEXED.0 | index)
}

fn digits(status: u16) -> [u8; 3] {
    debug_assert!((100..1000).contains(&status), "status {status}");
    [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8)
}

/// Literal with the name as an index, or as a string if that is 0.
fn literal(form: (u8, u8), name_index: usize, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    encode(form, name_index, out);
    if name_index == 0 {
        huffman::encode_string(name, STRING, |byte| byte.to_ascii_lowercase(), out);
    }
    huffman::encode_string(value, STRING, |byte| byte, out);
}

#[inline]
fn encode((pattern, mask): (u8, u8), value: usize, out: &mut Vec<u8>) {
    integer::encode(pattern, mask, value, out);
}

#[cfg(test)]
mod tests;

//! Encoding of field sections, and what is said on our encoder stream (RFC 9204 sections 2.1, 4.3
//! and 4.5).
//!
//! The one difficulty: an entry may be evicted only when nothing that is under way refers to it
//! (section 2.1.1). So each section that refers to the table is remembered, with its lowest
//! reference, until the peer acknowledges or cancels it.
//!
//! Only acknowledged entries are referred to, so no stream ever waits for ours (section 2.1.2),
//! whatever the peer allows: what repeats is referred to a round trip later, and nothing else is
//! lost. Entries near their eviction are not duplicated (section 2.1.1.1): a field that still
//! repeats gets a new one when its old one is gone.

use super::instructions::{
    STRING, Unfinished, length_to_encoder, number_to_encoder, to_decoder, to_encoder,
};
use super::{Indexing, QpackError, STATELESS_PREFIX, static_table};
use saker_http_mux::dynamic_table::{ENTRY_OVERHEAD, entry_size};
use saker_http_mux::field_index::{FieldIndex, Match};
use saker_http_mux::integer::Cursor;
use saker_http_mux::{FieldEncoder, huffman, integer};
use std::collections::VecDeque;

/// We never keep more, whatever the peer offers.
const TABLE_BYTES_MAX: usize = 4_096;
/// Sections that a peer need not have acknowledged; more refer to nothing.
const OUTSTANDING_MAX: usize = 256;
/// No insertions while this much output is pending.
const OUTPUT_BYTES_MAX: usize = 4_096;

/// Pattern and mask (RFC 9204 sections 4.5.2, 4.5.4 and 4.5.6); T and N come on top.
const INDEXED: (u8, u8) = (0x80, 0x3f);
const INDEXED_STATIC: u8 = 0x40;
const WITH_NAME: (u8, u8) = (0x40, 0x0f);
const WITH_NAME_STATIC: u8 = 0x10;
const WITH_NAME_NEVER: u8 = 0x20;
const LITERAL: (u8, u8) = (0x20, 0x07);
const LITERAL_NEVER: u8 = 0x10;
const STATUS_NAME: &[u8] = b":status";

/// One per connection, for what we send.
pub struct Encoder {
    table: FieldIndex,
    /// The peer's SETTINGS_QPACK_MAX_TABLE_CAPACITY, in entries (RFC 9204 section 4.5.1.1).
    entries_max: u64,
    /// Capacity that we use; announced before the first insertion.
    capacity: usize,
    inserted: u64,
    /// Known Received Count (RFC 9204 section 2.1.4).
    acknowledged: u64,
    /// Sections with references, in the order they were sent.
    outstanding: VecDeque<Outstanding>,
    current: Option<Current>,
    unfinished: Unfinished,
    /// For our encoder stream.
    out: Vec<u8>,
}

/// A section that the peer may still have to decode.
struct Outstanding {
    stream: u64,
    lowest: u64,
}

/// The section that is being encoded.
#[derive(Clone, Copy)]
struct Current {
    /// Offset of the section's prefix.
    at: usize,
    base: u64,
    required: u64,
    lowest: u64,
}

/// Table that holds a field's name.
enum Name {
    Static(usize),
    /// By absolute index.
    Entry(u64),
    None,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder::new()
    }
}

impl Encoder {
    /// Without a table, until the peer's SETTINGS allow one.
    pub fn new() -> Self {
        Encoder {
            table: FieldIndex::new(0),
            entries_max: 0,
            capacity: 0,
            inserted: 0,
            acknowledged: 0,
            outstanding: VecDeque::new(),
            current: None,
            unfinished: Unfinished::default(),
            out: Vec::new(),
        }
    }

    /// The peer's SETTINGS_QPACK_MAX_TABLE_CAPACITY; once.
    pub fn allow_table(&mut self, bytes_max: u64) {
        self.entries_max = bytes_max / ENTRY_OVERHEAD as u64;
        self.capacity = usize::try_from(bytes_max)
            .unwrap_or(TABLE_BYTES_MAX)
            .min(TABLE_BYTES_MAX);
    }

    /// Begins a section. [`Encoder::finish`] ends it.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        self.current = Some(Current {
            at: out.len(),
            base: self.acknowledged,
            required: 0,
            lowest: u64::MAX,
        });
        out.extend_from_slice(&STATELESS_PREFIX);
    }

    /// Writes the prefix (RFC 9204 section 4.5.1), and remembers the section of this stream if it
    /// refers to the table.
    #[inline]
    pub fn finish(&mut self, stream: u64, out: &mut Vec<u8>) {
        if let Some(current) = self.current.take().filter(|current| current.required > 0) {
            self.finish_with_references(current, stream, out);
        }
    }

    /// Bytes from the peer's decoder stream (RFC 9204 section 4.4).
    pub fn receive(&mut self, input: &[u8]) -> Result<(), QpackError> {
        let mut unfinished = std::mem::take(&mut self.unfinished);
        let outcome = unfinished.each(input, length_to_encoder, |instruction| {
            self.obey(instruction)
        });
        self.unfinished = unfinished;
        outcome
    }

    /// Returns the pending bytes of our encoder stream.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    pub fn output_bytes(&self) -> usize {
        self.out.len()
    }

    /// Size of the table's entries as RFC 9204 section 3.2.1 counts it.
    pub fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// Sections that refer to the table and were neither acknowledged nor cancelled.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    #[cold]
    fn finish_with_references(&mut self, current: Current, stream: u64, out: &mut Vec<u8>) {
        let Current {
            at,
            base,
            required,
            lowest,
        } = current;
        let encoded = required % (2 * self.entries_max) + 1;
        let mut prefix = Vec::with_capacity(STATELESS_PREFIX.len());
        integer::encode(0, 0xff, encoded as usize, &mut prefix);
        // References are below the base, so its sign is that of zero.
        integer::encode(0, 0x7f, (base - required) as usize, &mut prefix);
        out.splice(at..at + STATELESS_PREFIX.len(), prefix);
        self.outstanding.push_back(Outstanding { stream, lowest });
    }

    fn indexed(&mut self, entry: u64, out: &mut Vec<u8>) {
        let index = self.refer(entry);
        integer::encode(INDEXED.0, INDEXED.1, index, out);
    }

    /// Notes a reference to an acknowledged entry; its relative index (RFC 9204 section 3.2.5).
    fn refer(&mut self, entry: u64) -> usize {
        let Some(current) = &mut self.current else {
            return 0;
        };
        current.required = current.required.max(entry + 1);
        current.lowest = current.lowest.min(entry);
        (current.base - entry - 1) as usize
    }

    fn literal(
        &mut self,
        name_at: Name,
        never: bool,
        name: &[u8],
        value: &[u8],
        out: &mut Vec<u8>,
    ) {
        let with_name = if never {
            WITH_NAME.0 | WITH_NAME_NEVER
        } else {
            WITH_NAME.0
        };
        match name_at {
            Name::Static(index) => {
                integer::encode(with_name | WITH_NAME_STATIC, WITH_NAME.1, index, out)
            }
            Name::Entry(entry) => {
                let index = self.refer(entry);
                integer::encode(with_name, WITH_NAME.1, index, out);
            }
            Name::None => {
                let pattern = if never {
                    LITERAL.0 | LITERAL_NEVER
                } else {
                    LITERAL.0
                };
                huffman::encode_string(
                    name,
                    (pattern, LITERAL.1),
                    |byte| byte.to_ascii_lowercase(),
                    out,
                );
            }
        }
        huffman::encode_string(value, STRING, |byte| byte, out);
    }

    /// Finds the best reference for a field.
    fn find(&self, static_name: Option<usize>, name: &[u8], value: &[u8]) -> Found {
        let can_refer = self.current.is_some() && self.outstanding.len() < OUTSTANDING_MAX;
        let acknowledged = |nth: usize| {
            let entry = self.inserted - 1 - nth as u64;
            (entry < self.acknowledged && can_refer).then_some(entry)
        };
        match self.table.find(static_name, name, value) {
            Match::Field(nth) => acknowledged(nth).map_or(Found::Coming, Found::Field),
            Match::Name(nth) => acknowledged(nth).map_or(Found::None, Found::Name),
            Match::None => Found::None,
        }
    }

    /// Gives a field an entry, if it is worth one and there is room (RFC 9204 section 2.1.1).
    fn insert(
        &mut self,
        static_name: Option<usize>,
        name: &[u8],
        value: &[u8],
        indexing: Indexing,
    ) {
        let size = entry_size(name, value);
        // An entry of most of the table would evict what else is there, for one field.
        if indexing != Indexing::Add
            || size > self.capacity / 2
            || self.out.len() > OUTPUT_BYTES_MAX
        {
            return;
        }
        if self.table.size_max() == 0 {
            integer::encode(
                to_decoder::SET_CAPACITY.0,
                to_decoder::SET_CAPACITY.1,
                self.capacity,
                &mut self.out,
            );
            self.table.set_size_max(self.capacity);
        }
        if !self.can_evict(self.table.evictions_for(size)) {
            return;
        }
        match static_name {
            Some(index) => {
                let (pattern, mask) = to_decoder::INSERT_WITH_NAME;
                integer::encode(pattern | to_decoder::STATIC, mask, index, &mut self.out);
            }
            None => huffman::encode_string(
                name,
                to_decoder::INSERT,
                |byte| byte.to_ascii_lowercase(),
                &mut self.out,
            ),
        }
        huffman::encode_string(value, STRING, |byte| byte, &mut self.out);
        self.table.insert(static_name, name, value);
        self.inserted += 1;
    }

    /// True if the oldest `count` entries are acknowledged and nothing refers to them.
    fn can_evict(&self, count: usize) -> bool {
        let oldest = self.inserted - self.table.len() as u64;
        let lowest = self
            .outstanding
            .iter()
            .map(|section| section.lowest)
            .min()
            .unwrap_or(u64::MAX);
        let current = self.current.map_or(u64::MAX, |current| current.lowest);
        count == 0 || oldest + count as u64 <= self.acknowledged.min(lowest).min(current)
    }

    /// One instruction of the peer's decoder.
    fn obey(&mut self, instruction: &[u8]) -> Result<(), QpackError> {
        let first = instruction.first().copied().ok_or(QpackError::Truncated)?;
        let number = number_to_encoder(&mut Cursor::new(instruction))?;
        if first & to_encoder::ACKNOWLEDGE.0 != 0 {
            self.section_acknowledged(number)
        } else if first & to_encoder::CANCEL.0 != 0 {
            self.outstanding.retain(|section| section.stream != number);
            Ok(())
        } else {
            self.increment(number)
        }
    }

    /// RFC 9204 section 4.4.1: the oldest of that stream.
    fn section_acknowledged(&mut self, stream: u64) -> Result<(), QpackError> {
        let at = self
            .outstanding
            .iter()
            .position(|section| section.stream == stream)
            .ok_or(QpackError::NothingToAcknowledge)?;
        // What it referred to was acknowledged before, so that the Known Received Count stays as it
        // is.
        self.outstanding.remove(at);
        Ok(())
    }

    /// RFC 9204 section 4.4.3.
    fn increment(&mut self, increment: u64) -> Result<(), QpackError> {
        let acknowledged = self
            .acknowledged
            .checked_add(increment)
            .filter(|count| *count <= self.inserted && increment > 0);
        self.acknowledged = acknowledged.ok_or(QpackError::BadIncrement)?;
        Ok(())
    }
}

impl FieldEncoder for Encoder {
    #[inline]
    fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        match indexed_status(status) {
            Some(index) => integer::encode(INDEXED.0 | INDEXED_STATIC, INDEXED.1, index, out),
            None => self.field(STATUS_NAME, &digits(status), Indexing::Add, out),
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let static_name = static_table::name_index(name);
        if indexing != Indexing::Never
            && let Some(index) =
                static_name.and_then(|index| static_table::pair_index(index, value))
        {
            return integer::encode(INDEXED.0 | INDEXED_STATIC, INDEXED.1, index, out);
        }
        let mut place = static_name.map_or(Name::None, Name::Static);
        if indexing != Indexing::Never && self.capacity > 0 {
            match self.find(static_name, name, value) {
                Found::Field(entry) => return self.indexed(entry, out),
                // It is on its way: a round trip later it can be referred to.
                Found::Coming => {}
                Found::Name(entry) if static_name.is_none() => {
                    // Referred to before anything is evicted for this field.
                    self.refer(entry);
                    self.insert(static_name, name, value, indexing);
                    place = Name::Entry(entry);
                }
                _ => self.insert(static_name, name, value, indexing),
            }
        }
        self.literal(place, indexing == Indexing::Never, name, value, out);
    }
}

enum Found {
    /// By absolute index.
    Field(u64),
    /// The whole field is there, but may not be referred to yet.
    Coming,
    Name(u64),
    None,
}

/// One field without any table but the static one, for heads that are encoded once and sent on many
/// connections.
pub fn encode_stateless(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let static_name = static_table::name_index(name);
    if let Some(index) = static_name.and_then(|index| static_table::pair_index(index, value)) {
        return integer::encode(INDEXED.0 | INDEXED_STATIC, INDEXED.1, index, out);
    }
    match static_name {
        Some(index) => integer::encode(WITH_NAME.0 | WITH_NAME_STATIC, WITH_NAME.1, index, out),
        None => huffman::encode_string(name, LITERAL, |byte| byte.to_ascii_lowercase(), out),
    }
    huffman::encode_string(value, STRING, |byte| byte, out);
}

/// `:status`, from 100 to 999, without any table but the static one.
pub fn encode_status_stateless(status: u16, out: &mut Vec<u8>) {
    match indexed_status(status) {
        Some(index) => integer::encode(INDEXED.0 | INDEXED_STATIC, INDEXED.1, index, out),
        None => encode_stateless(STATUS_NAME, &digits(status), out),
    }
}

/// Those in the static table.
fn indexed_status(status: u16) -> Option<usize> {
    Some(match status {
        103 => 24,
        200 => 25,
        304 => 26,
        404 => 27,
        503 => 28,
        100 => 63,
        204 => 64,
        206 => 65,
        302 => 66,
        400 => 67,
        403 => 68,
        421 => 69,
        425 => 70,
        500 => 71,
        _ => return None,
    })
}

fn digits(status: u16) -> [u8; 3] {
    debug_assert!((100..1000).contains(&status), "status {status}");
    [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8)
}

#[cfg(test)]
mod tests;

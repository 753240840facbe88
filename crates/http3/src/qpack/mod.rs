//! QPACK (RFC 9204): field sections as blocks of bytes, with a table that is kept in step by
//! streams of its own.
//!
//! Place in the walk: the machine lends a whole section to [`Decoder::decode`], which hands each
//! field to a [`FieldSink`]; what comes on the peer's encoder stream goes to [`Decoder::receive`],
//! on its decoder stream to [`Encoder::receive`]. On the way out [`Encoder`] appends a section to
//! the frame that is being written. What either has to say on our own streams waits in its output.
//!
//! The one difficulty: streams overtake each other, so a section may refer to entries that have not
//! come. The decoder says so ([`Section::required`]) and the machine waits. Our encoder never makes
//! a peer wait: it refers to acknowledged entries only (section 2.1.2).
//!
//! Absent on purpose: limits on the size of a field list (the sink counts), and what a field may
//! not be indexed for (the caller knows).

mod decoder;
mod encoder;
mod instructions;
mod static_table;

pub use decoder::{Decoder, Section};
pub use encoder::{Encoder, encode_stateless, encode_status_stateless};
pub use saker_http_mux::{FieldEncoder, FieldSink, Indexing, NameKind};

use saker_http_mux::CodingError;
use std::fmt;

/// Prefix of a section without references to the dynamic table (RFC 9204 section 4.5.1).
pub const STATELESS_PREFIX: [u8; 2] = [0, 0];

/// Why a section or an instruction can't be read. Each ends the connection, with the code of the
/// stream it came on (RFC 9204 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpackError {
    /// It ends within a representation.
    Truncated,
    /// An integer above what can be meant here (section 4.1.1).
    IntegerTooLarge,
    /// A string that can't be decoded (section 4.1.2).
    BadString,
    /// The sink asked to stop.
    Stopped,
    /// An index beyond the static table (section 3.1).
    NoStaticEntry,
    /// An index of an entry that was evicted or has not been inserted, or not below the section's
    /// Required Insert Count (section 2.2.3).
    NoEntry,
    /// A Required Insert Count that can't be (section 4.5.1.1).
    BadRequiredInsertCount,
    /// A Base below zero (section 4.5.1.2).
    BadBase,
    /// A capacity above SETTINGS_QPACK_MAX_TABLE_CAPACITY (section 4.3.1).
    CapacityTooLarge,
    /// An entry larger than the table (section 3.2.2).
    EntryTooLarge,
    /// An acknowledgement of a section that has none due (section 4.4.1).
    NothingToAcknowledge,
    /// An increment of zero, or beyond what was inserted (section 4.4.3).
    BadIncrement,
}

impl From<CodingError> for QpackError {
    fn from(error: CodingError) -> Self {
        match error {
            CodingError::Truncated => QpackError::Truncated,
            CodingError::IntegerTooLarge => QpackError::IntegerTooLarge,
            CodingError::HuffmanEndOfString | CodingError::HuffmanPadding => QpackError::BadString,
        }
    }
}

impl fmt::Display for QpackError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            QpackError::Truncated => "ends too early",
            QpackError::IntegerTooLarge => "integer too large",
            QpackError::BadString => "string that can't be decoded",
            QpackError::Stopped => "field list refused",
            QpackError::NoStaticEntry => "index beyond the static table",
            QpackError::NoEntry => "index of no entry",
            QpackError::BadRequiredInsertCount => "impossible Required Insert Count",
            QpackError::BadBase => "Base below zero",
            QpackError::CapacityTooLarge => "table capacity above the limit",
            QpackError::EntryTooLarge => "entry larger than the table",
            QpackError::NothingToAcknowledge => "acknowledgement without cause",
            QpackError::BadIncrement => "impossible increment",
        })
    }
}

impl std::error::Error for QpackError {}

#[cfg(test)]
mod tests;

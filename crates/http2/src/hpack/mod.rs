//! HPACK (RFC 7541): field lists as blocks of bytes, with a table that both ends keep in step.
//!
//! Place in the walk: the machine joins the fragments of HEADERS and CONTINUATION and lends the
//! whole block to [`Decoder::decode`], which hands each field to a [`FieldSink`]; on the way out
//! [`Encoder`] appends representations to the frame that is being written.
//!
//! The one difficulty: a browser's second request is mostly references into the table, so all that
//! can be said about a field is found out when its entry is made ([`NameKind`]: which field it is,
//! and whether RFC 9113 allows it at all), and a reference costs a look-up, no more.
//!
//! Absent on purpose: limits on the size of a field list (the sink counts), and what a field may
//! not be indexed for (the caller knows).

mod decoder;
mod encoder;
mod static_table;

pub use decoder::Decoder;
pub use encoder::{Encoder, encode_stateless, encode_status_stateless};
pub use saker_http_mux::{FieldEncoder, FieldSink, Indexing, NameKind};

use saker_http_mux::CodingError;
use std::fmt;

/// Why a block can't be decoded. The table state is lost with it, so that each ends the connection
/// (RFC 9113 section 4.3): as COMPRESSION_ERROR, except `Stopped`, whose reason the sink has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The sink asked to stop.
    Stopped,
    /// The block ends within a representation.
    Truncated,
    /// An integer above 2^32-1, or spread over more bytes than such a one needs (RFC 7541 section
    /// 5.1).
    IntegerTooLarge,
    /// An indexed field with index 0 (section 6.1).
    IndexZero,
    /// An index beyond both tables (section 2.3.3).
    IndexBeyondTable,
    /// The code of EOS within a string (section 5.2).
    HuffmanEndOfString,
    /// Padding of more than 7 bits, or not the beginning of EOS (section 5.2).
    HuffmanPadding,
    /// A size update after the first field of a block (section 4.2).
    SizeUpdateLate,
    /// A size update above SETTINGS_HEADER_TABLE_SIZE (section 6.3).
    SizeUpdateTooLarge,
    /// No size update though SETTINGS_HEADER_TABLE_SIZE had become smaller than the table (section
    /// 4.2).
    SizeUpdateMissing,
}

impl HpackError {
    /// In a few words, for the log.
    pub fn reason(self) -> &'static str {
        match self {
            HpackError::Stopped => "field list refused",
            HpackError::Truncated => "field block ends too early",
            HpackError::IntegerTooLarge => "integer too large",
            HpackError::IndexZero => "table index 0",
            HpackError::IndexBeyondTable => "index beyond the tables",
            HpackError::HuffmanEndOfString => "EOS within a Huffman string",
            HpackError::HuffmanPadding => "invalid Huffman padding",
            HpackError::SizeUpdateLate => "table size update after a field",
            HpackError::SizeUpdateTooLarge => "table size update above the limit",
            HpackError::SizeUpdateMissing => "table size update missing",
        }
    }
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for HpackError {}

impl From<CodingError> for HpackError {
    fn from(error: CodingError) -> Self {
        match error {
            CodingError::Truncated => HpackError::Truncated,
            CodingError::IntegerTooLarge => HpackError::IntegerTooLarge,
            CodingError::HuffmanEndOfString => HpackError::HuffmanEndOfString,
            CodingError::HuffmanPadding => HpackError::HuffmanPadding,
        }
    }
}

#[cfg(test)]
mod tests;

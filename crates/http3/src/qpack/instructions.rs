//! Instructions on the encoder and decoder streams (RFC 9204 sections 4.3 and 4.4): how they are
//! told apart, where each ends, and what waits for its end.
//!
//! The one difficulty: an instruction may come in any number of parts. Where it ends follows from
//! its lengths alone, so nothing is decoded twice, and what waits is bounded, because a string that
//! could never fit the table is refused by its length.

use super::QpackError;
use saker_http_mux::integer::Cursor;

/// An entry of so many bytes may take more than that in the Huffman code, whose longest code is 30
/// bits.
const CODED_BYTES_FACTOR: usize = 4;

/// RFC 9204 section 4.3: what an encoder says.
pub(super) mod to_decoder {
    /// Pattern, and mask of the integer: Insert with Name Reference, T set for the static table.
    pub const INSERT_WITH_NAME: (u8, u8) = (0x80, 0x3f);
    pub const STATIC: u8 = 0x40;
    /// Insert with Literal Name; the bit above the mask is the Huffman code's.
    pub const INSERT: (u8, u8) = (0x40, 0x1f);
    pub const SET_CAPACITY: (u8, u8) = (0x20, 0x1f);
    pub const DUPLICATE: (u8, u8) = (0x00, 0x1f);
}

/// RFC 9204 section 4.4: what a decoder says.
pub(super) mod to_encoder {
    pub const ACKNOWLEDGE: (u8, u8) = (0x80, 0x7f);
    pub const CANCEL: (u8, u8) = (0x40, 0x3f);
    pub const INCREMENT: (u8, u8) = (0x00, 0x3f);
}

/// Pattern and mask of string literals.
pub(super) const STRING: (u8, u8) = (0x00, 0x7f);

/// Bytes of an instruction whose end has not come.
#[derive(Default)]
pub(super) struct Unfinished(Vec<u8>);

impl Unfinished {
    /// Calls `obey` with each whole instruction of what was left and `input`, and keeps the rest.
    /// `length` says where the instruction ends that its argument begins with.
    pub fn each(
        &mut self,
        mut input: &[u8],
        length: impl Fn(&[u8]) -> Result<Option<usize>, QpackError>,
        mut obey: impl FnMut(&[u8]) -> Result<(), QpackError>,
    ) -> Result<(), QpackError> {
        while !self.0.is_empty() {
            // By single bytes at worst, of which the lengths take few; then the whole rest at once.
            let known = length(&self.0)?;
            let missing = known.map_or(1, |len| len.saturating_sub(self.0.len()));
            if known.is_some() && missing == 0 {
                obey(&self.0)?;
                self.0 = Vec::new();
                break;
            }
            if input.is_empty() {
                return Ok(());
            }
            let (taken, rest) = input.split_at(missing.clamp(1, input.len()));
            self.0.extend_from_slice(taken);
            input = rest;
        }
        while !input.is_empty() {
            let Some((instruction, rest)) =
                length(input)?.and_then(|len| input.split_at_checked(len))
            else {
                self.0 = input.to_vec();
                break;
            };
            obey(instruction)?;
            input = rest;
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Length of the instruction at the start of `input`, one of those to a decoder with a table of
/// `capacity`; `None` if more bytes are needed to tell.
pub(super) fn length_to_decoder(
    input: &[u8],
    capacity: usize,
) -> Result<Option<usize>, QpackError> {
    let mut cursor = Cursor::new(input);
    match measure(&mut cursor, capacity) {
        Ok(behind) => Ok(Some(input.len() - cursor.remaining() + behind)),
        Err(QpackError::Truncated) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Goes over the lengths. The last string need not be there: how long it is.
fn measure(cursor: &mut Cursor<'_>, capacity: usize) -> Result<usize, QpackError> {
    let first = cursor.byte().ok_or(QpackError::Truncated)?;
    if first & to_decoder::INSERT_WITH_NAME.0 != 0 {
        cursor.long_integer(first, to_decoder::INSERT_WITH_NAME.1)?;
    } else if first & to_decoder::INSERT.0 != 0 {
        let len = string_length(cursor, first, to_decoder::INSERT.1, capacity)?;
        cursor.take(len)?;
    } else {
        cursor.long_integer(first, to_decoder::SET_CAPACITY.1)?;
        return Ok(0);
    }
    let first = cursor.byte().ok_or(QpackError::Truncated)?;
    string_length(cursor, first, STRING.1, capacity)
}

fn string_length(
    cursor: &mut Cursor<'_>,
    first: u8,
    mask: u8,
    capacity: usize,
) -> Result<usize, QpackError> {
    let len = cursor.integer(first, mask)?;
    let max = if first & (mask + 1) == 0 {
        capacity
    } else {
        capacity.saturating_mul(CODED_BYTES_FACTOR)
    };
    if len > max {
        Err(QpackError::EntryTooLarge)
    } else {
        Ok(len)
    }
}

/// The same of those to an encoder, which are integers.
pub(super) fn length_to_encoder(input: &[u8]) -> Result<Option<usize>, QpackError> {
    let mut cursor = Cursor::new(input);
    match number_to_encoder(&mut cursor) {
        Ok(_) => Ok(Some(input.len() - cursor.remaining())),
        Err(QpackError::Truncated) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The integer of an instruction to an encoder.
pub(super) fn number_to_encoder(cursor: &mut Cursor<'_>) -> Result<u64, QpackError> {
    let first = cursor.byte().ok_or(QpackError::Truncated)?;
    let mask = if first & to_encoder::ACKNOWLEDGE.0 != 0 {
        to_encoder::ACKNOWLEDGE.1
    } else {
        to_encoder::CANCEL.1
    };
    Ok(cursor.long_integer(first, mask)?)
}

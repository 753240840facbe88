//! The quick parser of heads: whole heads without a fault, in one pass over their bytes.
//!
//! [`crate::request`] asks it first, and [`crate::client`] reads responses with its cursor. It accepts a part of what
//! [`crate::strict`] (for responses: httparse) accepts, understands the same by it (tests compare
//! them), and gives up at the first thing that is rare, incomplete or wrong: which of them it is,
//! and who gets to hear what, is not its business. The difficulty is speed: values and targets
//! are looked at eight bytes at a time.

use saker_http::{FieldSpan, HeadIndex, Method, Span, Version};

use crate::limits::{METHOD_BYTES_MAX, RequestLimits};
use crate::octets;

/// Parses the head at the start of `bytes` into a cleared `index`; returns its length. `None`: look
/// closer. `bytes` reach at most one byte beyond the limit on heads.
pub(crate) fn parse(bytes: &[u8], limits: &RequestLimits, index: &mut HeadIndex) -> Option<usize> {
    let mut cursor = Cursor::new(bytes);
    request_line(&mut cursor, limits, index)?;
    let mut lines_left = limits.header_count_cap();
    while !cursor.skip(b"\r\n") {
        lines_left = lines_left.checked_sub(1)?;
        let field = field_line(&mut cursor)?;
        if field.byte_count() > limits.field_bytes_max {
            return None;
        }
        index.push(bytes, field);
    }
    (cursor.at <= limits.head_bytes_cap()).then_some(cursor.at)
}

/// RFC 9112 section 3.
fn request_line(
    cursor: &mut Cursor<'_>,
    limits: &RequestLimits,
    index: &mut HeadIndex,
) -> Option<()> {
    index.method_token = cursor.token()?;
    index.method = Method::from_token(index.method_token.of(cursor.bytes));
    index.target = if cursor.skip(b" ") {
        cursor.run::<TARGET_MIN>()
    } else {
        return None;
    };
    index.version = match () {
        () if cursor.skip(b" HTTP/1.1\r\n") => Version::Http11,
        () if cursor.skip(b" HTTP/1.0\r\n") => Version::Http10,
        () => return None,
    };
    let (method_bytes, target_bytes) = (index.method_token.len as usize, index.target.len as usize);
    (method_bytes <= METHOD_BYTES_MAX
        && target_bytes > 0
        && target_bytes <= limits.target_bytes_max)
        .then_some(())
}

/// RFC 9112 section 5. Part of both parsers' loops: as a function of its own it cost requests a
/// fifth more instructions for parsing.
#[inline(always)]
pub(crate) fn field_line(cursor: &mut Cursor<'_>) -> Option<FieldSpan> {
    let name = cursor.token()?;
    if !cursor.skip(b":") {
        return None;
    }
    while cursor.first().is_some_and(octets::is_ows) {
        cursor.at += 1;
    }
    let mut value = cursor.run::<VALUE_MIN>();
    while cursor.skip(b"\t") {
        value.len += 1 + cursor.run::<VALUE_MIN>().len;
    }
    while value
        .of(cursor.bytes)
        .last()
        .is_some_and(|byte| octets::is_ows(*byte))
    {
        value.len -= 1;
    }
    if !cursor.skip(b"\r\n") {
        return None;
    }
    Some(FieldSpan { name, value })
}

/// The least byte that may stand in a request-target, as far as the request line is concerned; 0x7f
/// may not.
const TARGET_MIN: u8 = b'!';
/// The same of field values, tabs aside.
pub(crate) const VALUE_MIN: u8 = b' ';

const ONES: u64 = u64::from_le_bytes([0x01; 8]);
const HIGH_BITS: u64 = u64::from_le_bytes([0x80; 8]);

/// A place in the head. Its bytes are at most 1 GiB, so 32-bit spans hold.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn first(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(crate) fn skip<const N: usize>(&mut self, text: &[u8; N]) -> bool {
        let is_next = self.rest().first_chunk() == Some(text);
        self.at += if is_next { N } else { 0 };
        is_next
    }

    /// `None` where there is none.
    #[inline(always)]
    fn token(&mut self) -> Option<Span> {
        let len = octets::run_length(self.rest(), &octets::TOKEN);
        (len > 0).then(|| self.span(len))
    }

    /// The run of bytes from `MIN` up, 0x7f not among them.
    pub(crate) fn run<const MIN: u8>(&mut self) -> Span {
        self.span(run_length::<MIN>(self.rest()))
    }

    fn span(&mut self, len: usize) -> Span {
        let span = Span {
            start: self.at as u32,
            len: len as u32,
        };
        self.at += len;
        span
    }
}

fn run_length<const MIN: u8>(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let stops = stops::<MIN>(u64::from_le_bytes(*word));
        if stops != 0 {
            return at * 8 + stops.trailing_zeros() as usize / 8;
        }
    }
    let in_tail = tail.iter().position(|byte| *byte < MIN || *byte == 0x7f);
    bytes.len() - tail.len() + in_tail.unwrap_or(tail.len())
}

/// The high bit of each byte that ends a run. Exact for the lowest of them only: a subtraction
/// borrows from the bytes above.
fn stops<const MIN: u8>(word: u64) -> u64 {
    let below = word.wrapping_sub(ONES * MIN as u64) & !word;
    let delete = word ^ (ONES * 0x7f);
    (below | (delete.wrapping_sub(ONES) & !delete)) & HIGH_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_same_byte_in_words_and_one_by_one() {
        for byte in 0..=255u8 {
            for (length, at) in (0..20).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let mut bytes = vec![0x80; length];
                bytes[at] = byte;
                let slow = |min| {
                    bytes
                        .iter()
                        .position(|byte| *byte < min || *byte == 0x7f)
                        .unwrap_or(length)
                };
                assert_eq!(
                    run_length::<TARGET_MIN>(&bytes),
                    slow(TARGET_MIN),
                    "{byte:#x} at {at} of {length}"
                );
                assert_eq!(
                    run_length::<VALUE_MIN>(&bytes),
                    slow(VALUE_MIN),
                    "{byte:#x} at {at} of {length}"
                );
            }
        }
    }

    #[test]
    fn two_ends_in_one_word_are_told_apart() {
        for (first, second) in [
            (b'\r', b'\n'),
            (0x7f, b' '),
            (b' ', 0x7f),
            (0, 0x7f),
            (0x7f, 0),
        ] {
            assert_eq!(
                run_length::<TARGET_MIN>(&[b'a', b'!', first, second, b'b', b'c', b'd', b'e']),
                2
            );
        }
    }
}

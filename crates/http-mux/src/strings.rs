//! String literals as a decoder reads them (RFC 7541 section 5.2, RFC 9204 section 4.1.2).
//!
//! The one difficulty: a string that stands in the block as it is must not be copied, one in the
//! Huffman code has to be put somewhere. So a [`Text`] says where it is, and [`Scratch`] holds
//! those that stand nowhere.

use std::ops::Range;

use crate::coding_error::CodingError;
use crate::huffman;
use crate::integer::Cursor;

/// A scratch buffer of more than this is given back after its block.
const SCRATCH_BYTES_KEPT: usize = 1024;

/// Location of a decoded string.
pub enum Text<'b> {
    Block(&'b [u8]),
    Scratch(Range<usize>),
}

/// Strings that don't stand anywhere as they are. Its bytes stay initialized, so that the next
/// string finds room without being cleared.
#[derive(Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    used: usize,
}

impl Scratch {
    /// Forgets the strings.
    #[inline]
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// The string that begins in `first`, whose length begins in the bits of `mask`, with the bit
    /// for the Huffman code above them.
    pub fn string<'b>(
        &mut self,
        first: u8,
        mask: u8,
        cursor: &mut Cursor<'b>,
    ) -> Result<Text<'b>, CodingError> {
        let len = cursor.integer(first, mask)?;
        let bytes = cursor.take(len)?;
        if first & (mask + 1) == 0 {
            return Ok(Text::Block(bytes));
        }
        let len = huffman::decode(bytes, self.room(huffman::decoded_len_max(len)))?;
        Ok(self.take(len))
    }

    pub fn copy<'b>(&mut self, text: &[u8]) -> Text<'b> {
        self.room(text.len()).copy_from_slice(text);
        self.take(text.len())
    }

    pub fn text<'a>(&'a self, text: &'a Text<'_>) -> &'a [u8] {
        match text {
            Text::Block(bytes) => bytes,
            Text::Scratch(range) => self.bytes.get(range.clone()).unwrap_or_default(),
        }
    }

    /// Gives back what a large string needed.
    pub fn shrink(&mut self) {
        if self.bytes.len() > SCRATCH_BYTES_KEPT {
            self.bytes = Vec::new();
        }
    }

    /// Bytes that the buffer occupies.
    pub fn bytes_held(&self) -> usize {
        self.bytes.capacity()
    }

    fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.used + len;
        if self.bytes.len() < end {
            self.bytes.resize(end.next_multiple_of(64), 0);
        }
        &mut self.bytes[self.used..end]
    }

    fn take<'b>(&mut self, len: usize) -> Text<'b> {
        let start = self.used;
        self.used += len;
        Text::Scratch(start..self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_strings_are_lent_and_coded_ones_decoded_beside_each_other() {
        let input = [
            0x02, b'a', b'b', 0x83, 0x18, 0xc6, 0x3f, 0x0b, 0x18, 0xc6, 0x3f,
        ];
        let (mut scratch, mut cursor) = (Scratch::default(), Cursor::new(&input));
        let mut texts = Vec::new();
        for mask in [0x7f, 0x7f, 0x07] {
            let first = cursor.byte().unwrap();
            texts.push(scratch.string(first, mask, &mut cursor).unwrap());
        }
        texts.push(scratch.copy(b"copied"));
        assert!(matches!(texts[0], Text::Block(_)));
        let read: Vec<&[u8]> = texts.iter().map(|text| scratch.text(text)).collect();
        assert_eq!(read, [&b"ab"[..], b"aaaa", b"aaaa", b"copied"]);
    }

    #[test]
    fn a_string_that_is_cut_off() {
        for input in [&[0x03, b'a', b'b'][..], &[0x7f], &[0x83, 0x18]] {
            let mut cursor = Cursor::new(input);
            let first = cursor.byte().unwrap();
            assert_eq!(
                Scratch::default().string(first, 0x7f, &mut cursor).err(),
                Some(CodingError::Truncated)
            );
        }
    }
}

//! Integers with a prefix of N bits (RFC 7541 section 5.1, RFC 9204 section 4.1.1), and what is
//! left of a block.

use crate::CodingError;

/// Bytes after the prefix: 5 times 7 bits hold 2^32-1. More would be zeros, with which a peer could
/// make us read for nothing.
const CONTINUATION_BYTES_MAX: u32 = 5;
/// The same for 2^62-1, which everyone has to read who speaks QPACK (RFC 9204 section 4.1.1).
const LONG_CONTINUATION_BYTES_MAX: u32 = 9;
const LONG_MAX: u64 = (1 << 62) - 1;

/// The part of a block that has not been decoded.
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(block: &'a [u8]) -> Self {
        Cursor { rest: block }
    }

    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The next byte, if it is such a one.
    pub fn byte_if(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u8> {
        if wanted(*self.rest.first()?) {
            self.byte()
        } else {
            None
        }
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], CodingError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(CodingError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The integer that began in `first`, whose lower bits are `mask`.
    #[inline]
    pub fn integer(&mut self, first: u8, mask: u8) -> Result<usize, CodingError> {
        let prefix = first & mask;
        if prefix < mask {
            Ok(usize::from(prefix))
        } else {
            self.continued(mask, CONTINUATION_BYTES_MAX, u32::MAX.into())
                .map(|value| value as usize)
        }
    }

    /// The same for one of up to 62 bits.
    #[inline]
    pub fn long_integer(&mut self, first: u8, mask: u8) -> Result<u64, CodingError> {
        let prefix = first & mask;
        if prefix < mask {
            Ok(u64::from(prefix))
        } else {
            self.continued(mask, LONG_CONTINUATION_BYTES_MAX, LONG_MAX)
        }
    }

    /// Number of bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[cold]
    #[inline(never)]
    fn continued(&mut self, mask: u8, bytes_max: u32, max: u64) -> Result<u64, CodingError> {
        let mut value = u64::from(mask);
        for place in 0..bytes_max {
            let byte = self.byte().ok_or(CodingError::Truncated)?;
            value += u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return if value <= max {
                    Ok(value)
                } else {
                    Err(CodingError::IntegerTooLarge)
                };
            }
        }
        Err(CodingError::IntegerTooLarge)
    }
}

/// Appends an integer; `pattern` are the bits above the prefix, `mask` the prefix.
#[inline]
pub fn encode(pattern: u8, mask: u8, value: usize, out: &mut Vec<u8>) {
    if value < usize::from(mask) {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | mask);
    let mut rest = value - usize::from(mask);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], mask: u8) -> Result<usize, CodingError> {
        let mut cursor = Cursor::new(bytes);
        let first = cursor.byte().ok_or(CodingError::Truncated)?;
        cursor.integer(first, mask)
    }

    /// RFC 7541 Appendix C.1, and the edges.
    #[test]
    fn there_and_back() {
        let rows: [(u8, usize, &[u8]); 9] = [
            (0x1f, 10, &[0x0a]),
            (0x1f, 1337, &[0x1f, 0x9a, 0x0a]),
            (0xff, 42, &[0x2a]),
            (0x1f, 30, &[0x1e]),
            (0x1f, 31, &[0x1f, 0]),
            (0x7f, 126, &[0x7e]),
            (0x7f, 254, &[0x7f, 0x7f]),
            (0x7f, 255, &[0x7f, 0x80, 0x01]),
            (
                0x0f,
                u32::MAX as usize,
                &[0x0f, 0xf0, 0xff, 0xff, 0xff, 0x0f],
            ),
        ];
        for (mask, value, bytes) in rows {
            let mut out = Vec::new();
            encode(0, mask, value, &mut out);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(decoded(bytes, mask), Ok(value));
        }
    }

    #[test]
    fn refused() {
        let rows: [(&[u8], CodingError); 6] = [
            (&[0x1f], CodingError::Truncated),
            (&[0x1f, 0x80], CodingError::Truncated),
            (
                &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
                CodingError::IntegerTooLarge,
            ),
            (
                &[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff],
                CodingError::IntegerTooLarge,
            ),
            (
                &[0x1f, 0xe1, 0xff, 0xff, 0xff, 0x0f],
                CodingError::IntegerTooLarge,
            ),
            (
                &[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f],
                CodingError::IntegerTooLarge,
            ),
        ];
        for (bytes, want) in rows {
            assert_eq!(decoded(bytes, 0x1f), Err(want), "{bytes:?}");
        }
        assert_eq!(
            decoded(&[0x1f, 0xe0, 0xff, 0xff, 0xff, 0x0f], 0x1f),
            Ok(u32::MAX as usize)
        );
        assert_eq!(
            decoded(&[0x1f, 0x80, 0x00], 0x1f),
            Ok(31),
            "a zero too many is still an integer"
        );
    }

    #[test]
    fn long_ones_have_62_bits() {
        let long = |value: u64| {
            let mut out = Vec::new();
            encode(0, 0x3f, value as usize, &mut out);
            let mut cursor = Cursor::new(&out);
            let first = cursor.byte().unwrap();
            (cursor.long_integer(first, 0x3f), cursor.remaining())
        };
        for value in [0, 62, 63, 64, 1 << 32, (1 << 62) - 2, (1 << 62) - 1] {
            assert_eq!(long(value), (Ok(value), 0));
        }
        assert_eq!(long(1 << 62).0, Err(CodingError::IntegerTooLarge));
        let endless = [0xff; 12];
        assert_eq!(
            Cursor::new(&endless).long_integer(0xff, 0xff),
            Err(CodingError::IntegerTooLarge)
        );
        assert_eq!(
            Cursor::new(&endless[..4]).long_integer(0xff, 0xff),
            Err(CodingError::Truncated)
        );
    }
}

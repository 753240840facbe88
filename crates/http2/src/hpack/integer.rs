//! Integers with a prefix of N bits (RFC 7541 section 5.1), and what is left of a block.

use super::HpackError;

/// Bytes after the prefix: 5 times 7 bits hold 2^32-1. More would be zeros, with which a peer could make us read for nothing.
const CONTINUATION_BYTES_MAX: u32 = 5;

/// The part of a block that has not been decoded.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(block: &'a [u8]) -> Self {
        Cursor { rest: block }
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The next byte, if it is such a one.
    pub(super) fn byte_if(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u8> {
        if wanted(*self.rest.first()?) { self.byte() } else { None }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], HpackError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(HpackError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The integer that began in `first`, whose lower bits are `mask`.
    #[inline]
    pub(super) fn integer(&mut self, first: u8, mask: u8) -> Result<usize, HpackError> {
        let prefix = first & mask;
        if prefix < mask { Ok(usize::from(prefix)) } else { self.continued(mask) }
    }

    #[cold]
    #[inline(never)]
    fn continued(&mut self, mask: u8) -> Result<usize, HpackError> {
        let mut value = u64::from(mask);
        for place in 0..CONTINUATION_BYTES_MAX {
            let byte = self.byte().ok_or(HpackError::Truncated)?;
            value += u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return u32::try_from(value).map(|value| value as usize).map_err(|_| HpackError::IntegerTooLarge);
            }
        }
        Err(HpackError::IntegerTooLarge)
    }
}

/// Appends an integer; `pattern` are the bits above the prefix, `mask` the prefix.
#[inline]
pub(super) fn encode(pattern: u8, mask: u8, value: usize, out: &mut Vec<u8>) {
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

    fn decoded(bytes: &[u8], mask: u8) -> Result<usize, HpackError> {
        let mut cursor = Cursor::new(bytes);
        let first = cursor.byte().ok_or(HpackError::Truncated)?;
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
            (0x0f, u32::MAX as usize, &[0x0f, 0xf0, 0xff, 0xff, 0xff, 0x0f]),
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
        let rows: [(&[u8], HpackError); 6] = [
            (&[0x1f], HpackError::Truncated),
            (&[0x1f, 0x80], HpackError::Truncated),
            (&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], HpackError::IntegerTooLarge),
            (&[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff], HpackError::IntegerTooLarge),
            (&[0x1f, 0xe1, 0xff, 0xff, 0xff, 0x0f], HpackError::IntegerTooLarge),
            (&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f], HpackError::IntegerTooLarge),
        ];
        for (bytes, want) in rows {
            assert_eq!(decoded(bytes, 0x1f), Err(want), "{bytes:?}");
        }
        assert_eq!(decoded(&[0x1f, 0xe0, 0xff, 0xff, 0xff, 0x0f], 0x1f), Ok(u32::MAX as usize));
        assert_eq!(decoded(&[0x1f, 0x80, 0x00], 0x1f), Ok(31), "a zero too many is still an integer");
    }
}

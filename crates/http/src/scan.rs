//! Runs of bytes of one class, sixteen bytes at a time.
//!
//! Called by: the parsers and encoders of heads, which ask for every name, value, and target of
//! every request. A processor compares sixteen bytes by one instruction (`wide` takes what it has).
//! Caveat: classes are few and fixed, since each is a handful of comparisons and not a table.
//! Out of scope: classes by table ([`crate::chars`]), and searching for one byte (`memchr`).

/// Bytes that end a run.
pub trait Class {
    /// True for a byte that ends the run.
    fn ends(byte: u8) -> bool;

    /// Place of the first such byte, 16 if there is none.
    fn first_of_16(block: &[u8; 16]) -> usize;
}

/// Letters, digits, and hyphens: almost all field names.
pub struct Plain;

/// Bytes from `MIN` up, 0x7f not among them.
pub struct From<const MIN: u8>;

/// Length of the run at the start of `bytes` that no byte of the class ends.
#[inline]
pub fn run_length<C: Class>(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(block) = block_at(bytes, at) {
        let first = C::first_of_16(block);
        at += first;
        if first < 16 {
            return at;
        }
    }
    at + short_run_length::<C>(bytes.get(at..).unwrap_or_default())
}

/// End of the run that begins at `at`. For long `bytes` with short runs in them: less code where it
/// is called than [`run_length`].
#[inline(always)]
pub fn run_end<C: Class>(bytes: &[u8], mut at: usize) -> usize {
    while let Some(block) = block_at(bytes, at) {
        let first = C::first_of_16(block);
        at += first;
        if first < 16 {
            return at;
        }
    }
    end_in_tail::<C>(bytes, at)
}

#[inline(never)]
fn end_in_tail<C: Class>(bytes: &[u8], at: usize) -> usize {
    at + short_run_length::<C>(bytes.get(at..).unwrap_or_default())
}

#[inline(always)]
fn block_at(bytes: &[u8], at: usize) -> Option<&[u8; 16]> {
    bytes.get(at..).and_then(<[u8]>::first_chunk)
}

/// [`run_length`] of fewer than sixteen bytes: one block of their first and their last ones, which
/// may overlap. Bytes that both have end no run: the first part says so.
#[inline]
fn short_run_length<C: Class>(bytes: &[u8]) -> usize {
    let (half, block) = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk())
    {
        (
            8,
            halves(u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        )
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        (4, halves(u64::from(first) | u64::from(last) << 32, LETTERS))
    } else {
        let ends = |byte: &u8| C::ends(*byte);
        return bytes.iter().position(ends).unwrap_or(bytes.len());
    };
    match C::first_of_16(&block) {
        at if at < half => at,
        at => bytes.len() + at.min(2 * half) - 2 * half,
    }
}

#[inline]
fn halves(low: u64, high: u64) -> [u8; 16] {
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}

/// End no run.
const LETTERS: u64 = u64::from_le_bytes([b'a'; 8]);

impl Class for Plain {
    #[inline]
    fn ends(byte: u8) -> bool {
        !byte.is_ascii_alphanumeric() && byte != b'-'
    }

    #[inline]
    fn first_of_16(block: &[u8; 16]) -> usize {
        lanes::first_odd(block)
    }
}

impl<const MIN: u8> Class for From<MIN> {
    #[inline]
    fn ends(byte: u8) -> bool {
        byte < MIN || byte == 0x7f
    }

    #[inline]
    fn first_of_16(block: &[u8; 16]) -> usize {
        lanes::first_below::<MIN>(block)
    }
}

mod lanes {
    use wide::u8x16;

    /// Place of the first byte below `MIN`, or 0x7f.
    #[inline]
    pub(super) fn first_below<const MIN: u8>(block: &[u8; 16]) -> usize {
        let bytes = u8x16::new(*block);
        let from_min = bytes.max(u8x16::splat(MIN)).simd_eq(bytes);
        let delete = bytes.simd_eq(u8x16::splat(0x7f));
        first_zero(!delete & from_min)
    }

    /// Place of the first byte that is neither letter nor digit nor hyphen.
    #[inline]
    pub(super) fn first_odd(block: &[u8; 16]) -> usize {
        let bytes = u8x16::new(*block);
        let is_letter = is_within(bytes | u8x16::splat(0x20), b'a', b'z');
        let is_digit = is_within(bytes, b'0', b'9');
        first_zero(is_letter | is_digit | bytes.simd_eq(u8x16::splat(b'-')))
    }

    #[inline]
    fn is_within(bytes: u8x16, first: u8, last: u8) -> u8x16 {
        let moved = bytes - u8x16::splat(first);
        moved.min(u8x16::splat(last - first)).simd_eq(moved)
    }

    #[inline]
    fn first_zero(lanes: u8x16) -> usize {
        (!lanes.to_bitmask()).trailing_zeros() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow<C: Class>(bytes: &[u8]) -> usize {
        let ends = |byte: &u8| C::ends(*byte);
        bytes.iter().position(ends).unwrap_or(bytes.len())
    }

    fn check<C: Class>(fill: u8) {
        for byte in 0..=255u8 {
            for (length, at) in (0..40).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let mut bytes = vec![fill; length];
                bytes[at] = byte;
                let want = slow::<C>(&bytes);
                assert_eq!(
                    run_length::<C>(&bytes),
                    want,
                    "{byte:#x} at {at} of {length}"
                );
                let behind = [&[0], &bytes[..]].concat();
                assert_eq!(run_end::<C>(&behind, 1), 1 + want, "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn a_run_ends_at_the_same_byte_in_blocks_and_one_by_one() {
        for fill in [b'a', b'Z', b'-', b'0'] {
            check::<Plain>(fill);
            check::<From<b' '>>(fill);
            check::<From<b'!'>>(fill);
        }
        check::<From<b' '>>(0x80);
        check::<From<b'!'>>(0xff);
    }

    /// Two bytes that end a run, next to each other: the first counts.
    #[test]
    fn the_first_of_several_ends_counts() {
        for one in 0..=255u8 {
            for other in [0, b'\t', b'\r', b' ', b':', 0x7f, 0x80, 0xff] {
                for length in [8, 12, 16, 20, 33] {
                    let mut bytes = vec![b'a'; length];
                    bytes[length / 2] = one;
                    bytes[length / 2 + 1] = other;
                    assert_eq!(run_length::<Plain>(&bytes), slow::<Plain>(&bytes));
                    assert_eq!(run_length::<From<b' '>>(&bytes), slow::<From<b' '>>(&bytes));
                    assert_eq!(run_length::<From<b'!'>>(&bytes), slow::<From<b'!'>>(&bytes));
                }
            }
        }
    }
}

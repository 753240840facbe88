//! Reads and writes big-endian numbers. Missing bytes are `None`, never a panic.

/// Two bytes at `at`.
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// Three bytes at `at`.
pub fn be24(bytes: &[u8], at: usize) -> Option<u32> {
    array::<3>(bytes, at).map(|[high, middle, low]| u32::from_be_bytes([0, high, middle, low]))
}

/// Four bytes at `at`.
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

/// Eight bytes at `at`.
pub fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_be_bytes)
}

/// So many bytes at `at`.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Overwrites bytes at `at`, as far as they are there.
pub fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = at
        .checked_add(value.len())
        .and_then(|end| bytes.get_mut(at..end))
    {
        place.copy_from_slice(value);
    }
}

/// Returns `value * factor / divisor`, rounded to the nearest integer and clamped to an `i64`; a
/// divisor of 0 counts as 1.
pub fn scale(value: i64, factor: u32, divisor: u32) -> i64 {
    let divisor = i128::from(divisor.max(1));
    let product = i128::from(value) * i128::from(factor);
    let rounded = (product + product.signum() * (divisor / 2)) / divisor;
    i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!((be16(&bytes, 6), be16(&bytes, 7)), (Some(0x708), None));
        assert_eq!(
            (be24(&bytes, 5), be24(&bytes, 6)),
            (Some(0x0006_0708), None)
        );
        assert_eq!(
            (be32(&bytes, 4), be32(&bytes, 5), be32(&bytes, usize::MAX)),
            (Some(0x0506_0708), None, None)
        );
        assert_eq!(be64(&bytes, 0), Some(0x0102_0304_0506_0708));
    }

    #[test]
    fn scales_round_and_saturate() {
        for (value, factor, divisor, expected) in [
            (1, 1, 2, 1),
            (-1, 1, 2, -1),
            (1, 1, 3, 0),
            (90_000, 48_000, 90_000, 48_000),
            (7, 3, 0, 21),
            (i64::MIN, 9, 1, i64::MIN),
        ] {
            assert_eq!(
                scale(value, factor, divisor),
                expected,
                "{value} {factor} {divisor}"
            );
        }
    }
}

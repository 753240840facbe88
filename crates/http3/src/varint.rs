//! Variable-length integers (RFC 9000 section 16).

/// The largest that can be written.
pub const MAX: u64 = (1 << 62) - 1;

/// The integer at the beginning, and its length in bytes; `None`: not all of it is there.
#[inline]
pub fn parse(input: &[u8]) -> Option<(u64, usize)> {
    let first = *input.first()?;
    let len = 1usize << (first >> 6);
    let rest = input.get(1..len)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| {
        value << 8 | u64::from(*byte)
    });
    Some((value, len))
}

/// Number of bytes an integer takes.
#[inline]
pub fn len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends an integer of up to [`MAX`] in as few bytes as it takes.
#[inline]
pub fn write(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= MAX);
    match len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 section A.1, and the edges.
    #[test]
    fn there_and_back() {
        let rows: [(u64, &[u8]); 9] = [
            (
                151_288_809_941_952_652,
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
            ),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
            (63, &[0x3f]),
            (64, &[0x40, 0x40]),
            (16_384, &[0x80, 0, 0x40, 0]),
            (1 << 30, &[0xc0, 0, 0, 0, 0x40, 0, 0, 0]),
            (MAX, &[0xff; 8]),
        ];
        for (value, bytes) in rows {
            let mut out = Vec::new();
            write(value, &mut out);
            assert_eq!((&out[..], len(value)), (bytes, bytes.len()));
            assert_eq!(parse(bytes), Some((value, bytes.len())));
            assert_eq!(
                parse(&[bytes, &[1, 2]].concat()),
                Some((value, bytes.len()))
            );
            assert!((0..bytes.len()).all(|cut| parse(&bytes[..cut]).is_none()));
        }
        assert_eq!(parse(&[0x40, 0x25]), Some((37, 2)), "not the shortest form");
    }
}

//! Kinds of fields, found out once: when a table entry is made, or for a literal that makes none.
//!
//! The one difficulty: values come with nearly every request, so they are looked at 8 bytes at a
//! time.

use saker_http::{KnownField, chars::is_token_char};

/// Which field it is. Every kind but `Malformed` says that name and value are what RFC 9113 section
/// 8.2.1 allows, and RFC 9114 section 4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    Method,
    Scheme,
    Authority,
    Path,
    Status,
    /// `:protocol` of extended CONNECT (RFC 8441, RFC 9220).
    Protocol,
    /// Begins with a colon and is none of the above.
    OtherPseudo,
    Known(KnownField),
    /// A lower-case token that the server has no name for.
    Other,
    /// The name is empty, in upper case or no token, or the value has a control character or white
    /// space at an end.
    Malformed,
}

impl NameKind {
    /// Classifies a field by its name alone.
    pub fn of_name(name: &[u8]) -> NameKind {
        match name {
            [b':', ..] => pseudo(name),
            [] => NameKind::Malformed,
            _ if !name.iter().all(|byte| is_name_char(*byte)) => NameKind::Malformed,
            _ => KnownField::classify(name).map_or(NameKind::Other, NameKind::Known),
        }
    }

    /// The kind of a field with such a name and this value.
    #[inline]
    pub fn with_value(self, value: &[u8]) -> NameKind {
        if is_field_value(value) {
            self
        } else {
            NameKind::Malformed
        }
    }
}

fn pseudo(name: &[u8]) -> NameKind {
    match name {
        b":method" => NameKind::Method,
        b":scheme" => NameKind::Scheme,
        b":authority" => NameKind::Authority,
        b":path" => NameKind::Path,
        b":status" => NameKind::Status,
        b":protocol" => NameKind::Protocol,
        _ => NameKind::OtherPseudo,
    }
}

fn is_name_char(byte: u8) -> bool {
    is_token_char(byte) && !byte.is_ascii_uppercase()
}

/// RFC 9110 section 5.5 without the white space around, which RFC 9113 section 8.2.1 forbids.
fn is_field_value(value: &[u8]) -> bool {
    let blank = |end: Option<&u8>| matches!(end, Some(b' ' | b'\t'));
    !blank(value.first())
        && !blank(value.last())
        && (no_control(value) || value.iter().all(|byte| is_value_char(*byte)))
}

fn is_value_char(byte: u8) -> bool {
    (byte >= b' ' && byte != 0x7f) || byte == b'\t'
}

/// True if there is no byte below space (tabs included, which are rare: the caller looks again) and
/// no DEL.
fn no_control(value: &[u8]) -> bool {
    let (words, rest) = value.as_chunks::<8>();
    let suspects = words.iter().fold(0, |suspects, word| {
        suspects | control_bits(u64::from_ne_bytes(*word))
    });
    match value.last_chunk::<8>() {
        Some(last) => suspects | control_bits(u64::from_ne_bytes(*last)) == 0,
        None => rest.iter().all(|byte| *byte >= b' ' && *byte != 0x7f),
    }
}

/// Not 0 if a byte of the word is below 0x20 or is 0x7f: both by borrowing into a byte's highest
/// bit.
fn control_bits(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let deleted = word ^ (ONES * 0x7f);
    ((word.wrapping_sub(ONES * 0x20) & !word) | (deleted.wrapping_sub(ONES) & !deleted))
        & (ONES * 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let rows: [(&[u8], NameKind); 14] = [
            (b":method", NameKind::Method),
            (b":scheme", NameKind::Scheme),
            (b":authority", NameKind::Authority),
            (b":path", NameKind::Path),
            (b":status", NameKind::Status),
            (b":protocol", NameKind::Protocol),
            (b":Path", NameKind::OtherPseudo),
            (b":", NameKind::OtherPseudo),
            (b"host", NameKind::Known(KnownField::Host)),
            (b"x-forwarded-for", NameKind::Other),
            (b"Host", NameKind::Malformed),
            (b"a b", NameKind::Malformed),
            (b"a:b", NameKind::Malformed),
            (b"", NameKind::Malformed),
        ];
        for (name, want) in rows {
            assert_eq!(NameKind::of_name(name), want, "{name:?}");
        }
    }

    /// Each byte at each place of values around the size of a word.
    #[test]
    fn value_bytes_at_every_place() {
        for len in 1..=20 {
            for (at, byte) in (0..len).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                let mut value = vec![b'a'; len];
                value[at] = byte;
                let at_end = at == 0 || at == len - 1;
                let want = if matches!(byte, b' ' | b'\t') {
                    !at_end
                } else {
                    byte > b' ' && byte != 0x7f
                };
                assert_eq!(is_field_value(&value), want, "{value:?}");
            }
        }
        assert!(is_field_value(b""));
    }

    #[test]
    fn a_kind_is_one_byte() {
        assert_eq!(size_of::<NameKind>(), 1);
    }
}

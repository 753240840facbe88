//! Byte classes of RFC 9110 section 5.6.2 and 5.5 as tables.
//!
//! `saker_http::chars` answers the same questions for one byte at a time; the machine asks for
//! whole runs, on every head that goes out and on every head that is not plain, so here they are
//! one load each.

use saker_http::Span;

/// A set of bytes.
pub(crate) type Class = [bool; 256];

/// `tchar`: methods, field names, transfer codings.
pub(crate) static TOKEN: Class = class(Kind::Token);
/// Bytes of a field value: HTAB, SP, VCHAR, obs-text.
pub(crate) static FIELD_VALUE: Class = class(Kind::FieldValue);
/// Bytes of a request-target as far as the request line is concerned: anything but SP and controls.
pub(crate) static TARGET: Class = class(Kind::Target);

#[derive(Clone, Copy)]
enum Kind {
    Token,
    FieldValue,
    Target,
}

/// Length of the run of bytes of that class at the start.
pub(crate) fn run_length(bytes: &[u8], class: &Class) -> usize {
    bytes
        .iter()
        .position(|byte| !class[usize::from(*byte)])
        .unwrap_or(bytes.len())
}

/// Optional white space (RFC 9110 section 5.6.3): unlike `trim_ascii`, form feed and line ends are
/// not part of it.
pub(crate) fn is_ows(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

pub(crate) fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_ows(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_ows(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Members of a comma list, empty ones included; quoted strings are not looked into, so only for
/// lists of tokens.
pub(crate) fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim_ows)
}

/// Place of `part` in `bytes`, of which it is a sub-slice. Both machines limit `bytes` to 1 GiB.
pub(crate) fn span_in(bytes: &[u8], part: &[u8]) -> Span {
    let start = (part.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
    debug_assert!(start + part.len() <= bytes.len());
    Span {
        start: start as u32,
        len: part.len() as u32,
    }
}

/// True if the line before `line` ended in CRLF.
pub(crate) fn follows_crlf(bytes: &[u8], line: Span) -> bool {
    let start = line.start as usize;
    bytes.get(start.wrapping_sub(2)..start) == Some(b"\r\n")
}

const fn class(kind: Kind) -> Class {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = member(kind, byte as u8);
        byte += 1;
    }
    table
}

const fn member(kind: Kind, byte: u8) -> bool {
    match kind {
        Kind::Token => {
            byte.is_ascii_alphanumeric()
                || matches!(
                    byte,
                    b'!' | b'#'
                        | b'$'
                        | b'%'
                        | b'&'
                        | b'\''
                        | b'*'
                        | b'+'
                        | b'-'
                        | b'.'
                        | b'^'
                        | b'_'
                        | b'`'
                        | b'|'
                        | b'~'
                )
        }
        Kind::FieldValue => byte == b'\t' || (byte >= b' ' && byte != 0x7f),
        Kind::Target => byte > b' ' && byte != 0x7f,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_class_agrees_with_the_http_crate() {
        for byte in 0..=255u8 {
            assert_eq!(
                TOKEN[usize::from(byte)],
                saker_http::chars::is_token_char(byte),
                "byte {byte:#x}"
            );
        }
    }

    #[test]
    fn only_sp_and_htab_are_optional_white_space() {
        assert_eq!(trim_ows(b" \t a b\t "), b"a b");
        assert_eq!(trim_ows(b"\x0ba\x0c"), b"\x0ba\x0c");
        assert_eq!(trim_ows(b" \t"), b"");
    }

    #[test]
    fn list_members_keep_empty_ones() {
        assert_eq!(
            list_members(b" a ,,b").collect::<Vec<_>>(),
            [&b"a"[..], b"", b"b"]
        );
    }
}

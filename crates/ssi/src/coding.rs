//! `encoding` and `decoding`: lists of codings applied to values.
//!
//! Called by: `elements`.
//! Caveat: values are C strings in Apache, so a decoded value ends at its first NUL; and character
//! entities are those of Latin-1, which become one byte each, whatever the page's charset.

use saker_ap_expr::{base64_decode, base64_encode, escape_uri, unescape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Decode,
    Encode,
}

/// Applies the codings named in `list` to `value`, one after the other. The error is the unknown
/// name.
pub fn apply(
    direction: Direction,
    list: &[u8],
    value: Vec<u8>,
) -> Result<Vec<u8>, (Vec<u8>, String)> {
    let mut value = value;
    let names = list
        .split(|byte| matches!(byte, b',' | b' ' | b'\t'))
        .filter(|name| !name.is_empty());
    for name in names {
        value = match (name.to_ascii_lowercase().as_slice(), direction) {
            (b"none", _) => value,
            (b"url", Direction::Decode) => until_nul(unescape(&value, false).0),
            (b"url", Direction::Encode) => escape_uri(&value),
            (b"urlencoded", Direction::Decode) => until_nul(form_decoded(&value)),
            (b"urlencoded", Direction::Encode) => form_encoded(&value),
            (b"entity", Direction::Decode) => until_nul(without_entities(&value)),
            (b"entity", Direction::Encode) => html(&value),
            (b"base64", Direction::Decode) => until_nul(base64_decode(&value)),
            (b"base64", Direction::Encode) => base64_encode(&value),
            _ => return Err((value, String::from_utf8_lossy(name).into_owned())),
        };
    }
    Ok(value)
}

fn until_nul(mut value: Vec<u8>) -> Vec<u8> {
    value.truncate(
        value
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(value.len()),
    );
    value
}

/// Escapes only characters that could be markup; non-ASCII bytes are unchanged.
pub fn html(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 16);
    for byte in value {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            byte => out.push(*byte),
        }
    }
    out
}

fn form_encoded(value: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut out = Vec::with_capacity(value.len() + 16);
    for byte in value {
        match byte {
            b' ' => out.push(b'+'),
            b'.' | b'-' | b'*' | b'_' => out.push(*byte),
            byte if byte.is_ascii_alphanumeric() => out.push(*byte),
            byte => out.extend(
                [b'%'].into_iter().chain(
                    [byte >> 4, byte & 15]
                        .map(|digit| HEX.get(usize::from(digit)).copied().unwrap_or(b'0')),
                ),
            ),
        }
    }
    out
}

fn form_decoded(value: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = value
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    unescape(&spaced, false).0
}

/// Longest name of an entity of Latin-1.
const ENTITY_BYTES_MAX: usize = 6;

/// Replaces entities of Latin-1 by their bytes. Unknown ones stay; invalid character numbers are
/// removed.
pub fn without_entities(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'&') {
        let (before, reference) = rest.split_at(at);
        out.extend_from_slice(before);
        let Some(end) = reference.iter().position(|byte| *byte == b';') else {
            out.extend_from_slice(reference);
            return out;
        };
        let name = reference.get(1..end).unwrap_or_default();
        let taken = match name.strip_prefix(b"#") {
            Some(digits) => {
                out.extend(numbered(digits));
                end + 1
            }
            None => match named(name) {
                Some(byte) => {
                    out.push(byte);
                    end + 1
                }
                None => {
                    out.push(b'&');
                    1
                }
            },
        };
        rest = reference.get(taken..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

fn numbered(digits: &[u8]) -> Option<u8> {
    let number: u8 = std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()?;
    (!matches!(number, 0..=8 | 11..=31 | 127..=160)).then_some(number)
}

fn named(name: &[u8]) -> Option<u8> {
    if name.len() > ENTITY_BYTES_MAX {
        return None;
    }
    ENTITIES
        .iter()
        .find(|(known, _)| known.as_bytes() == name)
        .map(|(_, byte)| *byte)
}

/// Names of HTML 2.0 for markup and for Latin-1 from 192 up.
const ENTITIES: &[(&str, u8)] = &[
    ("lt", b'<'),
    ("gt", b'>'),
    ("amp", b'&'),
    ("quot", b'"'),
    ("Agrave", 192),
    ("Aacute", 193),
    ("Acirc", 194),
    ("Atilde", 195),
    ("Auml", 196),
    ("Aring", 197),
    ("AElig", 198),
    ("Ccedil", 199),
    ("Egrave", 200),
    ("Eacute", 201),
    ("Ecirc", 202),
    ("Euml", 203),
    ("Igrave", 204),
    ("Iacute", 205),
    ("Icirc", 206),
    ("Iuml", 207),
    ("ETH", 208),
    ("Ntilde", 209),
    ("Oacute", 211),
    ("Ocirc", 212),
    ("Otilde", 213),
    ("Ouml", 214),
    ("Oslash", 216),
    ("Ugrave", 217),
    ("Uacute", 218),
    ("Ucirc", 219),
    ("Uuml", 220),
    ("Yacute", 221),
    ("THORN", 222),
    ("szlig", 223),
    ("agrave", 224),
    ("aacute", 225),
    ("acirc", 226),
    ("atilde", 227),
    ("auml", 228),
    ("aring", 229),
    ("aelig", 230),
    ("ccedil", 231),
    ("egrave", 232),
    ("eacute", 233),
    ("ecirc", 234),
    ("euml", 235),
    ("igrave", 236),
    ("iacute", 237),
    ("icirc", 238),
    ("iuml", 239),
    ("eth", 240),
    ("ntilde", 241),
    ("oacute", 243),
    ("ocirc", 244),
    ("otilde", 245),
    ("ouml", 246),
    ("oslash", 248),
    ("ugrave", 249),
    ("uacute", 250),
    ("ucirc", 251),
    ("uuml", 252),
    ("yacute", 253),
    ("thorn", 254),
    ("yuml", 255),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let cases: [(Direction, &str, &[u8], &[u8]); 12] = [
            (
                Direction::Encode,
                "entity",
                b"<a href=\"x\">&'\xe4",
                b"&lt;a href=&quot;x&quot;&gt;&amp;'\xe4",
            ),
            (Direction::Encode, "url", b"a b?c/d%", b"a%20b%3fc/d%25"),
            (
                Direction::Encode,
                "urlencoded",
                b"a b?c/d-_.*~",
                b"a+b%3fc%2fd-_.*%7e",
            ),
            (Direction::Encode, "base64", b"foob", b"Zm9vYg=="),
            (Direction::Encode, "URL, entity", b"<", b"%3c"),
            (Direction::Encode, "entity\turl", b"<", b"&lt;"),
            (Direction::Decode, "url", b"a%20b+%zz%2f", b"a b+%zz/"),
            (Direction::Decode, "url", b"a%00b", b"a"),
            (Direction::Decode, "urlencoded", b"a%20b+c", b"a b c"),
            (Direction::Decode, "base64", b"Zm9vYg==", b"foob"),
            (
                Direction::Decode,
                "entity",
                b"&lt;&auml;&#65;&#0;&#300;&nope;&amp",
                b"<\xe4A&nope;&amp",
            ),
            (Direction::Decode, "none, ,", b"x", b"x"),
        ];
        for (direction, list, value, expected) in cases {
            let shown = apply(direction, list.as_bytes(), value.to_vec());
            assert_eq!(shown, Ok(expected.to_vec()), "{direction:?} {list}");
        }
        assert_eq!(
            apply(Direction::Encode, b"url,rot13", b" ".to_vec()),
            Err((b"%20".to_vec(), "rot13".to_owned()))
        );
    }
}

//! Text functions of expressions and of `RewriteMap int:`.
//!
//! Caveat: these are httpd's variants, not the standard's: escapes in lower case, base64 that stops
//! at the first invalid character.
//! Out of scope: locales; case is ASCII's.

use md5::{Digest, Md5};
use sha1::Sha1;

const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Percent-encodes what httpd's `ap_escape_uri` does: all but letters, digits and
/// ``$-_.+!*'(),:;@&=/~``.
pub fn escape_uri(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    for byte in text {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"$-_.+!*'(),:;@&=/~".contains(byte) => {
                out.push(*byte)
            }
            byte => push_escaped(*byte, &mut out),
        }
    }
    out
}

/// `%` and two digits.
pub(crate) fn push_escaped(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[
        b'%',
        HEX[usize::from(byte >> 4)],
        HEX[usize::from(byte & 15)],
    ]);
}

/// Decodes every `%` with two digits. `keep_slashes`: `%2F` stays. The second value is false if an
/// escape was broken, or stood for NUL.
pub fn unescape(text: &[u8], keep_slashes: bool) -> (Vec<u8>, bool) {
    let (mut out, mut good) = (Vec::with_capacity(text.len()), true);
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let decoded = (*byte == b'%')
            .then(|| Some(digit(*text.get(at + 1)?)? << 4 | digit(*text.get(at + 2)?)?));
        match decoded {
            None => out.push(*byte),
            Some(None) => {
                good = false;
                out.push(b'%');
            }
            Some(Some(b'/')) if keep_slashes => {
                out.extend_from_slice(&text[at..at + 3]);
                at += 2;
            }
            Some(Some(decoded)) => {
                good &= decoded != 0;
                out.push(decoded);
                at += 2;
            }
        }
        at += 1;
    }
    (out, good)
}

pub fn base64_encode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let three = [
            chunk[0],
            chunk.get(1).copied().unwrap_or(0),
            chunk.get(2).copied().unwrap_or(0),
        ];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let sign = BASE64[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place > chunk.len() { b'=' } else { sign });
        }
    }
    out
}

/// Decodes up to the first character outside of base64's alphabet.
pub fn base64_decode(text: &[u8]) -> Vec<u8> {
    let values: Vec<u8> = text
        .iter()
        .map_while(|byte| {
            BASE64
                .iter()
                .position(|sign| sign == byte)
                .map(|at| at as u8)
        })
        .collect();
    let mut out = Vec::with_capacity(values.len() / 4 * 3 + 3);
    for chunk in values.chunks(4) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, value| bits << 6 | u32::from(*value))
            << (6 * (4 - chunk.len()));
        out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len().max(1)]);
    }
    out
}

/// MD5 (RFC 1321).
pub fn md5(text: &[u8]) -> [u8; 16] {
    Md5::digest(text).into()
}

pub fn md5_hex(text: &[u8]) -> Vec<u8> {
    hex(&md5(text))
}

pub fn sha1_hex(text: &[u8]) -> Vec<u8> {
    hex(&Sha1::digest(text))
}

/// Escapes text for an LDAP name or filter (RFC 4514 section 2.4, RFC 4515 section 3).
pub fn ldap_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    for byte in text {
        match byte {
            0 | b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' | b'*' | b'(' | b')' => {
                out.extend_from_slice(&[
                    b'\\',
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 15)],
                ]);
            }
            byte => out.push(*byte),
        }
    }
    out
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]])
        .collect()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        assert_eq!(escape_uri(b"/a b;c?d%e\xff~=&"), b"/a%20b;c%3fd%25e%ff~=&");
        assert_eq!(
            unescape(b"a%20b%2fc%zz%", false),
            (b"a b/c%zz%".to_vec(), false)
        );
        assert_eq!(unescape(b"a%2Fb%41", true), (b"a%2FbA".to_vec(), true));
        assert_eq!(unescape(b"%00", true), (vec![0], false));
        assert_eq!(unescape(b"%4", true), (b"%4".to_vec(), false));
    }

    #[test]
    fn base64_both_ways() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(base64_encode(plain.as_bytes()), coded.as_bytes());
            assert_eq!(base64_decode(coded.as_bytes()), plain.as_bytes());
        }
        assert_eq!(base64_decode(b"Zm9v!Zm9v"), b"foo");
        assert_eq!(base64_decode(b"Zm9vY"), b"foo");
    }

    #[test]
    fn digests() {
        assert_eq!(md5_hex(b"foo"), b"acbd18db4cc2f85cedef654fccc4a4d8");
        assert_eq!(
            sha1_hex(b"foo"),
            b"0beec7b5ea3f0fdbc95d0dd47f3c5bc275da8a33"
        );
    }

    #[test]
    fn ldap() {
        assert_eq!(ldap_escape(b"a,b*"), b"a\\2cb\\2a");
    }
}

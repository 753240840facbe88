//! Encodings of random values, URLs, and forms.
//!
//! Called by: the modules of this crate.
//! Caveat: base64url without padding is what all of JOSE and PKCE use (RFC 7515 appendix C); texts
//! with padding are refused.
//! Out of scope: decoding of forms; requests are parsed elsewhere.

use aws_lc_rs::{
    digest::{SHA256, digest},
    rand,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub fn from_base64url(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// An unguessable text: 256 random bits. `None`: the system gives none.
pub fn random_text() -> Option<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    Some(base64url(&bytes))
}

/// An unguessable name in the form of a UUID (RFC 9562 section 5.4). `None`: the system gives none.
pub fn random_id() -> Option<String> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).ok()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    Some(text)
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// `name=value` joined by `&`, escaped for queries and forms alike.
pub fn form(pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        escape(name, &mut out);
        out.push('=');
        escape(value, &mut out);
    }
    out
}

/// Escapes everything but unreserved characters (RFC 3986 section 2.3).
pub fn escape(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_escaped() {
        assert_eq!(
            form(&[("a", "1 2&x=ä"), ("b", "-._~")]),
            "a=1%202%26x%3D%C3%A4&b=-._~"
        );
    }

    #[test]
    fn random_texts_differ() {
        let (one, other) = (random_text(), random_text());
        assert!(one.as_ref().is_some_and(|text| text.len() == 43) && one != other);
    }
}

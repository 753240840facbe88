//! Digests and authentication codes as links carry them, and their comparison in constant time.

use aws_lc_rs::{constant_time, hmac};
use md5::{Digest, Md5};

/// True if both are equal, compared in constant time.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

pub fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut state = Md5::new();
    parts.iter().for_each(|part| state.update(part));
    state.finalize().into()
}

pub fn hmac_sha1(secret: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret),
        message,
    )
    .as_ref()
    .to_vec()
}

pub fn hmac_sha256(secret: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message)
        .as_ref()
        .to_vec()
}

/// Hexadecimal digits in lower case.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 4648 section 5, without padding.
pub fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(
            hex(&md5(&[b"a", b"bc"])),
            "900150983cd24fb0d6963f7d28e17f72"
        );
        // RFC 2202 section 3 and RFC 4231 section 4.3.
        let (key, text) = (b"Jefe", b"what do ya want for nothing?");
        assert_eq!(
            hex(&hmac_sha1(key, text)),
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"
        );
        assert_eq!(
            hex(&hmac_sha256(key, text)),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn base64_without_padding() {
        // RFC 4648 section 10.
        let rows = [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("foobar", "Zm9vYmFy"),
        ];
        rows.into_iter()
            .for_each(|(plain, coded)| assert_eq!(base64url(plain.as_bytes()), coded));
        assert_eq!(base64url(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn comparison() {
        assert!(same(b"abc", b"abc") && same(b"", b""));
        assert!(!same(b"abc", b"abd") && !same(b"abc", b"ab") && !same(b"", b"a"));
    }
}

//! Hashes of keys.
//!
//! Called by: everything in this crate.
//! Caveat: seeded per store, so that clients can't choose keys with equal hashes.
//! Out of scope: the keys themselves.

use std::fmt;

/// The hash of a key, different in each store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub u128);

impl KeyHash {
    /// The hash as operators see it: 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<KeyHash> {
        let is_hash = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hash);
        number.map(KeyHash)
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_hashes_or_nothing() {
        let hash = KeyHash(0xabc);
        assert_eq!(KeyHash::parse(&hash.to_string()), Some(hash));
        for text in [
            "",
            "abc",
            "+0000000000000000000000000000abc",
            &"0".repeat(33),
            "../../../../../../../../etc/passwd",
        ] {
            assert_eq!(KeyHash::parse(text), None, "{text}");
        }
    }
}

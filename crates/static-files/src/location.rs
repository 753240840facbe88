//! Values of Location that are safe whatever a client sent.
//!
//! Called by: redirects, and everything else that puts parts of a request into a URL.
//! Caveat: two dangers: a line break that starts a field of the attacker's, and a path that begins
//! with `//` (or `/\`, which browsers treat the same), which leads to another host.
//! Out of scope: configured text.

use saker_http::escape;

/// A decoded path as a URI path with exactly one slash at its start.
pub fn path(decoded: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(decoded.len() + 8);
    escape::uri_path(decoded, &mut encoded);
    rooted(encoded)
}

/// A query as sent, except for bytes that a URI may not contain.
pub fn push_query(query: &[u8], out: &mut Vec<u8>) {
    push_as_sent(query, out);
}

/// Percent-encoded text as sent, except for bytes that a URI may not contain.
pub fn push_as_sent(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=%[]".contains(byte) => {
                out.push(*byte)
            }
            byte => out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]),
        }
    }
}

/// The same path with exactly one slash at its start.
pub fn rooted(mut path: Vec<u8>) -> Vec<u8> {
    let slashes = path
        .iter()
        .take_while(|byte| matches!(byte, b'/' | b'\\'))
        .count();
    path.splice(..slashes, [b'/']);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_on_this_host() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"/a b", b"/a%20b"),
            (b"//evil.example", b"/evil.example"),
            (b"evil", b"/evil"),
            (b"/x\r\nSet-Cookie: a", b"/x%0D%0ASet-Cookie:%20a"),
            (b"/what?#", b"/what%3F%23"),
            (b"", b"/"),
        ];
        for (decoded, expected) in cases {
            assert_eq!(
                String::from_utf8_lossy(&path(decoded)),
                String::from_utf8_lossy(expected)
            );
        }
        assert_eq!(rooted(b"/\\evil".to_vec()), b"/evil");
    }

    #[test]
    fn queries_can_break_nothing() {
        let mut out = Vec::new();
        push_query(b"a=%20&b=\r\nX: \"<\xff#", &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "a=%20&b=%0D%0AX:%20%22%3C%FF%23"
        );
    }
}

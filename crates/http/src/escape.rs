//! Escaping text for HTML and for URIs.
//!
//! Called by: directory listings, error pages, Location fields. Appends, so that pages are built in
//! one buffer.

use crate::chars::is_path_char;

const REPLACEMENT: &str = "\u{fffd}";
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `text` so that it may stand in HTML text or a quoted attribute. Bytes that are not UTF-8
/// become U+FFFD.
pub fn html(text: &[u8], out: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        chunk.valid().bytes().for_each(|byte| html_byte(byte, out));
        if !chunk.invalid().is_empty() {
            out.extend_from_slice(REPLACEMENT.as_bytes());
        }
    }
}

/// Appends `path` percent-encoded: unreserved characters, `/` and what RFC 3986 allows in a path
/// segment stay. Colons in the first segment of a relative path are encoded, or `javascript:x` as a
/// file name would be a scheme (RFC 3986 section 4.2). The result may hold `&` and `'`: in HTML it
/// still wants [`html`].
pub fn uri_path(path: &[u8], out: &mut Vec<u8>) {
    let first_segment = memchr::memchr(b'/', path).unwrap_or(path.len());
    for (at, byte) in path.iter().enumerate() {
        if is_path_char(*byte) && !(*byte == b':' && at < first_segment) {
            out.push(*byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    }
}

fn html_byte(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'&' => out.extend_from_slice(b"&amp;"),
        b'<' => out.extend_from_slice(b"&lt;"),
        b'>' => out.extend_from_slice(b"&gt;"),
        b'"' => out.extend_from_slice(b"&quot;"),
        b'\'' => out.extend_from_slice(b"&#39;"),
        byte => out.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(escape: fn(&[u8], &mut Vec<u8>), text: &[u8]) -> Vec<u8> {
        let mut out = b"> ".to_vec();
        escape(text, &mut out);
        out.split_off(2)
    }

    #[test]
    fn html_cases() {
        let cases: [(&[u8], &str); 7] = [
            (b"", ""),
            (b"plain / text.", "plain / text."),
            (
                b"<a href=\"x\">&'",
                "&lt;a href=&quot;x&quot;&gt;&amp;&#39;",
            ),
            ("ä😀".as_bytes(), "ä😀"),
            (b"a\xffb", "a\u{fffd}b"),
            (b"\xc3", "\u{fffd}"),
            (b"\xc0\xbcscript>", "\u{fffd}\u{fffd}script&gt;"),
        ];
        for (text, want) in cases {
            assert_eq!(escaped(html, text), want.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn uri_cases() {
        let cases: [(&[u8], &str); 8] = [
            (b"/a/b-c_d.e~f", "/a/b-c_d.e~f"),
            (b"/a b", "/a%20b"),
            (b"/100%", "/100%25"),
            (b"/?#[]", "/%3F%23%5B%5D"),
            (b"/!$&'()*+,;=:@", "/!$&'()*+,;=:@"),
            (b"/\xc3\xa4\0\n\\", "/%C3%A4%00%0A%5C"),
            (b"javascript:x", "javascript%3Ax"),
            (b"a/b:c", "a/b:c"),
        ];
        for (path, want) in cases {
            assert_eq!(escaped(uri_path, path), want.as_bytes(), "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn html_is_utf8_without_markup(text: Vec<u8>) {
            let out = String::from_utf8(escaped(html, &text)).unwrap();
            prop_assert!(!out.contains(['<', '>', '"', '\'']));
        }

        #[test]
        fn uri_paths_are_printable_ascii(path: Vec<u8>) {
            let out = escaped(uri_path, &path);
            prop_assert!(out.iter().all(|byte| is_path_char(*byte) || *byte == b'%'));
        }
    }
}

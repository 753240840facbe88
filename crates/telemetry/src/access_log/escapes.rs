//! Forms of values in a line: Apache's, and those of nginx's `log_format`.
//!
//! Called by: formats, which rewrite what an item has appended; nginx's lines about streams.
//! Caveat: items append in Apache's form, from which the value can be read back; only a value with a
//! backslash in that form is written anew.
//! Sources: httpd 2.4, mod_log_config; nginx, ngx_http_log_module, `log_format`.

use crate::escape::{append_escaped, unescape};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Escapes {
    /// `\"`, `\\`, `\n` and kin, and `\xhh`.
    #[default]
    Apache,
    /// nginx's: `\xHH` for quotes, backslashes, and all that is not printable ASCII.
    Hexadecimal,
    /// As in a string of JSON, whose quotes the format has.
    Json,
    /// As they are, line ends too.
    Unescaped,
}

impl Escapes {
    pub fn append(self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Escapes::Apache => append_escaped(value, out),
            Escapes::Hexadecimal => value.iter().for_each(|byte| match byte {
                b'"' | b'\\' | 0..=31 | 127.. => {
                    out.extend_from_slice(format!("\\x{byte:02X}").as_bytes());
                }
                _ => out.push(*byte),
            }),
            Escapes::Json => value.iter().for_each(|byte| match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0x08 => out.extend_from_slice(b"\\b"),
                0x0c => out.extend_from_slice(b"\\f"),
                0..=31 => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
                _ => out.push(*byte),
            }),
            Escapes::Unescaped => out.extend_from_slice(value),
        }
    }

    /// Gives this form to what an item has appended in Apache's.
    pub(super) fn rewrite(self, line: &mut Vec<u8>, start: usize) {
        if self != Escapes::Apache && line[start..].contains(&b'\\') {
            let value = unescape(&line[start..]);
            line.truncate(start);
            self.append(&value, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_anew() {
        let value = "a\n\"b\\\u{1}\u{7f}é".as_bytes();
        let rows = [
            (Escapes::Apache, r#"a\n\"b\\\x01\x7f\xc3\xa9"#),
            (Escapes::Hexadecimal, r"a\x0A\x22b\x5C\x01\x7F\xC3\xA9"),
            (Escapes::Json, "a\\n\\\"b\\\\\\u0001\u{7f}é"),
            (Escapes::Unescaped, "a\n\"b\\\u{1}\u{7f}é"),
        ];
        for (escapes, expected) in rows {
            let mut line = b"\\before ".to_vec();
            append_escaped(value, &mut line);
            escapes.rewrite(&mut line, 8);
            assert_eq!(String::from_utf8_lossy(&line[8..]), expected);
            let mut plain = Vec::new();
            escapes.append(value, &mut plain);
            assert_eq!(plain, expected.as_bytes());
        }
    }
}

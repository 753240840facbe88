//! Lines about sessions in access logs.
//!
//! Called by: the rules, when a session has ended.
//! Caveat: what clients choose (names in hellos) cannot begin another line, unless `escape=none`
//! says so.

use super::Evaluation;
use saker_nginx_model::{modules::log::Escape, stream::StreamLog};

impl Evaluation<'_> {
    /// Returns a line with its end.
    pub fn line(&mut self, log: &StreamLog) -> Vec<u8> {
        let escape = log.escape;
        let mut line = self.text_with(&log.text, |value, out| match (value, escape) {
            (None, Escape::Default) => out.push(b'-'),
            (None, _) => {}
            (Some(value), escape) => append(value, escape, out),
        });
        line.push(b'\n');
        line
    }
}

fn append(value: &[u8], escape: Escape, out: &mut Vec<u8>) {
    match escape {
        Escape::None => out.extend_from_slice(value),
        Escape::Default => value.iter().for_each(|byte| match byte {
            b'"' | b'\\' | 0..=31 | 127.. => {
                out.extend_from_slice(format!("\\x{byte:02X}").as_bytes());
            }
            _ => out.push(*byte),
        }),
        Escape::Json => value.iter().for_each(|byte| match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..=31 => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
            _ => out.push(*byte),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_their_line() {
        let shown = |value: &[u8], escape| {
            let mut out = Vec::new();
            append(value, escape, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        assert_eq!(
            shown(b"a\n\"b\\\x7f", Escape::Default),
            "a\\x0A\\x22b\\x5C\\x7F"
        );
        assert_eq!(shown(b"a\n\"b\\\x01", Escape::Json), "a\\n\\\"b\\\\\\u0001");
        assert_eq!(shown(b"a\"", Escape::None), "a\"");
    }
}

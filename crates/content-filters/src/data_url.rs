//! `DATA` (mod_data): turns content into a `data:` URL (RFC 2397).
//!
//! Called by: the front ends, through [`apply`].
//! Out of scope: the Content-Type of the result, which the front end sets.

use crate::transform::{Transform, transform_response};
use saker_pipeline::{BodyError, Response};

/// Sends a response through the filter. `media_type`: that of the original content.
pub fn apply(response: &mut Response, media_type: &str) {
    let data_url = Base64 {
        beginning: [
            b"data:",
            media_type.replace(' ', "").as_bytes(),
            b";base64,",
        ]
        .concat(),
        left: Vec::new(),
    };
    transform_response(response, data_url);
}

struct Base64 {
    /// Sent before everything else.
    beginning: Vec<u8>,
    /// Fewer than three bytes.
    left: Vec<u8>,
}

impl Transform for Base64 {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        output.append(&mut self.beginning);
        self.left.extend_from_slice(input);
        let whole = self.left.len() - self.left.len() % 3;
        for group in self.left.drain(..whole).collect::<Vec<u8>>().chunks(3) {
            encode(group, output);
        }
        Ok(())
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        output.append(&mut self.beginning);
        if !self.left.is_empty() {
            encode(&std::mem::take(&mut self.left), output);
        }
        Ok(())
    }
}

/// One to three bytes as four letters (RFC 4648 section 4).
fn encode(group: &[u8], output: &mut Vec<u8>) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
    let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    for at in 0..4 {
        let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
        output.push(if at > group.len() { b'=' } else { letter });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_split_gives_the_same() {
        for (text, expected) in [
            ("", "x:"),
            ("a", "x:YQ=="),
            ("ab", "x:YWI="),
            ("abc", "x:YWJj"),
            ("abcdefgh", "x:YWJjZGVmZ2g="),
        ] {
            for size in 1..=text.len().max(1) {
                let (mut filter, mut output) = (
                    Base64 {
                        beginning: b"x:".to_vec(),
                        left: Vec::new(),
                    },
                    Vec::new(),
                );
                text.as_bytes()
                    .chunks(size)
                    .for_each(|piece| filter.push(piece, &mut output).unwrap());
                filter.finish(&mut output).unwrap();
                assert_eq!(String::from_utf8(output).unwrap(), expected, "{size}");
            }
        }
    }
}

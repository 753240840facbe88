//! mod_data (`DATA`): makes a `data:` URL of the content (RFC 2397).

use super::{ContentFilter, Passage, Stage, Transform};
use saker_http::Status;
use saker_pipeline::{BodyError, LocalFuture};

pub struct Data;

impl ContentFilter for Data {
    fn name(&self) -> &str {
        "DATA"
    }

    fn stage(&self) -> Stage {
        Stage::Resource
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        let media_type = passage
            .response
            .fields()
            .first("Content-Type")
            .unwrap_or_default();
        let core = &passage.local.core;
        // Apache adds AddDefaultCharset's when everything else is done.
        let media_type = core
            .without_default_charset(&String::from_utf8_lossy(media_type))
            .replace(' ', "")
            .into_bytes();
        passage.transform(Base64 {
            beginning: [b"data:", media_type.as_slice(), b";base64,"].concat(),
            left: Vec::new(),
        });
        let plain = passage.local.core.with_default_charset("text/plain");
        passage
            .response
            .fields_mut()
            .set("Content-Type", plain.as_bytes().to_vec());
        Box::pin(std::future::ready(Ok(())))
    }
}

struct Base64 {
    /// Goes out before everything else.
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

//! A magic file (mod_mime_magic), and what it says of the first bytes of a file.
//!
//! Called by: `assemble`, which reads the files; the phases, with content.
//! Caveat: the order of Apache's looks is part of the result: into compressed content first, then
//! the rules of the magic file, then words of languages and archives of tar.
//! Out of scope: looking into what `compress` and `pack` made.

pub mod rule;
mod words;

use crate::magic::rule::Rules;
use flate2::read::MultiGzDecoder;
use std::{io::Read, path::Path};

const GZIP: &[u8] = b"\x1f\x8b";

/// A magic file.
#[derive(Debug)]
pub struct Magic {
    rules: Rules,
}

/// Type and coding that content reveals.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Detected {
    pub media_type: Option<Box<str>>,
    pub coding: Option<Box<str>>,
}

impl Magic {
    /// With the lines that can't be read, which match nothing.
    pub fn read(path: &Path) -> Result<(Magic, Vec<String>), String> {
        let text = saker_net::privileged::read(path)
            .map_err(|error| format!("can't read magic file {}: {error}", path.display()))?;
        let (rules, complaints) = Rules::parse(&text);
        let named = complaints
            .into_iter()
            .map(|(line, text)| format!("{}:{line}: {text}", path.display()));
        Ok((Magic { rules }, named.collect()))
    }

    /// `start`: the first bytes of a file.
    pub fn look(&self, start: &[u8]) -> Detected {
        if start.is_empty() {
            return Detected {
                media_type: Some("text/plain".into()),
                coding: None,
            };
        }
        let mut coding = None;
        if start.starts_with(GZIP) {
            let mut inside = decompressed(start);
            // As Apache: content that can't be had says nothing at all, and the last byte of it is
            // not looked at.
            let Some(last) = inside.last_mut() else {
                return Detected::default();
            };
            *last = 0;
            coding = Some("x-gzip".into());
            if let Some(text) = self.describe(&inside) {
                return seen(&text, coding);
            }
        }
        // Texts end at a zero byte, as C has them.
        let text = self.describe(&[start, b"\0"].concat());
        text.map_or_else(
            || Detected {
                media_type: None,
                coding: coding.clone(),
            },
            |text| seen(&text, coding.clone()),
        )
    }

    fn describe(&self, content: &[u8]) -> Option<Vec<u8>> {
        self.rules
            .describe(content)
            .or_else(|| words::describe(content).map(|text| text.as_bytes().to_vec()))
    }
}

/// As many bytes as Apache looks at.
pub const LOOKED_AT_BYTES: usize = 4096;

/// The beginning of what was compressed, as far as it can be had.
fn decompressed(start: &[u8]) -> Vec<u8> {
    let (mut decoder, mut inside) = (MultiGzDecoder::new(start), vec![0; LOOKED_AT_BYTES]);
    let mut filled = 0;
    while let Some(room) = inside.get_mut(filled..).filter(|room| !room.is_empty()) {
        match decoder.read(room) {
            Ok(0) | Err(_) => break,
            Ok(more) => filled += more,
        }
    }
    inside.truncate(filled);
    inside
}

/// A type and perhaps a coding; what has no slash is no type.
pub fn seen(text: &[u8], coding: Option<Box<str>>) -> Detected {
    let text = String::from_utf8_lossy(text);
    let mut words = text
        .split(|letter: char| letter.is_ascii_whitespace() || letter == '\x0b')
        .filter(|word| !word.is_empty());
    let is_type = |word: &&str| word.char_indices().skip(1).any(|(_, letter)| letter == '/');
    let Some(media_type) = words.next().filter(is_type) else {
        return Detected {
            media_type: None,
            coding,
        };
    };
    let coding = words
        .next()
        .map(|word| word.to_ascii_lowercase().into())
        .or(coding);
    Detected {
        media_type: Some(media_type.to_ascii_lowercase().into()),
        coding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn magic(text: &str) -> Magic {
        Magic {
            rules: Rules::parse(text.as_bytes()).0,
        }
    }

    fn looked(magic: &Magic, content: &[u8]) -> (Option<String>, Option<String>) {
        let seen = magic.look(content);
        (
            seen.media_type.map(String::from),
            seen.coding.map(String::from),
        )
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn rules_then_words() {
        let own = magic("0 string %PDF- application/PDF\n0 string MZ not-a-type\n");
        let padded = |text: &str| format!("{text:80}").into_bytes();
        assert_eq!(
            looked(&own, &padded("%PDF-1.4")),
            (Some("application/pdf".into()), None)
        );
        assert_eq!(
            looked(&own, &padded("a <html> b")),
            (Some("text/html".into()), None)
        );
        assert_eq!(looked(&own, &padded("MZ <html> b")), (None, None));
        assert_eq!(looked(&own, b""), (Some("text/plain".into()), None));
        assert_eq!(
            looked(&own, b"%PDF-1.4"),
            (None, None),
            "too short for any rule, as with Apache"
        );
    }

    #[test]
    fn compressed_content() {
        let own = magic("0 string \\037\\213 application/octet-stream x-gzip\n");
        assert_eq!(
            looked(&own, &gzip(b"see <html> there")),
            (Some("text/html".into()), Some("x-gzip".into()))
        );
        let random: Vec<u8> = (0..200u8)
            .map(|number| number.wrapping_mul(167) | 128)
            .collect();
        assert_eq!(
            looked(&own, &gzip(&random)),
            (
                Some("application/octet-stream".into()),
                Some("x-gzip".into())
            )
        );
        assert_eq!(looked(&own, b"\x1f\x8b no more"), (None, None));
    }
}

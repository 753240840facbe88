//! mod_mime_magic: what a file is by its first bytes, where its name does not say.
//!
//! Place in the walk: with the types, in `fixups`, listings and MultiViews. Difficulty: the order
//! of Apache's looks is part of what people see: into compressed content first, then the rules of
//! the magic file, then words of languages and archives of tar. Absent on purpose: looking into
//! what `compress` and `pack` made; and a coding of text with escape sequences, which Apache makes
//! of its own remark.

mod rule;
mod words;

use crate::{
    host::Host,
    local::Local,
    modules::mime::{Facts, Mime},
};
use flate2::read::MultiGzDecoder;
use rule::Rules;
use saker_files::{Kind, LinkPolicy, Stamp, Watcher, resolve};
use std::{io::Read, os::unix::fs::FileExt, path::Path};

/// As many bytes as Apache looks at.
const LOOKED_AT_BYTES: usize = 4096;
const GZIP: &[u8] = b"\x1f\x8b";

/// A magic file.
#[derive(Debug)]
pub struct Magic {
    rules: Rules,
}

/// What content says about itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    media_type: Option<Box<str>>,
    coding: Option<Box<str>>,
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
    fn look(&self, start: &[u8]) -> Seen {
        if start.is_empty() {
            return Seen {
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
                return Seen::default();
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
            || Seen {
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

/// What name and, where that leaves it open, content say about the file of that name. `name`: what
/// the extensions are looked for in.
pub fn facts(
    local: &Local,
    host: &Host,
    watcher: &Watcher,
    name: &[u8],
    file: &[u8],
    stamps: &mut Vec<Stamp>,
) -> Facts {
    let facts = local.mime.facts(name, &host.types);
    match &host.magic {
        Some(magic) if facts.media_type.is_none() => {
            by_content(magic, &local.mime, host, watcher, facts, file, stamps)
        }
        _ => facts,
    }
}

fn by_content(
    magic: &Magic,
    mime: &Mime,
    host: &Host,
    watcher: &Watcher,
    mut facts: Facts,
    file: &[u8],
    stamps: &mut Vec<Stamp>,
) -> Facts {
    let Some(start) = start_of(watcher, file, stamps) else {
        return facts;
    };
    // Without a type of its name's it has no charset of its name's.
    facts.charset = None;
    if let Some(named) = without_revision(file)
        .map(|name| mime.facts(name, &host.types))
        .filter(|named| named.media_type.is_some())
    {
        facts.media_type = named.content_type();
        take_said(&mut facts.codings, named.codings);
        take_said(&mut facts.languages, named.languages);
        return facts;
    }
    let seen = magic.look(&start);
    facts.media_type = seen.media_type;
    take_said(&mut facts.codings, seen.coding.into_iter().collect());
    facts
}

fn take_said(before: &mut Vec<Box<str>>, said: Vec<Box<str>>) {
    if !said.is_empty() {
        *before = said;
    }
}

/// `name@7` is a revision of `name`.
fn without_revision(file: &[u8]) -> Option<&[u8]> {
    let bare = file
        .iter()
        .rposition(|byte| !byte.is_ascii_digit())
        .filter(|at| at + 1 < file.len())?;
    (file.get(bare) == Some(&b'@'))
        .then(|| file.get(..bare))
        .flatten()
}

fn start_of(watcher: &Watcher, file: &[u8], stamps: &mut Vec<Stamp>) -> Option<Vec<u8>> {
    let relative: Vec<&[u8]> = file
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .collect();
    let found = resolve(
        watcher,
        Path::new("/"),
        &relative.join(&b'/'),
        LinkPolicy::Follow,
        stamps,
    )
    .ok()?;
    if found.metadata.kind != Kind::File {
        return None;
    }
    let mut start = vec![0; LOOKED_AT_BYTES];
    let read = found.file.read_at(&mut start, 0).ok()?;
    start.truncate(read);
    Some(start)
}

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
fn seen(text: &[u8], coding: Option<Box<str>>) -> Seen {
    let text = String::from_utf8_lossy(text);
    let mut words = text
        .split(|letter: char| letter.is_ascii_whitespace() || letter == '\x0b')
        .filter(|word| !word.is_empty());
    let is_type = |word: &&str| word.char_indices().skip(1).any(|(_, letter)| letter == '/');
    let Some(media_type) = words.next().filter(is_type) else {
        return Seen {
            media_type: None,
            coding,
        };
    };
    let coding = words
        .next()
        .map(|word| word.to_ascii_lowercase().into())
        .or(coding);
    Seen {
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

    #[test]
    fn revisions() {
        for (name, expected) in [
            ("/a.html@12", Some("/a.html")),
            ("/a.html@", None),
            ("/a12", None),
            ("12", None),
            ("", None),
        ] {
            assert_eq!(
                without_revision(name.as_bytes()),
                expected.map(str::as_bytes),
                "{name}"
            );
        }
    }
}

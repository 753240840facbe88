//! mod_mime_magic: what a file is by its first bytes, where its name does not say.
//!
//! Place in the walk: with the types, in `fixups`, listings and MultiViews. Difficulty: the order
//! of Apache's looks is part of what people see: into compressed content first, then the rules of
//! the magic file, then words of languages and archives of tar. Absent on purpose: looking into
//! what `compress` and `pack` made; and a coding of text with escape sequences, which Apache makes
//! of its own remark.

use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    magic::Magic,
    modules::mime::{Facts, Mime},
};
use saker_files::{ChangeToken, Kind, LinkPolicy, Watcher, resolve};
use std::{os::unix::fs::FileExt, path::Path};

/// As many bytes as Apache looks at.
const LOOKED_AT_BYTES: usize = 4096;

/// Finds the type of a file by its name and, where that leaves it open, by its content. `name`: the
/// name whose extensions count.
pub fn facts(
    local: &DirConfig,
    host: &Host,
    watcher: &Watcher,
    name: &[u8],
    file: &[u8],
    stamps: &mut Vec<ChangeToken>,
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
    stamps: &mut Vec<ChangeToken>,
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

fn start_of(watcher: &Watcher, file: &[u8], stamps: &mut Vec<ChangeToken>) -> Option<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use super::*;

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

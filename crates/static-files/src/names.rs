//! Properties of a file's name: whether it is hidden, and its media type.
//!
//! Called by: everything in this crate, and the PHP and CGI handlers.
//! Caveat: types come from names only; a server that guesses from content turns uploads into
//! scripts.
//! Out of scope: the file itself.

use saker_config::model::{Files, Settings};
use saker_content::coded_fields;
use saker_http::media_type;

/// Endings of backup copies by editors, package tools and people: the source of the file beside
/// them, often with passwords in it.
const LEFTOVER_ENDINGS: [&[u8]; 8] = [
    b"~",
    b".bak",
    b".orig",
    b".swp",
    b".swo",
    b".save",
    b".old",
    b".dpkg-dist",
];

/// True if a component of a path (relative to the root, no leading slash) is hidden. `.well-known`
/// at the root is public by definition (RFC 8615).
pub fn is_hidden(relative: &[u8]) -> bool {
    let mut components = relative.split(|byte| *byte == b'/');
    let first = components.next().unwrap_or_default();
    let first_hidden = first != b".well-known" && is_hidden_name(first);
    first_hidden || components.any(is_hidden_name)
}

/// The same for a component that is not the first.
pub fn is_hidden_name(name: &[u8]) -> bool {
    let autosaved = name.len() > 1 && name.starts_with(b"#") && name.ends_with(b"#");
    name.starts_with(b".")
        || autosaved
        || LEFTOVER_ENDINGS
            .iter()
            .any(|ending| ends_with(name, ending))
}

/// True if the name is one that PHP distributions use for PHP files; its source must never be
/// shown.
pub fn is_php(name: &[u8]) -> bool {
    is_php_script(name)
        || extension_of_php(name)
            .is_some_and(|rest| matches!(rest.as_slice(), b"s" | b"3" | b"4" | b"5" | b"7" | b"8"))
}

/// True if PHP runs it.
pub fn is_php_script(name: &[u8]) -> bool {
    [&b".php"[..], b".phtml", b".phar"]
        .iter()
        .any(|ending| ends_with_any_case(name, ending))
}

fn ends_with_any_case(name: &[u8], ending: &[u8]) -> bool {
    name.len()
        .checked_sub(ending.len())
        .and_then(|at| name.get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

/// The text after `.php` at the end of a name, in lower case.
fn extension_of_php(name: &[u8]) -> Option<Vec<u8>> {
    let at = name.iter().rposition(|byte| *byte == b'.')?;
    name.get(at..)?
        .to_ascii_lowercase()
        .strip_prefix(b".php")
        .map(<[u8]>::to_vec)
}

/// Content-Type of a file, charset included. `None`: no field.
pub fn content_type(files: &Files, name: &[u8]) -> Option<Vec<u8>> {
    if let Some(whole) = &files.whole_type {
        return (!whole.is_empty()).then(|| whole.as_bytes().to_vec());
    }
    let media_type = media_type_of(files, name)?;
    let mut text = media_type.as_bytes().to_vec();
    if !files.charset.is_empty()
        && !media_type.contains(';')
        && media_type::takes_charset(media_type.as_bytes())
    {
        text.extend_from_slice(b"; charset=");
        text.extend_from_slice(files.charset.as_bytes());
    }
    Some(text)
}

fn media_type_of<'f>(files: &'f Files, name: &[u8]) -> Option<&'f str> {
    let extension = extension(name)
        .map(<[u8]>::to_ascii_lowercase)
        .unwrap_or_default();
    let configured = std::str::from_utf8(&extension)
        .ok()
        .and_then(|text| files.types.get(text));
    configured
        .map(String::as_str)
        .or_else(|| {
            let is_known = !files.types_are_complete;
            is_known.then(|| media_type::by_extension(&extension))?
        })
        .or(Some(files.default_type.as_str()))
        .filter(|media_type| !media_type.is_empty())
}

/// The text after the last dot; a name that only starts with a dot has no extension.
fn extension(name: &[u8]) -> Option<&[u8]> {
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let dot = name
        .iter()
        .rposition(|byte| *byte == b'.')
        .filter(|at| *at > 0)?;
    Some(&name[dot + 1..])
}

fn ends_with(name: &[u8], ending: &[u8]) -> bool {
    name.len() >= ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending)
}

/// True if bodies of this type are compressed and siblings of such files are looked for.
pub fn is_compressible(settings: &Settings, content_type: Option<&[u8]>) -> bool {
    let compression = &settings.compression;
    content_type.map_or(compression.every_type, |content_type| {
        coded_fields::is_compressible(compression, content_type)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_should_see() {
        let hidden: [&[u8]; 12] = [
            b".htaccess",
            b".git/config",
            b"a/.env",
            b"a/.well-known/x",
            b"index.php~",
            b"wp-config.php.BAK",
            b"wp-config.php.old",
            b"x.orig",
            b".x.swp",
            b"x.save/inside",
            b"a/#draft.txt#",
            b"x.swo",
        ];
        let shown: [&[u8]; 9] = [
            b"",
            b"index.html",
            b".well-known/acme-challenge/tok",
            b"a.b/c",
            b"bold",
            b"#",
            b"a#b#c",
            b"x.bak.txt",
            b"dir/",
        ];
        assert!(
            hidden
                .iter()
                .all(|name| is_hidden(name) || panic!("{name:?} is shown"))
        );
        assert!(
            shown
                .iter()
                .all(|name| !is_hidden(name) || panic!("{name:?} is hidden"))
        );
        assert!(is_hidden(b".well-known/.secret"));
    }

    fn type_of(files: &Files, name: &str) -> String {
        String::from_utf8(content_type(files, name.as_bytes()).unwrap_or_default()).unwrap()
    }

    #[test]
    fn types_by_extension_with_charset() {
        let mut files = Files::default();
        files.types.insert("md".into(), "text/markdown".into());
        files
            .types
            .insert("x".into(), "text/x; charset=ascii".into());
        let cases = [
            ("index.HTML", "text/html; charset=utf-8"),
            ("a/readme.md", "text/markdown; charset=utf-8"),
            ("a.x", "text/x; charset=ascii"),
            ("logo.png", "image/png"),
            ("archive.tar.nothing", "application/octet-stream"),
            ("no-extension", "application/octet-stream"),
            (".html", "application/octet-stream"),
            ("dir.html/plain", "application/octet-stream"),
            ("ends.", "application/octet-stream"),
        ];
        for (name, expected) in cases {
            assert_eq!(type_of(&files, name), expected, "{name}");
        }
        files.charset = String::new();
        files.default_type = String::new();
        assert_eq!(type_of(&files, "index.html"), "text/html");
        assert_eq!(content_type(&files, b"what"), None);
    }
}

//! Media types by file extension, and which types are worth compressing.
//!
//! Called by: file resolution, once per file, never again while its entry is cached.
//! Out of scope: content sniffing; the type depends on the name only, so that uploads cannot choose
//! theirs.

mod table;

use table::TYPES;

/// The media type of a lower-case extension without its dot, e.g. `html` -> `text/html`. `None`
/// where unknown.
pub fn by_extension(extension: &[u8]) -> Option<&'static str> {
    let at = TYPES
        .binary_search_by(|row| row.0.as_bytes().cmp(extension))
        .ok()?;
    Some(TYPES.get(at)?.1)
}

/// Every known extension with its media type.
pub fn by_extensions() -> impl Iterator<Item = (&'static str, &'static str)> {
    TYPES.iter().copied()
}

/// True if a body of this type shrinks: text, scripts, XML, JSON, SVG, fonts that are not woff,
/// wasm… Parameters are ignored.
pub fn is_compressible(media_type: &[u8]) -> bool {
    let essence = essence(media_type);
    if has_prefix(essence, b"text/") {
        // An event stream is read as it comes; a coder would hold events back.
        return !essence.eq_ignore_ascii_case(b"text/event-stream");
    }
    has_suffix(essence, b"+json")
        || has_suffix(essence, b"+xml")
        || is_one_of(essence, COMPRESSIBLE)
}

/// True if the type takes a charset parameter by default (`text/*`, JavaScript, JSON excepted as
/// RFC 8259 has no charset).
pub fn takes_charset(media_type: &[u8]) -> bool {
    let essence = essence(media_type);
    has_prefix(essence, b"text/") || is_one_of(essence, SCRIPTS)
}

/// JavaScript under the names it had before RFC 9239 made it `text/javascript`.
const SCRIPTS: &[&str] = &[
    "application/ecmascript",
    "application/javascript",
    "application/x-javascript",
];

/// Besides `text/*`, `*+json` and `*+xml`.
const COMPRESSIBLE: &[&str] = &[
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/json5",
    "application/n-quads",
    "application/n-triples",
    "application/postscript",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/trig",
    "application/vnd.apple.mpegurl",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-csh",
    "application/x-font-otf",
    "application/x-font-ttf",
    "application/x-httpd-php",
    "application/x-javascript",
    "application/x-latex",
    "application/x-ndjson",
    "application/x-perl",
    "application/x-sh",
    "application/x-subrip",
    "application/x-tcl",
    "application/x-tex",
    "application/x-texinfo",
    "application/x-yaml",
    "application/xml",
    "application/xml-dtd",
    "application/yaml",
    "font/collection",
    "font/otf",
    "font/sfnt",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
    "image/x-ms-bmp",
    "model/gltf-binary",
    "model/mtl",
    "model/obj",
    "model/step",
    "model/stl",
];

/// Type and subtype, without parameters.
fn essence(media_type: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', media_type).unwrap_or(media_type.len());
    media_type[..end].trim_ascii()
}

// Types are case-insensitive (RFC 9110 section 8.3.1).

fn has_prefix(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn has_suffix(text: &[u8], suffix: &[u8]) -> bool {
    text.len() >= suffix.len() && text[text.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
}

fn is_one_of(essence: &[u8], types: &[&str]) -> bool {
    types
        .iter()
        .any(|one| one.as_bytes().eq_ignore_ascii_case(essence))
}

#[cfg(test)]
mod tests;

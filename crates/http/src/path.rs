//! Paths: percent-decoding and dot-segment removal (RFC 3986 sections 2.1 and 5.2.4).
//!
//! Guards the document root: what leaves here has no `.` or `..` segment, no NUL, no empty segment but the last, and starts with `/`.

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// Does not start with `/`.
    NotAbsolute,
    /// `%` not followed by two hex digits. 400.
    BadEscape,
    /// `%00`. 400 (404 in Apache 2.4; ours is the stricter).
    Nul,
    /// `%2F` in the path, which Apache answers with 404 unless AllowEncodedSlashes is on.
    EncodedSlash,
    /// `..` above the root. 400, as Apache.
    AboveRoot,
}

/// Decodes and normalises `raw` into `out` (cleared first). Slashes are merged, `.` and `..` removed after decoding.
pub fn normalise(_raw: &[u8], _out: &mut Vec<u8>) -> Result<(), PathError> {
    unimplemented!()
}

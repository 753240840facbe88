//! Paths: percent-decoding and dot-segment removal (RFC 3986 sections 2.1 and 5.2.4).
//!
//! Guards the document root: what leaves here has no `.` or `..` segment, no NUL, no empty segment but the last, and starts with `/`.
//! Difficulty: decoding comes first and happens once, so that `%2e%2e` is `..` and `%252e` is the name `%2e`. Bytes mean nothing else
//! here: overlong UTF-8 and the backslash are parts of a name, as they are to the kernel.

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
/// A trailing slash stays where the raw path ends with `/`, `/.` or `/..`.
pub fn normalise(raw: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    out.clear();
    if raw.first() != Some(&b'/') {
        return Err(PathError::NotAbsolute);
    }
    if is_normal(raw) {
        out.extend_from_slice(raw);
        return Ok(());
    }
    let mut rest = &raw[1..];
    out.push(b'/');
    loop {
        // Here `out` ends with the slash before the segment.
        let end = memchr::memchr(b'/', rest);
        push_segment(&rest[..end.unwrap_or(rest.len())], out)?;
        let Some(end) = end else {
            return Ok(());
        };
        if out.last() != Some(&b'/') {
            out.push(b'/');
        }
        rest = &rest[end + 1..];
    }
}

/// Nothing to decode, merge or remove: the usual case. Also says no to names that merely start with a dot.
fn is_normal(raw: &[u8]) -> bool {
    let mut before = 0;
    for byte in raw {
        match byte {
            b'%' | 0 => return false,
            b'/' | b'.' if before == b'/' => return false,
            _ => before = *byte,
        }
    }
    true
}

/// Appends one segment, or nothing for an empty one and `.`, or takes one away for `..`.
fn push_segment(segment: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    let start = out.len();
    decode(segment, out)?;
    match &out[start..] {
        b"." => out.truncate(start),
        b".." => {
            let parent = memchr::memrchr(b'/', &out[..start - 1]).ok_or(PathError::AboveRoot)?;
            out.truncate(parent + 1);
        }
        _ => {}
    }
    Ok(())
}

/// RFC 3986 section 2.1.
fn decode(segment: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    let mut bytes = segment.iter();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => escaped(bytes.next(), bytes.next())?,
            byte => *byte,
        };
        match byte {
            0 => return Err(PathError::Nul),
            b'/' => return Err(PathError::EncodedSlash),
            byte => out.push(byte),
        }
    }
    Ok(())
}

fn escaped(high: Option<&u8>, low: Option<&u8>) -> Result<u8, PathError> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let (high, low) = digit(high).zip(digit(low)).ok_or(PathError::BadEscape)?;
    Ok((high * 16 + low) as u8)
}

#[cfg(test)]
mod tests;

//! Paths: percent-decoding and dot-segment removal (RFC 3986 sections 2.1 and 5.2.4).
//!
//! Guards the document root: a path returned from here has no `.` or `..` segment, no NUL, no empty
//! segment but the last, and starts with `/`.
//! Caveat: decoding comes first and happens once, so that `%2e%2e` is `..` and `%252e` is the name
//! `%2e`. Bytes have no other meaning here: overlong UTF-8 and the backslash are parts of a name,
//! as they are to the kernel.

/// Reason why a path is refused.
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

/// Treatment of slashes in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slashes {
    pub encoded: EncodedSlashes,
    /// Several are one.
    pub merge: bool,
}

/// Treatment of `%2F`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodedSlashes {
    Refuse,
    /// They separate segments as others do.
    Decode,
    /// They are parts of names while dot segments are removed, and separate segments after that, as in
    /// Apache: `/a%2Fb/../c` is `/c`. Dot segments that appear only then are removed, too.
    DecodeAfterDots,
    /// They stay as they are, encoded.
    Keep,
}

/// Like [`normalize`], with other rules for slashes.
pub fn normalize_with(raw: &[u8], slashes: Slashes, out: &mut Vec<u8>) -> Result<(), PathError> {
    if slashes
        == (Slashes {
            encoded: EncodedSlashes::Refuse,
            merge: true,
        })
    {
        return normalize(raw, out);
    }
    out.clear();
    if raw.first() != Some(&b'/') {
        return Err(PathError::NotAbsolute);
    }
    // The decoded text may contain several segments.
    let mut decoded = decode_whole(raw, slashes.encoded)?;
    remove_dots(&decoded, slashes.merge, out)?;
    if slashes.encoded == EncodedSlashes::DecodeAfterDots && memchr::memchr(MARK, out).is_some() {
        std::mem::swap(&mut decoded, out);
        let marks = decoded.iter_mut().filter(|byte| **byte == MARK);
        marks.for_each(|mark| *mark = b'/');
        out.clear();
        remove_dots(&decoded, slashes.merge, out)?;
    }
    Ok(())
}

/// Stands for an encoded slash; no path has a NUL of its own.
const MARK: u8 = 0;

fn remove_dots(decoded: &[u8], merge: bool, out: &mut Vec<u8>) -> Result<(), PathError> {
    out.push(b'/');
    let mut segments = decoded[1..].split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"" if merge || is_last => {}
            b"." => {}
            b".." => {
                let parent =
                    memchr::memrchr(b'/', &out[..out.len() - 1]).ok_or(PathError::AboveRoot)?;
                out.truncate(parent + 1);
            }
            name => {
                out.extend_from_slice(name);
                if !is_last {
                    out.push(b'/');
                }
            }
        }
    }
    Ok(())
}

/// Returns the rest of a raw path behind `prefix`, the beginning of a normalized path; `None` if the
/// raw path does not begin with it. As in [`normalize`], escapes are decoded and slashes merged, but
/// dot segments are not removed, and `%2F` is not a slash.
pub fn strip_raw_prefix<'r>(raw: &'r [u8], prefix: &[u8]) -> Option<&'r [u8]> {
    let mut rest = raw;
    for wanted in prefix {
        let (byte, after) = rest.split_first()?;
        rest = match (wanted, byte) {
            (b'/', b'/') => {
                let end = after.iter().position(|byte| *byte != b'/');
                after.get(end.unwrap_or(after.len())..)?
            }
            (b'/', _) => return None,
            (_, b'%') => {
                let decoded = escaped(after.first(), after.get(1)).ok()?;
                after.get(2..).filter(|_| decoded == *wanted)?
            }
            _ => Some(after).filter(|_| byte == wanted)?,
        };
    }
    Some(rest)
}

/// Returns true if a segment of the path is `.` or `..`, however it is written, where `%2F` separates
/// segments, too, or if the path cannot be decoded. With `%2F` in the path, such segments mean one
/// thing to a server that decodes it and another to one that does not.
pub fn has_dot_segments(raw: &[u8]) -> bool {
    has_segment(raw, |segment| matches!(segment, b"." | b".."))
}

/// Returns true if a segment of the path is `..`, however it is written, where `%2F` separates
/// segments, too, or if the path cannot be decoded.
pub fn leads_upwards(raw: &[u8]) -> bool {
    has_segment(raw, |segment| segment == b"..")
}

fn has_segment(raw: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    let has_any = |path: &[u8]| path.split(|byte| *byte == b'/').any(&is_wanted);
    if memchr::memchr2(b'%', 0, raw).is_none() {
        return has_any(raw);
    }
    decode_whole(raw, EncodedSlashes::Decode).map_or(true, |decoded| has_any(&decoded))
}

/// Returns true if the path contains `%2F`.
pub fn has_encoded_slash(raw: &[u8]) -> bool {
    memchr::memchr_iter(b'%', raw).any(|at| {
        let digits = raw.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.eq_ignore_ascii_case(b"2f"))
    })
}

/// Like [`has_dot_segments`], but a segment may have parameters (`..;x`), which servers of Java
/// applications drop before they remove dot segments.
pub fn may_have_dot_segments(raw: &[u8]) -> bool {
    let is_dots = |segment: &[u8]| {
        let name = segment.split(|byte| *byte == b';').next();
        matches!(name, Some(b"." | b".."))
    };
    let has_dots = |path: &[u8]| path.split(|byte| *byte == b'/').any(is_dots);
    if memchr::memchr2(b'%', 0, raw).is_none() {
        return has_dots(raw);
    }
    decode_whole(raw, EncodedSlashes::Decode).map_or(true, |decoded| has_dots(&decoded))
}

fn decode_whole(raw: &[u8], encoded: EncodedSlashes) -> Result<Vec<u8>, PathError> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(byte) = bytes.next() {
        let start = bytes.as_slice();
        match *byte {
            b'%' => match (escaped(bytes.next(), bytes.next())?, encoded) {
                (0, _) => return Err(PathError::Nul),
                (b'/', EncodedSlashes::Refuse) => return Err(PathError::EncodedSlash),
                (b'/', EncodedSlashes::Keep) => {
                    decoded.extend_from_slice(&[b'%', start[0], start[1]])
                }
                (b'/', EncodedSlashes::DecodeAfterDots) => decoded.push(MARK),
                (byte, _) => decoded.push(byte),
            },
            0 => return Err(PathError::Nul),
            byte => decoded.push(byte),
        }
    }
    Ok(decoded)
}

/// Decodes and normalizes `raw` into `out` (cleared first). Slashes are merged, `.` and `..`
/// removed after decoding. A trailing slash stays where the raw path ends with `/`, `/.` or `/..`.
pub fn normalize(raw: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
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

/// Returns true if there is nothing to decode, merge, or remove: the usual case. Also returns false
/// for names that merely start with a dot.
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

//! Request targets (RFC 9112 section 3.2; RFC 3986).
//!
//! Called by: parsers of request heads, once a head is complete.
//! Out of scope: decoding and dot segments, see [`crate::path`]; this module only splits.

use crate::{Method, chars::is_target_char, host::parse_authority};

/// The four forms of a request-target, borrowed from the request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`; `query` without the question mark.
    Origin {
        path: &'a [u8],
        query: Option<&'a [u8]>,
    },
    /// `http://authority/path?query`; an empty path is `/`.
    Absolute {
        scheme: &'a [u8],
        authority: &'a [u8],
        path: &'a [u8],
        query: Option<&'a [u8]>,
    },
    /// `host:port` of CONNECT.
    Authority(&'a [u8]),
    /// `*` of OPTIONS.
    Asterisk,
}

/// Reason why a request-target is refused with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    Empty,
    /// Control characters, space, DEL, `#` (a fragment is never sent); see [`is_target_char`] for
    /// what passes.
    BadByte,
    /// The form is not one that this method takes.
    WrongForm,
    BadScheme,
    BadAuthority,
}

/// Splits a request-target. Bytes 0x80 to 0xff are let through in paths and queries, as Apache
/// does.
pub fn split(method: Method, target: &[u8]) -> Result<Target<'_>, TargetError> {
    let first = *target.first().ok_or(TargetError::Empty)?;
    if !target.iter().all(|byte| is_target_char(*byte)) {
        return Err(TargetError::BadByte);
    }
    match (method, first) {
        (Method::Connect, _) => split_authority(target),
        (_, b'/') => {
            let (path, query) = split_query(target);
            Ok(Target::Origin { path, query })
        }
        (Method::Options, b'*') if target.len() == 1 => Ok(Target::Asterisk),
        _ => split_absolute(target),
    }
}

/// The target without the slashes in front of the last one at its beginning. Apache cuts them off
/// a target in origin form before anything looks at it.
pub fn from_last_leading_slash(target: &[u8]) -> &[u8] {
    let slashes = target.iter().take_while(|byte| **byte == b'/').count();
    target.get(slashes.saturating_sub(1)..).unwrap_or_default()
}

/// RFC 9112 section 3.2.3: host and port, both needed.
fn split_authority(target: &[u8]) -> Result<Target<'_>, TargetError> {
    if target[0] == b'/' || target == b"*" {
        return Err(TargetError::WrongForm);
    }
    match parse_authority(target) {
        Some(authority) if authority.port.is_some() => Ok(Target::Authority(target)),
        _ => Err(TargetError::BadAuthority),
    }
}

/// RFC 9112 section 3.2.2.
fn split_absolute(target: &[u8]) -> Result<Target<'_>, TargetError> {
    let at = memchr::memmem::find(target, b"://").ok_or(TargetError::WrongForm)?;
    let (scheme, rest) = (&target[..at], &target[at + 3..]);
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return Err(TargetError::BadScheme);
    }
    let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    // User information is refused too: RFC 9110 section 4.2.4 tells recipients to take it as an
    // error.
    parse_authority(authority).ok_or(TargetError::BadAuthority)?;
    let (path, query) = split_query(rest);
    // RFC 9110 section 4.2.3: an empty path is the same as "/".
    let path = if path.is_empty() { b"/" } else { path };
    Ok(Target::Absolute {
        scheme,
        authority,
        path,
        query,
    })
}

fn split_query(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', text) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests;

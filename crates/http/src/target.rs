//! Request targets (RFC 9112 section 3.2; RFC 3986).

use crate::Method;

/// The four forms of a request-target, borrowed from the request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`; `query` without the question mark.
    Origin { path: &'a [u8], query: Option<&'a [u8]> },
    /// `http://authority/path?query`; an empty path is `/`.
    Absolute { scheme: &'a [u8], authority: &'a [u8], path: &'a [u8], query: Option<&'a [u8]> },
    /// `host:port` of CONNECT.
    Authority(&'a [u8]),
    /// `*` of OPTIONS.
    Asterisk,
}

/// Why a request-target is refused with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    Empty,
    /// Control characters, space, DEL, `#` (a fragment is never sent), or other bytes outside what may stand in a URI.
    BadByte,
    /// The form is not one that this method takes.
    WrongForm,
    BadScheme,
    BadAuthority,
}

/// Splits a request-target. Bytes 0x80 to 0xff are let through in paths and queries, as Apache does.
pub fn split(_method: Method, _target: &[u8]) -> Result<Target<'_>, TargetError> {
    unimplemented!()
}

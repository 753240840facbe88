//! The thorough parser of request heads: RFC 9112 sections 2 to 5 byte by byte.
//!
//! [`crate::request`] comes here with every head that is not both whole and plain. The answer
//! depends on the first fault only, never on how the bytes were cut into pieces: each step either
//! goes on, asks for more bytes, or names what is wrong at this byte.
//!
//! Stricter than the standard asks, because each leniency is one server's disagreement with
//! another: no bare LF (section 2.2 allows it), one SP only in the request line (section 3), no
//! obsolete folding (section 5.2), one empty line at most before a request.

use saker_http::{FieldSpan, HeadIndex, Method, Span, Version};

use crate::limits::{METHOD_BYTES_MAX, RequestLimits};
use crate::octets::{self, Class};
use crate::reject::{Reject, RejectReason};

/// State of a head after a look at its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// No fault so far; more bytes are needed.
    Partial,
    /// The head is `bytes[..head_bytes]`; content or the next request follows.
    Complete { head_bytes: usize },
}

/// The request line of the HTTP/2 preface (RFC 9113 section 3.4).
const HTTP2_REQUEST_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";
const VERSION_BYTES: usize = b"HTTP/1.1".len();

/// `bytes` reach at most one byte beyond `limits.head_bytes_max`.
#[cold]
pub(crate) fn parse(
    bytes: &[u8],
    limits: &RequestLimits,
    index: &mut HeadIndex,
) -> Result<Parsed, Reject> {
    let mut cursor = Cursor {
        bytes,
        at: 0,
        in_request_line: true,
    };
    match head(&mut cursor, limits, index) {
        Ok(()) if cursor.at <= limits.head_bytes_cap() => Ok(Parsed::Complete {
            head_bytes: cursor.at,
        }),
        Err(Stop::Partial) if bytes.len() <= limits.head_bytes_cap() => Ok(Parsed::Partial),
        Err(Stop::Fault(reason)) => Err(reason.into()),
        _ if cursor.in_request_line => Err(RejectReason::RequestLineTooLong.into()),
        _ => Err(RejectReason::HeadTooLarge.into()),
    }
}

/// Why parsing went no further.
enum Stop {
    Partial,
    Fault(RejectReason),
}

impl From<RejectReason> for Stop {
    fn from(reason: RejectReason) -> Self {
        Stop::Fault(reason)
    }
}

fn head(
    cursor: &mut Cursor<'_>,
    limits: &RequestLimits,
    index: &mut HeadIndex,
) -> Result<(), Stop> {
    empty_line(cursor)?;
    method(cursor, index)?;
    target(cursor, limits, index)?;
    index.version = version(cursor)?;
    cursor.in_request_line = false;
    while !cursor.ends_line()? {
        let field = field_line(cursor)?;
        if field.byte_count() > limits.field_bytes_max {
            return Err(RejectReason::FieldTooLong.into());
        }
        if index.field_count() >= limits.header_count_cap() {
            return Err(RejectReason::TooManyFields.into());
        }
        index.push(cursor.bytes, field);
    }
    Ok(())
}

/// One empty line is let pass: old clients send it after a form (RFC 9112 section 2.2).
fn empty_line(cursor: &mut Cursor<'_>) -> Result<(), Stop> {
    if cursor.ends_line()? && cursor.ends_line()? {
        return Err(RejectReason::EmptyLines.into());
    }
    Ok(())
}

fn method(cursor: &mut Cursor<'_>, index: &mut HeadIndex) -> Result<(), Stop> {
    // The content type "handshake" of a TLS record (RFC 8446 section 5.1).
    if cursor.bytes.first() == Some(&0x16) {
        return Err(RejectReason::TlsClientHello.into());
    }
    if cursor.bytes.starts_with(HTTP2_REQUEST_LINE) {
        return Err(RejectReason::Http2Preface.into());
    }
    index.method_token = cursor.run(&octets::TOKEN);
    let token = index.method_token.of(cursor.bytes);
    if token.len() > METHOD_BYTES_MAX {
        return Err(RejectReason::MethodTooLong.into());
    }
    index.method = Method::from_token(token);
    match cursor.next()? {
        b' ' if !token.is_empty() => Ok(()),
        b'\r' | b'\n' | b' ' => Err(RejectReason::BadRequestLine.into()),
        _ => Err(RejectReason::BadMethod.into()),
    }
}

fn target(
    cursor: &mut Cursor<'_>,
    limits: &RequestLimits,
    index: &mut HeadIndex,
) -> Result<(), Stop> {
    index.target = cursor.run(&octets::TARGET);
    let bytes_sent = index.target.len as usize;
    if bytes_sent > limits.target_bytes_max {
        return Err(RejectReason::TargetTooLong.into());
    }
    if cursor.ends_line()? {
        return Err(if bytes_sent == 0 {
            RejectReason::BadRequestLine
        } else {
            RejectReason::Http09
        }
        .into());
    }
    match cursor.next()? {
        b' ' if bytes_sent > 0 => Ok(()),
        b' ' => Err(RejectReason::BadRequestLine.into()),
        _ => Err(RejectReason::BadTarget.into()),
    }
}

/// RFC 9110 section 2.5: a higher minor version is served as the highest that we know; RFC 9112
/// section 2.3 for the form.
fn version(cursor: &mut Cursor<'_>) -> Result<Version, Stop> {
    let rest = cursor.rest();
    let name = rest.get(..VERSION_BYTES).unwrap_or(rest);
    let well_formed = name.iter().enumerate().all(|(at, byte)| match at {
        5 | 7 => byte.is_ascii_digit(),
        _ => b"HTTP/1.1".get(at) == Some(byte),
    });
    if !well_formed {
        return Err(RejectReason::BadVersion.into());
    }
    let [_, _, _, _, _, major, _, minor] = name else {
        return Err(Stop::Partial);
    };
    cursor.at += VERSION_BYTES;
    if !cursor.ends_line()? {
        return Err(RejectReason::BadVersion.into());
    }
    match (major, minor) {
        (b'1', b'0') => Ok(Version::Http10),
        (b'1', _) => Ok(Version::Http11),
        _ => Err(RejectReason::UnsupportedVersion.into()),
    }
}

fn field_line(cursor: &mut Cursor<'_>) -> Result<FieldSpan, Stop> {
    let name = cursor.run(&octets::TOKEN);
    match (cursor.next()?, name.len) {
        (b':', 1..) => {}
        (b' ' | b'\t', 0) => return Err(RejectReason::FoldedLine.into()),
        (b':', 0) => return Err(RejectReason::EmptyFieldName.into()),
        // RFC 9112 section 5.1: white space there MUST be refused with 400.
        (b' ' | b'\t', _) => return Err(RejectReason::SpaceBeforeColon.into()),
        (b'\r' | b'\n', _) => return Err(RejectReason::MissingColon.into()),
        _ => return Err(RejectReason::BadFieldName.into()),
    }
    let value = cursor.run(&octets::FIELD_VALUE);
    if !cursor.ends_line()? {
        return Err(RejectReason::BadFieldValue.into());
    }
    Ok(FieldSpan {
        name,
        value: trimmed(cursor.bytes, value),
    })
}

fn trimmed(bytes: &[u8], value: Span) -> Span {
    let text = value.of(bytes);
    let leading = text
        .iter()
        .take_while(|byte| octets::is_ows(**byte))
        .count();
    Span {
        start: value.start + leading as u32,
        len: octets::trim_ows(text).len() as u32,
    }
}

/// A place in the head. Its bytes are at most 1 GiB, so 32-bit spans hold.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    in_request_line: bool,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Result<u8, Stop> {
        let byte = *self.rest().first().ok_or(Stop::Partial)?;
        self.at += 1;
        Ok(byte)
    }

    fn run(&mut self, class: &Class) -> Span {
        let span = Span {
            start: self.at as u32,
            len: octets::run_length(self.rest(), class) as u32,
        };
        self.at += span.len as usize;
        span
    }

    /// Goes past a CRLF if there is one here. A CR or LF by itself is a fault of its own.
    fn ends_line(&mut self) -> Result<bool, Stop> {
        match self.rest() {
            [] | [b'\r'] => Err(Stop::Partial),
            [b'\r', b'\n', ..] => {
                self.at += 2;
                Ok(true)
            }
            // A line that its LF has not ended yet may still be abandoned, which is no fault.
            [b'\r', rest @ ..] if memchr::memchr(b'\n', rest).is_none() => Err(Stop::Partial),
            [b'\r', ..] => Err(RejectReason::BareCarriageReturn.into()),
            [b'\n', ..] => Err(RejectReason::BareLineFeed.into()),
            _ => Ok(false),
        }
    }
}

//! Request heads: from bytes to a [`HeadIndex`].
//!
//! The walk's first step after the socket. A plain, whole head goes through `httparse` once and costs little beyond it; whatever is
//! not plain (a partial head, a bare line feed, 70 fields, bytes above 0x7f that are no UTF-8, a fault) is decided by
//! [`crate::strict`], which knows every rule and names the first one that is broken.
//!
//! The one difficulty: `httparse` accepts what RFC 9112 section 2.2 lets a recipient accept (bare LF as line end, any number of empty
//! lines first). Two servers that differ there can be played off against each other, so the fast way checks the two bytes before
//! each line, which is all that is needed: `httparse` has no CR elsewhere and no line end but LF.

use std::mem::MaybeUninit;

use saker_http::{FieldSpan, HeadIndex, Method, Version};

use crate::octets;
use crate::reject::Reject;
use crate::strict;

/// Field lines that the fast way has room for; more of them take the thorough one.
const FAST_FIELDS_MAX: usize = 64;

/// The longest method that is looked at (RFC 9112 section 3: longer than any that is implemented is 501).
pub const METHOD_BYTES_MAX: usize = 64;

/// What a request head may take. Beyond `head_bytes_max` and `header_count_max` the answer is 431, beyond `target_bytes_max` 414.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// From the first byte of the request line to the empty line, both included. At most 1 GiB counts.
    pub head_bytes_max: usize,
    /// Field lines. At most 65535 count.
    pub header_count_max: usize,
    pub target_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits { head_bytes_max: 32 * 1024, header_count_max: 100, target_bytes_max: 8 * 1024 }
    }
}

impl RequestLimits {
    /// Spans are 32 bits wide.
    pub(crate) fn head_bytes_cap(&self) -> usize {
        self.head_bytes_max.min(1 << 30)
    }

    /// The index numbers its lines in 16 bits.
    pub(crate) fn header_count_cap(&self) -> usize {
        self.header_count_max.min(usize::from(u16::MAX))
    }
}

/// What there is of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// No fault so far; more bytes are needed.
    Partial,
    /// The head is `bytes[..head_bytes]`; content or the next request follows.
    Complete { head_bytes: usize },
}

/// Parses the request head at the start of `bytes`. Clears `index` first and fills it if the head is complete, with spans relative
/// to `bytes[0]`; otherwise what is in it means nothing. When a head arrives in many pieces, ask [`crate::HeadScanner`] before.
pub fn parse_request(bytes: &[u8], limits: &RequestLimits, index: &mut HeadIndex) -> Result<Parsed, Reject> {
    // One byte more than is allowed, so that a head which just fits can be told from one that does not.
    let window = bytes.get(..limits.head_bytes_cap() + 1).unwrap_or(bytes);
    index.clear();
    if let Some(head_bytes) = parse_plain(window, limits, index) {
        return Ok(Parsed::Complete { head_bytes });
    }
    index.clear();
    strict::parse(window, limits, index)
}

/// `None`: not plain, look closer.
fn parse_plain(bytes: &[u8], limits: &RequestLimits, index: &mut HeadIndex) -> Option<usize> {
    let mut lines = [const { MaybeUninit::uninit() }; FAST_FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let Ok(httparse::Status::Complete(head_bytes)) = request.parse_with_uninit_headers(bytes, &mut lines) else {
        return None;
    };
    let (method, target) = (request.method?.as_bytes(), request.path?.as_bytes());
    let plain = bytes.starts_with(method)
        && method.len() <= METHOD_BYTES_MAX
        && target.len() <= limits.target_bytes_max
        && request.headers.len() <= limits.header_count_cap()
        && head_bytes <= limits.head_bytes_cap()
        && bytes.get(..head_bytes)?.ends_with(b"\r\n\r\n");
    if !plain {
        return None;
    }
    index.method = Method::from_token(method);
    index.version = if request.version == Some(0) { Version::Http10 } else { Version::Http11 };
    index.method_token = octets::span_in(bytes, method);
    index.target = octets::span_in(bytes, target);
    push_fields(bytes, request.headers, index).then_some(head_bytes)
}

/// `false`: some line did not end in CRLF.
fn push_fields(bytes: &[u8], headers: &[httparse::Header<'_>], index: &mut HeadIndex) -> bool {
    for header in headers {
        let field = FieldSpan { name: octets::span_in(bytes, header.name.as_bytes()), value: octets::span_in(bytes, header.value) };
        // RFC 9112 section 2.2: the line before this one must have ended in CRLF.
        if !octets::follows_crlf(bytes, field.name) {
            return false;
        }
        index.push(bytes, field);
    }
    true
}

#[cfg(test)]
mod tests;

//! The quick parser of heads: whole heads without a fault, in one pass over their bytes.
//!
//! [`crate::request`] asks it first, and [`crate::client`] reads responses with its cursor. It accepts a part of what
//! [`crate::strict`] (for responses: httparse) accepts, understands the same by it (tests compare
//! them), and gives up at the first thing that is rare, incomplete or wrong: which of them it is,
//! and who gets to hear what, is not its business. The difficulty is speed: names, values
//! and targets are looked at sixteen bytes at a time.

use saker_http::{FieldSpan, HeadIndex, Method, Span, Version, scan};

use crate::limits::{METHOD_BYTES_MAX, RequestLimits};
use crate::octets;

/// Parses the head at the start of `bytes` into a cleared `index`; returns its length. `None`: look
/// closer. `bytes` reach at most one byte beyond the limit on heads.
pub(crate) fn parse(bytes: &[u8], limits: &RequestLimits, index: &mut HeadIndex) -> Option<usize> {
    let mut cursor = Cursor::new(bytes);
    request_line(&mut cursor, limits, index)?;
    let mut lines_left = limits.header_count_cap();
    while !cursor.skip(b"\r\n") {
        lines_left = lines_left.checked_sub(1)?;
        let field = field_line(&mut cursor)?;
        if field.byte_count() > limits.field_bytes_max {
            return None;
        }
        index.push(bytes, field);
    }
    if cursor.tokens_are_plain {
        index.mark_names_plain();
    }
    (cursor.at <= limits.head_bytes_cap()).then_some(cursor.at)
}

/// RFC 9112 section 3.
fn request_line(
    cursor: &mut Cursor<'_>,
    limits: &RequestLimits,
    index: &mut HeadIndex,
) -> Option<()> {
    index.method_token = cursor.token(b' ')?;
    index.method = Method::from_token(index.method_token.of(cursor.bytes));
    cursor.at += 1;
    let start = cursor.at;
    cursor.run::<TARGET_MIN>();
    index.target = cursor.since(start);
    index.version = match () {
        () if cursor.skip(b" HTTP/1.1\r\n") => Version::Http11,
        () if cursor.skip(b" HTTP/1.0\r\n") => Version::Http10,
        () => return None,
    };
    let (method_bytes, target_bytes) = (index.method_token.len as usize, index.target.len as usize);
    (method_bytes <= METHOD_BYTES_MAX
        && target_bytes > 0
        && target_bytes <= limits.target_bytes_max)
        .then_some(())
}

/// RFC 9112 section 5. Part of both parsers' loops: as a function of its own it cost requests a
/// fifth more instructions for parsing.
#[inline(always)]
pub(crate) fn field_line(cursor: &mut Cursor<'_>) -> Option<FieldSpan> {
    let name = cursor.token(b':')?;
    cursor.at += 1;
    while octets::is_ows(cursor.byte()) {
        cursor.at += 1;
    }
    let start = cursor.at;
    cursor.run::<VALUE_MIN>();
    while cursor.byte() == b'\t' {
        cursor.values_are_plain = false;
        cursor.at += 1;
        cursor.run::<VALUE_MIN>();
    }
    let mut value = cursor.since(start);
    if !cursor.skip(b"\r\n") {
        return None;
    }
    let ends_in_ows = |value: Span| {
        let last = (value.start + value.len).wrapping_sub(1) as usize;
        value.len > 0
            && cursor
                .bytes
                .get(last)
                .is_some_and(|byte| octets::is_ows(*byte))
    };
    while ends_in_ows(value) {
        value.len -= 1;
    }
    Some(FieldSpan { name, value })
}

/// The least byte that may stand in a request-target, as far as the request line is concerned; 0x7f
/// may not.
const TARGET_MIN: u8 = b'!';
/// The same of field values, tabs aside.
pub(crate) const VALUE_MIN: u8 = b' ';

/// A place in the head. Its bytes are at most 1 GiB, so 32-bit spans hold.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
    /// All tokens so far are of letters, digits, and hyphens.
    tokens_are_plain: bool,
    /// No value so far has a tab, or another control byte.
    values_are_plain: bool,
}

impl<'a> Cursor<'a> {
    /// Returns true if all names are of letters, digits, and hyphens, and no value has a control byte.
    pub(crate) fn lines_are_plain(&self) -> bool {
        self.tokens_are_plain && self.values_are_plain
    }

    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor {
            bytes,
            at: 0,
            tokens_are_plain: true,
            values_are_plain: true,
        }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The byte here; 0 at the end, which is part of nothing.
    #[inline(always)]
    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[inline(always)]
    pub(crate) fn skip<const N: usize>(&mut self, text: &[u8; N]) -> bool {
        let is_next = self.rest().first_chunk() == Some(text);
        self.at += if is_next { N } else { 0 };
        is_next
    }

    /// A token with `end` behind it, which stays; `None` where there is none. Almost all are plain.
    #[inline(always)]
    fn token(&mut self, end: u8) -> Option<Span> {
        let start = self.at;
        self.at = scan::run_end::<scan::Plain>(self.bytes, start);
        if self.byte() != end {
            self.tokens_are_plain = false;
            self.at += octets::run_length(self.rest(), &octets::TOKEN);
        }
        (self.at > start && self.byte() == end).then(|| self.since(start))
    }

    /// Goes behind the run of bytes from `MIN` up, 0x7f not among them.
    #[inline(always)]
    pub(crate) fn run<const MIN: u8>(&mut self) {
        self.at = scan::run_end::<scan::From<MIN>>(self.bytes, self.at);
    }

    /// The span between `start` and here.
    #[inline(always)]
    pub(crate) fn since(&self, start: usize) -> Span {
        Span {
            start: start as u32,
            len: (self.at - start) as u32,
        }
    }
}

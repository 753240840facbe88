//! Request heads: from bytes to a [`HeadIndex`].
//!
//! The walk's first step after the socket. A plain, whole head is done with in one quick pass
//! ([`crate::plain`]); whatever is not plain (a partial head, an empty line first, a fault) is
//! decided by [`crate::strict`], which knows every rule and names the first one that is broken.
//!
//! The one difficulty: RFC 9112 section 2.2 lets a recipient accept a bare LF as line end and any
//! number of empty lines first. Two servers that differ there can be played off against each other,
//! so both ways know CRLF only.

use saker_http::{HeadIndex, HeadView};

use crate::plain;
use crate::reject::{Reject, RejectReason};
use crate::strict;

/// The longest method that is looked at (RFC 9112 section 3: longer than any that is implemented is
/// 501).
pub const METHOD_BYTES_MAX: usize = 64;

/// What a request head may take. Beyond `head_bytes_max`, `header_count_max` and `field_bytes_max`
/// the answer is 431, beyond `target_bytes_max` 414.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// From the first byte of the request line to the empty line, both included. At most 1 GiB
    /// counts.
    pub head_bytes_max: usize,
    /// Field lines. At most 65535 count.
    pub header_count_max: usize,
    pub target_bytes_max: usize,
    /// Name and value of one field line together. The lines of one name have less than that
    /// together.
    pub field_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits {
            head_bytes_max: 32 * 1024,
            header_count_max: 100,
            target_bytes_max: 8 * 1024,
            field_bytes_max: usize::MAX,
        }
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

/// Parses the request head at the start of `bytes`. Clears `index` first and fills it if the head
/// is complete, with spans relative to `bytes[0]`; otherwise what is in it means nothing. Fields
/// that Connection nominates are not in the index. When a head arrives in many pieces, ask
/// [`crate::HeadScanner`] before.
pub fn parse_request(
    bytes: &[u8],
    limits: &RequestLimits,
    index: &mut HeadIndex,
) -> Result<Parsed, Reject> {
    // One byte more than is allowed, so that a head which just fits can be told from one that does
    // not.
    let window = bytes.get(..limits.head_bytes_cap() + 1).unwrap_or(bytes);
    index.clear();
    let parsed = match plain::parse(window, limits, index) {
        Some(head_bytes) => Parsed::Complete { head_bytes },
        None => {
            index.clear();
            strict::parse(window, limits, index)?
        }
    };
    if let Parsed::Complete { head_bytes } = parsed {
        // As Apache, which joins them.
        if HeadView::new(&window[..head_bytes], index)
            .has_joined_value_over(limits.field_bytes_max.saturating_sub(1))
        {
            return Err(RejectReason::FieldTooLong.into());
        }
        index.remove_nominated(window);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests;

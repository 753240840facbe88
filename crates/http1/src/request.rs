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

pub use crate::limits::{METHOD_BYTES_MAX, RequestLimits};
use crate::plain;
use crate::reject::{Reject, RejectReason};
use crate::strict;
pub use crate::strict::Parsed;

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
            .has_joined_value_over(limits.field_bytes_max.saturating_sub(1), false)
        {
            return Err(RejectReason::FieldTooLong.into());
        }
        index.remove_nominated(window);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests;

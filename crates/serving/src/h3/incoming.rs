//! A stream that the client opened, as far as it has been read.
//!
//! Called by: `inbound`.

use bytes::Bytes;
use std::collections::VecDeque;

/// A stream of the client's whose end has not come.
pub struct Incoming {
    pub began_ms: u64,
    /// The request's head has come, or never will.
    pub has_head: bool,
    /// Read, but behind a field section that waits for the table (RFC 9204 section 2.1.2).
    pub(super) behind: VecDeque<Bytes>,
    /// The stream ends after the bytes in `behind`.
    pub(super) has_ended: bool,
}

//! The encoder of response heads: one for HTTP/1, HTTP/2 and HTTP/3.
//!
//! Called by: every driver, for every response.
//! Caveat: a head that can be used again ([`ReadyHead`]) was encoded once and is only copied.
//! Out of scope: the bytes of each protocol, which a [`HeadSink`] writes.

use crate::common_headers::CommonHeaders;
use saker_pipeline::{ReadyHead, Response, ResponseHead};

/// A head that has been begun, in the form of one protocol.
pub trait HeadSink {
    /// Copies a head that was encoded once, and ends it with the common headers.
    fn ready(&mut self, head: &ReadyHead, common: &mut CommonHeaders, now: i64);

    /// Encodes the head of a response whose content has `length` bytes (for HEAD: would have, where
    /// that is known), and ends it with the common headers.
    fn built(
        &mut self,
        response: &Response,
        length: Option<u64>,
        common: &mut CommonHeaders,
        now: i64,
    );
}

/// Writes the head of a response, whichever kind it has.
#[inline(always)]
pub fn encode(
    sink: &mut impl HeadSink,
    response: &Response,
    length: Option<u64>,
    common: &mut CommonHeaders,
    now: i64,
) {
    match &response.head {
        ResponseHead::Ready(ready) => sink.ready(ready, common, now),
        ResponseHead::Built(_) => sink.built(response, length, common, now),
    }
}
